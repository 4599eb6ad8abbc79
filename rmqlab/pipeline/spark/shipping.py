"""Ship this package, and what it imports, to Spark workers whose Python lacks it.

Large compiled packages (pyarrow, numpy) and pyspark have to be installed on the workers. Small compiled ones travel
with this package if the workers have the driver's platform and Python; msgpack also runs without its compiled part.
"""

import contextlib
import importlib.util
import zipfile
from collections.abc import Collection
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PURE: Final = (
    "rmqlab", "attr", "attrs", "cattrs", "idna", "msgpack", "outcome", "sniffio", "sortedcontainers", "trio",
    "typing_extensions",
)  # fmt: skip
"""Modules and packages that run on any platform."""
COMPILED: Final = ("msgspec",)
"""Packages that run only on the platform and Python version for which they were compiled."""
INSTALLED: Final = ("pyarrow", "numpy")
"""Packages that are too large to ship."""
_FOLDER: Final = "rmqlab-shipped"
_LEFT_OUT: Final = frozenset({"__pycache__", "_tests", "tests"})


def ship_packages(spark: "SparkSession", scratch: Path, *, without: Collection[str] = ()) -> None:
    """Add this package and what it imports to the import path of tasks and planners.

    `without` are packages to leave out. Register data sources afterwards: they keep the import path of their
    registration. Spark serves the archive in `scratch` to workers until the session ends.
    """
    archive = scratch / f"{_FOLDER}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in (*PURE, *COMPILED):
            if name not in without:
                place = _place(name)
                _pack(packed, place, place.name)
    context = spark.sparkContext
    context.addArchive(f"{archive}#{_FOLDER}")
    # Public methods add only archives that stay packed, whose compiled modules cannot be imported.
    context._python_includes.append(_FOLDER)  # noqa: SLF001


def let_streams_import() -> None:
    """Give the planning process of streams the import path of other planners.

    Spark passes it a directory below the one with the session's files (class PythonStreamingSourceRunner).
    """
    from pyspark import SparkFiles  # noqa: PLC0415 - not without the extra

    files = Path(SparkFiles.getRootDirectory())
    with contextlib.suppress(FileExistsError):
        (files / "streaming_job").symlink_to(files)


def _place(name: str) -> Path:
    """Return the directory of a package, or the file of a module."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    origin = Path(spec.origin)
    return origin.parent if spec.submodule_search_locations is not None else origin


def _pack(packed: zipfile.ZipFile, entry: Path, name: str) -> None:
    """Add a module, or the modules of a package; follows the links of a checkout."""
    if entry.is_dir():
        for child in sorted(entry.iterdir()):
            if child.name not in _LEFT_OUT:
                _pack(packed, child, f"{name}/{child.name}")
    elif entry.name.endswith((".py", *EXTENSION_SUFFIXES)):
        packed.write(entry, name)
