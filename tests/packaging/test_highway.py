"""Highway is found, or brought by the build, or the build stops: nobody gets the slow CPU backend unasked. Nothing is
compiled here."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HIDDEN = "CMAKE_DISABLE_FIND_PACKAGE_hwy=ON"
NO_DOWNLOAD = "RTOPK_DOWNLOAD=OFF"
# Nobody listens there, so that every download ends at once.
NO_NETWORK = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
REFUSAL = r"^ *rtopk needs Highway [0-9.]+ or later: install libhwy-dev .* RTOPK_HIGHWAY=OFF .*torch\.topk$"
SCALAR = "the CPU backend is the scalar reference"


def run(command, **environment):
    done = subprocess.run(
        [str(part) for part in command],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def configure(folder, *defines, **environment):
    defines = [
        f"-D{define}" for define in ("RTOPK_CUDA=OFF", "RTOPK_BUILD_TESTS=OFF", "RTOPK_BUILD_TOOLS=OFF", *defines)
    ]
    return run(["cmake", "-S", ROOT, "-B", folder, *defines], **environment)


@pytest.mark.parametrize("wanted", ["ON", "STATIC"])
@pytest.mark.parametrize("defines", [[NO_DOWNLOAD], []], ids=["no download", "no network"])
def test_a_build_without_highway_stops_with_one_line(defines, wanted, tmp_path):
    code, output = configure(tmp_path, f"RTOPK_HIGHWAY={wanted}", HIDDEN, *defines, **NO_NETWORK)
    assert code != 0
    assert re.search(REFUSAL, output, re.MULTILINE), output


@pytest.mark.skipif(
    any(importlib.util.find_spec(module) is None for module in ("pip", "scikit_build_core")),
    reason="pip or scikit-build-core is not installed",
)
def test_so_does_pip_install(tmp_path):
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-build-isolation",
        "--no-deps",
        "--target",
        tmp_path / "site",
        ROOT,
    ]
    settings = {"build-dir": tmp_path / "build"}
    settings |= {f"cmake.define.{name}": value for name, value in (each.split("=") for each in (HIDDEN, NO_DOWNLOAD))}
    settings["cmake.define.RTOPK_CUDA"] = "OFF"
    code, output = run([*command, *(f"--config-settings={name}={value}" for name, value in settings.items())])
    assert code != 0
    assert re.search(REFUSAL, output, re.MULTILINE), output


@pytest.mark.parametrize("wanted", ["OFF", "AUTO"])
def test_the_scalar_backend_has_to_be_asked_for(wanted, tmp_path):
    code, output = configure(tmp_path, f"RTOPK_HIGHWAY={wanted}", HIDDEN, **NO_NETWORK)
    assert code == 0, output
    assert SCALAR in output


def test_another_file_is_not_taken_for_highway(tmp_path):
    """What a portal or a proxy answers with, say."""
    answer = tmp_path / "answer.tar.gz"
    answer.write_text("something else")
    script = tmp_path / "download.cmake"
    script.write_text(
        f"""
        set(PROJECT_BINARY_DIR {tmp_path})
        set(RTOPK_HIGHWAY OFF)
        include({ROOT}/cmake/highway.cmake)
        set(pinned_highway_urls file://{answer})
        rtopk_download_highway(sources)
        message(STATUS "sources: '${{sources}}'")
        """
    )
    code, output = run(["cmake", "-P", script])
    assert code == 0, output
    assert "that is something else" in output and "sources: ''" in output


def test_neither_is_one_that_was_given(tmp_path):
    """As RTOPK_HIGHWAY_ARCHIVE, which needs no network, and is checked by the same hash."""
    answer = tmp_path / "answer.tar.gz"
    answer.write_text("something else")
    code, output = configure(tmp_path / "build", f"RTOPK_HIGHWAY_ARCHIVE={answer}", HIDDEN, NO_DOWNLOAD, **NO_NETWORK)
    assert code != 0
    assert f"getting Highway 1.2.0 from file://{answer}" in output and "that is something else" in output
    assert re.search(REFUSAL, output, re.MULTILINE), output
