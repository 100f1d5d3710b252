"""The port for vcpkg. vcpkg itself is not here: the manifest is held against its rules, and the script runs with the
functions of vcpkg_mock.cmake, which build and install this tree."""

import json
import os
import re
import shutil

import pytest

from consumers import CONSUMER, HERE, ROOT, build, check_consumer, run

PORT = ROOT / "packaging" / "vcpkg" / "ports" / "rtopk"
NAME = r"[a-z0-9]+(-[a-z0-9]+)*"


def version():
    header = (ROOT / "include" / "rtopk" / "rtopk.hpp").read_text()
    return ".".join(re.findall(r"^#define RTOPK_VERSION_\w+ (\d+)$", header, re.MULTILINE))


def run_port(folder, features, linkage, port=PORT, **more):
    variables = {
        "CURRENT_PORT_DIR": port,
        "FEATURES": ";".join(["core", *features]),
        "VCPKG_LIBRARY_LINKAGE": linkage,
        "MOCK_FOLDER": folder,
        "MOCK_JOBS": os.cpu_count(),
    } | more
    defines = [f"-D{name}={value}" for name, value in variables.items()]
    # Some sources of the program are made by CMake: ccache is to know them in any folder.
    return run("cmake", *defines, "-P", HERE / "vcpkg_mock.cmake", CCACHE_BASEDIR=str(folder))


# ---- The manifest ----


@pytest.fixture(scope="module")
def manifest():
    return json.loads((PORT / "vcpkg.json").read_text())


def test_the_fields_of_the_manifest(manifest):
    known = {"$schema", "name", "version", "description", "license", "supports", "dependencies", "features"}
    assert set(manifest) == known
    assert manifest["name"] == PORT.name
    assert manifest["version"] == version()
    assert manifest["license"] == "MIT"


def test_dependencies_are_well_formed(manifest):
    lists = [manifest["dependencies"], *(feature["dependencies"] for feature in manifest["features"].values())]
    for dependencies in lists:
        names = [each if isinstance(each, str) else each["name"] for each in dependencies]
        assert names == sorted(set(names))  # as vcpkg's own formatter writes them
        assert all(re.fullmatch(NAME, name) for name in names)
        assert all(set(each) <= {"name", "host"} for each in dependencies if not isinstance(each, str))


def test_features_are_those_of_the_script(manifest):
    for name, feature in manifest["features"].items():
        assert re.fullmatch(NAME, name)
        assert set(feature) == {"description", "dependencies"}
    script = (PORT / "portfile.cmake").read_text()
    pairs = re.search(r"vcpkg_check_features\(OUT_FEATURE_OPTIONS \w+ FEATURES ([^)]*)\)", script)[1].split()
    assert set(pairs[::2]) == set(manifest["features"])


# ---- The script ----


@pytest.mark.parametrize("features", [[], ["cuda"], ["tools"], ["cuda", "tools"]], ids=lambda names: "+".join(names))
def test_features_become_options(features, tmp_path):
    output = run_port(tmp_path, features, "static", MOCK_PRINT="ON")
    options = re.search(r"options: (.*)", output)[1].split(";")
    assert f"-DRTOPK_CUDA={'ON' if 'cuda' in features else 'OFF'}" in options
    assert f"-DRTOPK_BUILD_TOOLS={'ON' if 'tools' in features else 'OFF'}" in options


def test_a_port_without_its_tree_says_so(tmp_path):
    port = tmp_path / "a" / "b" / "c" / "d" / "rtopk"
    shutil.copytree(PORT, port)
    with pytest.raises(AssertionError, match="this port builds the tree of rtopk that it lies in"):
        run_port(tmp_path / "mock", [], "static", port=port, MOCK_PRINT="ON")


@pytest.fixture(scope="module", params=["static", "dynamic"])
def package(request, tmp_path_factory):
    """The package with each linkage; the program is in the second."""
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not here")
    folder = tmp_path_factory.mktemp(request.param)
    run_port(folder, ["tools"] if request.param == "dynamic" else [], request.param)
    return folder / "packages"


def test_the_package_is_tidy(package):
    """What vcpkg checks after every build."""
    files = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    assert {"share/rtopk/copyright", "share/rtopk/usage", "share/rtopk/rtopkConfig.cmake"} <= files
    assert "include/rtopk/rtopk.hpp" in files
    assert [name for name in files if re.match(r"debug/(include|share|bin)/|bin/|(debug/)?lib/cmake/", name)] == []
    assert [path for path in package.rglob("*") if path.is_dir() and not any(path.iterdir())] == []
    shared = {name for name in files if name.endswith(".so")}
    static = {name for name in files if name.endswith(".a")}
    expected = {"lib/librtopk", "debug/lib/librtopk"}
    assert shared | static in ({f"{name}.so" for name in expected}, {f"{name}.a" for name in expected})
    for name in files:
        if name.endswith((".cmake", ".pc")):
            assert str(package) not in (package / name).read_text(), name


@pytest.mark.parametrize("configuration", ["Release", "Debug"])
def test_a_project_by_find_package(package, tmp_path, configuration):
    build(CONSUMER, tmp_path, f"-DCMAKE_PREFIX_PATH={package}", f"-DCMAKE_BUILD_TYPE={configuration}")
    check_consumer(tmp_path)
    kind = "debug/lib" if configuration == "Debug" else "lib"
    link = "".join(path.read_text() for pattern in ("*.ninja", "link.txt") for path in tmp_path.rglob(pattern))
    assert re.search(rf"{re.escape(str(package))}/{kind}/librtopk\.", link)


def test_the_usage_names_the_target(package):
    text = (package / "share" / "rtopk" / "usage").read_text()
    assert "find_package(rtopk CONFIG REQUIRED)" in text and "rtopk::rtopk" in text


def test_the_program(package):
    program = package / "tools" / "rtopk" / "rtopk"
    assert program.exists() == (package / "lib" / "librtopk.so").exists()
    if program.exists():
        assert "cpu" in run(program, "info", LD_LIBRARY_PATH=str(package / "lib"))
