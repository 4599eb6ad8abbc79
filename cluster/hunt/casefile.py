"""A case as a scenario file. Pure.

It can be read, changed and played by `rmqlab run`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from rmqlab.cluster.hunt.case import CHECKED, DELAYED, FIRST_FAULT, HALF_MESSAGE_LOADS, ORDERLY, Case
from rmqlab.cluster.hunt.faults import CONSUMER, KINDS, MASTER, MEMBERS, Fault, StepTable
from rmqlab.cluster.supervisor.plan.topology import DLEDGER

LOG_FILE_BYTES = 16_384
"""Size of a commit log file: small, so that a short run has several."""
FLUSH_MILLIS = 10_000
"""Period of ASYNC_FLUSH: long enough that a power loss loses unsynced messages."""
INDEX_SLOTS, INDEX_ENTRIES = 1000, 4000
"""Size of an index file: small, because the file is allocated page by page."""
QUEUE_FLUSH_MILLIS = 3000
"""Period of the sync of consume queues. At a power loss, they can be synced further than the log, or less far."""
RATE = 10
"""Cluster seconds per real second, when the scenario runs on real processes."""
SIZE, SIZE_SPREAD = 600, 800
"""Sizes of bodies in bytes. They vary, so that records end at any position in a file."""
SEND_SECONDS = 5.0
"""Timeout of a send: longer than a master waits for its slave."""

DELAY_LEVEL = 3
"""10 s."""
HALF_MESSAGES = 60
"""Number of half messages that the load sends; then its producer only replies to checks."""

HEALED, WRITES_ARE_BACK, SLAVE_HAS_ALL, ALL_IS_CONSUMED, DELAYS_ARE_OVER, HALVES_ARE_DECIDED, CUT = (
    "healed",
    "writes are back",
    "slave has all",
    "all is consumed",
    "delays are over",
    "halves are decided",
    "cut",
)
"""Labels of steps, which claims refer to."""


def label_of(number: int, fault: Fault) -> str:
    """Return the label of a fault's first step; the first fault has number 1."""
    return f"{number}: {fault.kind}"


def end_label_of(number: int, fault: Fault) -> str:
    """Return the label of the step that ends a fault."""
    return f"{label_of(number, fault)} ends"


def scenario_of(case: Case, expectations: Sequence[StepTable], *, name: str, claim: str) -> dict[str, Any]:
    """Return the case as the content of a scenario file."""
    in_force = case.in_force_at_end()
    consumers = 1 + sum(fault.kind == "consumer" and fault not in in_force for fault in case.faults)
    consumer = {
        "kind": "consume",
        "topic": "orders",
        "group": CONSUMER,
        "work": case.work,
        **({"orderly": True} if case.load == ORDERLY else {}),
    }
    workloads = [
        *_producers(case),
        *({"name": f"{CONSUMER}-{number}", **consumer} for number in range(1, consumers + 1)),
    ]
    return {
        "name": name,
        "claim": claim,
        "cluster": {
            "rate": RATE,
            **_group(case),
            "flush": case.flush,
            "broker_settings": {
                "profile": case.profile,
                "mapped_file_size_commit_log": LOG_FILE_BYTES,
                "max_hash_slot_num": INDEX_SLOTS,
                "max_index_num": INDEX_ENTRIES,
                "flush_interval_commit_log": FLUSH_MILLIS,
                "flush_commit_log_thorough_interval": FLUSH_MILLIS,
                "flush_consume_queue_thorough_interval": QUEUE_FLUSH_MILLIS,
                **{switch: 2 if switch == "in_sync_replicas" else True for switch in case.switches},
            },
        },
        "workload": [{**workload, "start": "step"} for workload in workloads],
        "step": [*_beginning(case), *_steps(case), *_ending(case, consumers)],
        "expect": list(expectations),
    }


def _group(case: Case) -> dict[str, Any]:
    if case.mode == DLEDGER:
        return {"mode": DLEDGER, "slaves": len(MEMBERS) - 1}
    return {"role": case.role}


def _master(case: Case) -> str:
    """Return the broker that takes writes, as a target of waits."""
    return f"{MASTER}:master" if case.mode == DLEDGER else MASTER


def _producers(case: Case) -> Iterator[dict[str, Any]]:
    messages = {
        "kind": "produce",
        "topic": "orders",
        "size": SIZE,
        "size_spread": SIZE_SPREAD,
        "send_timeout": SEND_SECONDS,
    }
    yield {"name": "orders", **messages, "rate_per_second": case.rate}
    if case.load == DELAYED:
        yield {"name": "later", **messages, "rate_per_second": 1.0, "delay_level": DELAY_LEVEL}
    if case.load in HALF_MESSAGE_LOADS:
        yield {
            "name": "halves",
            **messages,
            "group": "halves",
            "rate_per_second": 1.0,
            "count": HALF_MESSAGES,
            "transaction": "unknown" if case.load == CHECKED else "commit",
            "stays": True,
        }


def _beginning(case: Case) -> Iterator[StepTable]:
    yield {"wait": f"slave-in-sync {_master(case)}", "produce": "orders"}
    if case.load == DELAYED:
        yield {"produce": "later"}
    if case.load in HALF_MESSAGE_LOADS:
        yield {"produce": "halves"}
    yield {"wait": "sent.SEND_OK orders 20", "consume": f"{CONSUMER}-1"}


def _steps(case: Case) -> Iterator[StepTable]:
    """Yield the steps of all faults, by time."""
    in_force = case.in_force_at_end()
    timed: list[tuple[float, int, StepTable]] = []
    consumers = 0
    for number, fault in enumerate(case.faults, 1):
        kind, label, first = KINDS[fault.kind], label_of(number, fault), fault.target
        second = first
        if fault.target == CONSUMER:
            consumers += 1
            first, second = f"{CONSUMER}-{consumers}", f"{CONSUMER}-{consumers + 1}"
        timed.append((fault.at, 2 * number, kind.begin(first, label)))
        if kind.end is not None and fault not in in_force:
            ending = {**kind.end(second, label), "label": end_label_of(number, fault)}
            timed.append((fault.ends_at, 2 * number + 1, ending))
    for at, _, step in sorted(timed, key=lambda one: one[:2]):
        yield {"at": f"{at:g} s", **step}


def _ending(case: Case, consumers: int) -> Iterator[StepTable]:
    if case.cut_at is not None:
        yield {"at": f"{case.cut_at:g} s", "stop-workload": "orders", "label": CUT}
        yield {"after": f"{SEND_SECONDS:g} s", "mark": "over"}
        # What the end of a run heals would hide what was wrong.
        gone = [fault.target for fault in case.in_force_at_end() if KINDS[fault.kind].ends_process]
        yield from ({"kill": broker} for broker in case.brokers if broker not in gone)
        return
    last = max([FIRST_FAULT, *(fault.ends_at for fault in case.faults)])
    yield {"at": f"{last + 1:g} s", "mark": HEALED}
    yield {"wait": "sent.SEND_OK orders 20", "within": "60 s", "mark": WRITES_ARE_BACK}
    yield {"after": "5 s", "stop-workload": "orders"}
    if case.load == DELAYED:
        yield {"stop-workload": "later"}
    yield {"wait": f"slave-caught-up {_master(case)}", "within": "60 s", "mark": SLAVE_HAS_ALL}
    yield {"wait": f"consumed-all {CONSUMER} orders", "within": "120 s", "mark": ALL_IS_CONSUMED}
    if case.load == DELAYED:
        yield {"wait": f"consumed-all {CONSUMER} later", "within": "60 s", "mark": DELAYS_ARE_OVER}
    if case.load in HALF_MESSAGE_LOADS:
        # A half message with another outcome is rolled back by its producer.
        yield {"wait": f"consumed-all.SEND_OK {CONSUMER} halves", "within": "240 s", "mark": HALVES_ARE_DECIDED}
    yield {"after": "12 s", "stop-workload": f"{CONSUMER}-{consumers}"}
