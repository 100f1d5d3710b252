"""The wheel that scripts/wheel.py makes here, without CUDA: its name, its contents and that it can be used."""

import base64
import csv
import email
import hashlib
import importlib.metadata
import importlib.util
import json
import platform
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from consumers import ROOT, run

sys.path.insert(0, str(ROOT / "scripts"))
import wheel_archive  # noqa: E402

NEEDED = ("pip", "scikit_build_core", "nanobind", "nanobind_backend", "auditwheel", "torch", "jaxlib")
MISSING = [module for module in NEEDED if importlib.util.find_spec(module) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

MAX_BYTES = 5_000_000
VERSION = ".".join(
    re.findall(r"#define RTOPK_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", (ROOT / "include/rtopk/rtopk.hpp").read_text())
)
SYSTEM = {"libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "libstdc++.so.6"}
# The loader of the machine, which some compilers name too.
SYSTEM |= {"ld-linux-aarch64.so.1", "ld-linux-x86-64.so.2"}
LIBRARY = f"librtopk.so.{VERSION.rpartition('.')[0]}"
# Each binary, and what it needs beside the system's libraries.
BINARIES = {
    "rtopk/_native.abi3.so": {LIBRARY},
    f"rtopk/{LIBRARY}": set(),
    "rtopk/librtopk_jax.so": {LIBRARY},
    "rtopk/librtopk_torch.so": {LIBRARY, "libtorch.so"},
}
INFO = f"rtopk-{VERSION}.dist-info"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, ROOT / "scripts" / "wheel.py", "--out", folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def files(wheel):
    return wheel_archive.read(wheel)[0]


@pytest.fixture(scope="module")
def unpacked(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def dynamic(path):
    """The entries of the dynamic section of a binary: (tag, value)."""
    lines = run("readelf", "-dW", path).splitlines()
    return re.findall(r"\((\w+)\)\s.*\[(.*)\]", "\n".join(lines))


def test_name_and_size(wheel):
    tag = rf"cp310-abi3-manylinux_2_\d+_{platform.machine()}"
    assert re.fullmatch(rf"rtopk-{re.escape(VERSION)}-{tag}\.whl", wheel.name)
    assert wheel.stat().st_size < MAX_BYTES


def test_auditwheel_agrees_with_the_tag(wheel):
    tag = wheel.stem.split("-")[-1]
    text = " ".join(run(sys.executable, "-m", "auditwheel", "show", wheel).split())
    # It would be consistent with less, as libtorch is not inside; the symbols that it has say which glibc it needs.
    assert f'This constrains the platform tag to "{tag}".' in text


def test_nothing_unexpected_is_inside(files):
    sources = {
        path.relative_to(ROOT / "python").as_posix()
        for path in (ROOT / "python" / "rtopk").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    made = {"rtopk/_version.py", "rtopk/LICENSE.highway", *BINARIES}
    info = {f"{INFO}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "licenses/LICENSE", "sboms/rtopk.cdx.json")}
    # Where Highway cannot be downloaded, the system's shared library is carried, without sources and their licence.
    carried = {name for name in files if name.startswith("rtopk/libhwy.so")}
    assert set(files) == (sources | made | info | carried) - ({"rtopk/LICENSE.highway"} if carried else set())


@pytest.mark.parametrize("name", BINARIES)
def test_binaries(name, unpacked):
    entries = dynamic(unpacked / name)
    needed = {value for tag, value in entries if tag == "NEEDED"}
    assert {library for library in needed if not library.startswith("libhwy.so")} - SYSTEM == BINARIES[name]
    assert [value for tag, value in entries if tag in ("RPATH", "RUNPATH")] == ["$ORIGIN"]
    assert ".symtab" not in run("readelf", "-SW", unpacked / name)
    code = (unpacked / name).read_bytes()
    for folder in (ROOT, Path(sys.prefix), Path.home()):
        assert f"{folder}/".encode() not in code  # nothing of the machine that built it


def test_metadata(files):
    metadata = email.message_from_bytes(files[f"{INFO}/METADATA"])
    assert (metadata["Name"], metadata["Version"], metadata["Requires-Python"]) == ("rtopk", VERSION, ">=3.10")
    assert (metadata["License-Expression"], metadata["License-File"]) == ("MIT", "LICENSE")
    assert files[f"{INFO}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    requirements = metadata.get_all("Requires-Dist")
    always = {re.split(r"[<>=]", each)[0] for each in requirements if "extra ==" not in each}
    assert always == {"numpy", "nanobind-backend"}
    extras = {}
    for each in requirements:
        if "extra ==" in each:
            extras.setdefault(each.split('"')[1], []).append(re.split(r"[<>=;]", each)[0])
    assert extras == {
        "torch": ["torch"],
        "gnn": ["torch"],
        "parts": ["torch", "pymetis"],
        "jax": ["jax"],
        "cupy": ["cupy-cuda13x"],
    }


def test_record(files):
    rows = {name: (digest, size) for name, digest, size in csv.reader(files[f"{INFO}/RECORD"].decode().splitlines())}
    assert set(rows) == set(files)
    for name, (digest, size) in rows.items():
        if name != f"{INFO}/RECORD":
            expected = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={expected}", str(len(files[name])))


def test_bill_of_materials(files):
    bill = json.loads(files[f"{INFO}/sboms/rtopk.cdx.json"])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/rtopk@{VERSION}"
    versions = {component["name"]: component["version"] for component in bill["components"]}
    assert set(versions) == {"highway", "nanobind", "torch", "jaxlib"}
    for package in ("nanobind", "torch", "jaxlib"):
        assert versions[package] == importlib.metadata.version(package)
    references = {component["bom-ref"] for component in bill["components"]}
    assert set(bill["dependencies"][0]["dependsOn"]) == references


CPU_CONTENTS = {"highway": "1.2.0", "highway_shared": "OFF", "compiler": "GNU 12", "cuda": "", "cuda_architectures": ""}
CUDA_CONTENTS = CPU_CONTENTS | {"cuda": "13.0.88", "cuda_architectures": "80-real;90"}


def test_the_same_contents_are_the_same_bytes(wheel, tmp_path):
    """Order, times and compression of the archive that came from auditwheel leave no trace."""
    shuffled = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(shuffled, "w", zipfile.ZIP_STORED) as after:
        for entry in reversed(before.infolist()):
            changed = zipfile.ZipInfo(entry.filename, (2001, 2, 3, 4, 5, 6))
            changed.external_attr = entry.external_attr
            after.writestr(changed, before.read(entry))
    once = wheel_archive.finish(wheel, CPU_CONTENTS, tmp_path / "once", 10**9)
    again = wheel_archive.finish(shuffled, CPU_CONTENTS, tmp_path / "again", 10**9)
    assert once.name == again.name == wheel.name
    assert once.read_bytes() == again.read_bytes()


def test_with_cuda_it_is_another_package(wheel, tmp_path):
    """Of the same import name, which needs the CUDA runtime that it was built with, or a later one."""
    renamed = wheel_archive.finish(wheel, CUDA_CONTENTS, tmp_path, 10**9)
    assert renamed.name == wheel.name.replace("rtopk-", "rtopk_cu13-")
    files, _ = wheel_archive.read(renamed)
    info = f"rtopk_cu13-{VERSION}.dist-info"
    assert {name.split("/")[0] for name in files} == {"rtopk", info}
    metadata = email.message_from_bytes(files[f"{info}/METADATA"])
    assert metadata["Name"] == "rtopk-cu13"
    always = [each for each in metadata.get_all("Requires-Dist") if "extra ==" not in each]
    assert "nvidia-cuda-runtime<14,>=13.0" in always and len(always) == 3
    bill = json.loads(files[f"{info}/sboms/rtopk.cdx.json"])
    assert bill["metadata"]["component"]["name"] == "rtopk-cu13"
    assert "cuda-toolkit" in {component["name"] for component in bill["components"]}


USE = """
import sys
import numpy, rtopk
values, indices = rtopk.top_k(numpy.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]]), 2)
assert values.tolist() == [[3.0, 2.0], [5.0, 4.0]] and indices.tolist() == [[0, 2], [1, 2]]
assert not {"torch", "jax"} & set(sys.modules)
try:
    rtopk.topk
except ImportError as error:
    assert "torch" in str(error)
else:
    raise SystemExit("rtopk.topk is there without torch")
print(rtopk.__version__, rtopk.__file__)
"""


def test_it_works_with_numpy_alone(wheel, tmp_path):
    """Installed by pip; beside NumPy and the runtime of the bindings there is nothing in this Python's path."""
    site = tmp_path / "site"
    run(sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", site, wheel)
    for package in ("numpy", "nanobind_backend"):
        folder = Path(importlib.util.find_spec(package).origin).parent
        (site / package).symlink_to(folder)
        for libraries in folder.parent.glob(f"{package}.libs"):
            (site / libraries.name).symlink_to(libraries)
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    python = base if base.exists() else Path(shutil.which("python3"))
    output = run(python, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(site)!r})\n{USE}", PATH="")
    assert output.split() == [VERSION, str(site / "rtopk" / "__init__.py")]
