"""A package built without Highway, which has to be asked for: it says that it is slow, and leaves torch.topk to torch.

The package under test has Highway, as a rule. Here it says that it had none, which is all that Python knows of it.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import rtopk
from rtopk import _library

SCRIPT = """
import json, sys, warnings
import torch

sys.path.insert(0, sys.argv[1])
torch.ops.load_library(sys.argv[2])
text = torch.ops.rtopk.build_text().replace("highway=1", "highway=0")
torch.ops.rtopk.build_text = lambda: text
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import rtopk
    import rtopk.nn

    x = torch.zeros(4096)
    with rtopk.accelerate():
        accelerated = torch.topk(x, 100).indices
    own = rtopk.topk(x, 100).indices
json.dump({
    "warnings": [[str(each.message), each.filename] for each in caught],
    "highway": rtopk.info()["highway"],
    "cpu": rtopk.info()["cpu"],
    "accelerated": accelerated.tolist(),
    "torch": torch.topk(x, 100).indices.tolist(),
    "own": own.tolist(),
}, sys.stdout)
"""


@pytest.fixture(scope="module")
def scalar():
    command = [sys.executable, "-c", SCRIPT, str(Path(rtopk.__file__).parents[1]), str(_library.PATH)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout)


def test_it_warns_once_where_it_is_imported(scalar):
    ((text, file),) = scalar["warnings"]
    assert "built without Highway" in text and "libhwy-dev" in text
    assert file == "<string>"


def test_info_says_so(scalar):
    assert not scalar["highway"]
    assert scalar["cpu"].startswith("scalar: rtopk was built without Highway")


def test_torch_topk_on_cpu_tensors_stays_torchs(scalar):
    assert scalar["own"] == list(range(100))
    assert scalar["torch"] != scalar["own"], "ties tell who selected"
    assert scalar["accelerated"] == scalar["torch"]


@pytest.mark.skipif(not rtopk.info()["highway"], reason="this package was built without Highway")
def test_a_package_with_highway_says_nothing():
    assert rtopk.info()["cpu"] == f"{rtopk.info()['cpu_target']}, with Highway"
    script = f"import sys; sys.path.insert(0, {str(Path(rtopk.__file__).parents[1])!r}); import rtopk"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
