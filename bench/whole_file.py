"""JSON files that appear whole or not at all."""

import json


def write_json(path, record):
    """Writes `record` to the file, makes its folder if necessary, and says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(record, indent=1) + "\n")
    part.replace(path)
    print(f"written: {path}")
