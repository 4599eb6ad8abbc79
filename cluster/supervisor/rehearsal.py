"""What every node does once at its start, done before the fork.

Converters, codecs and decoders are built at their first use, and stay. A child that builds them takes the time and the
memory for itself; built before the fork, all children share them.
"""

import contextlib
import encodings.idna  # noqa: F401 -- imported by Python when the first address is checked
import logging
import os
from types import ModuleType

import msgspec

from rmqlab.cluster.supervisor.child import prctl_function
from rmqlab.faults.process import faults_of_process
from rmqlab.faults.rules import NodeRules
from rmqlab.remoting.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rmqlab.remoting.bodies.offset import ConsumerOffsets, DelayOffsets
from rmqlab.remoting.bodies.registration import RegisterBrokerBody
from rmqlab.remoting.bodies.runtime import KVTable
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.body import Body
from rmqlab.remoting.header import Header, header_from_json, header_to_fields
from rmqlab.remoting.headers.nameserver import RegisterBrokerRequestHeader, RegisterBrokerResponseHeader
from rmqlab.runtime.clock import ClockSettings, RatedClock
from rmqlab.runtime.control import (
    CONTROL,
    Event,
    Hello,
    LogMark,
    Message,
    Ready,
    RulesSet,
    SetRules,
    Snapshot,
    SnapshotRequest,
    Stopping,
)
from rmqlab.runtime.logfile import set_root_level
from rmqlab.runtime.settings import SettingsError

FACTS = {"fact": [{"fact": ["", 0, 0.5, True, None, b"", ()]}]}
"""A value of each type that facts have."""
NO_RULES = NodeRules().to_plain()
MESSAGES: tuple[Message, ...] = (
    Hello("", 0), Ready(FACTS), Stopping(), Event(0, "", FACTS), SnapshotRequest(0), Snapshot(0, FACTS),
    SetRules(0, NO_RULES), RulesSet(0), LogMark(""),
)  # fmt: skip
BODIES: tuple[Body, ...] = (
    ConsumerOffsets(), DelayOffsets(), KVTable(), RegisterBrokerBody(), DataVersion(),
    SubscriptionGroupWrapper(subscription_group_table={"": SubscriptionGroupConfig(group_name="")}),
    TopicConfigSerializeWrapper(topic_config_table={"": TopicConfig(topic_name="")}),
)  # fmt: skip
"""The bodies of a broker's files, of its registration, and of a slave's copies."""
HEADERS: tuple[Header, ...] = (
    RegisterBrokerRequestHeader(broker_name="", broker_addr="", cluster_name="", broker_id=0),
    RegisterBrokerResponseHeader(),
)
"""The headers of its registration."""


def rehearse(module: ModuleType) -> None:
    """Do what a node of this module does first; nothing of it has an effect."""
    faults_of_process(RatedClock(ClockSettings.starting_now()), NO_RULES)
    decoder = CONTROL.decoder()
    for message in MESSAGES:
        decoder.feed(CONTROL.encode(message))
    for _ in decoder.messages():
        pass
    for body in BODIES:
        body.encode_pretty()
        body.decode(body.encode())
    for header in HEADERS:
        fields = header_to_fields(header)
        header_from_json(type(header), msgspec.json.encode(fields))
    prctl_function()
    set_root_level(logging.INFO)
    if (load_config := getattr(module, "load_config", None)) is not None:
        with contextlib.suppress(SettingsError):  # some settings have no defaults
            load_config(os.devnull)
