"""Arrays that are split over devices: along rows nothing is gathered."""

import os
from pathlib import Path

SCRIPT = (Path(__file__).parent / "sharded_calls.py").read_text()


def test_four_devices(run_script):
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    done = run_script(SCRIPT, XLA_FLAGS=flags, JAX_PLATFORMS="cpu").splitlines()
    assert {"rows", "columns", "two dimensions", "vmap", "maxk", "gradient", "general rows", "shard_map"} <= set(done)
