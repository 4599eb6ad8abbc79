"""Problems of log files: missing files, misplaced files, a lost end."""

import collections
from collections.abc import Mapping
from pathlib import Path

from rmqlab.cluster.checks.history import History
from rmqlab.store.log.logheads import lost_tail, read_heads, stray_tail
from rmqlab.store.log.loglayout import log_directory, log_extents
from rmqlab.verdict.logcover import EPOCH_KINDS, LogState, Samples, last_epochs, log_state
from rmqlab.verdict.misplaced import RUN_FACT_KINDS, misplaced_files, run_facts_of


def log_states(roots: Mapping[str, Path], ends: Mapping[str, int], history: History) -> Mapping[str, LogState]:
    """Return the state of each node's log.

    `ends` are where their last records end. Raises OSError.
    """
    every = (*history.entries, *history.closing)
    epochs = last_epochs((one.at_millis, one.node, one.kind) for one in history.of_kind(*EPOCH_KINDS))
    events = ((one.at_millis, one.node, one.kind, one.fields) for one in every if one.kind in RUN_FACT_KINDS)
    facts = run_facts_of(events, history.began_at)
    recorded: dict[str, list[int]] = collections.defaultdict(list)
    for entry in every:
        if entry.kind == "log_sampled" and entry.node in epochs and entry.at_millis > epochs[entry.node].since:
            recorded[entry.node].append(int(entry.fields["max_offset"]))
    states = {}
    for node, root in roots.items():
        known = recorded[node]
        lowest = min((end for end in known if end), default=None)
        samples = Samples(lowest=lowest, highest=max(known)) if known else None
        states[node] = log_state(
            f"{root.name}/{log_directory(root).relative_to(root)}",
            log_extents(root),
            samples,
            epochs.get(node),
            misplaced=misplaced_files(node, read_heads(root), facts),
            tail=lost_tail(root, ends[node], samples.highest) if samples else None,
            stray=stray_tail(root, ends[node]),
            has_recorded=node in facts.first_ends,
        )
    return states
