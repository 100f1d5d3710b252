"""The package as its users find it: what it says of itself, its documentation, its binary."""

import doctest
import importlib.util
import inspect
import re
import shutil
import subprocess
import sys
import types
import typing
from pathlib import Path

import pytest
import torch

import rtopk
from rtopk import (
    _accelerate,
    _arrays,
    _compact,
    _info,
    _library,
    _maxk,
    _paged,
    _results,
    _segments,
    _topk,
    moe,
    nn,
    pyg,
    serving,
)
from stable_symbols import by_owner, owner_of, undefined_symbols

ROOT = Path(__file__).resolve().parents[2]


def test_the_version_is_the_librarys():
    header = (ROOT / "include" / "rtopk" / "rtopk.hpp").read_text()
    numbers = re.findall(r"#define RTOPK_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header)
    assert rtopk.__version__ == ".".join(numbers) == rtopk.info()["version"]


def test_info():
    info = rtopk.info()
    assert info["torch"] == torch.__version__
    assert isinstance(info["cuda_built"], bool) and isinstance(info["cuda"], str)
    assert info["cpu_target"] in info["cpu_targets"] or not info["highway"]


@pytest.mark.parametrize(
    "built, torch_cuda, says",
    [
        (True, None, "built with CUDA, and this torch has none"),
        (False, "13.0", "rtopk was built without: CPU tensors only; for GPUs take the package that has it"),
        (False, None, "neither"),
    ],
)
def test_info_explains_a_mixture(built, torch_cuda, says, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", torch_cuda)
    assert says in _info._cuda_of_torch(built, torch)


@pytest.mark.skipif(rtopk.info()["cuda_built"] or not torch.cuda.is_available(), reason="no GPU, or rtopk can use it")
def test_a_build_without_cuda_says_so():
    with pytest.raises(RuntimeError, match="built without CUDA"):
        rtopk.topk(torch.randn(3, device="cuda"), 1)


def test_public_names_are_documented_and_typed():
    missing = {"jax"} if importlib.util.find_spec("jax") is None else set()
    for name in sorted(set(rtopk.__all__) - missing):
        thing = getattr(rtopk, name)
        if callable(thing):
            assert ">>>" in thing.__doc__ or name in ("CBSR", "TopK"), name
            for parameter in inspect.signature(thing).parameters.values():
                assert parameter.annotation is not inspect.Parameter.empty, f"{name}({parameter.name})"
    assert (Path(rtopk.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize("name", ["topk", "top_k", "top_k_mask", "top_k_dense", "top_k_compact"])
def test_the_reference_has_the_signature(name):
    """Written down there: Sphinx does not read one that a function was given."""
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    (written,) = re.findall(rf"autofunction:: {name}\((.*)\)", page)
    shown = inspect.signature(getattr(rtopk, name))
    parameters = [each.replace(annotation=inspect.Parameter.empty) for each in shown.parameters.values()]
    shown = shown.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    assert written == str(shown)[1:-1].replace("'", '"')


MODULES = [
    rtopk, _accelerate, _arrays, _compact, _info, _maxk, _paged, _results, _segments, _topk, moe, nn, pyg, serving,
]  # fmt: skip


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_in_docstrings(module):
    outcome = doctest.testmod(module, extraglobs={"torch": torch, "rtopk": rtopk})
    assert outcome.failed == 0 and outcome.attempted > 0


PAGES = [
    page
    for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
    if "```python\n" in page.read_text() and page.name != "jax.md"  # which tests/jax runs
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples_in_documents(page, tmp_path):
    """All of a page's Python blocks, as one script, as typed."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    script = f"import sys\nsys.path.insert(0, {str(Path(rtopk.__file__).parents[1])!r})\n" + "\n".join(blocks)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr


# ---- The binary ----


def test_the_binary_takes_stable_symbols_alone():
    owners = by_owner(undefined_symbols(_library.PATH))
    assert owners.get(None, []) == []
    assert owners["torch's stable ABI"]


def test_the_binary_needs_torch_the_runtimes_and_what_lies_beside_it():
    dynamic = subprocess.run(["readelf", "-d", str(_library.PATH)], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
    runtimes = r"lib(stdc\+\+|gcc_s|m|c|pthread|dl|rt)\.so\.\d+|ld-linux.*"
    others = [name for name in needed if name != "libtorch.so" and not re.fullmatch(runtimes, name)]
    assert "libtorch.so" in needed
    # librtopk, where it is shared; Highway's, where the build had only the system's shared one and no network.
    assert [name for name in others if not (_library.PATH.parent / name).is_file()] == []


def test_the_binary_exports_nothing_of_ours():
    names = subprocess.run(
        ["nm", "--dynamic", "--defined-only", "--format=posix", str(_library.PATH)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "rtopk" not in names


@pytest.mark.parametrize(
    "symbol, stable",
    [
        ("aoti_torch_empty_strided", True),
        ("torch_library_impl", True),
        ("_ZNSt13runtime_errorC1EPKc", True),
        ("_ZTISt13runtime_error", True),
        ("_Znwm", True),
        ("malloc", True),
        ("_ZN3hwy16SupportedTargetsEv", True),
        ("_ZN3c105ErrorD1Ev", False),
        ("_ZN2at4topkERKNS_6TensorElbb", False),
        ("_ZNK2at10TensorBase8is_denseEv", False),
        ("_ZN5torch7LibraryD1Ev", False),
        ("_ZTIN3c105ErrorE", False),
        ("_ZN8pybind116objectD1Ev", False),
        ("PyObject_Call", False),
        ("_PyObject_New", False),
        ("cudaMalloc", False),
    ],
)
def test_the_check_of_symbols_is_able_to_object(symbol, stable):
    assert (owner_of(symbol) is not None) == stable


def test_missing_and_old_parts_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(_library, "PATH", tmp_path / "librtopk_torch.so")
    with pytest.raises(ImportError, match="is missing"):
        _library._load()
    _library.PATH.write_text("not a library")
    with pytest.raises(ImportError, match="do not load: .*(file too short|invalid ELF header)"):
        _library._load()
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    with pytest.raises(ImportError, match="needs torch 2.10 or later"):
        _library._load()


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
def test_a_failed_load_gives_the_loaders_reason(monkeypatch, tmp_path):
    missing = tmp_path / "libneeded.so"
    monkeypatch.setattr(_library, "PATH", tmp_path / "librtopk_torch.so")
    source = tmp_path / "empty.c"
    source.touch()
    for output, more in ((missing, []), (_library.PATH, ["-Wl,--no-as-needed", "-L", tmp_path, "-lneeded"])):
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o", output, *more], check=True)
    missing.unlink()
    with pytest.raises(ImportError) as refused:
        _library._load()
    assert str(refused.value) == (
        "rtopk's operators do not load: libneeded.so: cannot open shared object file: No such file or directory"
    )


def test_the_packages_metadata_has_an_address():
    folder = next(Path(rtopk.__file__).parents[1].glob("rtopk-*.dist-info"), None)
    if folder is None:
        pytest.skip("the package was not installed by pip")
    assert re.search(r"^Project-URL: Homepage, https://", (folder / "METADATA").read_text(), re.MULTILINE)


def test_info_is_typed():
    hints = typing.get_type_hints(_info.Info)
    assert typing.get_type_hints(rtopk.info)["return"] is _info.Info
    assert sorted(hints) == sorted(rtopk.info())
    for name, value in rtopk.info().items():
        hint = hints[name]
        accepted = typing.get_args(hint) if isinstance(hint, types.UnionType) else (typing.get_origin(hint) or hint,)
        assert isinstance(value, accepted), name


def test_the_program_has_a_version(capsys):
    from rtopk.gnn import cli

    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"rtopk {rtopk.__version__}\n"
