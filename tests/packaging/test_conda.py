"""The conda recipe says what the sources say: their version, options that exist, and the package's dependencies."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECIPE = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()


def test_version():
    header = (ROOT / "include" / "rtopk" / "rtopk.hpp").read_text()
    numbers = re.findall(r"#define RTOPK_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header)
    assert f'version: "{".".join(numbers)}"' in RECIPE


def test_options():
    options = (
        (ROOT / "cmake" / "options.cmake").read_text().replace("BUILD_${front}", "BUILD_PYTHON BUILD_TORCH BUILD_JAX")
    )
    used = set(re.findall(r"RTOPK_\w+(?==)", RECIPE))
    assert used and all(name.removeprefix("RTOPK_") in options for name in used)


def test_dependencies():
    listed = re.search(r"^dependencies = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE).group(1)
    run = RECIPE[RECIPE.index("      run:\n") :]
    for requirement in re.findall(r'"(.*?)"', listed):
        name, bounds = re.fullmatch(r"([\w-]+)(.*)", requirement).groups()
        assert f"- {name} {bounds}\n" in run
