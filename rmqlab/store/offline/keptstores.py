"""Whether a run kept the stores of its brokers, which judges need."""

from pathlib import Path

NO_STORES = "this run kept no stores: play it again with `rmqlab run --keep-stores`"


def no_stores_hint(run: Path) -> str:
    """Return what to do if a run's directory has no store, else an empty text.

    A scenario's run deletes the stores if its claim holds.
    """
    return "" if any(run.glob("*/store")) or not (run / "scenario.toml").exists() else NO_STORES
