"""Does what a user does: installs rtopk (shared, static, and without Highway), moves it, and builds another project
against it, in C++ and in C, by find_package and by pkg-config. Needs nothing but this source tree."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CONSUMER = HERE / "consumer"


def run(*command, **environment):
    result = subprocess.run(
        [str(part) for part in command],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, f"{' '.join(map(str, command))}\n{result.stdout}"
    return result.stdout


KINDS = {
    "shared": ["-DBUILD_SHARED_LIBS=ON"],
    "static": ["-DBUILD_SHARED_LIBS=OFF"],
    "scalar": ["-DBUILD_SHARED_LIBS=OFF", "-DRTOPK_HIGHWAY=OFF"],
}


def install(kind, folder):
    """Builds and installs rtopk, and returns where it lies after a move from where it was installed to."""
    # Without CUDA, whose kernels take minutes to compile; the main build has them.
    switches = [*KINDS[kind], "-DRTOPK_BUILD_TESTS=OFF", "-DRTOPK_BUILD_TOOLS=OFF", "-DRTOPK_CUDA=OFF"]
    run("cmake", "-S", ROOT, "-B", folder / "build", f"-DCMAKE_INSTALL_PREFIX={folder / 'first'}", *switches)
    run("cmake", "--build", folder / "build", "--parallel", os.cpu_count())
    run("cmake", "--install", folder / "build")
    shutil.move(folder / "first", folder / "moved")
    return folder / "moved"


@pytest.fixture(scope="session")
def installations(tmp_path_factory):
    """Each kind, installed when it is first asked for."""
    there = {}

    def installation(kind):
        if kind not in there:
            there[kind] = install(kind, tmp_path_factory.mktemp(kind))
        return there[kind]

    return installation


@pytest.fixture(params=KINDS)
def installed(request, installations):
    return installations(request.param)


def library_folder(installed):
    return next(installed.rglob("librtopk.*")).parent


def test_only_the_public_headers_are_installed(installed):
    there = {path.relative_to(installed).as_posix() for path in (installed / "include").rglob("*.h*")}
    ours = {path.relative_to(ROOT).as_posix() for path in (ROOT / "include").rglob("*.h*")}
    assert there == ours


def test_find_package(installed, tmp_path):
    run("cmake", "-S", CONSUMER, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", tmp_path)
    assert ": right" in run(tmp_path / "from_cpp")
    assert ": right" in run(tmp_path / "from_c")


def test_find_package_refuses_another_version(installed, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES CXX)\nfind_package(rtopk 0.2 CONFIG REQUIRED)\n"
    )
    command = ["cmake", "-S", project, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode != 0
    assert "rtopk" in result.stderr


@pytest.mark.parametrize(
    "compiler, standard, source", [("c++", "c++20", "main.cpp"), ("cc", "c11", "main.c")], ids=["cpp", "c"]
)
def test_pkg_config(installed, tmp_path, compiler, standard, source):
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not here")
    flags = flags_of(installed).split()
    program = tmp_path / "program"
    run(compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", CONSUMER / source, "-o", program, *flags)
    assert ": right" in run(program, LD_LIBRARY_PATH=str(library_folder(installed)))


def flags_of(installed):
    return run(
        "pkg-config", "--cflags", "--libs", "rtopk", PKG_CONFIG_PATH=str(library_folder(installed) / "pkgconfig")
    )


# "static": the plugin has the library inside, with the threads that it starts.
@pytest.mark.parametrize("kind", ["shared", "static"])
def test_a_plugin_can_be_unloaded(installations, tmp_path, kind):
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not here")
    installed = installations(kind)
    plugin, program = tmp_path / "plugin.so", tmp_path / "unload"
    run("cc", "-std=c11", "-shared", "-fPIC", CONSUMER / "plugin.c", "-o", plugin, *flags_of(installed).split())
    run("cc", "-D_GNU_SOURCE", CONSUMER / "unload.c", "-o", program, "-ldl")
    assert run(program, plugin, LD_LIBRARY_PATH=str(library_folder(installed))).endswith(": right\n")


def test_versions_agree(installed, tmp_path):
    folder = library_folder(installed)
    version = run("pkg-config", "--modversion", "rtopk", PKG_CONFIG_PATH=str(folder / "pkgconfig")).strip()
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
    config = (folder / "cmake" / "rtopk" / "rtopkConfigVersion.cmake").read_text()
    assert f'set(PACKAGE_VERSION "{version}")' in config
    run("cmake", "-S", CONSUMER, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", tmp_path, "--target", "from_c")
    assert run(tmp_path / "from_c").startswith(f"rtopk {version}:")


def built_library():
    """The main build's, which has the CUDA backend in it where there is a compiler for it."""
    return ROOT / "build" / "lib" / "librtopk.so"


@pytest.mark.parametrize("which", ["installed", "built"])
def test_the_shared_library_exports_rtopk_alone(installations, which):
    library = built_library() if which == "built" else library_folder(installations("shared")) / "librtopk.so"
    if not library.exists():
        pytest.skip("there is no main build")
    names = run("nm", "--dynamic", "--defined-only", "--demangle", "--format=posix", library).splitlines()
    assert names
    assert [line for line in names if "rtopk" not in line] == []
