"""Arrays that are split over devices: along rows nothing is gathered."""

from pathlib import Path

import jax
import pytest

SCRIPT = (Path(__file__).parent / "sharded_calls.py").read_text()
FOUR = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}


@pytest.mark.parametrize("partitioner", ["shardy", "gspmd"])
def test_four_devices(run_script, partitioner):
    if partitioner == "gspmd" and tuple(map(int, jax.__version__.split(".")[:2])) >= (0, 10):
        pytest.skip("this JAX has Shardy alone")
    script = f"import jax\njax.config.update('jax_use_shardy_partitioner', {partitioner == 'shardy'})\n" + SCRIPT
    lines = run_script(script, **FOUR).splitlines()
    assert {"rows", "columns", "two dimensions", "vmap", "maxk", "gradient", "along the axis", "shard_map"} <= set(
        lines
    )
