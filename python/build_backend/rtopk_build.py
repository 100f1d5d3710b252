"""scikit-build-core, and torch among what the build needs only where the environment has none.

The operators are compiled with torch's headers. `pip install` builds in an environment of its own; if torch were always
asked for there, it would be downloaded again, in gigabytes, beside the one that is installed.
"""

import subprocess
import sys
from pathlib import Path

from scikit_build_core import build as _base
from scikit_build_core.build import *  # noqa: F403

_FIND_TORCH = Path(__file__).parents[2] / "bindings" / "torch" / "find_torch.py"


def _torch_is_installed():
    # -E: the variables of the isolated environment hide the packages of the one around it.
    for flags in ([], ["-E"]):
        found = subprocess.run([sys.executable, *flags, _FIND_TORCH], capture_output=True, text=True)
        if found.stdout.strip():
            return True
    return False


def get_requires_for_build_wheel(config_settings=None):
    torch = [] if _torch_is_installed() else ["torch>=2.10"]
    return [*_base.get_requires_for_build_wheel(config_settings), *torch]
