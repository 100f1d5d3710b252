"""Files that were made to do harm: graphs, checkpoints and results. Each is refused in one clear line."""

import gzip
import io
import json
import os
import struct
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import pytest
import torch

np = pytest.importorskip("numpy", reason="numpy is not installed")

import grid  # noqa: E402
import study  # noqa: E402
from results import read_results  # noqa: E402
from rtopk.gnn import GraphError, cli, load  # noqa: E402
from rtopk.gnn._text import printable, short  # noqa: E402
from rtopk.gnn.data import ogb  # noqa: E402
from rtopk.gnn.data import wordnet as wordnet_files  # noqa: E402
from rtopk.gnn.data._arrays import check_memory  # noqa: E402
from rtopk.gnn.data.dataset import MASKS  # noqa: E402
from rtopk.gnn.recipe import Recipe, TrainingError, recipe_for, recipe_of  # noqa: E402
from rtopk.gnn.training import Trainer  # noqa: E402
from test_gnn_data import SYNSETS, graphsaint, plain_arrays, products, saved, wordnet  # noqa: E402

CORA = Path(__file__).parent.parent / "data" / "cora.npz"
BRIEF = {"hidden": 32, "k": 8, "layers": 2, "epochs": 12}

pytestmark = pytest.mark.usefixtures("one_thread")

WRAPPING = np.array([0, 2**62 + 2**31 - 1, -(2**62), 1, 4])


# ---- Graphs ----


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"indptr": WRAPPING}, "indptr falls at row 1"),
        ({"x_indptr": WRAPPING}, "x_indptr falls at row 1"),
        ({"indptr": np.array([0, 2**33, 2**33, 4, 4])}, "indptr falls at row 2"),
        ({"x_indptr": np.array([0, -1, 1, 3, 4])}, "x_indptr falls at row 0"),
        (
            {"indptr": np.array([0, 1, 3, 4, 2**64 - 1], np.uint64)},
            "indptr is 1-dimensional uint64; accepted: .* int64",
        ),
        ({"indices": np.array([1, 0, 2**32 + 1, 1])}, "indices go from 0 to 4294967297"),
        ({"x_indices": np.array([1, 0, 2**32 + 1, 1])}, "x_indices go from 0 to 4294967297; accepted: 0 to 2"),
        ({"indptr": np.array(4)}, "indptr is 0-dimensional int64"),
        ({"indptr": np.array([], int)}, "there are no nodes: indptr has 0 entries"),
        ({"x_indptr": np.array([], int)}, "do not fit together"),
        ({"x_shape": np.array([2**63 - 1, 3])}, "do not fit together"),
        ({"x_shape": np.array([2**64 - 1, 3], np.uint64)}, "do not fit together"),
        ({"x_shape": np.array([4.0, 3.0])}, "x_shape is 1-dimensional float64"),
        ({"x_data": np.array([1.0, 2.0, np.inf, 4.0])}, "x_data holds a NaN or an infinity"),
        ({"x_data": np.array([1.0, 2.0, 3.0, 4.0], complex)}, "x_data is 1-dimensional complex128"),
        ({"y": np.array([0, 1, 2, 2**63 + 1], np.uint64)}, "not classes: uint64 from 0 to 9223372036854775809"),
        ({"y": np.array([[0], [1], [1e-300], [1]])}, "not rows of zeros and ones: 1e-300 is among them"),
        ({"y": np.zeros((4, 70_000), bool)}, "labels of 70000 columns; accepted: up to 65536"),
        ({"y": np.array(1)}, "y is 0-dimensional int64"),
        ({"y": np.array([0, 1, 1, 1], "datetime64[s]")}, "y is 1-dimensional datetime64"),
        ({"y": np.zeros(4, [("a", int), ("b", float)])}, "y is 1-dimensional .*'a'"),
        ({"train_mask": np.ones((4, 1), bool)}, r"train_mask is 2-dimensional bool, \[4, 1\]"),
        ({"x": np.zeros((4, 3), "S7")}, r"x is 2-dimensional \|S7"),
        ({"x": np.zeros((1, 4, 3))}, "x is 3-dimensional float64"),
        ({"x": np.zeros((5, 3))}, "features for 5 nodes, and the graph has 4"),
    ],
)
def test_arrays_that_were_made_to_do_harm(tmp_path, changes, text):
    with pytest.raises(GraphError, match=text) as raised:
        load(saved(tmp_path / "broken.npz", plain_arrays() | changes))
    assert "broken.npz" in str(raised.value)


@pytest.mark.parametrize("kind", ["<i4", ">i4", ">i8", "<u4", ">u2", "<i1"])
def test_indices_of_other_types_and_orders(tmp_path, kind):
    arrays = plain_arrays()
    names = ("indptr", "indices", "x_shape", "x_indptr", "x_indices", "y")
    other = arrays | {name: arrays[name].astype(kind) for name in names}
    expected, found = (load(saved(tmp_path / f"{n}.npz", a)) for n, a in enumerate((arrays, other)))
    assert found.graph.columns.equal(expected.graph.columns) and found.labels.equal(expected.labels)
    assert found.features.to_dense().equal(expected.features.to_dense())


@pytest.mark.parametrize("kind", ["<f2", ">f4", ">f8", "<f8", "<i2", np.longdouble])
def test_features_of_other_types_and_orders(tmp_path, kind):
    x = np.arange(12).reshape(4, 3)
    dataset = load(saved(tmp_path / "a.npz", plain_arrays() | {"x": np.asfortranarray(x.astype(kind))}))
    assert dataset.features.tolist() == x.tolist()


def test_a_bool_that_is_neither(tmp_path):
    masks = {name: np.array(bits, bool) for name, bits in zip(MASKS, np.eye(4)[:3], strict=True)}
    masks["train_mask"] = np.array([1, 0, 0, 85], np.uint8).view(bool)
    with pytest.raises(GraphError, match="an array of bool has bytes other than 0 and 1"):
        load(saved(tmp_path / "a.npz", plain_arrays() | masks))


def npy(descr, shape, data=b"", version=1, header=None):
    """An array as a file has it, whatever it claims."""
    text = header or repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def archive(path, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def members(**changes):
    """The members of a good file, with others in their places."""
    file = io.BytesIO()
    np.savez(file, **plain_arrays())
    with zipfile.ZipFile(file) as good:
        return {name: good.read(name) for name in good.namelist()} | {
            f"{name}.npy": content for name, content in changes.items()
        }


def loaded(path):
    """What becomes of a graph, and the most bytes that were held at a time."""
    tracemalloc.start()
    try:
        return str(load(path)), tracemalloc.get_traced_memory()[1]
    except GraphError as error:
        return str(error), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


BIG = 64 << 20
ENOUGH = 8 << 20  # for all of a good graph


def zeros(count):
    return npy("|u1", (count,), b"\0" * count)


def test_what_nobody_asked_for_is_not_inflated(tmp_path):
    message, held = loaded(archive(tmp_path / "bomb.npz", members(notes=zeros(BIG))))
    assert "bomb: 4 nodes" in message and held < ENOUGH


@pytest.mark.parametrize(
    "name, text",
    [
        ("y", f"labels for {BIG} nodes, and the graph has 4"),
        ("x_indices", "do not fit together"),
        ("indices", f"indptr goes from 0 to 4; accepted: from 0 to the number of entries, {BIG}"),
    ],
)
def test_what_the_graph_cannot_need_is_not_inflated(tmp_path, name, text):
    message, held = loaded(archive(tmp_path / "bomb.npz", members(**{name: zeros(BIG)})))
    assert text in message and held < ENOUGH


def test_more_than_there_is_memory_for(tmp_path):
    """A sparse file that claims half a terabyte."""
    folder = graphsaint(tmp_path / "Flickr")
    nodes, columns = 1 << 20, 1 << 16
    head = npy("<f8", (nodes, columns))
    with pytest.raises(GraphError, match="feats.npy cannot be read: an array of .* bytes has 0"):
        (folder / "feats.npy").write_bytes(head)
        load(folder)
    with (folder / "feats.npy").open("r+b") as file:
        try:
            file.truncate(len(head) + nodes * columns * 8)
        except OSError:
            pytest.skip("no sparse files of that size")
    with pytest.raises(GraphError, match="features for 1048576 nodes, and the graph has 4"):
        load(folder)
    with pytest.raises(GraphError, match="huge needs [0-9,]* bytes of memory, and this machine has"):
        check_memory(Path("huge"), 1 << 60)


def test_long_headers(tmp_path):
    for version in (1, 2):
        path = archive(tmp_path / "long.npz", members(y=npy("<i8", (4,), header=b" " * 20_000, version=version)))
        with pytest.raises(GraphError, match="the header of an array has 20000 bytes; accepted: up to 10000"):
            load(path)
    head = b"\x93NUMPY\x02\x00" + struct.pack("<I", BIG)
    folder = graphsaint(tmp_path / "Flickr")
    with (folder / "feats.npy").open("wb") as file:
        file.write(head)
        file.truncate(2 * BIG)
    message, held = loaded(folder)
    assert f"the header of an array has {BIG} bytes" in message and held < ENOUGH


@pytest.mark.parametrize(
    "content, text",
    [
        (npy("<i8", (2**62, 4)), "an array of .* bytes has 0"),
        (npy("<i8", (-4,)), "an array has shape"),
        (npy("<i8", (True, 4), b"\0" * 32), "an array has shape"),
        (npy("<i8", (4,), b"\0" * 40), "an array of 32 bytes has 40"),
        (npy("|O", (4,), b"\0" * 32), "Object arrays cannot be loaded"),
        (npy("<i8", (4,), b"\0" * 32, version=3), "an array has version 3.0"),
        (npy("", "", header=b"(" * 9000), "cannot be read"),
        (npy("", "", header=b"{'descr': " + b"[" * 3000), "cannot be read"),
        (b"\x93NUMPY", "it ends too early"),
    ],
)
def test_headers_that_lie(tmp_path, content, text):
    for name in ("y", "indptr", "x_data", "x_shape"):
        with pytest.raises(GraphError, match=text):
            load(archive(tmp_path / "lie.npz", members(**{name: content})))


def overlapping(path):
    """Members that share their bytes: each inflates to what stands once in the file."""
    good = io.BytesIO()
    archive(good, {"indptr.npy": zeros(1 << 16)})
    content = good.getvalue()
    directory = content.find(b"PK\x01\x02")
    body, entry = content[:directory], content[directory : content.find(b"PK\x05\x06")]
    names = [f"{name}.npy".ljust(10, "_").encode()[:10] for name in ("indptr", "a", "b")]
    entries = b"".join(entry.replace(b"indptr.npy", name) for name in names)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, len(names), len(names), len(entries), len(body), 0)
    path.write_bytes(body + entries + end)
    return path


def test_members_that_overlap(tmp_path):
    with pytest.raises(GraphError, match="its member 'indptr.npy' overlaps with another"):
        load(overlapping(tmp_path / "overlap.npz"))


def test_members_of_one_name(tmp_path):
    path = tmp_path / "twice.npz"
    with zipfile.ZipFile(path, "w") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, content in [*members().items(), ("y.npy", npy("<i8", (4,), b"\0" * 32))]:
            file.writestr(name, content)
    with pytest.raises(GraphError, match="it has two arrays y"):
        load(path)


def test_pipes_are_not_waited_for(tmp_path):
    folder = graphsaint(tmp_path / "Flickr", **{"feats.npy": None, "role.json": None})
    os.mkfifo(folder / "role.json")
    with pytest.raises(GraphError, match="role.json is not a plain file"):
        load(folder)
    graphsaint(tmp_path / "Yelp", **{"feats.npy": None})
    os.mkfifo(tmp_path / "Yelp" / "feats.npy")
    with pytest.raises(GraphError, match="feats.npy is not a plain file"):
        load(tmp_path / "Yelp")


def test_tables_without_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(ogb, "_BLOCK", 1 << 16)
    monkeypatch.setattr(ogb, "_MAX_LINE", 1 << 16)
    for changes, text in (
        ({"raw/edge.csv.gz": gzip.compress(b"1" * (1 << 20))}, "edge.csv.gz cannot be read: a line has more than"),
        ({"raw/node-label.csv.gz": "1\n" * 5}, "node-label.csv.gz has more than 4 lines, and the graph has 4 nodes"),
        ({"split/sales_ranking/train.csv.gz": "1\n" * 99}, "train.csv.gz has more than 4 lines"),
    ):
        with pytest.raises(GraphError, match=text):
            load(products(tmp_path / "products", **changes))


def test_features_that_cannot_be_standardised(tmp_path):
    features = np.full((4, 1), 1e-45)
    features[1:] = [[0.0], [3e38], [0.0]]
    with pytest.raises(GraphError, match="feats.npy: the array, standardised, holds a NaN or an infinity"):
        load(graphsaint(tmp_path / "Flickr", **{"feats.npy": features.astype(np.float32)}))


def test_a_synset_that_is_there_twice(tmp_path):
    with pytest.raises(GraphError, match="data.adv, line 3: the synset 00000050 is there twice"):
        wordnet_files.build(wordnet(tmp_path, adv=SYNSETS["adv"] * 2))


# ---- Names ----

NASTY = "\x1b]0;title\x07\x1b[2Jn\r\n\x9b31m\u202e"


def test_control_characters_do_not_reach_a_terminal(tmp_path, capsys):
    assert printable("a\x1b[0m\udcff") == r"a\x1b[0m\udcff"
    arrays = plain_arrays() | {"y": np.array([0, 1, 1])}
    broken = saved(tmp_path / f"{NASTY}.npz", arrays)
    good = saved(tmp_path / f"good{NASTY}.npz", plain_arrays())
    archive(tmp_path / "names.npz", {f"{NASTY}.npy": npy("<i8", (0,))})
    recipe = ["--model", "sage", "--hidden", "4", "--k", "2", "--layers", "1", "--epochs", "1", "--out"]
    out = tmp_path / f"out{NASTY}"
    for graph, expected in ((good, 0), (broken, 1), (tmp_path / "names.npz", 1), (f"none{NASTY}", 1)):
        assert cli.main(["train", "--graph", str(graph), *recipe, str(out)]) == expected
    study_recipe = ["--max-iter", "--seeds", "1", "--repetitions", "1", *recipe, str(out)]
    assert study.main(["--graph", str(good), *study_recipe]) == 0
    out.joinpath("checkpoint.pt").write_bytes(b"")
    assert cli.main(["train", "--graph", str(good), *recipe, str(out)]) == 1
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        assert r"\x1b]0;title\x07" in text and all(c.isprintable() or c == "\n" for c in text)
    assert printed.err.count("\n") == 4


def test_values_are_quoted_in_a_few_words():
    nested = []
    for _ in range(60):
        nested = [nested, nested]
    for value, text in (
        (nested, "a list"),
        (10**5000, "an integer of 16610 bits"),
        ("x" * 100, repr("x" * 60) + "..."),
    ):
        assert short(value) == text


# ---- Recipes, checkpoints, results ----


@pytest.mark.parametrize(
    "field, value, text",
    [
        ("hidden", 1e300, r"hidden is 1e\+300; accepted: int"),
        ("hidden", True, "hidden is True; accepted: int"),
        ("hidden", 10**400, "hidden is an integer of 1329 bits; accepted: an integer of 64 bits"),
        ("k", "8", "k is '8'; accepted: int"),
        ("lr", None, "lr is None; accepted: float"),
        ("lr", 10**400, "lr is an integer of 1329 bits"),
        ("dropout", float("nan"), "dropout is nan; accepted: 0 to less than 1"),
        ("self_loops", 1, "self_loops is 1; accepted: bool"),
        ("max_iter", 2.5, "max_iter is 2.5; accepted: int or none"),
        ("max_iter", 2**32, "max_iter is 4294967296; accepted: 1 to 10000"),
        ("rule", None, "rule is None; accepted: str"),
        ("rule", "first", "rule is 'first'; accepted: threshold_first, printed"),
        ("model", "mlp", "model is 'mlp'; accepted: sage, gcn, gin"),
        ("model", ["sage"], "model is a list; accepted: str"),
        ("baseline", "sparse", "baseline is 'sparse'; accepted: dense, or none"),
        ("unknown", 1, "recipe has 'unknown'; accepted: baseline, "),
    ],
)
def test_recipes_of_unknown_origin(field, value, text):
    with pytest.raises(TrainingError, match=text):
        recipe_of({field: value})
    with pytest.raises(TrainingError, match="recipe is a list; accepted: settings by name"):
        recipe_of([field])


@pytest.fixture(scope="module")
def checkpoint(cora):
    trainer = Trainer(cora, Recipe(**BRIEF), "cpu")
    for _ in range(3):
        trainer.evaluate(trainer.step())
    return bytes(trainer.checkpoint())


def replaced(content, field, value):
    """The checkpoint with another value at a place."""
    result = torch.load(io.BytesIO(content), weights_only=True)
    *names, last = field
    inner = result
    for name in names:
        inner = inner[name]
    inner[last] = value
    return result


def broken_sparse():
    warnings.filterwarnings("ignore", message="Sparse", category=UserWarning)
    starts, columns = torch.tensor([0, 99, 1]), torch.tensor([10**9])
    return torch.sparse_csr_tensor(starts, columns, torch.ones(1), (2, 2), check_invariants=False)


FIELDS = [
    (("recipe",), [1], "recipe is a list; accepted: settings by name"),
    (("recipe", "hidden"), 1e300, r"hidden is 1e\+300; accepted: int"),
    (("recipe", "layers"), "2", "layers is '2'; accepted: int"),
    (("recipe", "extra"), 1, "recipe has 'extra'"),
    (("graph",), None, "graph is None; accepted: name, nodes, edges, features, classes"),
    (("graph", "nodes"), 10**30, "graph.nodes is 1000000000000000000000000000000; accepted: an integer from 0"),
    (("graph", "name"), torch.ones(2), "graph.name is a Tensor; accepted: a text"),
    (("epoch",), "3", "epoch is '3'; accepted: an integer from 0"),
    (("epoch",), -1, "epoch is -1"),
    (("epoch",), torch.tensor([3, 4]), "epoch is a Tensor"),
    (("within_epoch",), {"nodes": 1, "losses": [1.0]}, "within_epoch is a dict; accepted: none"),
    (("epoch",), 2, "history is not in order; accepted: epochs from 1 to 2"),
    (("history",), {}, "history is a dict; accepted: a list"),
    (("history", 1), {"epoch": 2}, r"history\[1\] is a dict; accepted: epoch, loss"),
    (("history", 0, "loss"), float("nan"), r"history\[0\].loss is nan; accepted: a finite number"),
    (("history", 0, "epoch"), 2, "history is not in order"),
    (("best",), None, "best is not in history"),
    (("best",), {"epoch": 3}, "best is a dict; accepted: epoch, loss"),
    (("best_state",), None, "best_state is None; accepted: tensors by name"),
    (("network",), [], "network is a list; accepted: tensors by name"),
    (("network", "more"), torch.ones(1), "network has 'more'; accepted: the names of this network's parameters"),
    (("network", "output.weight"), "w", r"network.output.weight is 'w'; accepted: \[7, 32\] of torch.float32 on cpu"),
    (("network", "output.weight"), torch.ones(7, 33), r"network.output.weight is \[7, 33\] of torch.float32"),
    (("network", "output.weight"), torch.ones(7, 32).double(), r"is \[7, 32\] of torch.float64"),
    (("network", "output.weight"), torch.ones(7, 32).to_sparse(), "is a tensor with layout torch.sparse_coo"),
    (("network", "output.bias"), torch.ones(7, device="meta"), "is a tensor with layout torch.strided on meta"),
    (("best_state", "output.bias"), torch.ones(8), r"best_state.output.bias is \[8\]"),
    (("optimizer",), None, "optimizer has no 'param_groups'"),
    (("optimizer", "param_groups"), {}, "optimizer.param_groups is a dict; accepted: a list of one"),
    (("optimizer", "param_groups", 0, "lr"), "0.1", "optimizer.param_groups.lr is '0.1'; accepted: more than 0"),
    (("optimizer", "param_groups", 0, "lr"), float("inf"), "optimizer.param_groups.lr is inf"),
    (("optimizer", "state"), [], "optimizer.state is not by parameter; accepted: 0 to"),
    (("optimizer", "state", 10**6), {}, "optimizer.state is not by parameter"),
    (("optimizer", "state", 0), {}, "optimizer.state.0 has no 'step'"),
    (("optimizer", "state", 0, "step"), torch.tensor(float("nan")), "optimizer.state.0.step is nan"),
    (("optimizer", "state", 0, "step"), 3, r"optimizer.state.0.step is 3; accepted: \[\] of torch.float32"),
    (("optimizer", "state", 0, "exp_avg"), torch.ones(3), r"optimizer.state.0.exp_avg is \[3\] of torch.float32"),
    (("random",), [], "random is a list; accepted: states by device"),
    (("random", "cpu"), torch.ones(3), r"random.cpu is \[3\] of torch.float32; accepted: \[\d+\] of torch.uint8"),
    (("random", "cpu"), torch.zeros_like(torch.get_rng_state()), "its random.cpu cannot be taken: "),
]


@pytest.mark.parametrize(
    "field, value, text", FIELDS, ids=lambda part: ".".join(map(str, part)) if type(part) is tuple else ""
)
def test_fields_of_checkpoints(cora, checkpoint, tmp_path, field, value, text):
    path = tmp_path / "checkpoint.pt"
    torch.save(replaced(checkpoint, field, value), path)
    trainer = Trainer(cora, Recipe(**BRIEF), "cpu")
    before = [parameter.detach().clone() for parameter in trainer.network.parameters()], torch.get_rng_state()
    with pytest.raises(TrainingError, match=f"checkpoint.pt cannot be read as a checkpoint: .*{text}"):
        trainer.resume(path)
    after = list(trainer.network.parameters()), torch.get_rng_state()
    assert all(torch.equal(a, b) for a, b in zip(before[0], after[0], strict=True)) and torch.equal(before[1], after[1])
    assert trainer.epoch == 0 and not trainer.history


def test_checkpoints_that_are_larger_than_they_look(cora, checkpoint, tmp_path):
    trainer = Trainer(cora, Recipe(**BRIEF), "cpu")
    with zipfile.ZipFile(io.BytesIO(checkpoint)) as file:
        contents = {name: file.read(name) for name in file.namelist()}
    with pytest.raises(TrainingError, match="parts of it are compressed; accepted: what torch.save writes"):
        trainer.resume(archive(tmp_path / "checkpoint.pt", contents))
    with pytest.raises(TrainingError, match="its parts overlap; accepted: what torch.save writes"):
        content = io.BytesIO()
        archive(content, {"data.pkl": b"\0" * 1000}, zipfile.ZIP_STORED)
        raw = content.getvalue()
        directory, end = raw.find(b"PK\x01\x02"), raw.find(b"PK\x05\x06")
        entry = raw[directory:end]
        tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 3, 3, 3 * len(entry), directory, 0)
        (tmp_path / "checkpoint.pt").write_bytes(raw[:directory] + 3 * entry + tail)
        trainer.resume(tmp_path / "checkpoint.pt")


def test_a_sparse_tensor_that_points_elsewhere(cora, checkpoint, tmp_path):
    torch.save(replaced(checkpoint, ("network", "output.weight"), broken_sparse()), tmp_path / "checkpoint.pt")
    with pytest.raises(TrainingError, match="cannot be read as a checkpoint"):
        Trainer(cora, Recipe(**BRIEF), "cpu").resume(tmp_path / "checkpoint.pt")


def results(**changes):
    recipe = recipe_for("g", "sage", seed=0)
    content = {
        "environment": {"device": "cpu"},
        "graphs": {"g": {"nodes": 4, "edges": 4, "metric": "accuracy"}},
        "timings": [{"graph": "g", "selection": "exact", "recipe": vars(recipe), "step_ms": 1.5, "topk_ms": 0.5}],
        "runs": [{"graph": "g", "selection": "exact", "recipe": vars(recipe), "best": {"test": 0.5}}],
    }
    return json.loads(json.dumps(content)) | changes


def with_field(place, value):
    content = results()
    *names, last = place
    inner = content
    for name in names:
        inner = inner[name]
    inner[last] = value
    return content


def test_results_of_a_study_are_read_again(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(results()))
    assert read_results(tmp_path / "results.json") == results()
    assert "50.00" in grid.draw(tmp_path).read_text()
    for path in (Path(__file__).parents[2] / "docs" / "gnn").glob("*.json"):
        read_results(path)


@pytest.mark.parametrize(
    "content, text",
    [
        ([], "it is a list; accepted: an object"),
        ({}, "it has no environment"),
        (results(runs={}), "it.runs is a dict; accepted: list"),
        (results(environment={"device": 7}), "environment.device is 7; accepted: a text"),
        (with_field(["graphs", "g", "nodes"], 1e300), r"graphs.'g'.nodes is 1e\+300; accepted: int"),
        (with_field(["graphs", "g", "nodes"], 10**30), "graphs.'g'.nodes is 1000.*; accepted: int"),
        (with_field(["graphs", "g", "metric"], "taste"), "graphs.'g'.metric is 'taste'; accepted: accuracy, micro-F1"),
        (with_field(["graphs", "g"], None), "graphs.'g' is None; accepted: an object"),
        (with_field(["timings", 0], 1), r"timings\[0\] is 1; accepted: an object"),
        (with_field(["timings", 0, "graph"], "h"), r"timings\[0\].graph is 'h', which is not among its graphs"),
        (with_field(["timings", 0, "step_ms"], 0), r"timings\[0\].step_ms is 0; accepted: 1e-06 to 1e\+12"),
        (with_field(["timings", 0, "step_ms"], 1e300), r"timings\[0\].step_ms is 1e\+300"),
        (with_field(["timings", 0, "topk_ms"], None), r"timings\[0\].topk_ms is None"),
        (with_field(["timings", 0, "recipe", "hidden"], 1e300), r"timings\[0\]: hidden is 1e\+300; accepted: int"),
        (with_field(["timings", 0, "recipe", "max_iter"], 2**32), r"timings\[0\]: max_iter is 4294967296"),
        (
            with_field(["timings", 0, "selection"], "max_iter x"),
            r"timings\[0\].selection is 'max_iter x', and its recipe's is exact",
        ),
        (with_field(["runs", 0, "best"], None), r"runs\[0\].best is None; accepted: dict"),
        (with_field(["runs", 0, "best", "test"], 1e300), r"runs\[0\].best.test is 1e\+300; accepted: 0 to 1"),
        (with_field(["runs", 0, "best", "test"], float("nan")), "it has NaN; accepted: finite numbers"),
    ],
)
def test_results_of_unknown_origin(tmp_path, capsys, content, text):
    path = tmp_path / "results.json"
    path.write_text(json.dumps(content))
    with pytest.raises(TrainingError, match=f"results.json cannot be read as results of a study: {text}"):
        read_results(path)
    assert study.main(["--page-only", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b"1" * 5000, b'{"a": 1e999}'])
def test_results_that_are_none(tmp_path, content):
    (tmp_path / "results.json").write_bytes(content)
    with pytest.raises(TrainingError, match="results.json cannot be read as results of a study"):
        read_results(tmp_path / "results.json")
