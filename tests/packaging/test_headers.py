"""Every public header stands alone, and the C header is C11, under compilers told to accept no warning."""

import importlib.util
import os
import re
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


def test_the_ctypes_mirror_is_the_c_header():
    """bench/librtopk.py has the enumerators and the fields of rtopk.h, in the same order."""
    specification = importlib.util.spec_from_file_location("librtopk", INCLUDE.parent / "bench" / "librtopk.py")
    librtopk = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(librtopk)
    header = re.sub(r"/\*.*?\*/", "", (INCLUDE / "rtopk" / "rtopk.h").read_text(), flags=re.DOTALL)

    enumerations = [re.findall(r"RTOPK_(\w+)", text) for text in re.findall(r"enum \{(.*?)\}", header)]
    for names, prefix in (
        (librtopk.DTYPES, ""),
        (librtopk.ORDERS, ""),
        (librtopk.FORMS, ""),
        (librtopk.INDEX_TYPES, "INDEX_"),
        (librtopk.DEVICES, ""),
        (librtopk.SEARCHES, "SEARCH_"),
        (librtopk.RULES, "RULE_"),
    ):
        assert list(names.values()) == list(range(len(names)))
        assert [prefix + name.upper() for name in names] in enumerations, names

    for structure, mirror in (("problem", librtopk.Problem), ("output", librtopk.Output)):
        body = re.search(rf"typedef struct rtopk_{structure} \{{(.*?)\}}", header, re.DOTALL).group(1)
        assert re.findall(r"(\w+);", body) == [field[0] for field in mirror._fields_]
