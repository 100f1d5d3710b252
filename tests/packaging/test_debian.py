"""The Debian packages: what is in them, what they need, and that a project builds and runs with what they install."""

import re
import shutil

import pytest

from consumers import CONSUMER, NO_CUDA, ROOT, build, check_consumer, flags_of, library_folder, run

TOOLS = ("dpkg-deb", "dpkg-shlibdeps", "readelf")
LACKING = [tool for tool in TOOLS if shutil.which(tool) is None]
pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"not here: {', '.join(LACKING)}")


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The files of the packages, by name."""
    folder = tmp_path_factory.mktemp("debian")
    # Some sources of the program are made by CMake: ccache is to know them in any folder.
    said = build(
        ROOT, folder, "-DCMAKE_INSTALL_PREFIX=/usr", "-DRTOPK_BUILD_TESTS=OFF", NO_CUDA, CCACHE_BASEDIR=str(folder)
    )
    if "rtopk: no Debian packages from this build" in said:
        pytest.skip("Highway is not installed here, and the build brings its own")
    run("cpack", "-G", "DEB", cwd=folder)
    return {path.name.split("_")[0]: path for path in (folder / "packages").glob("*.deb")}


@pytest.fixture(scope="module")
def installed(packages, tmp_path_factory):
    """Where their files would lie."""
    root = tmp_path_factory.mktemp("root")
    for path in packages.values():
        run("dpkg-deb", "-x", path, root)
    return root / "usr"


def field(path, name):
    return run("dpkg-deb", "--field", path, name).strip()


def files(path):
    """The files in a package, with their permissions. Folders are left out."""
    rows = (line.split(maxsplit=5) for line in run("dpkg-deb", "--contents", path).splitlines())
    return {row[5].split(" -> ")[0].removeprefix("./"): row[0] for row in rows if not row[0].startswith("d")}


def test_the_packages(packages):
    """The program is left out where what it is made of is not installed."""
    assert {"librtopk0.1", "librtopk-dev"} <= set(packages) <= {"librtopk0.1", "librtopk-dev", "rtopk"}


def test_every_file_is_in_one_package(packages):
    libraries, development = files(packages["librtopk0.1"]), files(packages["librtopk-dev"])
    notes = {
        name: [f"usr/share/doc/{name}/{file}" for file in ("changelog.Debian.gz", "copyright")] for name in packages
    }
    triplet = run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
    version = field(packages["librtopk0.1"], "Version").removesuffix("-1")
    assert set(libraries) == {
        f"usr/lib/{triplet}/librtopk.so.0.1",
        f"usr/lib/{triplet}/librtopk.so.{version}",
        *notes["librtopk0.1"],
    }
    headers = {f"usr/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "include").rglob("*.h*")}
    cmake = {f"usr/lib/{triplet}/cmake/rtopk/rtopk{file}.cmake" for file in ("Config", "ConfigVersion", "Shared")}
    targets = {f"usr/lib/{triplet}/cmake/rtopk/rtopkSharedTargets{file}.cmake" for file in ("", "-release")}
    others = {f"usr/lib/{triplet}/librtopk.so", f"usr/lib/{triplet}/pkgconfig/rtopk.pc", *notes["librtopk-dev"]}
    assert set(development) == headers | cmake | targets | others
    if "rtopk" in packages:
        assert set(files(packages["rtopk"])) == {"usr/bin/rtopk", *notes["rtopk"]}


def test_permissions_and_owners(packages):
    for path in packages.values():
        for line in run("dpkg-deb", "--contents", path).splitlines():
            assert re.match(r"(drwxr-xr-x|-rw-r--r--|-rwxr-xr-x|lrwxrwxrwx) root/root ", line), line


def test_what_the_packages_need(packages):
    library = packages["librtopk0.1"]
    version = field(library, "Version")
    for needed in ("libc6 ", "libstdc++6 ", "libhwy1"):
        assert needed in field(library, "Depends")
    for other in set(packages) - {"librtopk0.1"}:
        assert f"librtopk0.1 (= {version})" in field(packages[other], "Depends")
    for path in packages.values():
        assert field(path, "Architecture") == run("dpkg", "--print-architecture").strip()
        assert re.fullmatch(r".+ <\S+@\S+>", field(path, "Maintainer"))
        summary, *text = field(path, "Description").splitlines()
        assert summary.startswith("row-wise top-k selection (") and len(text) >= 2


def test_other_packages_find_the_library(packages, tmp_path):
    run("dpkg-deb", "--control", packages["librtopk0.1"], tmp_path)
    version = field(packages["librtopk0.1"], "Version")
    assert (tmp_path / "shlibs").read_text().strip() == f"librtopk 0.1 librtopk0.1 (>= {version})"
    assert "ldconfig" in (tmp_path / "triggers").read_text()


def test_the_licence(installed):
    """The words of LICENSE, in Debian's form."""
    words = (ROOT / "LICENSE").read_text().split("\n\n", 2)[2].split()
    text = (installed / "share" / "doc" / "librtopk0.1" / "copyright").read_text()
    assert [word for word in text.split("License: Expat\n")[2].split() if word != "."] == words
    assert f"Copyright: {re.search(r'Copyright .c. (.*)', (ROOT / 'LICENSE').read_text())[1]}\n" in text


def test_a_project_by_find_package(installed, tmp_path):
    build(CONSUMER, tmp_path, f"-DCMAKE_PREFIX_PATH={installed}")
    check_consumer(tmp_path)


def test_a_project_by_pkg_config(installed, tmp_path):
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not here")
    run("cc", "-std=c11", CONSUMER / "main.c", "-o", tmp_path / "program", *flags_of(installed))
    assert ": right" in run(tmp_path / "program", LD_LIBRARY_PATH=str(library_folder(installed)))


def test_the_program(packages, installed):
    if "rtopk" not in packages:
        pytest.skip("this build has no program")
    program = installed / "bin" / "rtopk"
    assert "cpu" in run(program, "info", LD_LIBRARY_PATH=str(library_folder(installed)))
    # Debian forbids paths to libraries in programs.
    assert not re.search(r"R(UN)?PATH", run("readelf", "--dynamic", program))


def test_no_packages_of_a_build_that_cannot_be_packed(tmp_path):
    run("cmake", "-S", ROOT, "-B", tmp_path, "-DBUILD_SHARED_LIBS=OFF", "-DRTOPK_BUILD_TESTS=OFF", NO_CUDA)
    assert not (tmp_path / "CPackConfig.cmake").exists()
