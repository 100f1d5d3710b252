"""The build backend: scikit-build-core, and torch as a build requirement only if the environment has none.

The operators are compiled with torch's headers. `pip install` builds in an isolated environment. If torch were always a
requirement, pip would download gigabytes again for it.
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
