"""The statistics of the search: parts of study*.json, and the search by distribution of the elements."""


def part(study, name):
    return next((part for part in study["parts"] if part["part"] == name), None)


DISTRIBUTION_COLS = 256  # of Table 1, and of the rules beside it


def distributions(studies):
    """Exits and hit rates of the paper's search by distribution and k, from one study of each."""
    lines = []
    for name, study in studies.items():
        exits = {column["k"]: column["mean"]["value"] for column in part(study, "table1")["columns"]}
        for k, mean in exits.items():
            hits = {
                cell["max_iter"]: {
                    rule: cell[f"hit_{rule}_percent"]["value"] for rule in ("printed", "threshold_first", "sure_first")
                }
                for cell in part(study, "rule")["cells"]
                if cell["cols"] == DISTRIBUTION_COLS and cell["k"] == k
            }
            lines.append({"data": name, "k": k, "exit": mean, "hits": hits})
    return lines
