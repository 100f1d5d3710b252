"""The recipe for Conan 2: `conan create` builds this tree, and the project in test_package with what comes out."""

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest

from consumers import ROOT, run

RECIPE = ROOT / "packaging" / "conan"


def conan_command():
    """Of this Python, or of the system."""
    beside = Path(sys.executable).parent / "conan"
    if importlib.util.find_spec("conan") is not None and beside.exists():
        return beside
    return shutil.which("conan")


CONAN = conan_command()
pytestmark = pytest.mark.skipif(CONAN is None, reason="Conan is not installed")


@pytest.fixture(scope="module")
def conan(tmp_path_factory):
    """Conan with a home of its own, and no server to ask."""
    home = tmp_path_factory.mktemp("conan")
    # The cache has other paths in every home; so that ccache knows sources again, it sees them relative to that.
    environment = {"CONAN_HOME": str(home), "CCACHE_BASEDIR": str(home), "CCACHE_NOHASHDIR": "1"}

    def call(*arguments):
        return run(CONAN, *arguments, **environment)

    call("profile", "detect")
    call("remote", "disable", "*")
    return call


# Without Highway, whose kernels take minutes to compile.
CREATE = ("create", RECIPE, "-s", "compiler.cppstd=20", "-o", "rtopk/*:with_highway=off")


def test_conan_create(conan, tmp_path):
    output = conan(*CREATE, "-c", f"tools.cmake.cmake_layout:test_folder={tmp_path}")
    version = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1]
    assert f"rtopk/{version} (test package): Running test()" in output
    assert not (RECIPE / "test_package" / "build").exists()
    assert not list(RECIPE.rglob("CMakeUserPresets.json"))

    folder = Path(re.findall(r"^Package folder (.*)$", output, re.MULTILINE)[-1])
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    headers = {path.relative_to(ROOT).as_posix() for path in (ROOT / "include").rglob("*.h*")}
    assert there - {"conaninfo.txt", "conanmanifest.txt"} == headers | {"lib/librtopk.a", "licenses/LICENSE"}


def test_a_static_library_with_cuda_is_refused(conan):
    with pytest.raises(AssertionError, match="cuda=True needs shared=True"):
        conan(*CREATE, "-o", "rtopk/*:cuda=True")


def test_an_older_standard_is_refused(conan):
    with pytest.raises(AssertionError, match="20"):
        conan(*CREATE, "-s", "compiler.cppstd=17")
