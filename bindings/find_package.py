"""Prints the folder of an installed package, or nothing if there is none: find_package.py NAME. Imports nothing."""

import importlib.util
import sys

spec = importlib.util.find_spec(sys.argv[1])
if spec is not None and spec.submodule_search_locations:
    print(spec.submodule_search_locations[0])
