#!/usr/bin/env python3
"""Who may include whom. `include_rules.py [ROOT]` prints every line that breaks a rule and exits with 1 if any does.

A layer is a folder. It may include itself, the layers named here, the standard library, and the outside headers whose
names begin with one of its prefixes ("*" is anything that is neither torch nor XLA).
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple


class Layer(NamedTuple):
    layers: tuple = ()
    outside: tuple = ()


ROOT = Path(__file__).resolve().parents[2]
CUDA = ("cuda", "cub/", "cooperative_groups")
# What every room of src may include.
COMMON = ("include", "src/internal", "src/core")

LAYERS = {
    "include": Layer(),
    "src/internal": Layer(layers=("include",)),
    "src/core": Layer(layers=("include", "src/internal")),
    "src/plan": Layer(layers=COMMON),
    "src/cpu": Layer(
        layers=(*COMMON, "src/plan"),
        outside=("hwy/", "dlfcn.h", "pthread.h", "sched.h", "signal.h", "sys/auxv.h", "unistd.h"),
    ),
    "src/cuda": Layer(layers=COMMON, outside=CUDA),
    "src/cuda/runtime": Layer(layers=(*COMMON, "src/cuda"), outside=CUDA),
    "src/cuda/select": Layer(
        layers=(*COMMON, "src/plan", "src/cuda", "src/cuda/runtime", "src/cuda/select/gather"), outside=CUDA
    ),
    "src/api": Layer(layers=(*COMMON, "src/plan", "src/cpu", "src/cuda")),
    "tools": Layer(layers=("include",), outside=("*",)),
    "paper": Layer(layers=("include", "tools"), outside=("*",)),
    "bindings": Layer(layers=("include",), outside=("*",)),
    "bindings/common": Layer(layers=("include",)),
    "bindings/python": Layer(layers=("include", "bindings/common"), outside=("*",)),
    "bindings/torch": Layer(
        layers=("include", "src/internal", "bindings/common"), outside=("*", "torch/", "ATen/", "c10/")
    ),
    "bindings/jax": Layer(layers=("include", "bindings/common"), outside=("xla/",)),
    "python": Layer(layers=("include",), outside=("*",)),
}


def folders_of(layer):
    """The folders in a folder of this tree."""
    return sorted(path.name for path in (ROOT / layer).iterdir() if path.is_dir())


# An operator includes no other operator. The folders that are no operators have rules above.
for operator in folders_of("src/cuda"):
    layers = (*COMMON, "src/plan", "src/cuda", "src/cuda/runtime")
    LAYERS.setdefault(f"src/cuda/{operator}", Layer(layers=layers, outside=CUDA))
# A kernel family includes no other family: what two share lies one level up.
for family in folders_of("src/cuda/select"):
    layers = (*COMMON, "src/plan", "src/cuda/runtime", "src/cuda/select")
    LAYERS[f"src/cuda/select/{family}"] = Layer(layers=layers, outside=CUDA)
TORCH = ("torch/", "ATen/", "c10/")
SOURCES = {".h", ".hpp", ".c", ".cpp", ".cc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def layer_of(path):
    """The innermost layer that holds a path relative to the root, or None."""
    parents = {parent.as_posix() for parent in path.parents}
    return max((name for name in LAYERS if name in parents), key=len, default=None)


def resolve(root, source, name):
    """The file of this tree that an include names, relative to the root, or None if it is an outside header."""
    for folder in (source.parent, Path("src"), Path("include"), Path("bindings"), Path(".")):
        candidate = root / folder / name
        if candidate.is_file():
            return candidate.resolve().relative_to(root.resolve())
    return None


def is_standard(name):
    return re.fullmatch(r"[a-z_0-9]+", name) is not None or name in ("stddef.h", "stdint.h")


def objection(root, source, name):
    """Why `source` may not include `name`, or None if it may."""
    layer = layer_of(source)
    target = resolve(root, source, name)
    if target is not None:
        target_layer = layer_of(target)
        if target_layer == layer or target_layer in LAYERS[layer].layers:
            return None
        return f"{layer} may not include {target_layer or target}"
    if is_standard(name) or any(name.startswith(prefix) for prefix in LAYERS[layer].outside):
        return None
    if name.startswith(TORCH):
        return "only bindings/torch may include torch"
    if name.startswith("xla/"):
        return "only bindings/jax may include XLA"
    if "*" in LAYERS[layer].outside:
        return None
    return f"{layer} may not include headers from outside"


def violations(root):
    """(number of files read, lines that break a rule)."""
    found, files = [], 0
    tops = sorted({name.split("/")[0] for name in LAYERS})
    found_files = (path for top in tops for path in (root / top).rglob("*") if path.suffix in SOURCES)
    for source in sorted(path.relative_to(root) for path in found_files):
        if layer_of(source) is None:
            continue
        files += 1
        for number, line in enumerate((root / source).read_text().splitlines(), start=1):
            match = INCLUDE.match(line)
            reason = match and objection(root, source, match.group(2))
            if reason:
                found.append(f"{source}:{number}: {line.strip()}: {reason}")
    return files, found


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    files, found = violations(root)
    print("\n".join(found) if found else f"{files} files keep the rules of inclusion")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
