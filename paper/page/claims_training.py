"""The paper's claims about training."""

from claim import claim
from training import KERNEL_RULE

SAME_SHARE = 3.0  # points between our share of top-k, or our gain, and the published one
MANY = 0.1  # of the cases, beyond chance
NO_STEPS = "No steps were timed on a GPU with graphs of the published sizes, so there is no steps.json of them."
NO_RUNS = "No network was trained: training.json is not there."


def training_claims(training, steps, table4):
    """Section 4.3."""
    return [
        substantial_share(steps),
        faster_training(steps),
        published_speedups(steps),
        accuracy_on_the_graphs(table4),
        higher_accuracy(training),
    ]


def _comparable(steps):
    return steps and steps["gpu"] and any(graph["published_percent"] for graph in steps["graphs"])


def substantial_share(steps):
    fixed = ("share", "Section 4.3, Table 4", "Top-k takes 11.61 to 26.86 % of the training time.", "steps")
    if not _comparable(steps) or not steps["share_percent"]:
        return claim(*fixed, None, NO_STEPS)
    far = steps["furthest_share"]
    beside = (
        f" The furthest from the published share is {far['of']}: {{percent:.1f}} %, published {{published:.1f}} %."
        if far
        else ""
    )
    return claim(
        *fixed,
        far["points"] <= SAME_SHARE if far else None,
        "Here, with torch.topk on generated graphs of the same sizes: {least:.1f} to {greatest:.1f} %." + beside,
        **steps["share_percent"],
        **({"percent": far["percent"], "published": far["published"]} if far else {}),
    )


def faster_training(steps):
    fixed = (
        "faster-training",
        "Section 4.3, Figure 5",
        "For all models and all graphs, replacing top-k makes training faster.",
        "steps",
    )
    if not _comparable(steps) or not steps["least"]:
        return claim(*fixed, None, NO_STEPS)
    return claim(
        *fixed,
        steps["faster"] == steps["variants"],
        f"{{faster:.0f}} of {{variants:.0f}} steps are faster with only torch.topk replaced; the least gain is"
        f" {{least:.1f}} % ({steps['least']['of']}).",
        faster=steps["faster"],
        variants=steps["variants"],
        least=steps["least"]["percent"],
    )


def published_speedups(steps):
    fixed = (
        "training-speedup",
        "Section 4.3, Figure 5",
        "Training becomes 11.97 % (Reddit) to 33.29 % (Flickr) faster.",
        "steps",
    )
    graphs = [graph for graph in steps["graphs"] if graph["published_percent"]] if _comparable(steps) else []
    if not graphs:
        return claim(*fixed, None, NO_STEPS)
    texts, numbers, held = [], {}, True
    for i, graph in enumerate(graphs):
        ours, published = graph["exact_percent"], graph["published_percent"]
        texts.append(f"{graph['graph']} {{ours{i}:.1f}} % (published {{least{i}:.1f}} to {{greatest{i}:.1f}})")
        numbers |= {f"ours{i}": ours, f"least{i}": published["least"], f"greatest{i}": published["greatest"]}
        held &= published["least"] - SAME_SHARE <= ours <= published["greatest"] + SAME_SHARE
    return claim(
        *fixed,
        held,
        "Here on another GPU, exact, with only torch.topk replaced, mean of the models: " + ", ".join(texts) + ".",
        **numbers,
    )


def accuracy_on_the_graphs(table4):
    fixed = (
        "accuracy",
        "Section 4.3, Figure 5",
        "Test accuracy fluctuates around that of the exact selection, except for GIN on Flickr.",
        "table4",
    )
    differences = [
        (difference["value"], f"{row['title']}, {top_k}", difference["beyond_chance"])
        for row in (table4["rows"] if table4 else [])
        for top_k, difference in row["differences"].items()
    ]
    if not differences:
        return claim(
            *fixed, None, "The four graphs are not part of this repository; `python -m rtopk.gnn paper` trains on them."
        )
    worst, of, _ = min(differences)
    if all(difference["chance"] is None for row in table4["rows"] for difference in row["differences"].values()):
        return claim(
            *fixed,
            None,
            f"One seed does not tell chance. The lowest is {{worst:.2f}} points from exact ({of}).",
            worst=worst,
        )
    return claim(
        *fixed,
        not any(beyond and value < 0 and not of.startswith("flickr, GIN") for value, of, beyond in differences),
        f"Of {{networks:.0f}} cases {{lower:.0f}} are lower than exact beyond chance; the lowest is {{worst:.2f}}"
        f" points from it ({of}).",
        networks=len(differences),
        lower=sum(beyond and value < 0 for value, _, beyond in differences),
        worst=worst,
    )


def _early(training):
    """By the rule of the paper's kernel, if there are such networks: the claims are about it."""
    lines = [line for line in training["conclusion"]["early"] if line["cells"]] if training else []
    return [line for line in lines if line["rule"] == KERNEL_RULE] or lines


def higher_accuracy(training):
    fixed = (
        "higher-accuracy",
        "Section 4.3",
        "In many cases early stopping even gives a higher accuracy.",
        "accuracy",
    )
    lines = _early(training)
    if not lines:
        return claim(*fixed, None, NO_RUNS)
    cells, higher = sum(line["cells"] for line in lines), sum(line["higher"] for line in lines)
    return claim(
        *fixed,
        higher >= MANY * cells,
        "On other graphs, {higher:.0f} of {cells:.0f} cases are higher than exact beyond chance, and {lower:.0f} are"
        " lower; one in forty is expected on either side.",
        higher=higher,
        lower=sum(line["lower"] for line in lines),
        cells=cells,
    )


def kept_accuracy(training):
    """Section 5."""
    fixed = (
        "keeps-accuracy",
        "Abstract, Section 5",
        "Early stopping maintains the accuracy of neural networks.",
        "accuracy",
    )
    lines = _early(training)
    if not lines:
        return claim(*fixed, None, NO_RUNS)
    worst = min(lines, key=lambda line: line["worst"])
    last = max(lines, key=lambda line: line["max_iter"])
    return claim(
        *fixed,
        all(line["lower"] <= MANY * line["cells"] for line in lines),
        f"On other graphs max_iter {worst['max_iter']} (rule {worst['rule']}) {_changes(worst['worst'])} {{worst:.1f}}"
        f" points at worst ({worst['worst_of']}), and {_changes(worst['mean'])} {{mean:.1f}} on average; max_iter"
        f" {last['max_iter']} {_changes(last['mean'])} {{last:.2f}} on average.",
        worst=abs(worst["worst"]),
        mean=abs(worst["mean"]),
        last=abs(last["mean"]),
    )


def _changes(points):
    return "lowers it by" if points < 0 else "raises it by"
