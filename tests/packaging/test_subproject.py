"""rtopk as a part of another project's build: by FetchContent, and by add_subdirectory. The project gets the library
alone, and nothing of its own is changed."""

import json
import re

import pytest

from consumers import CONSUMER, NO_CUDA, ROOT, build, ccache, check_consumer, run

WAYS = ("fetch", "find_or_fetch", "subdirectory")
# What one way compiles, ccache has for the others.
LAUNCHERS = ccache()


def options(way):
    return [
        f"-DRTOPK_BY={way}",
        f"-DRTOPK_TREE={ROOT}",
        "-DCMAKE_BUILD_TYPE=Release",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        # Kernels take minutes to compile, and are the same in every project.
        NO_CUDA,
        "-DRTOPK_HIGHWAY=OFF",
        *LAUNCHERS,
    ]


@pytest.fixture(scope="module", params=WAYS)
def project(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    build(CONSUMER, folder, *options(request.param))
    return folder


def test_the_programs_run(project):
    check_consumer(project)


def test_nothing_but_the_library_is_built(project):
    (library,) = project.rglob("librtopk*")
    assert library.name == "librtopk.a"
    # Where CMake puts what a subdirectory builds.
    assert library.parent.name == "src"
    outside = [path for path in project.rglob("*") if "CMakeFiles" not in path.relative_to(project).parts]
    programs = {path.name for path in outside if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"}
    assert programs == {"from_cpp", "from_c"}


def test_nothing_is_installed(project, tmp_path):
    run("cmake", "--install", project, "--prefix", tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_flags_of_the_project_are_its_own(project):
    commands = json.loads((project / "compile_commands.json").read_text())
    (cpp,) = [each["command"] for each in commands if each["file"].endswith("main.cpp")]
    flags = {word for word in cpp.split() if word.startswith("-") and not word.startswith("-I")}
    assert flags == {"-O3", "-DNDEBUG", "-std=gnu++20", "-o", "-c"}
    assert all("-Wconversion" not in each["command"] for each in commands)


def test_settings_of_the_project_are_its_own(project):
    """rtopk's own settings are known by their name."""
    cache = dict(re.findall(r"^(\w[^:\n]*):\w+=(.*)$", (project / "CMakeCache.txt").read_text(), re.MULTILINE))
    assert "RTOPK_CUDA" in cache
    for name in ("BUILD_SHARED_LIBS", "BUILD_TESTING"):
        assert name not in cache
    assert ("CMAKE_CXX_COMPILER_LAUNCHER" in cache) == bool(LAUNCHERS)


def test_an_installed_package_is_preferred_where_the_project_says_so(installations, tmp_path):
    """FIND_PACKAGE_ARGS: what is installed is taken, and nothing of rtopk is built."""
    build(CONSUMER, tmp_path, *options("find_or_fetch"), f"-DCMAKE_PREFIX_PATH={installations('shared')}")
    assert list(tmp_path.rglob("librtopk*")) == []
    check_consumer(tmp_path)


def test_highway_of_the_project_is_used(tmp_path):
    """Where the project builds Highway itself. Nothing is compiled here."""
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(outer LANGUAGES C CXX)\n"
        "file(WRITE ${CMAKE_BINARY_DIR}/empty.cpp)\nadd_library(hwy STATIC ${CMAKE_BINARY_DIR}/empty.cpp)\n"
        "set_target_properties(hwy PROPERTIES VERSION 1.2.3)\n"
        f"add_subdirectory({ROOT} rtopk)\n"
    )
    output = run("cmake", "-S", tmp_path, "-B", tmp_path / "build", NO_CUDA)
    assert "CPU backend with Highway 1.2.3 (of outer)" in output


def test_a_shared_library_where_the_project_wants_those(tmp_path):
    build(CONSUMER, tmp_path, *options("fetch"), "-DBUILD_SHARED_LIBS=ON")
    assert list(tmp_path.rglob("librtopk.so"))
    check_consumer(tmp_path)
