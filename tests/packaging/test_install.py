"""Does what a user does: installs rtopk (shared, static, and without Highway), moves it, and builds another project
against it, in C++ and in C, by find_package and by pkg-config. Needs nothing but this source tree."""

import re
import shutil
import subprocess

import pytest

from consumers import CONSUMER, ROOT, build, check_consumer, flags_of, library_folder, run


@pytest.fixture(params=["shared", "static", "scalar"])
def installed(request, installations):
    return installations(request.param)


def test_only_the_public_headers_are_installed(installed):
    there = {path.relative_to(installed).as_posix() for path in (installed / "include").rglob("*.h*")}
    ours = {path.relative_to(ROOT).as_posix() for path in (ROOT / "include").rglob("*.h*")}
    assert there == ours


def test_find_package(installed, tmp_path):
    build(CONSUMER, tmp_path, f"-DCMAKE_PREFIX_PATH={installed}")
    check_consumer(tmp_path)


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_find_package_in_a_project_without_cpp(installations, tmp_path, kind):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(plain LANGUAGES C)\nfind_package(rtopk REQUIRED)\n"
        f"add_executable(from_c {CONSUMER / 'main.c'})\ntarget_link_libraries(from_c PRIVATE rtopk::rtopk)\n"
    )
    build(tmp_path, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installations(kind)}")
    assert run(tmp_path / "build" / "from_c").endswith(": right\n")


@pytest.fixture(scope="module", params=["shared", "static"])
def both_kinds(request, installations, tmp_path_factory):
    """Both kinds in one prefix. The parameter is the one that was installed last."""
    prefix = tmp_path_factory.mktemp("both")
    for kind in sorted(("shared", "static"), key=lambda kind: kind == request.param):
        shutil.copytree(installations(kind), prefix, symlinks=True, dirs_exist_ok=True)
    return prefix


@pytest.mark.parametrize("wanted, library", [("", "librtopk.so"), ("shared", "librtopk.so"), ("static", "librtopk.a")])
def test_find_package_picks_a_kind(both_kinds, tmp_path, wanted, library):
    build(CONSUMER, tmp_path, f"-DCMAKE_PREFIX_PATH={both_kinds}", f"-DRTOPK_KIND={wanted}", target="from_cpp")
    needed = run("readelf", "--dynamic", tmp_path / "from_cpp")
    assert ("librtopk.so" in needed) == (library == "librtopk.so")
    assert run(tmp_path / "from_cpp").endswith(": right\n")


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="pkg-config is not here")
def test_pkg_config_picks_a_kind(both_kinds, tmp_path):
    """The linker takes the shared library unless it is told not to."""
    folder = library_folder(both_kinds)
    static = ["-Wl,-Bstatic", "-lrtopk", "-Wl,-Bdynamic"]
    for kind, flags in (
        ("shared", flags_of(both_kinds)),
        (
            "static",
            [part for flag in flags_of(both_kinds, "--static") for part in (static if flag == "-lrtopk" else [flag])],
        ),
    ):
        run("c++", "-std=c++20", CONSUMER / "main.cpp", "-o", tmp_path / kind, *flags)
        assert ("librtopk.so" in run("readelf", "--dynamic", tmp_path / kind)) == (kind == "shared")
        assert run(tmp_path / kind, LD_LIBRARY_PATH=str(folder)).endswith(": right\n")


@pytest.mark.parametrize(
    "wanted, message",
    [
        ("static", r"shared \(installed:\s+TRUE\) and\s+static \(installed:\s+FALSE\)"),
        ("fast", "components shared"),
        ("shared;static", "exclude each other"),
    ],
)
def test_find_package_names_the_kinds_that_there_are(installations, tmp_path, wanted, message):
    command = ["cmake", "-S", CONSUMER, "-B", tmp_path, f"-DRTOPK_KIND={wanted}"]
    result = subprocess.run(
        [*command, f"-DCMAKE_PREFIX_PATH={installations('shared')}"], capture_output=True, text=True
    )
    assert result.returncode != 0
    assert re.search(message, " ".join(result.stderr.split())), result.stderr


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
    flags = flags_of(installed)
    program = tmp_path / "program"
    run(compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", CONSUMER / source, "-o", program, *flags)
    assert ": right" in run(program, LD_LIBRARY_PATH=str(library_folder(installed)))


# "static": the plugin has the library inside, with the threads that it starts.
@pytest.mark.parametrize("kind", ["shared", "static"])
def test_a_plugin_can_be_unloaded(installations, tmp_path, kind):
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not here")
    installed = installations(kind)
    plugin, program = tmp_path / "plugin.so", tmp_path / "unload"
    run("cc", "-std=c11", "-shared", "-fPIC", CONSUMER / "plugin.c", "-o", plugin, *flags_of(installed))
    run("cc", "-D_GNU_SOURCE", CONSUMER / "unload.c", "-o", program, "-ldl")
    assert run(program, plugin, LD_LIBRARY_PATH=str(library_folder(installed))).endswith(": right\n")


def test_versions_agree(installed, tmp_path):
    folder = library_folder(installed)
    version = run("pkg-config", "--modversion", "rtopk", PKG_CONFIG_PATH=str(folder / "pkgconfig")).strip()
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
    config = (folder / "cmake" / "rtopk" / "rtopkConfigVersion.cmake").read_text()
    assert f'set(PACKAGE_VERSION "{version}")' in config
    build(CONSUMER, tmp_path, f"-DCMAKE_PREFIX_PATH={installed}", target="from_c")
    assert run(tmp_path / "from_c").startswith(f"rtopk {version}:")


def built_library():
    """The main build's, which has the CUDA backend in it where there is a compiler for it."""
    return ROOT / "build" / "lib" / "librtopk.so"


@pytest.mark.parametrize("which", ["shared", "own_runtime", "built"])
def test_the_shared_library_exports_rtopk_alone(installations, which):
    library = built_library() if which == "built" else library_folder(installations(which)) / "librtopk.so"
    if not library.exists():
        pytest.skip("there is no main build")
    names = run("nm", "--dynamic", "--defined-only", "--demangle", "--format=posix", library).splitlines()
    assert names
    assert [line for line in names if "rtopk" not in line] == []
