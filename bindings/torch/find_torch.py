"""Prints the folder of the installed torch without importing it, or nothing if there is none."""

import importlib.util

spec = importlib.util.find_spec("torch")
if spec is not None and spec.submodule_search_locations:
    print(spec.submodule_search_locations[0])
