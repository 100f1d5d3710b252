"""Loaders: on good files, and on broken ones, which must give an error that names the file and what is wrong."""

import gzip
import io
import json
import pickle
import zipfile
from pathlib import Path

import pytest
import torch

np = pytest.importorskip("numpy", reason="numpy is not installed")

from rtopk.gnn import GraphError, load  # noqa: E402
from rtopk.gnn.data import ogb  # noqa: E402
from rtopk.gnn.data import wordnet as wordnet_files  # noqa: E402
from rtopk.gnn.data.dataset import MASKS  # noqa: E402

CORA = Path(__file__).parent.parent / "data" / "cora.npz"


# ---- Plain arrays ----


def plain_arrays():
    return {
        "indptr": np.array([0, 1, 3, 4, 4]),
        "indices": np.array([1, 0, 2, 1]),
        "x_shape": np.array([4, 3]),
        "x_indptr": np.array([0, 1, 1, 3, 4]),
        "x_indices": np.array([2, 0, 1, 1]),
        "x_data": np.array([1.0, 2.0, 3.0, 4.0], dtype=np.float32),
        "y": np.array([0, 1, 1, 2]),
    }


def saved(path, arrays):
    np.savez(path, **arrays)
    return path


def test_cora():
    dataset = load(CORA)
    assert (dataset.graph.num_nodes, dataset.graph.num_edges, dataset.classes) == (2708, 10556, 7)
    assert dataset.features.shape == (2708, 1433)
    parts = torch.cat([dataset.train, dataset.validation, dataset.test])
    assert parts.sort().values.equal(torch.arange(2708))
    assert [len(part) for part in (dataset.train, dataset.validation, dataset.test)] == [1354, 677, 677]
    assert load("cora", CORA.parent).train.equal(dataset.train)


def test_a_name_is_looked_for_in_the_folder_of_the_environment(monkeypatch):
    monkeypatch.setenv("RTOPK_DATA", str(CORA.parent))
    assert load("cora").name == "cora"


def test_sparse_and_dense_features_and_masks(tmp_path):
    arrays = plain_arrays()
    sparse = load(saved(tmp_path / "a.npz", arrays))
    expected = torch.tensor([[0, 0, 1], [0, 0, 0], [2, 3, 0], [0, 4, 0]], dtype=torch.float32)
    assert sparse.features.to_dense().equal(expected)
    masks = {"train_mask": [1, 1, 0, 0], "val_mask": [0, 0, 1, 0], "test_mask": [0, 0, 0, 1]}
    arrays = {name: array for name, array in arrays.items() if not name.startswith("x_")} | {"x": expected.numpy()}
    arrays |= {name: np.array(mask, dtype=bool) for name, mask in masks.items()}
    dense = load(saved(tmp_path / "b.npz", arrays))
    assert dense.features.equal(expected)
    assert (dense.train.tolist(), dense.validation.tolist(), dense.test.tolist()) == ([0, 1], [2], [3])


def one_way():
    """Node 0 gathers from 1 and 3, and nobody from node 0."""
    return {"indptr": np.array([0, 2, 2, 2, 2]), "indices": np.array([1, 3])}


def test_rows_are_those_that_gather(tmp_path):
    npz = load(saved(tmp_path / "a.npz", plain_arrays() | one_way()))
    saint = load(graphsaint(tmp_path / "Flickr", **{"adj_full.npz": one_way() | {"shape": np.array([4, 4])}}))
    for dataset in (npz, saint):
        assert dataset.graph.row_starts.tolist() == [0, 2, 2, 2, 2] and dataset.graph.columns.tolist() == [1, 3]


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"indices": None}, "has no array indices; it has indptr"),
        ({"y": None}, "has no array y"),
        ({"x_data": None}, "has no array x_data"),
        ({"indptr": np.array([0, 1, 3, 4, 5])}, "indptr goes from 0 to 5"),
        ({"indptr": np.array([0, 3, 1, 4, 4])}, "indptr falls at row 1"),
        ({"indptr": np.array([0.0, 1, 3, 4, 4])}, "indptr is 1-dimensional float64"),
        ({"indices": np.array([1, 0, 9, 1])}, "indices go from 0 to 9; accepted: 0 to 3"),
        ({"indices": np.array([1, 0, -2, 1])}, "indices go from -2"),
        ({"indices": np.array([[1, 0], [2, 1]])}, "indices is 2-dimensional"),
        ({"x_indices": np.array([2, 0, 3, 1])}, "x_indices go from 0 to 3; accepted: 0 to 2"),
        ({"x_shape": np.array([5, 3])}, "do not fit together"),
        ({"x_shape": np.array([4])}, "x_shape is"),
        ({"x_data": np.array([1.0, np.nan, 3.0, 4.0])}, "x_data holds a NaN"),
        ({"x_data": np.array(["a", "b", "c", "d"])}, "x_data is 1-dimensional <U1"),
        ({"y": np.array([0, 1, 1])}, "labels for 3 nodes, and the graph has 4"),
        (
            {"y": np.array([0, -1, 1, 1])},
            "the labels are not classes: torch.int64 from -1 to 1; accepted: integers",
        ),
        ({"y": np.array([0, 1, 1, 10**12])}, "the labels are not classes: .* to 1000000000000"),
        ({"y": np.array([[0], [1], [2], [1]])}, "not rows of zeros and ones: 2 is among them"),
        ({"y": np.array([[0, 1], [1, np.nan], [0, 0], [1, 1]])}, "not rows of zeros and ones: nan is among them"),
        ({"y": np.zeros((4, 0))}, "not rows of zeros and ones: they have no columns"),
        ({"x": np.zeros((4, 0))}, "there are no features"),
        ({"x": np.full((4, 2), 1e300)}, "x holds a NaN or an infinity, as float32"),
        ({"x_shape": np.array([4, 2**40])}, r"x_shape is \[4, 1099511627776\]; accepted: .* up to 16777216 features"),
        ({"y": np.array([0.5, 1, 1, 1])}, "y is float64"),
        ({"y": np.array([[["a"]]])}, "y is 3-dimensional"),
        (
            {"train_mask": np.ones(4)},
            r"train_mask is 1-dimensional float64, \[4\]; accepted: a bool for each of 4 nodes",
        ),
        ({"val_mask": np.array(list("abcd"))}, "val_mask is 1-dimensional <U1"),
        (
            {name: np.ones(3, bool) for name in MASKS},
            r"train_mask is 1-dimensional bool, \[3\]; accepted: a bool for each of 4",
        ),
        ({"train_mask": np.ones(4, bool)}, "there is no val_mask and no test_mask; accepted: all of"),
        ({name: np.arange(4) < 2 for name in MASKS}, "2 nodes, of them node 0, are for more than one of training"),
        (
            {"train_mask": np.ones(4, bool), "val_mask": np.ones(4, bool), "test_mask": np.zeros(4, bool)},
            "there are no nodes to test with",
        ),
        ({"indptr": np.array([0]), "indices": np.array([], int)}, "there are no nodes"),
    ],
)
def test_broken_arrays(tmp_path, changes, text):
    arrays = {name: array for name, array in (plain_arrays() | changes).items() if array is not None}
    with pytest.raises(GraphError, match=text) as raised:
        load(saved(tmp_path / "broken.npz", arrays))
    assert "broken" in str(raised.value)


def encrypted(content):
    """The file with the flag that says so."""
    content = bytearray(content)
    for start, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.find(start)
        while place >= 0:
            content[place + flags] |= 1
            place = content.find(start, place + 4)
    return bytes(content)


def member(content, name="indptr.npy"):
    """A zip file in which this stands in the place of the array indptr, or of another."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def array_of(shape):
    """The head of an .npy file, and no data."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": shape})
    return file.getvalue()


def test_broken_files(tmp_path):
    whole = CORA.read_bytes()
    for name, content in {
        "empty": b"",
        "cut": whole[: len(whole) // 2],
        "text": b"hello",
        "encrypted": encrypted(whole),
        "too large": member(array_of((1 << 50,))),
        "half a head": member(b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((( "),
        "flipped": whole[:2000] + bytes(b ^ 0x55 for b in whole[2000:2400]) + whole[2400:],
    }.items():
        path = tmp_path / f"{name}.npz"
        path.write_bytes(content)
        with pytest.raises(GraphError, match=f"{name}.npz cannot be read"):
            load(path)


def test_files_with_other_things(tmp_path):
    path = tmp_path / "g.npz"
    with path.open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(GraphError, match="g.npz holds one array without a name; accepted: what numpy.savez writes"):
        load(path)
    path.write_bytes(member(b"hello world"))
    with pytest.raises(GraphError, match="g.npz cannot be read: a member is not an array"):
        load(path)
    path.write_bytes(member(b"", "note.txt"))
    with pytest.raises(GraphError, match="g.npz has no array indptr; it has none"):
        load(path)
    folder = graphsaint(tmp_path / "Flickr")
    with (folder / "feats.npy").open("wb") as file:
        np.savez(file, x=np.ones((4, 2)))
    with pytest.raises(GraphError, match="feats.npy holds arrays with names; accepted: what numpy.save writes"):
        load(folder)


class Trap:
    """What runs code when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("foreign data was unpickled",))


def test_nothing_is_unpickled(tmp_path):
    arrays = plain_arrays() | {"y": np.array([Trap()] * 4, dtype=object)}
    with pytest.raises(GraphError, match="cannot be read: Object arrays cannot be loaded"):
        load(saved(tmp_path / "trap.npz", arrays))
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(GraphError, match="pickle.npz cannot be read"):
        load(tmp_path / "pickle.npz")


def test_unknown_names_and_folders(tmp_path):
    saved(tmp_path / "mine.npz", plain_arrays())
    with pytest.raises(GraphError, match=r"no graph 'nope'. Known by name: wordnet, .*flickr-like.*: mine\."):
        load("nope", tmp_path)
    with pytest.raises(GraphError, match="is a folder of no known format; accepted: GraphSAINT"):
        load(tmp_path)
    (tmp_path / "graph.csv").write_text("1,2")
    with pytest.raises(GraphError, match="graph.csv is not an .npz file"):
        load(tmp_path / "graph.csv")
    with pytest.raises(GraphError, match="a scale is for generated graphs"):
        load("mine", tmp_path, scale=0.5)


# ---- GraphSAINT ----


def graphsaint(folder, *, several=False, **changes):
    """A folder as SciPy and GraphSAINT write it."""
    folder.mkdir(exist_ok=True)
    features = np.array([[1.0, 5.0], [3.0, 5.0], [5.0, 5.0], [7.0, 9.0]])
    labels = {"0": [1, 0], "1": [0, 1], "2": [1, 1], "3": [0, 0]} if several else {"0": 0, "1": 1, "2": 2, "3": 1}
    files = {
        "adj_full.npz": {
            "indptr": np.array([0, 1, 3, 4, 4]),
            "indices": np.array([1, 0, 2, 1]),
            "data": np.ones(4),
            "shape": np.array([4, 4]),
            "format": np.array(b"csr"),
        },
        "feats.npy": features,
        "class_map.json": labels,
        "role.json": {"tr": [0, 1], "va": [2], "te": [3]},
    }
    for name, content in (files | changes).items():
        if content is None:
            continue
        if name.endswith(".npz"):
            np.savez(folder / name, **content)
        elif name.endswith(".npy"):
            np.save(folder / name, content)
        else:
            (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def no_edges(**changes):
    return {"indptr": np.zeros(5, int), "indices": np.array([], int), "shape": np.array([4, 4])} | changes


def test_graphsaint_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(graphsaint(tmp_path / "Flickr"))
    assert load(".").name == "flickr"
    dataset = load(graphsaint(tmp_path / "Flickr"))
    assert dataset.name == "flickr" and dataset.graph.num_edges == 4 and dataset.classes == 3
    assert (dataset.train.tolist(), dataset.validation.tolist(), dataset.test.tolist()) == ([0, 1], [2], [3])
    # By the training nodes: mean 2 and deviation 1; a feature that does not vary is only moved.
    assert dataset.features.tolist() == [[-1, 0], [1, 0], [3, 0], [5, 4]]
    several = load(graphsaint(tmp_path / "Yelp", several=True))
    assert several.multilabel and several.classes == 2 and several.labels.tolist()[2] == [1, 1]


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"role.json": None}, "role.json cannot be read"),
        ({"role.json": "{"}, "role.json cannot be read"),
        ({"role.json": "[1]"}, "role.json holds no JSON object"),
        ({"role.json": {"tr": [0], "va": [1]}}, "role.json: 'te' is not a list of nodes from 0 to 3"),
        ({"role.json": {"tr": [0], "va": [1], "te": [4]}}, "'te' is not a list"),
        ({"role.json": {"tr": [0], "va": [1], "te": [True]}}, "'te' is not a list"),
        ({"class_map.json": {"0": 1}}, "class_map.json has no class for node '1'"),
        ({"class_map.json": {"0": 1, "1": [0], "2": 1, "3": 1}}, r"node 1 has \[0\]; accepted"),
        ({"class_map.json": {"0": 1, "1": -1, "2": 1, "3": 1}}, "node 1 has -1"),
        ({"class_map.json": {"0": 10**30, "1": 1, "2": 1, "3": 1}}, "node 0 has 1000"),
        ({"class_map.json": '{"0": ' + "1" * 5000 + "}"}, "class_map.json cannot be read"),
        ({"role.json": {"tr": [0, 1], "va": [1], "te": [3]}}, "1 nodes, of them node 1, are for more than one of"),
        ({"class_map.json": {"0": [1, 0], "1": [1], "2": [1, 0], "3": [1, 0]}}, r"node 1 has \[1\]"),
        ({"feats.npy": None}, "feats.npy cannot be read"),
        ({"feats.npy": np.array([[Trap()]], dtype=object)}, "feats.npy cannot be read: Object arrays"),
        ({"feats.npy": np.zeros((3, 2))}, "features for 3 nodes, and the graph has 4"),
        ({"feats.npy": np.full((4, 2), np.inf)}, "holds a NaN or an infinity"),
        ({"adj_full.npz": {"indptr": np.array([0, 1]), "indices": np.array([0])}}, "has no array shape"),
        (
            {"adj_full.npz": {"indptr": np.array([0]), "indices": np.array([], int), "shape": np.array([0, 0])}},
            "adj_full.npz: there are no nodes",
        ),
        ({"adj_full.npz": no_edges(format=np.array(b"csc"))}, "is not in CSR form, but b'csc'"),
        ({"adj_full.npz": no_edges(format=np.array(["csr", "é"]))}, "is not in CSR form"),
        ({"adj_full.npz": no_edges(shape=np.array(4))}, "shape is 4, and indptr is for 4 rows"),
    ],
)
def test_broken_graphsaint_folders(tmp_path, changes, text):
    with pytest.raises(GraphError, match=text):
        load(graphsaint(tmp_path / "Flickr", **changes))


# ---- ogbn-products ----


def products(folder, **changes):
    files = {
        "raw/edge.csv.gz": "0,1\n1,2\n3,0\n",
        "raw/node-feat.csv.gz": "0.5,1\n-0.25,2\n1e-3,3\n0,4\n",
        "raw/node-label.csv.gz": "0\n1\n1\n2\n",
        "split/sales_ranking/train.csv.gz": "0\n1\n",
        "split/sales_ranking/valid.csv.gz": "2\n",
        "split/sales_ranking/test.csv.gz": "3\n",
    }
    for name, content in (files | changes).items():
        if content is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            data = content if isinstance(content, bytes) else gzip.compress(content.encode())
            (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("block", [1, 2, 7, 1000])
def test_the_files_of_ogbn_products(tmp_path, monkeypatch, block):
    monkeypatch.setattr(ogb, "_BLOCK", block)
    dataset = load(products(tmp_path / "products"))
    assert dataset.name == "ogbn-products" and dataset.graph.num_edges == 6
    assert dataset.graph.columns.tolist() == [1, 3, 0, 2, 1, 0]
    assert dataset.features[1].tolist() == [-0.25, 2] and dataset.labels.tolist() == [0, 1, 1, 2]
    assert (dataset.train.tolist(), dataset.test.tolist()) == ([0, 1], [3])


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"raw/node-feat.csv.gz": None}, "node-feat.csv.gz cannot be read"),
        ({"raw/node-feat.csv.gz": "1,2\n3\n"}, "node-feat.csv.gz cannot be read"),
        ({"raw/node-feat.csv.gz": "1\n2\nnan\n4\n"}, "node-feat.csv.gz: the table holds a NaN"),
        ({"raw/node-feat.csv.gz": "\n\n"}, "node-feat.csv.gz is empty"),
        ({"raw/node-label.csv.gz": "0\nx\n1\n2\n"}, "node-label.csv.gz cannot be read"),
        ({"raw/node-label.csv.gz": ""}, "node-label.csv.gz is empty"),
        ({"raw/edge.csv.gz": b"not gzip"}, "edge.csv.gz cannot be read"),
        ({"raw/edge.csv.gz": gzip.compress(b"0,1\n" * 1000)[:-9]}, "edge.csv.gz cannot be read"),
        ({"raw/edge.csv.gz": "0,9\n"}, "names nodes 0 to 9; accepted: 0 to 3"),
        ({"raw/edge.csv.gz": "0,1,2\n"}, "edge.csv.gz has 3 columns"),
        ({"split/sales_ranking/train.csv.gz": None}, "has no folder with train.csv.gz"),
        ({"split/sales_ranking/test.csv.gz": "4\n"}, "test.csv.gz names nodes 4 to 4; accepted: 0 to 3"),
    ],
)
def test_broken_files_of_ogbn_products(tmp_path, changes, text):
    with pytest.raises(GraphError, match=text):
        load(products(tmp_path / "products", **changes))


def test_products_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ogb", None)
    with pytest.raises(GraphError, match="pip install ogb"):
        load("ogbn-products", tmp_path)


# ---- WordNet ----

SYNSETS = {
    "noun": '00000010 03 n 01 thing 0 001 ~ 00000020 n 0000 | a thing that exists; "the thing\'s end"  \n'
    "00000020 05 n 02 animal 0 beast 0 003 @ 00000010 n 0000 + 00000010 v 0101 @ 00000010 n 0000 | a living thing\n",
    "verb": "00000010 38 v 01 move 0 001 + 00000020 n 0101 01 + 01 00 | change position, exists  \n",
    "adj": "00000030 00 s 01 alive 0 001 & 00000040 a 0000 | having life  \n"
    "00000040 00 a 01 living(p) 0 002 & 00000030 s 0000 ! 00000040 a 0101 | exists\n",
    "adv": "00000050 02 r 01 quickly 0 000 | with speed  \n",
}


def wordnet(folder, **changes):
    for part, text in (SYNSETS | changes).items():
        if text is not None:
            (folder / f"data.{part}").write_text(f"  1 This is the licence.\n{text}", encoding="latin-1")
    return folder


def test_a_small_wordnet(tmp_path):
    dataset = wordnet_files.build(wordnet(tmp_path))
    assert dataset.labels.tolist() == [3, 5, 38, 0, 0, 2]
    # Pointers count in both directions, once; those to the synset itself do not.
    assert dataset.graph.row_starts.tolist() == [0, 1, 3, 4, 5, 6, 6]
    assert dataset.graph.columns.tolist() == [1, 0, 2, 1, 4, 3]
    words = dataset.features.to_dense()[:, :3]  # exists (in three glosses), thing (two), end
    assert words.tolist() == [[1, 1, 1], [0, 1, 0], [1, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"adv": None}, "WordNet's file cannot be read: .*data.adv"),
        ({"adv": "00000050 02 r\n"}, "data.adv, line 2, is not a synset: '00000050 02 r'"),
        ({"adv": "00000050 02 r 01 quickly 0 003 ! 1 r 0000 | with speed\n"}, "data.adv, line 2, is not a synset"),
        ({"adv": "00000050 02 r 01 quickly 0 001 ! 9 r 0000 | with speed\n"}, "to a synset that is not there"),
        ({"adv": f"00000050 {10**20} r 01 quickly 0 000 | with speed\n"}, "line 2: the lexicographer file is 1000"),
        (dict.fromkeys(SYNSETS, ""), "there are no nodes"),
    ],
)
def test_a_broken_wordnet(tmp_path, changes, text):
    with pytest.raises(GraphError, match=text):
        wordnet_files.build(wordnet(tmp_path, **changes))


def test_wordnet_that_is_not_installed(tmp_path):
    with pytest.raises(GraphError, match="apt-get install wordnet-base"):
        wordnet_files.build(tmp_path / "none")


@pytest.mark.skipif(not wordnet_files.FOLDER.is_dir(), reason="WordNet is not installed (apt-get install wordnet-base)")
def test_the_real_wordnet():
    dataset = wordnet_files.build()
    assert (dataset.graph.num_nodes, dataset.graph.num_edges, dataset.classes) == (117659, 367578, 45)
    assert dataset.features.shape == (117659, 500)
    assert int(dataset.features.matrices[0].values().sum()) == 317388
    assert int(dataset.graph.row_starts.diff().max()) == 674
    assert dataset.labels.bincount()[:4].tolist() == [14435, 3661, 3621, 51]


# ---- Generated graphs ----


@pytest.mark.parametrize("name", ["flickr-like", "yelp-like", "reddit-like", "products-like"])
def test_generated_graphs(name, device):
    from rtopk.gnn.data.generated import SHAPES

    shape, scale = SHAPES[name], 0.002 if name == "reddit-like" else 0.005
    dataset = load(name, scale=scale, device=device)
    graph = dataset.graph
    assert graph.num_nodes == round(shape.nodes * scale)
    assert abs(graph.num_edges - shape.edges * scale) <= 2
    assert dataset.features.shape[1] == shape.features and dataset.classes == shape.classes
    assert graph.t_columns is graph.columns  # both directions of every edge
    rows = graph._rows()
    assert not (rows == graph.columns).any()
    degrees = graph.row_starts.diff().double()
    assert degrees.max() > 4 * degrees.mean()  # hubs
    assert degrees.max() < graph.num_edges / graph.num_nodes**0.5  # and no node to which most lead
    if not dataset.multilabel:
        same = (dataset.labels[rows] == dataset.labels[graph.columns.long()]).double().mean()
        assert 0.65 < same < 0.95  # most edges stay within a class
    again = load(name, scale=scale, device=device)
    assert again.graph.columns.equal(graph.columns) and again.features.equal(dataset.features)
    assert not load(name, scale=scale, seed=1, device=device).graph.columns.equal(graph.columns)


@pytest.mark.parametrize("scale", [0.0, -1.0, 1.5, float("nan"), 1e-9])
def test_scales_that_are_refused(scale):
    with pytest.raises(GraphError, match="flickr-like: the scale is"):
        load("flickr-like", scale=scale)
