"""Functions in processes of their own, which cost milliseconds: forked from one that has imported torch already.

For drivers: the parent must not have run anything that starts threads. A crash, a hang or a kill is the child's alone.
"""

import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass


@dataclass
class Ended:
    status: int  # exit code, or minus the signal that ended it
    output: str  # stdout and stderr


def run(function, folder, *, timeout=300, kill_after=None):
    """Calls a function in a child and waits for it. What it returns is the exit code; an exception prints a traceback
    and gives 70. After `timeout` seconds it is ended by SIGALRM, after `kill_after` by SIGKILL."""
    log = os.path.join(folder, "output")
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _become(log, timeout)
        try:
            code = function()
        except BaseException:
            traceback.print_exc()
            code = 70
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with open(log, errors="replace") as file:
        return Ended(os.waitstatus_to_exitcode(status), file.read())


def _become(log, timeout):
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(timeout)
