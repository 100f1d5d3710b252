"""WordNet as a graph: a real graph that Debian and Ubuntu have as a package.

A node is a synset (noun, verb, adjective, adverb, in the order of the files); an edge is a pointer of any kind between
two synsets, in both directions, once. A node's class is its lexicographer file (noun.animal, verb.motion, ...). Its
features say which of 500 words its gloss has: the most frequent words of three letters or more, without _COMMON.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import torch

from ..features import SparseFeatures
from ..graph import Graph
from .dataset import Dataset, GraphError, make_dataset

FOLDER = Path("/usr/share/wordnet")
FEATURES = 500
_MAX_CLASSES = 100  # the number of a lexicographer file has two digits
_PARTS = ("noun", "verb", "adj", "adv")
_COMMON = frozenset("the and that with for from who having used was one not are which its".split())
_LETTERS = re.compile(r"[a-z]+")


def build(folder: Path = FOLDER) -> Dataset:
    """Reads the data files in a folder."""
    if not folder.is_dir():
        raise GraphError(
            f"WordNet is not installed: there is no folder {folder}. On Debian and Ubuntu: apt-get install wordnet-base"
        )
    nodes: dict[tuple[str, str], int] = {}
    classes: list[int] = []
    pointers: list[list[tuple[str, str]]] = []
    glosses: list[list[str]] = []
    for part in _PARTS:
        path = folder / f"data.{part}"
        try:
            lines = path.read_text(encoding="latin-1").splitlines()
        except OSError as error:
            raise GraphError(f"WordNet's file cannot be read: {error}") from error
        for number, line in enumerate(lines, 1):
            if line.startswith("  "):  # the licence
                continue
            try:
                key, lexicographer_file, targets, gloss = _synset(line)
            except (ValueError, IndexError) as error:
                raise GraphError(f"{path}, line {number}, is not a synset: {line[:60]!r}") from error
            if not 0 <= lexicographer_file < _MAX_CLASSES:
                raise GraphError(
                    f"{path}, line {number}: the lexicographer file is {lexicographer_file}; accepted: 0 to 99"
                )
            if key in nodes:
                raise GraphError(f"{path}, line {number}: the synset {key[1]} is there twice")
            nodes[key] = len(classes)
            classes.append(lexicographer_file)
            pointers.append(targets)
            glosses.append(gloss)
    return make_dataset("wordnet", _graph(folder, nodes, pointers), _features(glosses), torch.tensor(classes))


def _synset(line: str):
    """The key, class, pointers and gloss words of a synset. `man 5 wndb` describes the format."""
    fields, _, gloss = line.partition("|")
    words = fields.split()
    first = 4 + 2 * int(words[3], 16)
    count = int(words[first])
    # A pointer is a symbol, an offset, a part of speech, and the words that it joins.
    targets = [_key(words[first + 2 + 4 * i], words[first + 3 + 4 * i]) for i in range(count)]
    # An apostrophe or a digit ends a word: "it's" counts as "it".
    gloss_words = [word for word in _LETTERS.findall(gloss.lower()) if len(word) >= 3]
    return _key(words[0], words[2]), int(words[1]), targets, gloss_words


def _key(offset: str, part: str) -> tuple[str, str]:
    # Adjective satellites are in the file of adjectives.
    return ("a" if part == "s" else part, offset)


def _graph(folder, nodes, pointers) -> Graph:
    try:
        ends = [(source, nodes[target]) for source, targets in enumerate(pointers) for target in targets]
    except KeyError as error:
        raise GraphError(f"{folder}: a pointer leads to a synset that is not there: {error}") from None
    edges = torch.tensor(ends, dtype=torch.int64).reshape(-1, 2).t()
    edges = edges[:, edges[0] != edges[1]]
    return Graph.from_edge_index(torch.cat([edges, edges.flip(0)], dim=1).unique(dim=1), len(nodes))


def _features(glosses) -> SparseFeatures:
    # Among equally frequent words the Counter keeps the order of first occurrence.
    frequency = Counter(word for gloss in glosses for word in dict.fromkeys(gloss) if word not in _COMMON)
    column = {word: i for i, (word, _) in enumerate(frequency.most_common(FEATURES))}
    rows = [sorted({column[word] for word in gloss if word in column}) for gloss in glosses]
    starts = torch.tensor([0, *map(len, rows)]).cumsum(0)
    columns = torch.tensor([entry for row in rows for entry in row], dtype=torch.int64)
    return SparseFeatures(starts, columns, torch.ones(len(columns)), FEATURES)
