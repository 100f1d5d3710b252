"""The commits that the files of a page were measured at: numbers of different commits may be of different programs."""


def commits_of(content):
    """The commits in one file, oldest first; none if it does not say."""
    facts = content.get("environment", content)
    return facts.get("commits") or ([facts["commit"]] if facts.get("commit") else [])


def commits(files):
    """`files`: the content of each measured file, by its name."""
    groups = {}
    for name in sorted(files):
        groups.setdefault(tuple(commits_of(files[name])), []).append(name)
    parts = [{"files": names, "commits": list(of_names)} for of_names, names in groups.items()]
    found = list(dict.fromkeys(commit for part in parts for commit in part["commits"]))
    known = all(part["commits"] for part in parts)
    return {
        "one": len(found) == 1 and known,
        "commits": found,
        "changed": any(commit.endswith("+") for commit in found),
        "parts": parts,
    }
