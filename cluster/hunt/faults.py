"""Kinds of faults that a hunt applies to a cluster.

A fault is played as one or two steps of a scenario: its begin and, if it has a duration, its end. A step is a table as
in a scenario file. Besides the faults of `rmqlab.faults`, there are actions on processes and a restarted consumer.
"""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from rmqlab.cluster.supervisor.plan.topology import DLEDGER, MASTER_SLAVE

StepTable = dict[str, Any]

CORRUPT_EVERY = 20_000
"""Mean distance of corrupted bytes, in bytes: one every few seconds."""
MASTER, SLAVE, NAMESERVER, CONSUMER = "broker-a", "broker-a-s", "namesrv-1", "shop"
MEMBERS = ("broker-a-n0", "broker-a-n1", "broker-a-n2")
"""Of a DLedger group."""
_OTHERS = {MASTER: SLAVE, SLAVE: MASTER, **dict(zip(MEMBERS, (*MEMBERS[1:], MEMBERS[0]), strict=True))}
"""The other end of a link with a fault, by broker."""


@attrs.frozen
class Fault:
    """One fault of a case, with its begin and duration."""

    kind: str
    target: str
    at: float
    """Seconds after the start of the scenario."""
    seconds: float
    """Duration in seconds; 0 for a fault without a separate end."""

    @property
    def ends_at(self) -> float:
        return self.at + self.seconds

    @property
    def is_timed(self) -> bool:
        """True if a separate step ends the fault."""
        return KINDS[self.kind].end is not None

    def __str__(self) -> str:
        lasting = f" for {self.seconds:g} s" if self.is_timed else ""
        return f"{self.kind} {self.target} at {self.at:g} s{lasting}"


@attrs.frozen(kw_only=True)
class Kind:
    """A kind of faults."""

    text: str
    """One line for the documentation and `--help`."""
    targets: tuple[str, ...]
    members: tuple[str, ...] = ()
    """Targets in a DLedger group; empty for a fault that it cannot have."""
    begin: Callable[[str, str], StepTable]
    """Returns the first step, for a target and a label. The last step refers to the label."""
    end: Callable[[str, str], StepTable] | None
    least: float = 1.0
    """Minimum duration in seconds."""
    most: float = 60.0
    is_of_link: bool = False
    """True for a fault of the link between both brokers, which can overlap with other faults of the target."""
    part: str = ""
    """The affected part of the target, if it can overlap with faults on the target's process."""
    ends_process: bool = False
    """True if the process of the target does not run during the fault."""
    loses_data: bool = False
    """True if a broker loses data on its disk."""
    is_unprotected: bool = False
    """True if no switch protects completely against it. With profile hardened, it is played only on request."""
    ends_with_start: bool = False
    """True if the end of the fault starts a process."""

    def targets_in(self, mode: str) -> tuple[str, ...]:
        """Return the targets in a cluster of this mode."""
        return self.members if mode == DLEDGER else self.targets


def _fault(**values: Any) -> Callable[[str, str], StepTable]:
    """Return the step of a fault.

    Its values name the target as `TARGET`, and the other broker as `OTHER`.
    """

    def begin(target: str, label: str) -> StepTable:
        names = {"TARGET": target, "OTHER": _OTHERS.get(target, "")}
        return {"fault": {key: names.get(value, value) for key, value in values.items()}, "label": label}

    return begin


def _action(verb: str) -> Callable[[str, str], StepTable]:
    return lambda target, label: {verb: target, "label": label}


def _heal(_target: str, label: str) -> StepTable:
    return {"heal": label}


def _start(target: str, _label: str) -> StepTable:
    return {"start": target}


_BROKERS = (MASTER, SLAVE)

KINDS: Mapping[str, Kind] = {
    "kill": Kind(
        text="a process is killed, and started again",
        targets=(*_BROKERS, NAMESERVER),
        members=(*MEMBERS, NAMESERVER),
        begin=_action("kill"),
        end=_start,
        ends_process=True,
        ends_with_start=True,
    ),
    "restart": Kind(
        text="a broker is stopped in good order, and started at once",
        targets=_BROKERS,
        members=MEMBERS,
        begin=_action("restart"),
        end=None,
        ends_with_start=True,
    ),
    "pause": Kind(
        text="a process is stopped by a signal, and resumed",
        targets=(*_BROKERS, NAMESERVER),
        members=(*MEMBERS, NAMESERVER),
        begin=_action("pause"),
        end=lambda target, _label: {"resume": target},
    ),
    "isolate": Kind(
        text="a broker can reach no other process, and no other process can reach it",
        targets=_BROKERS,
        members=MEMBERS,
        begin=_action("isolate"),
        end=_heal,
    ),
    "power-loss": Kind(
        text="a broker is killed, and loses what it has not synced",
        targets=_BROKERS,
        members=MEMBERS,
        begin=_action("power-loss"),
        end=_start,
        ends_process=True,
        ends_with_start=True,
        loses_data=True,
    ),
    "wipe": Kind(
        text="a slave is killed, loses its disk, and starts with an empty one",
        targets=(SLAVE,),
        begin=_action("wipe"),
        end=_start,
        ends_process=True,
        ends_with_start=True,
        loses_data=True,
    ),
    "replication-cut": Kind(
        text="bytes of the replication vanish, both ways",
        targets=(MASTER,),
        begin=_fault(type="link", src="TARGET", dst="OTHER", kind="blackhole", only="ha", both_ways=True),
        end=_heal,
        is_of_link=True,
    ),
    "one-way": Kind(
        text="bytes from one broker to the other vanish",
        targets=_BROKERS,
        members=MEMBERS,
        begin=_fault(type="link", src="TARGET", dst="OTHER", kind="blackhole"),
        end=_heal,
        is_of_link=True,
    ),
    "slow-link": Kind(
        text="bytes between the brokers take 400 ms",
        targets=(MASTER,),
        members=MEMBERS,
        begin=_fault(type="link", src="TARGET", dst="OTHER", kind="latency", millis=400, both_ways=True),
        end=_heal,
        is_of_link=True,
    ),
    "corruption": Kind(
        text="some bytes of the master's log arrive at its slave with other values",
        targets=(MASTER,),
        begin=_fault(type="link", src="TARGET", dst="OTHER", kind="corrupt", only="ha", every_bytes=CORRUPT_EVERY),
        end=_heal,
        is_of_link=True,
        is_unprotected=True,  # a record's checksum covers its body only
    ),
    "slow-sync": Kind(
        text="each fsync of a broker takes a second",
        targets=_BROKERS,
        members=MEMBERS,
        begin=_fault(type="disk", target="TARGET", kind="slow-sync", millis=1000),
        end=_heal,
        part="'s disk",
    ),
    "failing-sync": Kind(
        text="each fsync of a broker fails",
        targets=_BROKERS,
        members=MEMBERS,
        begin=_fault(type="disk", target="TARGET", kind="failing-sync"),
        end=_heal,
        part="'s disk",
    ),
    "disk-full": Kind(
        text="a broker's disk is full",
        targets=_BROKERS,
        members=MEMBERS,
        begin=_fault(type="disk", target="TARGET", kind="full"),
        end=_heal,
    ),
    "forged-report": Kind(
        text="an unknown peer reports to the master that it has all of the log, and stays connected for 20 s",
        targets=(MASTER,),
        begin=_fault(type="ha-report", target="TARGET"),
        end=None,
    ),
    "consumer": Kind(
        text="the consumer ends, and another one of its group starts",
        targets=(CONSUMER,),
        members=(CONSUMER,),
        begin=lambda target, label: {"stop-workload": target, "label": label},
        end=lambda target, _label: {"consume": target},
    ),
}
"""By name, in the order of help texts."""


def kinds_for(profile: str, mode: str = MASTER_SLAVE) -> tuple[str, ...]:
    """Return the kinds that are drawn for a profile, if no others are asked for."""
    return tuple(name for name in kinds_in(mode) if profile == "4.9" or not KINDS[name].is_unprotected)


def kinds_in(mode: str) -> tuple[str, ...]:
    """Return the kinds that a cluster of this mode can have."""
    return tuple(name for name, kind in KINDS.items() if kind.targets_in(mode))
