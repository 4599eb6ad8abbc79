"""The id of a run, from the file `cluster.json`.

The file is outside of the journals, so that all journals can be compared with it.
"""

import json
from pathlib import Path

from rmqlab.runtime.regularfile import read_regular_text

RECORD = "cluster.json"


def recorded_run(directory: Path) -> str:
    """Return the id in the record of a cluster or run; empty without one.

    Records have it since journal version 4. A missing or damaged record has none: the journals are then held to each
    other.
    """
    try:
        record = json.loads(read_regular_text(directory / RECORD))
    except (OSError, ValueError, RecursionError):
        return ""
    run = record.get("run") if isinstance(record, dict) else None
    return run if isinstance(run, str) else ""
