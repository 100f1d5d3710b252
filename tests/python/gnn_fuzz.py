"""Fuzzes every reader of rtopk.gnn: graphs of every format, checkpoints, results of studies.

    gnn_fuzz.py --count N --seed S [--first I]     attempts I to I + N - 1

Each attempt changes a good file, or several of a folder, and reads it. It must end with the package's own error in one
line, or with something that a training step, or a page, can be made from. Prints how many ended how; the first attempt
that ends otherwise ends all, with the command that repeats it. Attempts run in forked children, so that a crash is seen
and has a number.
"""

import argparse
import collections
import copy
import gzip
import io
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

if "RTOPK_TEST_SITE" in os.environ:
    sys.path.insert(0, os.environ["RTOPK_TEST_SITE"])
sys.path.append(str(Path(__file__).resolve().parents[2] / "paper" / "gnn"))

import numpy as np
import torch

import forks
import grid
from rtopk.gnn import GraphError, load
from rtopk.gnn.data import wordnet
from rtopk.gnn.recipe import Recipe, TrainingError, recipe_for
from rtopk.gnn.training import Trainer

NODES = 12
BATCH = 100  # attempts of a child
SECONDS = 600  # that a batch may take, on a busy machine
MEMORY = 6 << 30  # bytes of address space

INTEGERS = [0, 1, -1, 2, 127, -128, 255, 2**31 - 1, 2**31, -(2**31), 2**32, 2**62, -(2**62), 2**62 + 2**31 - 1]
INTEGERS += [2**63 - 1, -(2**63), 10**6]
FLOATS = [0.0, -0.0, 1.0, 1e-300, 1e300, 3e38, 1e-45, float("nan"), float("inf"), -float("inf")]
TEXTS = ["", "x", "\x1b]0;t\x07", "\ud800", "é", "9" * 5000, "1e999", "max_iter 3", "../../x", "NaN", "a\nb"]
DTYPES = [
    "<i1",
    "<i2",
    "<i4",
    ">i4",
    "<i8",
    ">i8",
    "<u1",
    "<u4",
    "<u8",
    ">u8",
    "<f2",
    "<f4",
    ">f4",
    "<f8",
    "bool",
    "<c8",
]
DTYPES += ["<U3", "S3", "datetime64[s]", "O", [("a", "<i4"), ("b", "<f4")]]


# ---- Changes of bytes ----


def bytes_changed(rng, content):
    content = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8])):
        place = rng.randrange(len(content) + 1)
        span = rng.choice([1, 2, 4, 8, 40])
        way = rng.randrange(5)
        if way == 0 and content:
            content[place % len(content)] ^= 1 << rng.randrange(8)
        elif way == 1:
            content[place : place + span] = rng.randbytes(span)
        elif way == 2:
            del content[place : place + span]
        elif way == 3:
            content[place:place] = content[place : place + span]
        else:
            content[place : place + span] = rng.choice([b"\0", b"\xff"]) * span
    if rng.random() < 0.2:
        del content[rng.randrange(len(content) + 1) :]
    return bytes(content)


def text_changed(rng, text):
    """One word of a text."""
    words = text.replace(",", " , ").replace("\n", " \n ").split(" ")
    for _ in range(rng.choice([1, 1, 3])):
        words[rng.randrange(len(words))] = str(rng.choice([*INTEGERS, *FLOATS, *TEXTS, "\n", ",", "#"]))
    return " ".join(words).replace(" , ", ",").replace(" \n ", "\n")


# ---- Changes of values ----


def value(rng):
    """Anything that a file of JSON or a checkpoint can hold."""
    return rng.choice(
        [*INTEGERS, *FLOATS, *TEXTS, None, True, False, [], {}, [[]], {"a": 1}, 10**30, 10**400, [1e300], [0] * 1000]
    )


def tensor(rng):
    shape = rng.choice([(), (0,), (1,), (3,), (4, 4), (NODES, 5), (5056,)])
    kind = rng.choice([torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.complex64])
    made = torch.full(shape, rng.choice([0, 1, 255, 7])).to(kind)
    way = rng.randrange(8)
    if way == 0:
        return made.to("meta")
    if way == 1 and made.dim() == 2:
        return made.to_sparse()
    if way == 2:
        return torch.zeros((), dtype=kind).expand(shape)
    if way == 3 and made.dim() == 2:
        starts, columns = torch.tensor([0, 2**40, *[1] * (shape[0] - 1)]), torch.tensor([-5])
        return torch.sparse_csr_tensor(starts, columns, torch.ones(1), shape, check_invariants=False)
    return made


def places(content, place=()):
    yield place
    if isinstance(content, (dict, list)):
        for name in content if isinstance(content, dict) else range(len(content)):
            yield from places(content[name], (*place, name))


def value_changed(rng, content, draw):
    """The content with another value, one left out, or one more, somewhere."""
    content = copy.deepcopy(content)
    for _ in range(rng.choice([1, 1, 2])):
        place = rng.choice(list(places(content)))
        if not place:
            if rng.random() < 0.1:
                return draw(rng)
            continue
        *names, last = place
        inner = content
        for name in names:
            inner = inner[name]
        way = rng.randrange(6)
        if way == 0:
            del inner[last]
        elif way == 1 and isinstance(inner, dict):
            inner[rng.choice(TEXTS)] = draw(rng)
        elif way == 2 and isinstance(inner[last], torch.Tensor) and inner[last].numel():
            changed = inner[last].clone().flatten()
            changed[rng.randrange(changed.numel())] = rng.choice([0, 1, 7, 255])
            inner[last] = changed.reshape(inner[last].shape)
        else:
            inner[last] = draw(rng)
    return content


# ---- Changes of arrays ----


def array_changed(rng, array):
    try:
        return _array_changed(rng, array)
    except (ValueError, TypeError, OverflowError):
        return np.zeros(0)  # numpy has no such thing


def _array_changed(rng, array):
    way = rng.randrange(8)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if way == 0:
            kind = rng.choice(DTYPES)
            return array.astype(kind) if kind != "O" else np.array([object()] * 2, dtype=object)
        if way == 1:
            return np.resize(
                array, rng.choice([(), (0,), (1,), (NODES - 1,), (NODES + 2,), (3, 4), (2, 2, 2), (NODES, 1)])
            )
        if way == 2 and array.ndim:
            return array[: rng.randrange(len(array) + 1)]
        if way == 3:
            return np.asfortranarray(array)
        if way == 4 and array.dtype.kind in "iu" and array.ndim == 1 and len(array) > 3:
            changed = array.astype(np.int64)
            at = rng.randrange(1, len(changed) - 2)
            changed[at : at + 2] = [2**62 + 2**31 - 1, -(2**62)]
            return changed
        changed = array.copy()
        for _ in range(rng.choice([1, 2, 5]) if changed.size else 0):
            new = rng.choice(FLOATS if changed.dtype.kind == "f" else INTEGERS)
            flat = changed.reshape(-1)
            flat[rng.randrange(flat.size)] = np.array(new).astype(changed.dtype)
        return changed


def arrays_changed(rng, arrays):
    arrays = dict(arrays)
    for _ in range(rng.choice([1, 1, 1, 2])):
        name = rng.choice(list(arrays))
        way = rng.randrange(10)
        if way == 0:
            del arrays[name]
        elif way == 1:
            arrays[rng.choice(["extra", *TEXTS[1:5]])] = arrays[name]
        elif way == 2:
            arrays[name] = arrays[rng.choice(list(arrays))]
        else:
            arrays[name] = array_changed(rng, arrays[name])
        if not arrays:
            break
    return arrays


def npy_bytes(rng, array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    content = file.getvalue()
    if rng.random() < 0.02:  # what the header says
        start, end = 10, content.index(b"\n") if b"\n" in content else len(content)
        text = content[start:end].decode("latin-1")
        old, new = rng.choice(
            [("(", "(9, "), ("False", "True"), ("<i8", "<f8"), (",)", f", {2**61},)"), ("'", ""), ("<", ">")]
        )
        text = text.replace(old, new, 1)[: end - start].ljust(end - start)
        content = content[:start] + text.encode("latin-1") + content[end:]
    return content


def npz_bytes(rng, arrays):
    file = io.BytesIO()
    compression = rng.choice([zipfile.ZIP_STORED, *[zipfile.ZIP_DEFLATED] * 30, zipfile.ZIP_BZIP2])
    with zipfile.ZipFile(file, "w", compression) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, array in arrays.items():
            member, name = npy_bytes(rng, array), f"{name}.npy".replace("\ud800", "?")
            for _ in range(2 if rng.random() < 0.02 else 1):
                archive.writestr(zipfile.ZipInfo(name), member, compression)
    content = file.getvalue()
    if rng.random() < 0.05:  # two entries of the directory lead to one place
        first = content.find(b"PK\x01\x02")
        second = content.find(b"PK\x01\x02", first + 4)
        if second > 0:
            content = content[: second + 42] + content[first + 42 : first + 46] + content[second + 46 :]
    return bytes_changed(rng, content) if rng.random() < 0.15 else content


# ---- Good files ----


def good_arrays(rng, sparse):
    numbers = np.random.default_rng(rng.randrange(2**32))
    degrees = numbers.integers(0, 4, NODES)
    indptr = np.concatenate([[0], degrees.cumsum()])
    arrays = {"indptr": indptr, "indices": numbers.integers(0, NODES, indptr[-1]), "y": np.arange(NODES) % 3}
    if sparse:
        counts = numbers.integers(0, 3, NODES)
        starts = np.concatenate([[0], counts.cumsum()])
        arrays |= {"x_shape": np.array([NODES, 5]), "x_indptr": starts}
        arrays |= {"x_indices": numbers.integers(0, 5, starts[-1]), "x_data": numbers.random(starts[-1], np.float32)}
    else:
        arrays["x"] = numbers.random((NODES, 5), np.float32)
        part = np.arange(NODES) % 3
        arrays |= {name: part == i for i, name in enumerate(("train_mask", "val_mask", "test_mask"))}
    if rng.random() < 0.3:
        arrays["y"] = numbers.integers(0, 2, (NODES, 3)).astype(rng.choice(["<f4", "<i8", "bool"]))
    return arrays


def step_on(dataset):
    """One step, if the network would be of a sensible size."""
    if dataset.features.shape[1] > 4096 or dataset.classes > 4096:
        return
    recipe = Recipe(model="gcn" if dataset.graph.num_edges % 2 else "sage", hidden=4, k=2, layers=1, epochs=1)
    trainer = Trainer(dataset, recipe, "cpu")
    trainer.evaluate(trainer.step())


def fuzz_npz(rng, folder):
    arrays = arrays_changed(rng, good_arrays(rng, rng.random() < 0.5))
    (folder / "g.npz").write_bytes(npz_bytes(rng, arrays))
    step_on(load(folder / "g.npz"))


def fuzz_graphsaint(rng, folder):
    arrays = good_arrays(rng, False)
    adjacency = {"indptr": arrays["indptr"], "indices": arrays["indices"], "data": np.ones(len(arrays["indices"]))}
    adjacency |= {"shape": np.array([NODES, NODES]), "format": np.array(b"csr")}
    several = arrays["y"].ndim == 2
    labels = {str(node): [int(bit) for bit in row] if several else int(row) for node, row in enumerate(arrays["y"])}
    roles = {role: list(range(i, NODES, 3)) for i, role in enumerate(("tr", "va", "te"))}
    changed = rng.randrange(4)
    if changed == 0:
        adjacency = arrays_changed(rng, adjacency)
    features = array_changed(rng, arrays["x"]) if changed == 1 else arrays["x"]
    files = {"class_map.json": labels, "role.json": roles}
    if changed >= 2:
        name = list(files)[changed - 2]
        files[name] = value_changed(rng, files[name], value)
    (folder / "adj_full.npz").write_bytes(npz_bytes(rng, adjacency) if changed == 0 else plain_npz(adjacency))
    feats = npy_bytes(rng, features)
    (folder / "feats.npy").write_bytes(bytes_changed(rng, feats) if changed == 1 and rng.random() < 0.3 else feats)
    for name, content in files.items():
        text = json.dumps(content).encode()
        (folder / name).write_bytes(bytes_changed(rng, text) if changed >= 2 and rng.random() < 0.2 else text)
    step_on(load(folder))


def fuzz_reddit(rng, folder):
    arrays = good_arrays(rng, False)
    data = {"feature": arrays["x"], "label": np.arange(NODES) % 4, "node_types": 1 + np.arange(NODES) % 3}
    graph = {"shape": np.array([NODES, NODES]), "data": np.ones(len(arrays["indices"]))}
    if rng.random() < 0.5:
        rows = np.repeat(np.arange(NODES), np.diff(arrays["indptr"]))
        graph |= {"row": rows, "col": arrays["indices"], "format": np.array(b"coo")}
    else:
        graph |= {"indptr": arrays["indptr"], "indices": arrays["indices"], "format": np.array(b"csr")}
    first = rng.random() < 0.5
    data, graph = (arrays_changed(rng, data), graph) if first else (data, arrays_changed(rng, graph))
    (folder / "reddit_data.npz").write_bytes(npz_bytes(rng, data) if first else plain_npz(data))
    (folder / "reddit_graph.npz").write_bytes(plain_npz(graph) if first else npz_bytes(rng, graph))
    step_on(load(folder))


def plain_npz(arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def fuzz_products(rng, folder):
    files = {
        "raw/edge.csv.gz": "\n".join(f"{rng.randrange(NODES)},{rng.randrange(NODES)}" for _ in range(20)),
        "raw/node-feat.csv.gz": "\n".join(f"{rng.random()},{rng.random()}" for _ in range(NODES)),
        "raw/node-label.csv.gz": "\n".join(str(node % 3) for node in range(NODES)),
    }
    for i, name in enumerate(("train", "valid", "test")):
        files[f"split/time/{name}.csv.gz"] = "\n".join(map(str, range(i, NODES, 3)))
    broken = rng.choice(list(files))
    for name, text in files.items():
        text = text_changed(rng, text) if name == broken else text
        content = gzip.compress(text.encode(errors="replace"), 1)
        if name == broken and rng.random() < 0.2:
            content = bytes_changed(rng, content)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    step_on(load(folder))


def fuzz_wordnet(rng, folder):
    line = "0000001{} 03 {} 01 thing 0 001 ~ 0000001{} {} 0000 | a thing that exists\n"
    texts = {
        part: "".join(line.format(n, part[0], (n + 1) % 4, part[0]) for n in range(4))
        for part in ("noun", "verb", "adj", "adv")
    }
    texts = {part: text.replace(" r ", " r ").replace("adv"[0] + " 01", "a 01") for part, text in texts.items()}
    texts["adv"] = texts["adv"].replace(" a ", " r ")
    broken = rng.choice(list(texts))
    for part, text in texts.items():
        content = (text_changed(rng, text) if part == broken else text).encode("latin-1", errors="replace")
        if part == broken and rng.random() < 0.2:
            content = bytes_changed(rng, content)
        (folder / f"data.{part}").write_bytes(content)
    step_on(wordnet.build(folder))


def tiny_trainer():
    dataset = load(Path(__file__).parent.parent / "data" / "cora.npz")
    return Trainer(dataset, Recipe(hidden=4, k=2, layers=1, epochs=4), "cpu")


_made = {}  # in a child: what several attempts start from


def fuzz_checkpoint(rng, folder):
    if not _made:
        trainer = _made["trainer"] = tiny_trainer()
        for _ in range(2):
            trainer.evaluate(trainer.step())
        _made["bytes"] = bytes(trainer.checkpoint())
        _made["content"] = torch.load(io.BytesIO(_made["bytes"]), weights_only=True)
    way, path = rng.randrange(4), folder / "checkpoint.pt"
    if way == 0:
        path.write_bytes(bytes_changed(rng, _made["bytes"]))
    elif way == 1:  # a pickle that is whole as a member of its archive
        with zipfile.ZipFile(io.BytesIO(_made["bytes"])) as good, zipfile.ZipFile(path, "w") as archive:
            for name in good.namelist():
                content = good.read(name)
                archive.writestr(name, bytes_changed(rng, content) if name.endswith("data.pkl") else content)
    else:
        draw = tensor if rng.random() < 0.4 else value
        torch.save(value_changed(rng, _made["content"], draw), path)
    trainer = _made["trainer"]
    trainer.resume(path)
    trainer.step()


def fuzz_results(rng, folder):
    recipe = recipe_for("g", "sage", seed=0)
    entries = []
    for changes in ({"baseline": "dense"}, {}, {"max_iter": 3, "rule": "printed"}):
        recipe = recipe_for("g", "gcn", **changes)
        entries.append({"graph": "g", "selection": recipe.selection, "recipe": vars(recipe)})
    content = {
        "environment": {"device": "cpu", "torch": "2", "date": "2025-01-01"},
        "graphs": {"g": {"nodes": 4, "edges": 4, "metric": "accuracy"}},
        "timings": [entry | {"step_ms": 2.5, "topk_ms": 0.25, "step_mib": 3} for entry in entries],
        "runs": [entry | {"best": {"test": 0.5}, "seconds": 1.0} for entry in entries * 2],
    }
    text = json.dumps(value_changed(rng, content, value)).encode()
    (folder / "results.json").write_bytes(bytes_changed(rng, text) if rng.random() < 0.2 else text)
    grid.draw(folder)


KINDS = (
    fuzz_npz,
    fuzz_npz,
    fuzz_graphsaint,
    fuzz_reddit,
    fuzz_products,
    fuzz_wordnet,
    fuzz_checkpoint,
    fuzz_checkpoint,
    fuzz_results,
)


# ---- Attempts ----


def attempt(seed, number, folder):
    """How it ended: the kind of file, and "good" or "refused"."""
    rng = random.Random(f"{seed}:{number}")
    function = rng.choice(KINDS)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    kind = function.__name__.removeprefix("fuzz_")
    try:
        function(rng, folder)
    except (GraphError, TrainingError) as error:
        text = str(error)
        assert text and text.isprintable() and len(text) < 3000, text
        return kind, "refused"
    return kind, "good"


def batch(seed, numbers, folder):
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.filterwarnings("ignore", message="Sparse", category=UserWarning)
    counts = collections.Counter()
    for number in numbers:
        (folder / "attempt").write_text(str(number))
        counts[" ".join(attempt(seed, number, folder / "files"))] += 1
    (folder / "counts").write_text(json.dumps(counts))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    counts = collections.Counter()
    end = arguments.first + arguments.count
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        folder = Path(name)
        for start in range(arguments.first, end, BATCH):
            numbers = range(start, min(start + BATCH, end))
            ended = forks.run(lambda: batch(arguments.seed, numbers, folder), folder, timeout=SECONDS)  # noqa: B023
            if ended.status != 0:
                number = (folder / "attempt").read_text()
                print(ended.output)
                again = f"--seed {arguments.seed} --first {number} --count 1"
                print(f"attempt {number} ended with {ended.status}; again: {again}")
                return 1
            counts.update(json.loads((folder / "counts").read_text()))
    print(f"{arguments.count} attempts: {json.dumps(dict(sorted(counts.items())))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
