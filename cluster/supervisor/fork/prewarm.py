"""Work that every node needs once at its start, done before the fork.

Converters, codecs and decoders are built at their first use and cached. Built in each child, they would cost every
child time and memory; built before the fork, they are shared by all children.
"""

import contextlib
import encodings.idna  # noqa: F401 -- imported by Python when the first address is checked
import logging
import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType

import msgspec

from rmqlab.cluster.supervisor.fork.child import prctl_function
from rmqlab.cluster.supervisor.fork.forklaunch import BROKER_MODULE, NAMESERVER_MODULE
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
from rmqlab.runtime.config.settings import SettingsError
from rmqlab.runtime.node.controlmessages import (
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
from rmqlab.runtime.node.logfile import set_root_level

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
SETTINGS: Mapping[str, str] = {
    NAMESERVER_MODULE: """
        listen_address = "127.0.0.1"
        listen_port = 9876
        kv_config_path = "/kvConfig.json"
        config_store_path = "/namesrv.properties"
    """,
    BROKER_MODULE: """
        broker_cluster_name = "DefaultCluster"
        broker_name = "broker-a"
        broker_id = 0
        broker_role = "ASYNC_MASTER"
        namesrv_addr = "127.0.0.1:9876"
        broker_ip1 = "127.0.0.1"
        broker_ip2 = "127.0.0.1"
        listen_address = "127.0.0.1"
        listen_port = 10911
        store_path_root_dir = "/store"
        flush_disk_type = "ASYNC_FLUSH"
    """,
}
"""Settings files with the keys that `nodesettings` writes for every node."""


def prewarm(module: ModuleType) -> None:
    """Do the first work of a node of this module, without side effects."""
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
    if sys.platform == "linux" and (load_config := getattr(module, "load_config", None)) is not None:
        with contextlib.suppress(SettingsError):  # some settings have no defaults
            _load(load_config, SETTINGS.get(module.__name__, ""))


def _load(load_config: Callable[[str], object], settings: str) -> None:
    """Let a module load these settings.

    They are a file in memory, because settings are read from regular files only.
    """
    with os.fdopen(os.memfd_create("settings"), "w+") as file:
        file.write(settings)
        file.flush()
        load_config(f"/proc/self/fd/{file.fileno()}")
