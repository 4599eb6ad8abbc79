"""The record of a run outside of its journals.

The supervisor writes `cluster.json` before a start, and each broker's `config.toml`. So journals can be compared with
both.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from rmqlab.runtime.regularfile import read_regular_text
from rmqlab.runtime.text.digits import number_of
from rmqlab.verdict.nodesettings import Settings, read_settings
from rmqlab.verdict.rules import PROFILES, ROLES

RECORD: Final = "cluster.json"
_HIGHEST_RATE: Final = 1e9
_WORKLOAD_SLOTS: Final = range(240, 254)
"""Last numbers of the addresses of workloads (`rmqlab.cluster.supervisor.plan.topology`)."""


@attrs.frozen(kw_only=True)
class RunRecord:
    """Facts of a run; each is empty where no file has it."""

    run: str = ""
    """Id of the run. Records have it since journal version 4."""
    role: str = ""
    """Role of the masters by cluster.json."""
    profile: str = ""
    """Profile of all brokers by cluster.json; empty if single brokers have their own."""
    rate: float | None = None
    """Cluster seconds per real second by cluster.json."""
    settings: Mapping[str, Settings] = attrs.field(factory=dict)
    """Settings of each broker with a valid config.toml."""
    own_keys: frozenset[str] = frozenset()
    """Settings that single brokers have by cluster.json: since the start, or since a later restart."""
    addresses: Mapping[str, str] = attrs.field(factory=dict)
    """Current and former nodes by IP address; empty if they share one."""
    workload_network: str = ""
    """First three numbers of the addresses of workloads; empty if all processes share one address."""
    directories: tuple[str, ...] = ()
    """Directories of processes: those with a log or settings."""

    def is_workload_address(self, host: str) -> bool:
        """Return True for an address that only workloads of the cluster have."""
        network, _, number = host.rpartition(".")
        is_known = bool(self.workload_network) and network == self.workload_network
        return is_known and number_of(number) in _WORKLOAD_SLOTS


NO_RECORD: Final = RunRecord()


def read_record(directory: Path) -> RunRecord:
    """Return the record of a cluster or run. A missing or damaged file has no facts."""
    record = _document(directory / RECORD)
    spec, placement = _mapping(record.get("spec")), _mapping(record.get("placement"))
    names = tuple(_directories(directory))
    settings = {name: own for name in names if (own := read_settings(directory, name)) and "broker_name" in own}
    rate, network, subnet = spec.get("rate"), placement.get("network"), placement.get("subnet")
    prefix = f"{network}.{subnet}" if isinstance(network, str) and isinstance(subnet, int) else ""
    slots = _mapping(placement.get("slots")) if prefix else {}
    return RunRecord(
        run=_text(record.get("run")),
        role=_one_of(ROLES, spec.get("role")),
        profile=_profile(spec),
        rate=float(rate) if isinstance(rate, int | float) and abs(rate) < _HIGHEST_RATE else None,
        settings=settings,
        own_keys=frozenset(_own_keys(spec)),
        addresses={f"{prefix}.{number}": name for name, number in slots.items()},
        workload_network=prefix,
        directories=names,
    )


def _document(path: Path) -> Mapping[str, Any]:
    try:
        return _mapping(json.loads(read_regular_text(path)))
    except (OSError, ValueError, RecursionError):
        return {}


def _profile(spec: Mapping[str, Any]) -> str:
    """Return the profile that all brokers started with; empty if it is unknown."""
    known = _mapping(spec.get("broker_settings")).get("profile", spec.get("profile"))
    return "" if "profile" in _own_keys(spec) else _one_of(PROFILES, known)


def _own_keys(spec: Mapping[str, Any]) -> Iterator[str]:
    for given in _mapping(spec.get("node_settings")).values():
        yield from _mapping(given)


def _directories(directory: Path) -> Iterator[str]:
    """Yield those of processes, as far as this user may look into them."""
    with contextlib.suppress(OSError):
        yield from (path.name for path in sorted(directory.iterdir()) if _is_of_process(path))


def _is_of_process(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return (path / "node.log").is_file() or (path / "config.toml").is_file()
    return False


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _one_of(known: tuple[str, ...], value: object) -> str:
    return value if isinstance(value, str) and value in known else ""
