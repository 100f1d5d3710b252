"""Where a measurement comes from: the commit that it was made at, the command that made it, and when."""

import os
import platform
import shlex
import subprocess
import sys
import time
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


def origin():
    """What the record of a measurement begins with."""
    return {
        "command": command_line(),
        "commit": commit(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
    }


def cpu_model():
    """What this machine calls its CPU."""
    try:
        lines = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return platform.processor() or platform.machine()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return fields.get("Model name", platform.machine()).strip()
