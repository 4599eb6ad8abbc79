"""Recordings of a real DLedger 0.3.1.2; see tests/golden/dledger/README.md."""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dledger.stores import unmapped_at_end

GOLDEN = Path(__file__).parents[1] / "golden" / "dledger"


@pytest.fixture(autouse=True)
def closed_stores() -> Iterator[None]:
    with unmapped_at_end():
        yield


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], list[dict[str, Any]]]:
    """Reads the rows of a recording."""

    def read(name: str) -> list[dict[str, Any]]:
        raw = (GOLDEN / name).read_bytes()
        text = gzip.decompress(raw) if name.endswith(".gz") else raw
        return [json.loads(line) for line in text.splitlines()]

    return read


@pytest.fixture
def golden_store(tmp_path: Path) -> Path:
    """A copy of the recorded leader's directory `dledger-n0`."""
    copy = tmp_path / "dledger-n0"
    for path in (GOLDEN / "store").rglob("*"):
        target = copy / path.relative_to(GOLDEN / "store")
        if path.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            raw = path.read_bytes()
            if path.suffix == ".gz":
                target, raw = target.with_suffix(""), gzip.decompress(raw)
            target.write_bytes(raw)
    return copy
