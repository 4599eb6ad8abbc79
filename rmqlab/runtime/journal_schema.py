"""Every kind of event that the journal knows, with its fields and their units: the journal's schema as data.

`rmqlab events --schema` prints it. A test holds it against the sources: whoever emits a kind, or a field, that
does not stand here fails it. A field may be None where nobody knows its value.
"since version 2": the `v` of an entry; in older journals the field is absent, and a `committed` that travelled with a
pull stands where the pull was answered.
"""

from collections.abc import Mapping

import attrs


@attrs.frozen
class Field:
    """One value of an event. `unit` is empty for what has none."""

    type: str
    meaning: str
    unit: str = ""


@attrs.frozen
class Kind:
    """One kind of event, and who tells it."""

    name: str
    teller: str
    meaning: str
    fields: Mapping[str, Field] = attrs.field(factory=dict)
    is_open: bool = False
    """True where fields beside those named may come."""


def _text(meaning: str) -> Field:
    return Field("text", meaning)


def _count(meaning: str) -> Field:
    return Field("int", meaning)


def _millis(meaning: str) -> Field:
    return Field("int", meaning, "ms of the cluster's clock")


def _log_offset(meaning: str) -> Field:
    return Field("int", meaning, "bytes of the commit log")


def _queue_offset(meaning: str) -> Field:
    return Field("int", meaning, "entries of the queue")


def _flag(meaning: str) -> Field:
    return Field("bool", meaning)


def _map(meaning: str) -> Field:
    return Field("map", meaning)


def _list(meaning: str) -> Field:
    return Field("list", meaning)


_NUMBER = _count("of the message in its workload; None for a message that no workload sent")
_MESSAGE_ID = _text("the unique id that the client gave it (property UNIQ_KEY)")
_TOPIC = _text("the topic that the application knows")
_QUEUE_ID = _count("queue id")
_BROKER = _text("broker name")
_BROKER_ID = _count("0 for a master, else a slave's")
_ADDRESS = _text("IP:port")
_ERROR = _text("what went wrong")
_OUTCOME = _text(
    "SEND_OK, FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE: stored; refused: certainly not stored;"
    " indeterminate: nobody can tell"
)
_GROUP = _text("group of the producer or consumer")
_QUEUE = _text("topic@broker:queue id")
_PEER = _text("who asked: IP:port")
_SLAVE = _text("the slave's end of the connection: IP:port")
_PID = _count("process id")
_END = _text("exit status or signal")

_HELD = _millis("of `took`, just before its end, in which the broker may have waited for messages (since version 2)")

_BROKER_CHANGE = {
    "cluster": _text("RocketMQ's cluster name"),
    "broker_name": _BROKER,
    "broker_id": _BROKER_ID,
    "address": _ADDRESS,
    "reason": _text("the request, scan or closed connection that did it"),
    "remaining": _map("addresses that the broker name has now, by broker id"),
}

_FAULT = {
    "id": _text("the fault's id: f1, f2, ..."),
    "fault": _text("link, isolate, disk, request, clock or ha-report; the fields of its class come beside"),
    "fault_kind": _text("what of it, where there are several kinds"),
}

_KINDS = (
    # Messages, told by workloads
    Kind(
        "sent",
        "workload",
        "A send came to its end, with all of its attempts.",
        {
            "number": _NUMBER,
            "message_id": _MESSAGE_ID,
            "keys": _text("the message's keys"),
            "topic": _TOPIC,
            "group": _GROUP,
            "outcome": _OUTCOME,
            "error": _text("why it is not stored, or in doubt; None for a message that is stored"),
            "remark": _text("what the broker said beside of a message that is stored; None for nothing"),
            "broker": _text("broker name that stored it; None where nobody did or nobody knows"),
            "queue": _QUEUE_ID,
            "offset": _queue_offset("where it is stored"),
            "attempts": _count("requests that were tried"),
            "began_at": _millis("when the send began; `at` is when it ended"),
            "took": _millis("from then to the end"),
        },
    ),
    Kind(
        "attempt_failed",
        "workload",
        "One request of a send brought no result; the next may.",
        {
            "message_id": _MESSAGE_ID,
            "topic": _TOPIC,
            "attempt": _count("1 for the first"),
            "broker": _BROKER,
            "address": _text("IP:port; None where no master was known"),
            "code": _count("response code of a refusal"),
            "outcome": _text("refused or indeterminate"),
            "error": _ERROR,
            "took": _millis("for this attempt"),
        },
    ),
    Kind(
        "delivered",
        "workload",
        "A consumer was given a message.",
        {
            "number": _NUMBER,
            "message_id": _MESSAGE_ID,
            "topic": _TOPIC,
            "group": _GROUP,
            "broker": _BROKER,
            "queue": _QUEUE_ID,
            "offset": _queue_offset("where it is stored"),
            "reconsume_times": _count("times that it was sent back before"),
            "from_broker_id": _count("who handed it out: 0 the master, else a slave"),
            "born_at": _millis("when its producer made it"),
        },
    ),
    Kind(
        "committed",
        "workload",
        "A consumer sends its progress to a broker, by itself or with a pull; written when it is sent (since version 2).",
        {
            "group": _GROUP,
            "topic": _TOPIC,
            "broker": _BROKER,
            "queue": _QUEUE_ID,
            "offset": _queue_offset("the next message to consume"),
            "broker_id": _count("where it is sent: 0 the master, else a slave"),
        },
    ),
    Kind(
        "served",
        "broker",
        "A broker answered a send, a pull or a commit of offsets (only with journal_traffic).",
        {
            "request": _text("name of the request code"),
            "peer": _PEER,
            "group": _GROUP,
            "topic": _text("the topic as the request names it"),
            "queue": _QUEUE_ID,
            "message_ids": _list("unique ids of what is sent; empty text for a message without one"),
            "offset": _queue_offset("pulled from, or committed"),
            "code": _count("response code"),
            "remark": _text("of the answer"),
            "result_offset": _queue_offset("where it is stored, or where the next pull begins"),
            "took": _millis("until the answer"),
        },
    ),
    Kind(
        "offset_committed",
        "broker",
        "A broker stored another offset for a group, when it did so (only with journal_traffic; since version 2).",
        {
            "request": _text("name of the request code: a commit, or a pull that commits"),
            "peer": _PEER,
            "group": _GROUP,
            "topic": _text("the topic as the request names it"),
            "queue": _QUEUE_ID,
            "before": _queue_offset("what was stored until now; None for nothing"),
            "offset": _queue_offset("what is stored now"),
        },
    ),
    # What else workloads tell
    Kind(
        "produced",
        "workload",
        "A producer has ended. The number of sends of each outcome stands under the outcome's name.",
        {"sent": _count("sends")},
        is_open=True,
    ),
    Kind("consumed", "workload", "A consumer has ended.", {"delivered": _count("deliveries")}),
    Kind(
        "transaction_asked",
        "workload",
        "A broker asked what became of a half message.",
        {"message_id": _MESSAGE_ID, "topic": _TOPIC},
    ),
    Kind(
        "rebalanced",
        "workload",
        "A consumer's share of a topic's queues changed.",
        {"topic": _TOPIC, "added": _list("queues"), "removed": _list("queues"), "held": _list("all queues it has now")},
    ),
    Kind(
        "route_believed",
        "workload",
        "What a client believes of a topic's brokers has changed: its nameserver told it another route.",
        {"topic": _TOPIC, "brokers": _map("addresses by broker name, then by broker id")},
    ),
    Kind(
        "pulling_from",
        "workload",
        "A consumer asks another broker than before for a queue's messages.",
        {"queue": _QUEUE, "broker_id": _BROKER_ID, "address": _ADDRESS},
    ),
    Kind(
        "pull_failed",
        "workload",
        "A pull brought no answer, or a refusal.",
        {"queue": _QUEUE, "address": _ADDRESS, "error": _ERROR, "took": _millis("for this pull"), "held": _HELD},
    ),
    Kind(
        "pull_resumed",
        "workload",
        "A pull was answered: the first of a queue that a consumer took over (since version 2), or the first after failures.",
        {
            "queue": _QUEUE,
            "broker_id": _BROKER_ID,
            "address": _ADDRESS,
            "status": _text("FOUND, NO_NEW_MSG, NO_MATCHED_MSG or OFFSET_ILLEGAL"),
            "took": _millis("for this pull"),
            "held": _HELD,
            "stored_at": _millis("when the first message in the answer was stored; None without messages"),
        },
    ),
    Kind(
        "committing_to",
        "workload",
        "A consumer commits to another broker than before.",
        {"broker_name": _BROKER, "broker_id": _BROKER_ID, "address": _ADDRESS},
    ),
    Kind("commit_failed", "workload", "A commit of offsets failed.", {"broker_name": _BROKER, "error": _ERROR}),
    Kind(
        "offset_illegal",
        "workload",
        "A broker has not what was asked for, and offers another offset.",
        {"queue": _QUEUE, "asked": _queue_offset("asked for"), "offered": _queue_offset("offered")},
    ),
    Kind(
        "send_back_failed",
        "workload",
        "A message that was not consumed could not be sent back; it is consumed again here.",
        {"queue": _QUEUE, "message_id": _MESSAGE_ID, "error": _ERROR},
    ),
    # Nodes
    Kind("node_spawned", "supervisor", "A process was made; its main function has not begun.", {"pid": _PID}),
    Kind("node_not_spawned", "supervisor", "The machine refused a process.", {"reason": _ERROR}),
    Kind("node_ready", "supervisor", "A process does its work.", is_open=True),
    Kind("node_paused", "supervisor", "The kernel says that a process stands still (SIGSTOP)."),
    Kind("node_resumed", "supervisor", "The kernel says that a process moves again (SIGCONT)."),
    Kind("node_stopped", "supervisor", "A process ended in good order.", {"pid": _PID, "end": _END}),
    Kind("node_killed", "supervisor", "A process was ended by SIGKILL.", {"pid": _PID, "end": _END}),
    Kind("node_crashed", "supervisor", "A process ended in a way nobody asked for.", {"pid": _PID, "end": _END}),
    Kind(
        "command",
        "supervisor",
        "Somebody ordered something to be done to a node.",
        {"command": _text("kill, pause, ...")},
    ),
    Kind("control_error", "supervisor", "A process spoke what nobody understands.", {"reason": _ERROR}),
    Kind(
        "stop_overdue", "supervisor", "A process did not end when it was asked to, and was killed.", {"reason": _ERROR}
    ),
    Kind(
        "cluster_starting",
        "supervisor",
        "The first node is about to start.",
        {"rate": Field("float", "of the cluster's clock", "cluster seconds per real second")},
    ),
    Kind(
        "cluster_moved",
        "supervisor",
        "The cluster starts at other addresses than last time: another cluster has claimed those.",
        {
            "before": _text("its addresses of before"),
            "now": _text("its addresses"),
            "reason": _text("who has claimed them"),
        },
    ),
    Kind("cluster_ready", "supervisor", "All nodes are ready."),
    Kind("cluster_stopping", "supervisor", "All processes are about to be stopped."),
    Kind("cluster_stopped", "supervisor", "All processes have ended."),
    Kind("fork_server_lost", "supervisor", "The parent of all processes is gone, and they with it."),
    Kind(
        "events_dropped",
        "any",
        "The supervisor was not told of events; the journal has them.",
        {"count": _count("events")},
    ),
    Kind(
        "power_lost",
        "supervisor",
        "A node's process was killed, and what it had not synced to disk erased.",
        is_open=True,
    ),
    Kind(
        "fault_applied",
        "supervisor",
        "A fault was given to the nodes that it concerns; those that stand still take it later.",
        _FAULT,
        is_open=True,
    ),
    Kind(
        "fault_healed",
        "supervisor",
        "A fault is no longer in force.",
        {**_FAULT, "reason": _text("why, where nobody asked for it: spent, or the cluster stops")},
        is_open=True,
    ),
    Kind(
        "random_faults_drawn",
        "supervisor",
        "A schedule of random faults begins.",
        {
            "label": _text("of the scenario's step"),
            "seed": _count("that all of it follows from"),
            "drawn": _list("what will be done, with seconds since the begin; None where it goes on for ever"),
        },
    ),
    Kind(
        "random_fault",
        "supervisor",
        "One of them was done, or undone.",
        {
            "label": _text("of the scenario's step"),
            "planned": _millis("since the begin, when it was to be"),
            "action": _text("kill, stop, pause, power_loss, isolate; or start, resume, heal"),
            "target": _text("name of the node"),
            "undoes": _flag("whether it ends one that was done before"),
            "error": _text("why it could not be done; None where it was"),
        },
    ),
    Kind(
        "random_faults_over",
        "supervisor",
        "A schedule of random faults has come to its end, or was ended; none of them is in force any more.",
        {"label": _text("of the scenario's step")},
    ),
    Kind("fault_spent", "any", "A node has done all that a fault with a number wanted.", {"id": _FAULT["id"]}),
    Kind(
        "step",
        "supervisor",
        "A step of a scenario begins. Number 0 with the labels `begin` and `end` is the scenario itself.",
        {
            "number": _count("of the step, from 1"),
            "label": _text("its name, if it has one"),
            "action": _text("what is done"),
        },
    ),
    Kind(
        "probed",
        "supervisor",
        "A scenario sent a message straight to a broker.",
        {"code": _count("response code; None for no answer"), "remark": _text("of the answer, or why there is none")},
    ),
    Kind(
        "measured",
        "supervisor",
        "A scenario looked at one of a node's live facts.",
        {
            "what": _text("path of the fact"),
            "value": Field("any", "what it was; None where the node does not tell"),
            "label": _text("of the step"),
        },
    ),
    Kind("store_wiped", "supervisor", "A node's store was deleted.", {"files": _count("files that it had")}),
    # Nameservers
    Kind("broker_registered", "nameserver", "A broker's address came into the routes.", _BROKER_CHANGE),
    Kind("broker_unregistered", "nameserver", "A broker took its leave.", _BROKER_CHANGE),
    Kind("broker_expired", "nameserver", "A broker was silent for 120 s.", _BROKER_CHANGE),
    Kind("broker_connection_lost", "nameserver", "The connection over which a broker registers ended.", _BROKER_CHANGE),
    Kind(
        "route_changed",
        "nameserver",
        "Queues of topics came, changed or went.",
        {
            "broker_name": _BROKER,
            "reason": _text("the request or event that did it"),
            "topics": _list("some of the topics"),
            "topic_count": _count("how many they are"),
        },
    ),
    # Brokers
    Kind("registered", "broker", "A nameserver took a registration, after it had not.", {"nameserver": _ADDRESS}),
    Kind("registration_failed", "broker", "A nameserver no longer answers.", {"nameserver": _ADDRESS}),
    Kind("master_known", "broker", "A slave learnt where its master is.", {"master_address": _ADDRESS}),
    Kind("master_unknown", "broker", "A slave learnt that there is no master.", {"master_address": _ADDRESS}),
    Kind("ha_connected", "broker", "A slave connected to this master.", {"slave": _SLAVE}),
    Kind(
        "ha_first_report",
        "broker",
        "A slave told this master what it has.",
        {
            "slave": _SLAVE,
            "offset": _log_offset("the slave's end"),
            "transfer_from": _log_offset("where the master begins"),
        },
    ),
    Kind(
        "ha_disconnected",
        "broker",
        "The connection of a slave ended.",
        {"slave": _SLAVE, "reason": _text("why"), "ack_offset": _log_offset("the last that it reported")},
    ),
    Kind(
        "ha_client_connected",
        "broker",
        "This slave connected to its master.",
        {"master": _ADDRESS, "offset": _log_offset("this slave's end")},
    ),
    Kind(
        "ha_client_disconnected",
        "broker",
        "This slave's connection to its master ended.",
        {"master": _ADDRESS, "reason": _text("why")},
    ),
    Kind(
        "ha_master_examined",
        "broker",
        "A slave looked at its master before following it, and does not follow it, or does so as 4.9 does (a switch of ours).",
        {"verdict": _text("which, and why")},
    ),
    Kind(
        "log_truncated",
        "broker",
        "A slave's log differed from its master's, and was cut where they part (a switch of ours).",
        {
            "master": _ADDRESS,
            "had": _log_offset("this slave's end before"),
            "end": _log_offset("this slave's end now"),
            "master_end": _log_offset("the master's end"),
            "kept": _text("the file that has what was cut"),
        },
    ),
    Kind(
        "log_dropped",
        "broker",
        "What follows a slave's log has expired at its master: the slave starts anew (a switch of ours).",
        {
            "master": _ADDRESS,
            "begin": _log_offset("where this slave's log began"),
            "end": _log_offset("where it ended"),
            "master_begin": _log_offset("where the master's begins"),
        },
    ),
    Kind(
        "received_fault",
        "broker",
        "A slave received what is no log, and dropped it (a switch of ours).",
        {"offset": _log_offset("from where on"), "dropped": Field("int", "how much", "bytes")},
    ),
    Kind(
        "topics_synced",
        "broker",
        "A slave took over its master's topics.",
        {"topics": _count("topics"), "version": _count("of the table")},
    ),
    Kind("groups_synced", "broker", "A slave took over its master's groups.", {"groups": _count("groups")}),
    Kind(
        "consumer_offsets_overwritten",
        "broker",
        "A slave's consumer offsets were newer than its master's, and are replaced by these.",
        {"key": _text("topic@group"), "queues": _map("[before, after] by queue id")},
    ),
    Kind(
        "consumer_offsets_kept",
        "broker",
        "A slave's consumer offsets were newer than its master's, and stay (a switch of ours).",
        {"key": _text("topic@group"), "queues": _map("[own, the master's] by queue id")},
    ),
    Kind(
        "consumer_offsets_handed_back",
        "broker",
        "A slave gave its master the offsets that consumers committed while the master was away (a switch of ours).",
        {"key": _text("topic@group"), "queues": _map("offsets by queue id")},
    ),
    Kind(
        "offset_moved_back",
        "broker",
        "A consumer committed less than was committed before.",
        {
            "group": _GROUP,
            "topic": _TOPIC,
            "queue_id": _QUEUE_ID,
            "before": _queue_offset("committed until now"),
            "after": _queue_offset("committed from now on"),
            "peer": _PEER,
        },
    ),
    Kind(
        "consumer_joined",
        "broker",
        "A consumer's first heartbeat.",
        {"group": _GROUP, "client_id": _text("the client's id")},
    ),
    Kind(
        "settings_changed",
        "broker",
        "Settings were changed at run time.",
        {"changes": _map("new values by key"), "peer": _PEER},
    ),
    Kind(
        "unserved_request",
        "nameserver or broker",
        "Somebody asked for what is not served here: told the first, the 10th, the 100th time, and so on.",
        {
            "peer": _text("IP address of who asked"),
            "code": _count("the request code"),
            "count": _count("how often this peer has asked for it since the start"),
        },
    ),
    Kind("acl_changed", "broker", "Access control was changed at run time.", is_open=True),
    Kind(
        "log_sampled",
        "broker",
        "Where the commit log ends, looked at once a second and told if it is news.",
        {
            "max_offset": _log_offset("its end"),
            "acknowledged": _log_offset("the highest that any slave reported to this master"),
        },
    ),
    Kind(
        "recovering",
        "broker",
        "A broker that starts has come so far through the store that it found.",
        {"offset": _log_offset("where it is"), "queues": _count("steps done with single queues, a few for each")},
    ),
    Kind(
        "indexing",
        "broker",
        "A broker that stops has come so far with the index of what it received.",
        {"offset": _log_offset("where it is")},
    ),
    Kind("file_deleted", "broker", "A file of the store expired.", {"file": _text("its name")}),
    Kind(
        "transaction_checked",
        "broker",
        "The producer of a half message was asked what became of it.",
        {
            "group": _GROUP,
            "times": _count("checks so far"),
            "queue_offset": _queue_offset("of the half message"),
            "asked": _flag("a producer was there to ask"),
        },
    ),
    Kind(
        "transaction_given_up",
        "broker",
        "A half message was checked too often, and is put aside.",
        {"group": _GROUP, "times": _count("checks"), "queue_offset": _queue_offset("of the half message")},
    ),
    Kind(
        "message_skipped",
        "broker",
        "A stored message that a service of the broker can never handle was passed over.",
        {
            "service": _text("delayed delivery or transaction check"),
            "offset": _log_offset("where the message is, for it stays there"),
            "reason": _text("what is wrong with it"),
            "count": _count("how many this service has skipped since the start"),
        },
    ),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
"""All kinds by name."""
