"""Runs tests with rtopk as it is in a torch that lacks a private name.

    hidden_names.py '{"_C._is_tracing": ["test_forms.py", "-x"]}'    names, and for each the arguments of pytest

For each name, a child is forked from a process that has imported torch but not rtopk. The child hides the name from
rtopk._torch_internals while that is imported, and runs pytest. torch itself needs the name, so it is back when rtopk
calls torch. Prints a line for each name: its exit status, then the name.
"""

import importlib
import importlib.util
import json
import os
import sys
import traceback
from contextlib import contextmanager, suppress

import pytest
import torch

# What the tests import: here, once, and not in every child.
for imported in ("hypothesis", "torch._subclasses.fake_tensor", "torch.fx.experimental.proxy_tensor"):
    with suppress(ImportError):
        importlib.import_module(imported)

if "RTOPK_TEST_SITE" in os.environ:
    sys.path.insert(0, os.environ["RTOPK_TEST_SITE"])

MODULE = "rtopk._torch_internals"


def import_internals():
    """Imports the module alone: its package calls functions of torch that need the hidden name."""
    folder = os.path.dirname(importlib.util.find_spec("rtopk").origin)
    spec = importlib.util.spec_from_file_location(MODULE, os.path.join(folder, "_torch_internals.py"))
    module = sys.modules[MODULE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def hidden(name):
    *path, last = name.split(".")
    owner = torch
    for part in path:
        owner = getattr(owner, part)
    value = getattr(owner, last)
    delattr(owner, last)
    yield
    setattr(owner, last, value)


def run(name, arguments):
    """What a child does."""
    with hidden(name):
        internals = import_internals()
    assert internals._found[name] is None
    import rtopk._topk

    assert rtopk._topk.check is internals.check
    return pytest.main(["-q", "-p", "no:cacheprovider", "--no-header", *arguments])


def main():
    for name, arguments in json.loads(sys.argv[1]).items():
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = run(name, arguments)
            except Exception:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(status)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), name, flush=True)


if __name__ == "__main__":
    main()
