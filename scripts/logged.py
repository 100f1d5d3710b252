"""Commands whose output goes to logs, and lines on the screen that say where they are."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JOBS = len(os.sched_getaffinity(0))
START = time.monotonic()
TERMINAL = sys.stdout.isatty()
CLEAR = "\r\033[K" if TERMINAL else ""
# How often the screen says where the commands are: in place on a terminal, in new lines elsewhere.
PROGRESS_SECONDS = 1 if TERMINAL else 30
# Of a log, where its command failed.
LINES_SHOWN = 60

screen = threading.Lock()


def say(text: str) -> None:
    with screen:
        print(f"{CLEAR}[{time.monotonic() - START:5.0f} s] {text}", flush=True)


def execute(
    command: list, log: Path, *, folder: Path = ROOT, limit_s: float | None = None, **environment: str
) -> int | None:
    """Runs a command with its output in a log, and returns its exit code; None: it was stopped at the limit."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        try:
            done = subprocess.run(
                [str(part) for part in command],
                cwd=folder,
                env=os.environ | environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired:
            output.write(f"\nstopped after {limit_s} s\n")
            return None
    return done.returncode


def last_line(log: Path) -> str:
    """The last line that says something."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


class Progress:
    """While the block runs, says every few seconds where a command is: the last line of its log."""

    running: dict[str, Path] = {}  # title: log
    reporter: threading.Thread | None = None

    def __init__(self, title: str, log: Path):
        self.title, self.log = title, log

    def __enter__(self):
        with screen:
            Progress.running[self.title] = self.log
            if Progress.reporter is None:
                Progress.reporter = threading.Thread(target=Progress.report, daemon=True)
                Progress.reporter.start()

    def __exit__(self, *_):
        with screen:
            del Progress.running[self.title]

    @staticmethod
    def report() -> None:
        while True:
            time.sleep(PROGRESS_SECONDS)
            with screen:
                running = dict(Progress.running)
            lines = [f"{title}: {last_line(log)}" for title, log in running.items()]
            if not TERMINAL:
                for line in lines:
                    say(f"  ... {line[:100]}")
            elif lines:
                with screen:
                    width = max(10, (os.get_terminal_size().columns - 10) // len(lines) - 3)
                    print(f"{CLEAR}    {' | '.join(line[:width] for line in lines)}", end="", flush=True)


def run(title: str, command: list, log: Path, **environment: str) -> bool:
    """execute(), with lines on the screen: that it starts, where it is, and the end of its log if it fails."""
    say(title)
    with Progress(title, log):
        code = execute(command, log, **environment)
    if code != 0:
        with screen:
            print(CLEAR + "\n".join(log.read_text(errors="replace").splitlines()[-LINES_SHOWN:]), flush=True)
        say(f"{title}: exit code {code}; all of it in {log.relative_to(ROOT)}")
    return code == 0
