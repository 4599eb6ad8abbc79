"""Events about processes: starts, ends, commands, faults, and the cluster itself."""

import attrs

from rmqlab.runtime.journals.schema.fields import (
    END,
    ERROR,
    FAULT,
    PID,
    SEAL,
    EventType,
    Field,
    count,
    flag,
    listing,
    millis,
    number32,
    text,
)

NODES = (
    EventType(
        "node_spawned", "supervisor", "A process was forked; its main function has not started yet.", {"pid": PID}
    ),
    EventType("node_not_spawned", "supervisor", "A process could not be created.", {"reason": ERROR}),
    EventType(
        "node_ready",
        "supervisor",
        "A process is ready for requests.",
        {
            "address": Field("text", "where a server listens: IP:port", needed_with="broker_name"),
            "broker_name": text("of a broker: its broker name"),
            "broker_id": attrs.evolve(number32("of a broker: its broker id; 0 is a master"), needed_with="broker_name"),
            "group": text("of a consumer: its group"),
            "orderly": flag("of a consumer: whether it consumes in order"),
        },
        is_open=True,
    ),
    EventType(
        "node_added",
        "supervisor",
        "A node was added to the running cluster; it starts next.",
        {
            "address": text("where it listens"),
            "broker_name": text("of a broker: its broker name"),
            "broker_id": count("of a broker: its broker id"),
        },
    ),
    EventType("node_removed", "supervisor", "A node was removed from the running cluster; its data stay on disk."),
    EventType(
        "role_changed",
        "supervisor",
        "The role of a stopped broker was changed by `promote` or `demote`; it starts next.",
        {
            "broker_name": text("its broker name"),
            "role": text("its role from now on"),
            "broker_id": count("its broker id from now on; 0 is a master"),
            "role_before": text("its role until now"),
            "broker_id_before": count("its broker id until now"),
        },
    ),
    EventType("node_paused", "supervisor", "A process is stopped (SIGSTOP), as the kernel reports."),
    EventType("node_resumed", "supervisor", "A process continues (SIGCONT), as the kernel reports."),
    EventType("node_stopped", "supervisor", "A process stopped in order.", {"pid": PID, "end": END}),
    EventType("node_killed", "supervisor", "A process was ended by SIGKILL.", {"pid": PID, "end": END}),
    EventType("node_crashed", "supervisor", "A process ended without a command.", {"pid": PID, "end": END}),
    EventType(
        "command",
        "supervisor",
        "The supervisor received a command for a node.",
        {"command": text("kill, pause, ...")},
    ),
    EventType(
        "marked",
        "supervisor",
        "A text was written into the log of every process, to match logs with events.",
        {"text": text("of the mark")},
    ),
    EventType(
        "command_ended",
        "supervisor",
        "The external command of a scenario step ended.",
        {
            "command_line": text("the command and its arguments"),
            "exit_status": count("its exit status; negative: the signal that ended it"),
            "output": text("the file in `commands` of the run directory"),
        },
    ),
    EventType(
        "control_error", "supervisor", "A process sent an invalid message on its control channel.", {"reason": ERROR}
    ),
    EventType("stop_overdue", "supervisor", "A process did not stop in time, and was killed.", {"reason": ERROR}),
    EventType(
        "cluster_starting",
        "supervisor",
        "The first node is about to start.",
        {
            "rate": Field("float", "of the cluster's clock", "cluster seconds per real second"),
            "role": text("SYNC_MASTER or ASYNC_MASTER (since version 3)"),
            "profile": text("4.9 or hardened (since version 3)"),
            "seed": text("of random choices; empty for none (since version 3)"),
            "version": text("of rmqlab (since version 3)"),
        },
    ),
    EventType(
        "cluster_moved",
        "supervisor",
        "The cluster starts at new addresses: another cluster uses its old ones.",
        {
            "before": text("its old addresses"),
            "now": text("its new addresses"),
            "reason": text("the cluster that uses the old ones"),
        },
    ),
    EventType("cluster_ready", "supervisor", "All nodes are ready."),
    EventType("cluster_stopping", "supervisor", "All processes are about to be stopped."),
    EventType("cluster_stopped", "supervisor", "All processes have ended.", {"crc": SEAL}),
    EventType("fork_server_lost", "supervisor", "The fork server ended, and all nodes with it."),
    EventType(
        "journal_opened",
        "any",
        "A process begins to write: the first entry of each of its starts (since version 4).",
        {"run": text("id of the run, which `rmqlab up` or a scenario makes: the same in all journals of the run")},
    ),
    EventType(
        "journal_closed",
        "any",
        "A process stopped in order and closed its journal: the last entry of the file (since version 3).",
        {"crc": SEAL},
    ),
    EventType(
        "events_dropped",
        "any",
        "Events were not sent to the supervisor; the journal has them.",
        {"count": count("events")},
    ),
    EventType(
        "power_lost",
        "supervisor",
        "A node's process was killed, and all bytes that it had not synced to disk were erased.",
        is_open=True,
    ),
    EventType(
        "fault_applied",
        "supervisor",
        "A fault was applied to its nodes; nodes that do not run apply it when they do.",
        FAULT,
        is_open=True,
    ),
    EventType(
        "fault_healed",
        "supervisor",
        "A fault is no longer in force.",
        {**FAULT, "reason": text("why, if no command healed it: spent, the cluster stops, or its command failed")},
        is_open=True,
    ),
    EventType(
        "random_faults_drawn",
        "supervisor",
        "A schedule of random faults begins.",
        {
            "label": text("of the scenario's step"),
            "seed": count("seed of the schedule"),
            "drawn": listing("the planned faults, in seconds since the start; null for an end that is not planned"),
        },
    ),
    EventType(
        "random_fault",
        "supervisor",
        "A random fault was applied, or undone.",
        {
            "label": text("of the scenario's step"),
            "planned": millis("planned time since the start"),
            "action": text("kill, stop, pause, power_loss, isolate; or start, resume, heal"),
            "target": text("name of the node"),
            "undoes": flag("whether it ends an earlier fault"),
            "error": text("why it failed; null if it did not"),
        },
    ),
    EventType(
        "random_faults_over",
        "supervisor",
        "A schedule of random faults ended, or was stopped; all of its faults are healed.",
        {"label": text("of the scenario's step")},
    ),
    EventType(
        "fault_spent",
        "any",
        "A fault with a limited number of effects has none left at this node.",
        {"id": FAULT["id"]},
    ),
    EventType(
        "step",
        "supervisor",
        "A step of a scenario begins. Number 0 with the labels `begin` and `end` is the scenario itself.",
        {
            "number": count("of the step, from 1"),
            "label": text("its name, if it has one"),
            "action": text("its action"),
        },
    ),
    EventType(
        "leadership_asked",
        "supervisor",
        "An operator or a scenario requested the transfer of a DLedger group's leadership to this member.",
        {
            "broker_name": text("its broker name"),
            "term": count("of the leader"),
            "code": count("of DLedger's response: 200 if the member leads"),
        },
    ),
    EventType(
        "probed",
        "supervisor",
        "A scenario sent a message to one certain broker.",
        {
            "code": count("response code; null without a response"),
            "remark": text("of the response, or why there is none"),
        },
    ),
    EventType(
        "resent",
        "supervisor",
        "A scenario resent a message that this slave had truncated from its log.",
        {
            "message_id": text("its unique id"),
            "topic": text("its topic"),
            "outcome": text("SEND_OK, ..., refused, indeterminate, or skipped"),
            "reason": text("why it was not stored, or skipped"),
        },
    ),
    EventType(
        "operated",
        "supervisor",
        "A scenario changed topics, groups, offsets or settings, as an operator does.",
        {
            "operation": text("the action and its argument"),
            "result": Field("any", "what `--json` prints of the same command"),
        },
    ),
    EventType(
        "measured",
        "supervisor",
        "A scenario read one of a node's live facts.",
        {
            "what": text("path of the fact"),
            "value": Field("any", "its value; null if the node does not report it"),
            "label": text("of the step"),
        },
    ),
    EventType("store_wiped", "supervisor", "A node's store was deleted.", {"files": count("deleted files")}),
)
