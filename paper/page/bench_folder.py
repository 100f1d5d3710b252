"""Importing this module makes those of bench/ importable: the timing loops, the C interface and the charts."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
