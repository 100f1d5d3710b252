"""A wire of a stated bandwidth between processes of one machine: a network namespace for every rank, and a switch.

    with LimitedWire(ranks=4, megabits=100) as wire:
        subprocess.Popen([*wire.prefix(rank), "python", ...], env=os.environ | wire.environment)

Every namespace has one network card, a veth pair to a bridge in a namespace of its own. A token bucket (tc tbf) limits
what a card sends. Nothing of the machine's own network is changed. Needs root, `ip` and `tc` (Debian: iproute2).
"""

import os
import subprocess
from pathlib import Path

CARD = "eth0"  # in every namespace of a rank


class WireError(RuntimeError):
    """This machine cannot make such a wire."""


def bytes_sent():
    """What the card of this rank has sent so far, with all headers; 0 outside of a limited wire."""
    counter = Path(f"/sys/class/net/{CARD}/statistics/tx_bytes")
    return int(counter.read_text()) if "RTOPK_LIMITED_WIRE" in os.environ else 0


class LimitedWire:
    def __init__(self, ranks, megabits):
        self.ranks, self.megabits = ranks, megabits
        self._switch = f"wire-{os.getpid()}-switch"
        self._names = [f"wire-{os.getpid()}-{rank}" for rank in range(ranks)]
        self.environment = {"MASTER_ADDR": _address(0), "GLOO_SOCKET_IFNAME": CARD, "RTOPK_LIMITED_WIRE": "1"}

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in (*self._names, self._switch):  # cards go with their namespace
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)

    def prefix(self, rank):
        """What a command of this rank begins with."""
        return ["ip", "netns", "exec", self._names[rank]]

    def _make(self):
        _run(f"ip netns add {self._switch}")
        _run(f"ip -n {self._switch} link add switch type bridge")
        _run(f"ip -n {self._switch} link set switch up")
        for rank, name in enumerate(self._names):
            _run(f"ip netns add {name}")
            _run(f"ip -n {name} link set lo up")
            _run(f"ip -n {name} link add {CARD} type veth peer name port{rank} netns {self._switch}")
            _run(f"ip -n {name} address add {_address(rank)}/24 dev {CARD}")
            _run(f"ip -n {name} link set {CARD} up")
            _run(f"ip -n {self._switch} link set port{rank} master switch up")
            # A bucket of 16 KiB: whatever fits is sent at once. tbf splits larger packets; the queue is long enough for
            # TCP to fill.
            limit = f"rate {self.megabits}mbit burst 16kb latency 100ms"
            _run(f"tc -n {name} qdisc add dev {CARD} root tbf {limit}")


def _address(rank):
    return f"10.77.0.{rank + 1}"


def _run(command):
    try:
        done = subprocess.run(command.split(), capture_output=True, text=True)
    except FileNotFoundError as error:
        raise WireError(f"{error.filename} is not installed (Debian: iproute2)") from None
    if done.returncode:
        raise WireError(f"{command}: {done.stderr.strip()}; accepted: root, on a Linux with network namespaces")
