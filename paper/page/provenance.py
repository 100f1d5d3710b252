"""Where the files of a page come from: the commits that they were measured at, and when. Numbers of different commits
may be of different programs."""


def _facts(content):
    return content.get("environment", content)


def commits_of(content):
    """The commits in one file, oldest first; none if it does not say."""
    facts = _facts(content)
    return facts.get("commits") or ([facts["commit"]] if facts.get("commit") else [])


def version_of(content):
    facts = _facts(content)
    return facts.get("rtopk", facts.get("version"))


def _is_of_a_package(content):
    """A package that is installed does not know its commit, and its files have no place for one."""
    return not {"commit", "commits"} & _facts(content).keys()


def commits(files):
    """`files`: the content of each measured file, by its name."""
    groups = {}
    for name in sorted(files):
        version = version_of(files[name]) if _is_of_a_package(files[name]) else None
        groups.setdefault((tuple(commits_of(files[name])), version), []).append(name)
    parts = [
        {"files": names, "commits": list(of_names), "version": version} for (of_names, version), names in groups.items()
    ]
    found = list(dict.fromkeys(commit for part in parts for commit in part["commits"]))
    known = all(part["commits"] or part["version"] for part in parts)
    # Where a version stands for the commit, all files that name one have to name that.
    same = not any(part["version"] for part in parts) or len(set(map(version_of, files.values())) - {None}) == 1
    return {
        "one": known and len(found) <= 1 and same,
        "commits": found,
        "changed": any(commit.endswith("+") for commit in found),
        "parts": parts,
    }


def measured(files):
    """The first and the last day of the measurements."""
    days = sorted(date[:10] for content in files.values() if (date := _facts(content).get("date")))
    return {"first": days[0], "last": days[-1]} if days else None
