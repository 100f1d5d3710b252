"""The command `paper`: the paper's table on small graphs in the formats of the real ones; and DGL's Reddit."""

import gzip
import json
import signal
from pathlib import Path

import pytest
import torch

np = pytest.importorskip("numpy", reason="numpy is not installed")

import grid  # noqa: E402
from rtopk.gnn import GraphError, cli, load  # noqa: E402
from rtopk.gnn.data.generated import SHAPES  # noqa: E402
from rtopk.gnn.layers import MODELS  # noqa: E402
from rtopk.gnn.paper import cells, estimate, graphs, published, run, table  # noqa: E402
from rtopk.gnn.recipe import Recipe, TrainingError, recipe_for  # noqa: E402
from rtopk.gnn.training import Trainer  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

NODES = 24


# ---- Folders as they are published ----


def rows_and_columns():
    """A ring with chords, in both directions, sorted by row."""
    nodes = np.arange(NODES)
    pairs = np.concatenate([np.stack([nodes, (nodes + step) % NODES], 1) for step in (1, 5)])
    pairs = np.concatenate([pairs, pairs[:, ::-1]])
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))].T


def features(columns=6):
    generator = np.random.default_rng(0)
    return (generator.normal(size=(NODES, columns)) + np.arange(NODES)[:, None] % 3).astype(np.float32)


ROLES = {"tr": list(range(12)), "va": list(range(12, 18)), "te": list(range(18, NODES))}


def csr():
    row, col = rows_and_columns()
    starts = np.concatenate([[0], np.bincount(row, minlength=NODES).cumsum()]).astype(np.int32)
    return {"indptr": starts, "indices": col.astype(np.int32), "data": np.ones(len(col)), "format": np.array(b"csr")}


def graphsaint(folder, *, several=False):
    folder.mkdir(parents=True)
    np.savez(folder / "adj_full.npz", **csr(), shape=np.array([NODES, NODES]))
    np.save(folder / "feats.npy", features().astype(np.float64))
    classes = {str(n): [int(n % 3 == c) for c in range(3)] if several else n % 3 for n in range(NODES)}
    (folder / "class_map.json").write_text(json.dumps(classes))
    (folder / "role.json").write_text(json.dumps(ROLES))
    return folder


def reddit_data(**changes):
    types = np.repeat([1, 2, 3], [len(part) for part in ROLES.values()])
    return {"feature": features(), "label": np.arange(NODES) % 3, "node_types": types} | changes


def reddit_graph(**changes):
    row, col = (part.astype(np.int32) for part in rows_and_columns())
    ones = np.ones(len(row), np.float32)
    fixed = {"format": np.array(b"coo"), "shape": np.array([NODES, NODES]), "data": ones}
    return {"row": row, "col": col} | fixed | changes


def dgl_reddit(folder, data=None, graph=None):
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "reddit_data.npz", **data or reddit_data())
    np.savez_compressed(folder / "reddit_graph.npz", **graph or reddit_graph())
    return folder


def ogb_products(folder):
    row, col = rows_and_columns()
    edges = [(r, c) for r, c in zip(row, col, strict=True) if r < c]
    tables = {
        "raw/edge": edges,
        "raw/node-feat": features().tolist(),
        "raw/node-label": [(n % 3,) for n in range(NODES)],
        "split/sales_ranking/train": [(n,) for n in ROLES["tr"]],
        "split/sales_ranking/valid": [(n,) for n in ROLES["va"]],
        "split/sales_ranking/test": [(n,) for n in ROLES["te"]],
    }
    for name, lines in tables.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("".join(",".join(map(str, line)) + "\n" for line in lines).encode()))
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    graphsaint(folder / "Flickr")
    graphsaint(folder / "yelp", several=True)
    dgl_reddit(folder / "REDDIT")
    ogb_products(folder / "products")
    return folder


# ---- DGL's Reddit ----


def test_dgls_reddit(tmp_path):
    dataset = load(dgl_reddit(tmp_path / "Reddit"))
    row, col = rows_and_columns()
    assert dataset.name == "reddit" and dataset.classes == 3
    assert (dataset.graph.num_nodes, dataset.graph.num_edges) == (NODES, len(row))
    assert dataset.graph.columns.tolist() == col.tolist()  # it is symmetric
    assert dataset.features.equal(torch.from_numpy(features()))  # as they are
    found = (dataset.train.tolist(), dataset.validation.tolist(), dataset.test.tolist())
    assert found == tuple(ROLES.values())


def test_a_column_gathers_from_its_rows(tmp_path):
    one_way = {"row": np.array([3, 1]), "col": np.array([0, 0])}
    coo = load(dgl_reddit(tmp_path / "coo", graph=reddit_graph(**one_way)))
    starts = np.concatenate([[0, 0, 1, 1], np.full(NODES - 3, 2)])
    rows = {"indptr": starts, "indices": np.array([0, 0]), "format": np.array("csr"), "shape": np.array([NODES, NODES])}
    for dataset in (coo, load(dgl_reddit(tmp_path / "csr", graph=rows))):
        assert dataset.graph.columns.tolist() == [1, 3] and dataset.graph.row_starts.tolist() == [0, *[2] * NODES]


def test_both_forms_of_the_matrix_are_one_graph(tmp_path):
    coo = load(dgl_reddit(tmp_path / "coo"))
    other = load(dgl_reddit(tmp_path / "csr", graph=csr() | {"shape": np.array([NODES, NODES])}))
    assert coo.graph.columns.equal(other.graph.columns) and coo.graph.row_starts.equal(other.graph.row_starts)


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"feature": features()[0]}, "feature is 1-dimensional float32; accepted: 2 dimensions of numbers"),
        ({"feature": features().astype("S4")}, "feature is 2-dimensional .S4"),
        ({"feature": features() * np.nan}, "feature holds a NaN or an infinity"),
        ({"feature": features()[:4]}, f"label for {NODES} nodes, and the graph has 4"),
        ({"label": np.arange(5)}, f"label for 5 nodes, and the graph has {NODES}"),
        ({"label": np.arange(NODES) * 1.0}, "label is 1-dimensional float64; accepted: an integer for each node"),
        ({"label": np.zeros((NODES, 1), int)}, "label is 2-dimensional int64"),
        ({"label": np.arange(NODES) - 1}, "label goes from -1 to 22; accepted: 0 to 65535"),
        ({"label": np.full(NODES, 2**64 - 1, np.uint64)}, "label goes from 18446744073709551615"),
        ({"node_types": np.arange(NODES) % 4}, "node_types goes from 0 to 3; accepted: 1 to 3"),
        ({"node_types": np.ones(NODES, bool)}, "node_types is 1-dimensional bool"),
        ({"node_types": np.ones(NODES, np.int8)}, "there are no nodes to validate with"),
        ({"node_types": None}, "reddit_data.npz has no array node_types; it has feature, label"),
    ],
)
def test_broken_reddit_data(tmp_path, changes, text):
    arrays = {name: array for name, array in reddit_data(**changes).items() if array is not None}
    with pytest.raises(GraphError, match=text):
        load(dgl_reddit(tmp_path / "reddit", data=arrays))


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"row": np.full(96, NODES)}, f"edge_index names nodes 0 to {NODES}; accepted: 0 to {NODES - 1}"),
        ({"col": np.full(96, -1)}, "edge_index names nodes -1 to"),
        ({"row": np.zeros(96)}, "row is 1-dimensional float64; accepted: integers in a row"),
        ({"col": np.zeros((48, 2), int)}, "col is 2-dimensional int64"),
        ({"row": np.zeros(95, int)}, "row has 95 entries, and col 96; accepted: one each for an edge"),
        ({"row": np.full(96, 2**64 - 1, np.uint64)}, "row is 1-dimensional uint64"),
        ({"row": None}, "reddit_graph.npz has no array row"),
        ({"shape": None}, "reddit_graph.npz has no array shape"),
        ({"shape": np.array([NODES, 9])}, rf"shape is \[{NODES}, 9\], and reddit_data.npz has {NODES} nodes"),
        ({"shape": np.zeros(1 << 20, int)}, "shape is 1-dimensional int64; accepted: what SciPy writes"),
        ({"format": np.array(b"csc")}, "is in the form b'csc'; accepted: coo, csr"),
        ({"format": np.array(["coo", "csr"])}, "is in the form a list; accepted: coo, csr"),
        ({"format": np.array(b"csr")}, "reddit_graph.npz has no array indptr"),
        ({**csr(), "indptr": np.array([0, 96])}, f"indptr has 2 entries; accepted: {NODES + 1}"),
        ({**csr(), "indptr": csr()["indptr"][::-1]}, "indptr goes from 96 to 0"),
        ({**csr(), "indices": np.full(96, NODES)}, f"indices go from {NODES} to {NODES}; accepted: 0 to {NODES - 1}"),
    ],
)
def test_broken_reddit_graphs(tmp_path, changes, text):
    arrays = {name: array for name, array in reddit_graph(**changes).items() if array is not None}
    with pytest.raises(GraphError, match=text) as raised:
        load(dgl_reddit(tmp_path / "reddit", graph=arrays))
    assert "reddit_graph.npz" in str(raised.value)


@pytest.mark.parametrize("name", ["reddit_data.npz", "reddit_graph.npz"])
def test_reddit_files_that_end_too_early(tmp_path, name):
    folder = dgl_reddit(tmp_path / "reddit")
    content = (folder / name).read_bytes()
    for end in (0, 3, len(content) // 2, len(content) - 1):
        (folder / name).write_bytes(content[:end])
        with pytest.raises(GraphError, match=f"{name} cannot be read"):
            load(folder)


def test_a_reddit_without_its_data(tmp_path):
    folder = dgl_reddit(tmp_path / "reddit")
    (folder / "reddit_data.npz").unlink()
    with pytest.raises(GraphError, match="reddit_data.npz cannot be read: .*No such file"):
        load(folder)


# ---- The recipe ----


@pytest.mark.parametrize("model", MODELS)
def test_weights_are_drawn_by_xaviers_rule(cora, model):
    recipe = Recipe(model=model, hidden=64, k=8, layers=2, initialization="xavier")
    network = Trainer(cora, recipe, "cpu").network
    gain = 2**0.5 if model == "sage" else 1
    for module in network.modules():
        if isinstance(module, torch.nn.Linear):
            own = gain if module not in (network.input, network.output) else 1
            limit = own * (6 / sum(module.weight.shape)) ** 0.5
            assert 0.9 * limit < module.weight.abs().max() <= limit
    again = Trainer(cora, recipe, "cpu").network.input.weight
    assert again.equal(network.input.weight)
    with pytest.raises(TrainingError, match="initialization is 'zeros'; accepted: torch, xavier"):
        Trainer(cora, Recipe(initialization="zeros"), "cpu")


def test_cells_have_the_papers_settings():
    every = cells.make_cells(list(graphs.FOLDERS), list(MODELS), cells.TOP_KS, 2, Path("out"))
    assert len(every) == 4 * 3 * 9 * 2 == len({cell.folder for cell in every})
    for cell in every:
        recipe = cell.recipe
        assert (recipe.hidden, recipe.k, recipe.precision, recipe.initialization) == (256, 32, "high", "xavier")
        usual = recipe_for(cell.graph, recipe.model)
        assert (recipe.epochs, recipe.layers, recipe.lr) == (usual.epochs, usual.layers, usual.lr)
    assert {cell.recipe.seed for cell in every} == {97, 98}
    assert every[0].folder == Path("out/flickr-sage-dense-seed97") and every[0].recipe.epochs == 400
    assert len(cells.make_cells(["yelp"], ["sage", "sage"], ["2", "2"], 1, Path("out"))) == 1


def test_durations():
    texts = {0.4: "0 s", 59.6: "1 min 0 s", 7500: "2 h 5 min", 90_000: "1 d 1 h"}
    assert {seconds: estimate.duration(seconds) for seconds in texts} == texts


def test_every_graph_has_published_numbers_and_sizes():
    for graph in graphs.FOLDERS:
        assert {model: published.published_score(graph, model) for model in MODELS}
    assert published.published_score("ogbn-products", "gcn") == 76.6
    assert {shape.nodes for shape in SHAPES.values()} == {entry["nodes"] for entry in published.PUBLISHED.values()}


# ---- The command ----


def paper(data, out, *more, device="cpu"):
    return cli.main(["paper", "--data", str(data), "--out", str(out), "--device", device, *more])


def read_table(out):
    return json.loads((out / "table4.json").read_text())


def test_the_whole_table(data, tmp_path, capsys):
    out = tmp_path / "out"
    assert paper(data, out, "--top-k", "dense", "exact", "2", "--epochs", "2") == 0
    printed = capsys.readouterr().out
    assert "36 of 36 networks to train, about " in printed and "skipped" not in printed
    assert "36 of 36  ogbn-products gin max_iter 2, seed 97: test " in printed
    assert "not the paper's graph: it has 24 nodes (89,250), 96 edges (899,756)" in printed
    assert "--page-only --out" in printed
    content = read_table(out)
    assert content["skipped"] == content["unfinished"] == [] and len(content["rows"]) == 12
    for row in content["rows"]:
        assert row["metric"] == ("micro-F1" if row["graph"] == "yelp" else "accuracy")
        assert list(row["scores"]) == ["dense", "exact", "max_iter 2"]
        result = json.loads((out / f"{row['graph']}-{row['model']}-exact-seed97" / "result.json").read_text())
        assert result["finished"] and row["scores"]["exact"] == [round(100 * result["best"]["test"], 2)]
    assert content["rows"][6] == content["rows"][6] | {"graph": "reddit", "model": "sage", "published": 96.74}
    page = grid.draw(out).read_text()
    assert "reddit, GraphSAGE" in page and "xavier" in page
    # Nothing is trained twice, and nothing is overwritten.
    assert paper(data, out, "--top-k", "exact", "--epochs", "2") == 1
    assert "flickr-sage-exact-seed97 is of an earlier run, one of 12; accepted: --resume" in capsys.readouterr().err
    assert paper(data, out, "--top-k", "dense", "exact", "2", "--epochs", "2", "--resume") == 0
    assert "0 of 36 networks to train, about 0 s" in capsys.readouterr().out
    assert read_table(out)["rows"] == content["rows"]


def test_features_are_as_in_the_files(data):
    folders, missing = graphs.find_folders(data, list(graphs.FOLDERS))
    assert missing == [] and folders["reddit"].name == "REDDIT"
    for graph, folder in folders.items():
        dataset = graphs.read_graph(graph, folder)
        assert dataset.name == graph and torch.allclose(dataset.features, torch.from_numpy(features()))
    assert not torch.allclose(load(folders["flickr"]).features, torch.from_numpy(features()))


BRIEF = ("--graphs", "flickr", "yelp", "--models", "sage", "--top-k", "exact", "3", "--rule", "printed", "--seeds", "2")
BRIEF += ("--epochs", "3")


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """The table of a run without a break."""
    out = tmp_path_factory.mktemp("whole")
    assert paper(data, out, *BRIEF) == 0
    return out


@pytest.mark.parametrize("epoch", [2, 3])  # in the middle of a network, and in its last epoch
def test_stopped_and_resumed(data, whole, tmp_path, capsys, monkeypatch, epoch):
    step = Trainer.step

    def interrupted(self, asked):
        if self.recipe.max_iter and self.epoch == epoch - 1:
            signal.raise_signal(signal.SIGINT)
        return step(self, asked)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", interrupted)
        patch.setattr(estimate, "seconds_of_an_epoch", lambda *_: 1.0)
        assert paper(data, tmp_path, *BRIEF) == 130
    printed = capsys.readouterr().out
    ended = "stopped after epoch 2 of 3" if epoch == 2 else "test "
    assert f"2 of 8  flickr sage max_iter 3, printed, seed 97: {ended}" in printed and "3 of 8" not in printed
    assert "8 of 8 networks to train, about 24 s" in printed and "with --resume continues" in printed
    left = 7 if epoch == 2 else 6
    assert len(read_table(tmp_path)["unfinished"]) == left
    assert paper(data, tmp_path, *BRIEF, "--resume") == 0
    assert f"{left} of 8 networks to train" in capsys.readouterr().out
    assert read_table(tmp_path)["rows"] == read_table(whole)["rows"]
    for path in whole.glob("*/best.pt"):
        one, other = (torch.load(folder / path.parent.name / "best.pt") for folder in (whole, tmp_path))
        assert one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


def test_the_table_as_text(whole):
    lines = table.as_text(read_table(whole)["rows"]).splitlines()
    assert lines[0].split("  ")[-1] == "max_iter 3, printed" and len(lines) == 3
    assert lines[1].startswith("flickr  sage   accuracy      53.44") and lines[1].count("±") == 2


def test_more_epochs_and_other_recipes(data, tmp_path, capsys, device):
    def epochs(count, *more):
        one = ("--graphs", "reddit", "--models", "gcn", "--top-k", "exact")
        return paper(data, tmp_path, *one, "--epochs", str(count), *more, device=device)

    assert epochs(1) == 0 and epochs(4, "--resume") == 0
    assert json.loads((tmp_path / "reddit-gcn-exact-seed97" / "result.json").read_text())["epochs_done"] == 4
    assert epochs(1, "--resume") == 1
    assert "epochs is 1, and" in capsys.readouterr().err


def test_graphs_that_are_missing(tmp_path, capsys):
    graphsaint(tmp_path / "data" / "flickr")
    some = ("--models", "gcn", "--top-k", "4", "--epochs", "1")
    assert paper(tmp_path / "data", tmp_path / "out", "--graphs", "flickr", "ogbn-products", *some) == 0
    printed = capsys.readouterr().out
    assert printed.count("skipped: ogbn-products, since ") == 2
    assert "has no folder ogbn-products or ogbn_products or products" in printed
    assert read_table(tmp_path / "out")["skipped"] == ["ogbn-products"]
    for folder, text in (
        (tmp_path / "out", "has none of the folders flickr, yelp, reddit, ogbn-products"),
        (tmp_path / "none", "none is not a folder; accepted: one with the folders flickr, yelp, reddit"),
    ):
        assert paper(folder, tmp_path / "other") == 1
        assert text in capsys.readouterr().err
    graphsaint(tmp_path / "data" / "FLICKR")
    assert paper(tmp_path / "data", tmp_path / "other") == 1
    assert "are both flickr; accepted: one folder for each graph" in capsys.readouterr().err


def test_a_network_without_a_result(data, tmp_path, capsys, monkeypatch):
    train = run.train

    def fails_once(trainer, *arguments, **options):
        if trainer.recipe.max_iter == 2:
            raise TrainingError("the loss is nan in epoch 1")
        return train(trainer, *arguments, **options)

    monkeypatch.setattr(run, "train", fails_once)
    assert (
        paper(data, tmp_path, "--graphs", "flickr", "--models", "sage", "--top-k", "2", "exact", "--epochs", "1") == 0
    )
    printed = capsys.readouterr().out
    assert "flickr sage max_iter 2, seed 97: no result: the loss is nan in epoch 1" in printed
    assert read_table(tmp_path)["unfinished"] == ["flickr sage max_iter 2, seed 97"]


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["--seeds", "0"], "seeds is 0; accepted: 1 or more"),
        (["--top-k", "0"], "max_iter is 0; accepted: 1 to 10000"),
        (["--epochs", "0"], "epochs is 0; accepted: 1 or more"),
    ],
)
def test_wrong_arguments(data, tmp_path, capsys, arguments, text):
    assert paper(data, tmp_path / "out", *arguments) == 1
    assert text in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_kinds_of_top_k(data, tmp_path, capsys):
    with pytest.raises(SystemExit):
        paper(data, tmp_path / "out", "--top-k", "some")
    assert "'some' is no kind of top-k; accepted: dense, exact, passes" in capsys.readouterr().err
