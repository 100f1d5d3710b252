"""Parts of the JSON files that know their place, so that the page can say where a number is from."""

import json


class Node:
    """A part of a JSON file, and its place there."""

    def __init__(self, raw, at):
        self.raw, self.at = raw, at

    def __getitem__(self, key):
        return Node(self.raw[key], f"{self.at}/{key}")

    def __contains__(self, key):
        return key in self.raw

    def __iter__(self):
        if isinstance(self.raw, dict):
            return iter(self.raw)
        return (self[position] for position in range(len(self.raw)))

    def __bool__(self):
        return bool(self.raw)

    def __str__(self):
        return str(self.raw)

    def where(self, **conditions):
        """The first object that has all of these values."""
        return next(
            (one for one in self if all(one.raw.get(name) == value for name, value in conditions.items())), None
        )

    def having(self, **conditions):
        return [one for one in self if all(one.raw.get(name) == value for name, value in conditions.items())]


def load(folder):
    """Every JSON file as a Node, by its name without the suffix."""
    return {path.stem: Node(json.loads(path.read_text()), f"{path.name}#") for path in sorted(folder.glob("*.json"))}
