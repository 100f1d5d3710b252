"""rtopk as its users install it, for every test that needs it."""

import shutil

import pytest

from consumers import NO_CUDA, ROOT, build, run

KINDS = {
    "shared": ["-DBUILD_SHARED_LIBS=ON"],
    "static": ["-DBUILD_SHARED_LIBS=OFF"],
    "scalar": ["-DBUILD_SHARED_LIBS=OFF", "-DRTOPK_HIGHWAY=OFF"],
    # As a compiler links that has no shared C++ runtime.
    "own_runtime": ["-DBUILD_SHARED_LIBS=ON", "-DRTOPK_HIGHWAY=OFF", "-DCMAKE_SHARED_LINKER_FLAGS=-static-libstdc++"],
}


def install(kind, folder):
    """Builds and installs rtopk, and returns where it lies after a move from where it was installed to."""
    switches = [*KINDS[kind], "-DRTOPK_BUILD_TESTS=OFF", "-DRTOPK_BUILD_TOOLS=OFF", NO_CUDA]
    build(ROOT, folder / "build", f"-DCMAKE_INSTALL_PREFIX={folder / 'first'}", *switches)
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
