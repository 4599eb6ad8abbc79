"""A RocketMQ 4.9 master/slave cluster on a laptop.

Real processes, real protocols, real files, real failures.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> str:
        """Read the version on demand.

        Importing rmqlab stays cheap, and needs no installed distribution.
        """
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version  # noqa: PLC0415 -- see above

        return version("rmqlab")
