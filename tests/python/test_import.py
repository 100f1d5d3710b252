"""What an import costs: rtopk brings little that torch has not brought already."""

import ast
import graphlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import rtopk

SITE = str(Path(rtopk.__file__).parents[1])


def new_modules(*names):
    """The modules that these imports bring, beside torch and all that it brings."""
    code = f"""
import json, sys
sys.path.insert(0, {SITE!r})
import torch
before = set(sys.modules)
for name in sys.argv[1:]:
    __import__(name)
json.dump(sorted(set(sys.modules) - before), sys.stdout)
"""
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout)


@pytest.mark.parametrize("names, most", [(["rtopk"], 20), (["rtopk", "rtopk.gnn.cli"], 100)])
def test_few_modules_come_with_it(names, most):
    """Of torch's own none that is as large as torch._dynamo, which has 800 of them and takes seconds."""
    modules = new_modules(*names)
    assert set(names) <= set(modules)
    assert not [
        name for name in modules if name.startswith(("torch._dynamo", "torch._inductor", "torch.onnx", "sympy"))
    ]
    assert len(modules) <= most, modules


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_the_graph_package_says_what_it_needs(tmp_path, name):
    (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')")
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {SITE!r}]; import rtopk.gnn"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: rtopk.gnn needs {name}, which is not installed: pip install {name}"
    )


def statements(tree):
    """All nodes but those that type checkers alone read."""
    if isinstance(tree, ast.If) and isinstance(tree.test, ast.Name) and tree.test.id == "TYPE_CHECKING":
        return
    yield tree
    for child in ast.iter_child_nodes(tree):
        yield from statements(child)


def imports():
    """Of each module of the package, those that its import statements name."""
    package = Path(rtopk.__file__).parent
    files = {}
    for path in package.rglob("*.py"):
        parts = [package.name, *path.relative_to(package).with_suffix("").parts]
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    for name, path in files.items():
        of = set()
        for node in statements(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                above = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
                base = ".".join(above[: len(above) - node.level + 1] + ([node.module] if node.module else []))
                of |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in files else base for alias in node.names}
        yield name, of


def test_no_module_imports_itself_through_others():
    graph = dict(imports())
    assert {"rtopk._topk", "rtopk.gnn.data.npz", "rtopk.gnn.training.trainer"} <= set(graph)
    graphlib.TopologicalSorter(graph).prepare()  # raises a CycleError
