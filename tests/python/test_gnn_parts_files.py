"""Graphs cut into parts: which nodes go where, the files that hold them, and the order of what a layer does."""

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

np = pytest.importorskip("numpy", reason="numpy is not installed")

from rtopk.gnn import Graph, GraphError, cli  # noqa: E402
from rtopk.gnn.data import make_dataset  # noqa: E402
from rtopk.gnn.features import SparseFeatures  # noqa: E402
from rtopk.gnn.parts import METHODS, command, files, write_parts  # noqa: E402
from rtopk.gnn.parts import graph as part_graph  # noqa: E402
from rtopk.gnn.parts.fingerprint import fingerprint  # noqa: E402
from rtopk.gnn.parts.group import Ranks  # noqa: E402
from rtopk.gnn.parts.partition import default_method, owners  # noqa: E402
from rtopk.gnn.parts.reuse import keep_parts  # noqa: E402
from rtopk.gnn.parts.split import split  # noqa: E402

METIS = pytest.mark.skipif(default_method() != "metis", reason="pymetis is not installed")

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def small():
    edges = torch.randint(30, (2, 90))
    graph = Graph.from_edge_index(torch.cat([edges, edges.flip(0)], 1), 30)
    return make_dataset("small", graph, torch.randn(30, 6), torch.arange(30) % 2)


@pytest.mark.parametrize("method", [pytest.param("metis", marks=METIS), "ranges"])
@pytest.mark.parametrize("parts", [1, 3, 7])
def test_parts_are_the_whole_graph(cora, parts, method):
    found = list(split(cora, owners(cora.graph, parts, method), parts))
    assert torch.equal(torch.cat([part.arrays["ids"] for part in found]).sort().values, torch.arange(2708))
    edges = []
    for part in found:
        arrays = part.arrays
        ids = arrays["ids"]
        last = ids[len(ids) - (arrays["boundary_indptr"].numel() - 1) :]
        for rows, starts, names, columns in (
            (ids, "indptr", ids, "indices"),
            (last, "boundary_indptr", arrays["boundary"], "boundary_indices"),
        ):
            targets = torch.repeat_interleave(rows, arrays[starts].diff())
            edges.append(torch.stack([names[arrays[columns]], targets]))
    again = Graph.from_edge_index(torch.cat(edges, 1), 2708)
    assert torch.equal(again.row_starts, cora.graph.row_starts) and torch.equal(again.columns, cora.graph.columns)
    for reader, part in enumerate(found):  # what a part expects from another is what that one sends
        received = part.arrays["boundary"].split(part.arrays["receive_counts"].tolist())
        for sender, expected in enumerate(received):
            sent = found[sender].arrays["send_rows"].split(found[sender].arrays["send_counts"].tolist())[reader]
            assert torch.equal(found[sender].arrays["ids"][sent], expected)


@METIS
def test_metis_keeps_neighbours_together_and_the_work_balanced(cora, tmp_path):
    ranges, metis = (write_parts(cora, tmp_path / method, 4, method) for method in reversed(METHODS))
    assert metis.boundary < ranges.boundary / 4
    for facts in (ranges, metis):
        work = [file["edges"] + 10_556 // 2708 * file["nodes"] for file in facts.files]
        assert max(work) < 1.1 * sum(work) / 4


def test_without_pymetis_parts_are_ranges(monkeypatch, cora):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    assert default_method() == "ranges"
    with pytest.raises(GraphError, match="pymetis is not installed; accepted: ranges"):
        owners(cora.graph, 2, "metis")
    owner = owners(cora.graph, 5, "ranges")
    assert torch.equal(owner, owner.sort().values) and owner.unique().tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("parts", [0, -1, 40_000])
def test_numbers_of_parts_that_are_refused(cora, parts):
    with pytest.raises(GraphError, match=f"parts is {parts}; accepted: 1 to 32768"):
        owners(cora.graph, parts, "ranges")


def test_weights_are_refused(tmp_path, small):
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    weighted = small.with_graph(Graph.from_edge_index(edges, 30, torch.ones(3)))
    with pytest.raises(GraphError, match="the graph has weights; accepted: a graph without weights"):
        write_parts(weighted, tmp_path / "parts", 2)


def rank_of(folder, rank=0, world=2):
    facts = files.read_facts(folder)
    return files.read_part(folder, facts, Ranks(rank, world))


def test_a_part_that_was_changed_is_refused(tmp_path, small):
    write_parts(small, tmp_path, 2, "ranges")
    path = tmp_path / files.file_name(0, 2)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(GraphError, match="is not the file that parts.json names"):
        rank_of(tmp_path)
    assert rank_of(tmp_path, rank=1).name == "small"  # the other part is not looked at
    path.unlink()
    with pytest.raises(GraphError, match="cannot be read"):
        rank_of(tmp_path)


def changed_part(folder, **arrays):
    """Part 0 with other arrays, and a parts.json that names it: whoever wrote it wrote both."""
    path = folder / files.file_name(0, 2)
    with np.load(path) as file:
        content = dict(file) | arrays
    np.savez(path, **content)
    facts = json.loads((folder / files.FACTS).read_text())
    facts["files"][0]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / files.FACTS).write_text(json.dumps(facts))


@pytest.mark.parametrize(
    "name, change",
    [
        ("send_rows", lambda a: a + 1000),
        ("send_rows", lambda a: a - 1000),
        ("send_rows", lambda a: a.astype("S4")),
        ("send_counts", lambda a: a + 1),
        ("send_counts", lambda a: a[:1]),
        ("receive_counts", lambda a: -a),
        ("indices", lambda a: a + 1000),
        ("indptr", lambda a: a[::-1].copy()),
        ("indptr", lambda a: a[:-1]),
        ("boundary_indices", lambda a: a + 1000),
        ("boundary_indptr", lambda a: a * 2),
        ("boundary", lambda a: a[:-1]),
        ("x", lambda a: a[:, :-1]),
        ("x", lambda a: a * float("nan")),
        ("y", lambda a: a + 1000),
        ("y", lambda a: a[:-1]),
        ("train_mask", lambda a: a.astype("f4")),
        ("ids", lambda a: a.reshape(1, -1)),
    ],
)
def test_parts_with_arrays_that_do_not_fit_are_refused(tmp_path, small, name, change):
    write_parts(small, tmp_path, 2, "ranges")
    with np.load(tmp_path / files.file_name(0, 2)) as file:
        array = file[name]
    changed_part(tmp_path, **{name: change(array)})
    with pytest.raises(GraphError, match=files.file_name(0, 2)):
        rank_of(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: [],
        lambda facts: facts | {"format": "other"},
        lambda facts: facts | {"parts": "2"},
        lambda facts: facts | {"parts": 3},
        lambda facts: facts | {"train": -1},
        lambda facts: facts | {"classes": 10**9},
        lambda facts: facts | {"files": [None, None]},
        lambda facts: facts | {"more": 1},
        lambda facts: {name: value for name, value in facts.items() if name != "nodes"},
    ],
)
def test_facts_that_are_refused(tmp_path, small, change):
    write_parts(small, tmp_path, 2, "ranges")
    path = tmp_path / files.FACTS
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(GraphError, match="parts.json"):
        rank_of(tmp_path)


@pytest.mark.parametrize(
    "method, less",
    [("ranges", "a machine with more memory"), ("metis", "a machine with more memory, or `partition --method ranges`")],
)
def test_a_graph_that_is_too_large_to_cut(method, less):
    graph = SimpleNamespace(num_nodes=1_000, num_edges=20_000_000_000)
    of_edge, of_node = files._CUT_BYTES[method]
    needed = f"{20_000_000_000 * of_edge + 1_000 * of_node:,}"
    text = (
        f"huge: cutting it by {method} needs {needed} bytes of memory, and this machine has [0-9,]+; accepted: {less}$"
    )
    with pytest.raises(GraphError, match=text):
        files._check_memory_to_cut(SimpleNamespace(name="huge", graph=graph), method)


def test_what_cutting_takes_is_what_was_measured():
    root = Path(__file__).resolve().parents[2]
    measured = json.loads((root / "bench/results/partition-memory.json").read_text())["bytes_of_edge_and_node"]
    page = (root / "docs/distributed.md").read_text()
    for method, taken in files._CUT_BYTES.items():
        assert taken == tuple(map(round, measured[method]))
        assert f"{taken[0]} bytes an edge and {taken[1]} a node" in page


def test_what_takes_less_memory_than_metis(tmp_path, monkeypatch, capsys):
    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(command, "write_parts", fails)
    cora = Path(__file__).parent.parent / "data" / "cora.npz"
    assert cli.main(["partition", "--graph", str(cora), "--parts", "2", "--out", str(tmp_path / "parts")]) == 1
    assert capsys.readouterr().err == "error: there is not enough memory. --method ranges needs less.\n"


def test_a_write_that_fails_leaves_no_parts_json(tmp_path, small, monkeypatch):
    write_parts(small, tmp_path, 2, "ranges")
    write = files.write_whole

    def fails(path, content):
        if path.name == files.file_name(1, 2):
            raise OSError("the disk is full")
        write(path, content)

    monkeypatch.setattr(files, "write_whole", fails)
    with pytest.raises(OSError, match="the disk is full"):
        write_parts(small, tmp_path, 2, "ranges")
    assert not files.is_folder_of_parts(tmp_path)


# ---- Parts that are taken again ----


def other_edges(dataset):
    columns = dataset.graph.columns.clone()
    columns[-1] = (columns[-1] + 1) % dataset.graph.num_nodes
    return Graph(dataset.graph.row_starts, columns)


def with_one_changed(tensor):
    changed = tensor.clone()
    changed.view(-1)[-1] += 1
    return changed


def sparse(dataset, add=0):
    csr = dataset.features.to_sparse_csr()
    parts = csr.crow_indices(), csr.col_indices(), csr.values()
    return SparseFeatures(*parts[:2], with_one_changed(parts[2]) if add else parts[2], dataset.features.shape[1])


CHANGES = {
    "name": lambda found: "other",
    "graph": other_edges,
    "features": lambda found: with_one_changed(found.features),
    "labels": lambda found: 1 - found.labels,
    "classes": lambda found: found.classes + 1,
    "train": lambda found: found.train[:-1],
    "validation": lambda found: found.test,
    "test": lambda found: found.validation,
}


@pytest.mark.parametrize("field", CHANGES)
def test_every_field_of_a_graph_is_in_its_fingerprint(small, field):
    assert fingerprint(small) == fingerprint(replace(small))
    assert fingerprint(replace(small, **{field: CHANGES[field](small)})) != fingerprint(small)


def test_fingerprints_of_sparse_features(small):
    first, same, other = (replace(small, features=sparse(small, add)) for add in (0, 0, 1))
    assert fingerprint(first) == fingerprint(same) != fingerprint(other)
    assert fingerprint(first) != fingerprint(small)


def test_parts_are_taken_again(tmp_path, small, capsys):
    keep_parts(small, tmp_path, 2)
    method = default_method()
    assert (
        capsys.readouterr().out == f"cutting small into 2 parts by {method}, for {tmp_path}: there is no parts.json\n"
    )
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    keep_parts(small, tmp_path, 2)
    assert capsys.readouterr().out == f"{tmp_path} has the 2 parts of this graph, cut by {method} before\n"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def damage(folder):
    path = folder / files.file_name(1, 2)
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda folder: damage(folder), "is not the file that parts.json names"),
        (lambda folder: (folder / files.file_name(0, 2)).unlink(), "cannot be read: No such file"),
        (lambda folder: (folder / files.FACTS).write_text("{"), "parts.json cannot be read"),
        (lambda folder: (folder / files.FACTS).unlink(), "there is no parts.json"),
    ],
    ids=["damaged part", "part gone", "damaged parts.json", "parts.json gone"],
)
def test_parts_that_are_not_whole_are_cut_anew(tmp_path, small, capsys, change, why):
    keep_parts(small, tmp_path, 2)
    change(tmp_path)
    capsys.readouterr()
    keep_parts(small, tmp_path, 2)
    text = capsys.readouterr().out
    assert text.startswith("cutting small into 2 parts") and why in text
    assert [rank_of(tmp_path, rank).name for rank in (0, 1)] == ["small", "small"]


def test_parts_of_another_graph_number_or_method_are_cut_anew(tmp_path, small, capsys, monkeypatch):
    def text_of(dataset, parts):
        keep_parts(dataset, tmp_path, parts)
        return capsys.readouterr().out

    text_of(small, 2)
    assert "for " + str(tmp_path) + ": it has 2 parts by" in text_of(small, 3)
    changed = replace(small, features=with_one_changed(small.features))
    assert "its parts are of another graph, or of what this graph was before" in text_of(changed, 3)
    assert "has the 3 parts of this graph" in text_of(changed, 3)
    write_parts(changed, tmp_path, 3, "ranges")
    monkeypatch.setattr("rtopk.gnn.parts.reuse.default_method", lambda: "metis")
    monkeypatch.setattr("rtopk.gnn.parts.reuse.write_parts", lambda *_: None)
    assert "into 3 parts by metis" in (text := text_of(changed, 3)) and "it has 3 parts by ranges" in text


# ---- The order of a layer ----


def test_local_sums_run_while_rows_are_under_way(monkeypatch):
    """Node 1 of two gathers from node 0, and from a node of another rank."""
    happened = []

    class Recorded:
        def start_rows(self, values, selectors, cols):
            happened.append("rows leave")
            return lambda: happened.append("rows are here") or (values[:1], selectors[:1])

        def start_gradients(self, gradients):
            happened.append("gradients leave")
            return lambda own, selectors: happened.append("gradients are here")

    def recorded(name):
        operator = getattr(torch.ops.rtopk, name).default

        def call(row_starts, *arguments):
            happened.append(f"{name} of {'local' if len(row_starts) == 3 else 'boundary'}")
            return operator(row_starts, *arguments)

        return SimpleNamespace(default=call)

    names = ("aggregate", "aggregate_backward")
    operators = {name: recorded(name) for name in names} | {"transpose_graph": torch.ops.rtopk.transpose_graph}
    monkeypatch.setattr(part_graph, "_OPS", SimpleNamespace(**operators))
    one = torch.tensor([0, 1], dtype=torch.int32)
    local = Graph(torch.tensor([0, 0, 1]), torch.tensor([0]))
    graph = part_graph.PartGraph(local, part_graph.CsrMatrix(one, one[:1], None, 1), Recorded())
    values = torch.tensor([[1.0], [2.0]], requires_grad=True)
    sums = graph.aggregate(values, torch.zeros(2, 1, dtype=torch.uint8), 4, "sum")
    assert sums.tolist() == [[0, 0, 0, 0], [2, 0, 0, 0]]
    assert happened == ["rows leave", "aggregate of local", "rows are here", "aggregate of boundary"]
    happened.clear()
    sums.sum().backward()
    backward = ["aggregate_backward of boundary", "gradients leave", "aggregate_backward of local"]
    assert happened == [*backward, "gradients are here"]
