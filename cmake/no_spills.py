#!/usr/bin/env python3
"""A launcher for nvcc that fails if a kernel for sm_90, for which they are tuned, spills registers to local memory.

    no_spills.py [LAUNCHER] NVCC ARGUMENTS...

Functions that kernels call for rare rows may spill; the kernels themselves may not.
"""

import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '(\S+)' for 'sm_(\d+)")
SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores")


def spilled(report):
    """The kernels that spill, by ptxas's report of the registers that it used."""
    lines = report.splitlines()
    for number, line in enumerate(lines):
        entry = ENTRY.search(line)
        if entry is None or entry.group(2) != "90":
            continue
        for following in lines[number + 1 : number + 4]:
            spill = SPILL.search(following)
            if spill is not None:
                if int(spill.group(2)) > 0:
                    yield entry.group(1), int(spill.group(2))
                break


def main():
    command = [argument for argument in sys.argv[1:] if argument]  # an empty launcher
    run = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    # What ptxas reports about registers is of interest here alone.
    kept = [
        line
        for line in run.stderr.splitlines()
        if not line.startswith("ptxas info") and SPILL.search(line) is None and line.strip()
    ]
    if kept:
        print("\n".join(kept), file=sys.stderr)
    if run.returncode != 0:
        return run.returncode
    bad = list(spilled(run.stderr))
    for kernel, size in bad:
        print(f"error: {kernel} spills {size} bytes of registers to local memory", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
