"""Keep imported modules out of garbage collection in Spark's Python processes."""

import gc
import sys

_frozen_at = 0
"""Modules that were loaded at the last freeze."""


def freeze_imports() -> None:
    """Exclude all present objects from later collections of garbage.

    Do nothing if no modules were loaded since the last call. PySpark collects after each task: with pyarrow and this
    package loaded that takes as long as reading thousands of rows.
    """
    global _frozen_at  # noqa: PLW0603 - of the process
    if len(sys.modules) != _frozen_at:
        gc.collect()
        gc.freeze()
        _frozen_at = len(sys.modules)
