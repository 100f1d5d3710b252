"""What `import rtopk` brings, and what works where a part is missing."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rtopk

SITE = str(Path(rtopk.__file__).parents[1])


def run(code, *hidden, tmp_path=None):
    """Runs a script in a process of its own, in which some modules cannot be imported."""
    for name in hidden:
        (tmp_path / f"{name}.py").write_text(
            f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')\n"
        )
    folders = [str(tmp_path)] * bool(hidden) + [SITE]
    script = f"import sys; sys.path[:0] = {folders!r}\n{code}"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)


def printed(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def error_of(done):
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


def test_no_framework_comes_with_it():
    code = """
import json
before = set(sys.modules)
import rtopk
first = sorted(set(sys.modules) - before)
rtopk.__version__, dir(rtopk), rtopk.__all__
json.dump([first, sorted(set(sys.modules) - before - set(first))], sys.stdout)
"""
    first, later = printed(run(code))
    ours = [name for name in first if name.startswith("rtopk")]
    assert ours == ["rtopk", "rtopk._version"]
    # What Python itself has: importlib's own modules.
    assert not {name.split(".")[0] for name in first} - sys.stdlib_module_names - {"rtopk"}
    assert len(first) <= 8, first
    assert later == []


def test_arrays_bring_no_framework_either():
    code = """
import json, numpy
before = set(sys.modules)
import rtopk
assert rtopk.top_k(numpy.array([3.0, 1.0, 2.0]), 2).indices.tolist() == [0, 2]
json.dump(sorted({name.split(".")[0] for name in set(sys.modules) - before}), sys.stdout)
"""
    new = set(printed(run(code))) - set(sys.stdlib_module_names)
    assert {"rtopk", "nanobind_backend"} <= new
    assert not new & {"torch", "jax", "cupy", "ml_dtypes"}


def test_without_torch(tmp_path):
    code = """
import json, numpy, rtopk
facts = rtopk.info()
json.dump([facts, rtopk.top_k(numpy.array([3.0, 1.0, 2.0]), 2).indices.tolist()], sys.stdout)
"""
    facts, found = printed(run(code, "torch", tmp_path=tmp_path))
    assert found == [0, 2]
    assert facts["torch"] is facts["torch_cuda"] is None
    assert facts["arrays"] == "usable" and facts["operators"] == "No module named 'torch'"
    assert facts["version"] == rtopk.__version__ and facts["cpu_targets"]
    for name in ("topk", "nn", "accelerate", "moe"):
        assert error_of(run(f"import rtopk; rtopk.{name}", "torch", tmp_path=tmp_path)) == (
            f"ModuleNotFoundError: rtopk.{name} needs torch, which is not installed: pip install torch"
        )


def test_without_numpy(tmp_path):
    """Lists need it, and say so."""
    code = """
import json, rtopk
assert "numpy" not in sys.modules
try:
    rtopk.top_k([1.0], 1)
except TypeError as error:
    json.dump(str(error), sys.stdout)
"""
    text = printed(run(code, "numpy", tmp_path=tmp_path))
    assert text == "a is of type list; accepted: an array, or what numpy.asarray takes, but numpy is not installed"


def hide(module):
    """Python code that makes one of the package's own modules missing, as where it was not built."""
    return f"""
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""


def test_without_the_module_for_arrays():
    pytest.importorskip("torch")
    pytest.importorskip("rtopk._library")
    code = """
import json, torch, rtopk
assert rtopk.topk(torch.tensor([3.0, 1.0, 2.0]), 2).indices.tolist() == [0, 2]
facts = rtopk.info()
try:
    rtopk.top_k
except ImportError as error:
    json.dump([facts, str(error)], sys.stdout)
"""
    facts, text = printed(run(hide("rtopk._native") + code))
    assert facts["arrays"] == "No module named 'rtopk._native'" and facts["operators"] == "usable"
    assert text.startswith("rtopk.top_k needs the module rtopk._native, which was left out")


def test_without_the_backend_of_the_module(tmp_path):
    done = run("import rtopk; rtopk.top_k", "nanobind_backend", tmp_path=tmp_path)
    assert "nanobind" in error_of(done) and error_of(done).startswith(("ModuleNotFoundError", "ImportError"))


def test_without_the_operators():
    """torch is there, and the operators were left out: rtopk was installed before it."""
    pytest.importorskip("torch")
    code = """
import json, pathlib
exists = pathlib.Path.exists
pathlib.Path.exists = lambda self, **options: self.name != "librtopk_torch.so" and exists(self, **options)
import numpy, rtopk
facts = rtopk.info()
try:
    rtopk.topk
except ImportError as error:
    json.dump([facts, str(error)], sys.stdout)
"""
    facts, text = printed(run(code))
    assert "left out when it was built" in text and "install rtopk again from its sources" in text
    assert facts["arrays"] == "usable" and facts["operators"] == text
    assert facts["torch"] is not None


def test_a_build_without_highway_warns_once():
    code = """
import json, warnings
from rtopk import _native
text = _native.build_text().replace("highway=1", "highway=0")
_native.build_text = lambda: text
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import numpy, rtopk
    for _ in range(2):
        rtopk.top_k(numpy.zeros(3), 1)
        rtopk.top_k_mask(numpy.zeros(3), 1)
json.dump([[str(each.message), each.filename] for each in caught], sys.stdout)
"""
    ((text, file),) = printed(run(code))
    assert "built without Highway" in text and file == "<string>"


def test_info_names_the_package(tmp_path):
    from rtopk._info import _package

    assert _package(tmp_path) == "not installed by pip"
    for name, folder in (("rtopk-cu13", "rtopk_cu13-1.2.dist-info"), ("rtopk", "rtopk-1.3.dist-info")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "METADATA").write_text(f"Name: {name}\nVersion: {folder[-13:-10]}\n")
    assert _package(tmp_path) == (
        "rtopk 1.3 and rtopk-cu13 1.2 are both installed, and have the same files: pip uninstall rtopk rtopk-cu13, then"
        " install one of them"
    )
    (tmp_path / "rtopk-1.3.dist-info" / "METADATA").unlink()
    (tmp_path / "rtopk-1.3.dist-info").rmdir()
    assert _package(tmp_path) == "rtopk-cu13 1.2"


def test_info_knows_jax_without_importing_it():
    code = """
import json, rtopk
first = rtopk.info()
assert "jax" not in sys.modules
try:
    import jax
    second = rtopk.info()
except ModuleNotFoundError:
    second = None
json.dump([first, second], sys.stdout)
"""
    first, second = printed(run(code))
    if second is None:
        assert first["jax"] is None and first["jax_calls"] in ("jax is not installed", "rtopk was built without JAX")
        return
    assert first["jax"] == second["jax"] is not None
    if first["jax_calls"] == "rtopk was built without JAX":
        assert second["jax_calls"].startswith("rtopk was built without JAX")
    else:
        assert first["jax_calls"] == "loaded by rtopk.jax" and second["jax_calls"] == "usable"


def test_advice_never_puts_one_package_over_the_other():
    """Whoever has rtopk-cu13 must not be told to install rtopk, nor its extras."""
    found = []
    for file in Path(rtopk.__file__).parent.rglob("*.py"):
        text = re.sub(r'"\s+f?"', "", file.read_text())  # texts over several lines
        found += [advice.strip(" '") for advice in re.findall(r"pip install ([^;,()`\"]*)", text)]
    assert "rtopk-cu13" in found
    assert not [each for each in found if re.search(r"\brtopk\b(?!-cu13)", each)]


def test_what_the_build_says():
    from rtopk import _native

    facts = dict(line.split("=", 1) for line in _native.build_text().splitlines())
    assert list(facts) == ["version", "cuda", "cuda_architectures", "highway", "cpu_target", "cpu_targets"]
    assert facts["version"] == rtopk.__version__
    assert bool(facts["cuda_architectures"]) == (facts["cuda"] == "1")
    if facts["cuda"] == "0":
        with pytest.raises(NotImplementedError, match="this build has no CUDA backend"):
            _native.compute_capability(0)


def test_the_module_uses_the_stable_interface_of_python():
    """One binary for every Python since 3.10: its name says so, and it takes nothing that later ones added."""
    from rtopk import _native

    assert Path(_native.__file__).name == "_native.abi3.so"
