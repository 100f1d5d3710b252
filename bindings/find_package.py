"""Prints the folder of an installed package, or nothing if there is none: find_package.py NAME. Imports nothing."""

import importlib.util
import sys

spec = importlib.util.find_spec(sys.argv[1])
# The folder of this file is searched too, and has folders of these names: they have no __init__.py, and so no origin.
if spec is not None and spec.origin:
    print(spec.submodule_search_locations[0])
