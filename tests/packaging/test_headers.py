"""Every public header stands alone, and the C header is C11, under compilers told to accept no warning."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

INCLUDE = Path(__file__).resolve().parents[2] / "include"
HEADERS = sorted(path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*.h*"))
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-pedantic-errors", "-Wshadow", "-Wconversion", "-Werror"]


def compile_header(compiler, arguments, header, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not here")
    source = tmp_path / "header_alone"
    # Twice, because a header must also bear being included again.
    source.write_text(f"#include <{header}>\n#include <{header}>\nint rtopk_header_test;\n")
    command = [compiler, *arguments, *WARNINGS, f"-I{INCLUDE}", "-fsyntax-only", str(source)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stderr}"


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("compiler", [os.environ.get("CXX", "g++"), "clang++"])
def test_header_stands_alone_in_cpp20(compiler, header, tmp_path):
    compile_header(compiler, ["-x", "c++", "-std=c++20"], header, tmp_path)


@pytest.mark.parametrize("header", [header for header in HEADERS if header.endswith(".h")])
@pytest.mark.parametrize("compiler", [os.environ.get("CC", "gcc"), "clang"])
def test_c_header_is_c11(compiler, header, tmp_path):
    compile_header(compiler, ["-x", "c", "-std=c11", "-Wstrict-prototypes"], header, tmp_path)
