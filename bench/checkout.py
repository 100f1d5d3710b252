"""The commit that a measurement was made at, and the command that made it."""

import os
import shlex
import subprocess
import sys
from pathlib import Path


def command_line():
    """The command that runs, with the names of files instead of where they are on this machine."""
    return shlex.join(["python", *(Path(word).name if Path(word).is_absolute() else word for word in sys.argv)])


def commit():
    """RTOPK_COMMIT if it is set; else the commit that is checked out, followed by "+" if files differ from it."""
    if "RTOPK_COMMIT" in os.environ:
        return os.environ["RTOPK_COMMIT"]

    def git(*arguments):
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
