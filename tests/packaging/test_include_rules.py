"""The rules of inclusion hold in this tree, and the checker that says so is able to object."""

from pathlib import Path

import pytest

from include_rules import violations

ROOT = Path(__file__).resolve().parents[2]


def test_this_tree_keeps_the_rules():
    files, found = violations(ROOT)
    assert files > 10
    assert found == []


TREE = {
    "include/rtopk/rtopk.hpp": "#include <vector>\n",
    "include/rtopk/rtopk.h": "#include <stdint.h>\n",
    "src/core/search.hpp": "#include <rtopk/rtopk.hpp>\n",
    "src/cpu/backend.cpp": '#include "core/search.hpp"\n#include <hwy/highway.h>\n',
    "src/cuda/backend.cu": '#include "core/search.hpp"\n#include <cuda_runtime.h>\n',
    "src/cuda/backend.hpp": "",
    "src/plan/cuda.hpp": '#include "core/search.hpp"\n',
    "src/cuda/select/element.cuh": '#include "plan/cuda.hpp"\n',
    "src/cuda/select/warp/results.cuh": '#include "cuda/select/element.cuh"\n',
    "src/cuda/product/tile.cuh": "",
    "src/cpu/backend.hpp": "",
    "tools/rtopk/main.cpp": "#include <CLI/CLI.hpp>\n#include <rtopk/rtopk.hpp>\n",
    "bindings/torch/operators.cpp": "#include <torch/csrc/stable/library.h>\n#include <rtopk/rtopk.hpp>\n",
    "bindings/common/row_layout.hpp": "#include <rtopk/rtopk.hpp>\n",
    "bindings/jax/cpu.cpp": '#include <xla/ffi/api/ffi.h>\n#include "common/row_layout.hpp"\n',
    "tests/any.cpp": '#include "core/search.hpp"\n',
}


def write_tree(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_a_lawful_tree_passes(tmp_path):
    write_tree(tmp_path, TREE)
    files, found = violations(tmp_path)
    assert (files, found) == (len(TREE) - 1, [])


@pytest.mark.parametrize(
    "name, line",
    [
        ("include/rtopk/bad.hpp", '#include "core/search.hpp"'),
        ("include/rtopk/bad.hpp", "#include <hwy/highway.h>"),
        ("include/rtopk/bad.hpp", "#include <cuda_runtime.h>"),
        ("src/core/bad.cpp", '#include "cpu/backend.hpp"'),
        ("src/core/bad.cpp", '#include "../cuda/backend.hpp"'),
        ("src/core/bad.cpp", "#include <hwy/highway.h>"),
        ("src/cpu/bad.cpp", '#include "cuda/backend.hpp"'),
        ("src/cuda/bad.cu", '  #  include "cpu/backend.hpp"'),
        ("src/cuda/bad.cu", "#include <hwy/highway.h>"),
        ("src/plan/bad.cpp", '#include "cuda/backend.hpp"'),
        ("src/plan/bad.cpp", "#include <cuda_runtime.h>"),
        ("src/core/bad.cpp", '#include "plan/cuda.hpp"'),
        ("src/cuda/select/block/bad.cuh", '#include "cuda/select/warp/results.cuh"'),
        ("src/cuda/select/bad.cuh", '#include "cuda/select/warp/results.cuh"'),
        ("src/cuda/norm/bad.cuh", '#include "cuda/product/tile.cuh"'),
        ("src/cuda/runtime/bad.cuh", '#include "cuda/select/element.cuh"'),
        ("tools/rtopk/bad.cpp", '#include "core/search.hpp"'),
        ("tools/rtopk/bad.cpp", "#include <torch/torch.h>"),
        ("bindings/torch/bad.cpp", '#include "cpu/backend.hpp"'),
        ("bindings/torch/bad.cpp", "#include <xla/ffi/api/ffi.h>"),
        ("bindings/jax/bad.cpp", "#include <torch/csrc/stable/library.h>"),
        ("bindings/jax/bad.cpp", "#include <cuda_runtime.h>"),
        ("bindings/other/bad.cpp", "#include <ATen/ATen.h>"),
        ("python/rtopk/bad.cpp", '#include "core/search.hpp"'),
    ],
)
def test_every_broken_rule_is_found(tmp_path, name, line):
    write_tree(tmp_path, TREE | {name: f"// a comment\n{line}\n"})
    _, found = violations(tmp_path)
    assert len(found) == 1
    assert found[0].startswith(f"{name}:2:")
