"""CPU per message of a send, from bytes in to bytes out, without sockets: `python -m tests.bench.send_micro`.

Sixteen sends in each receive, 128 B bodies, both header codecs; the slave acknowledges at the end of each pass.
"""

import argparse
import cProfile
import pathlib
import pstats
import tempfile
import time
from types import SimpleNamespace
from typing import Any

import attrs

from broker.commit import OffsetWaits
from broker.config import BrokerConfig, BrokerSettings
from broker.handlers import HANDLERS
from broker.ha.settings import HaSettings
from broker.hold import PullHold
from broker.offsets import ConsumerOffsetTable
from broker.state import Broker
from broker.subscriptions import SubscriptionGroupTable
from broker.topics import TopicTable
from remoting.codec import decode_command, encode_command
from remoting.codes import RequestCode
from remoting.command import request
from remoting.dispatch import Dispatcher
from remoting.frame import FrameDecoder
from remoting.settings import Settings
from store.config import StoreConfig
from store.messagestore import MessageStore
from store.results import PutStatus

BATCH = 16
PROPERTIES = "UNIQ_KEY\x01C000020203C34E0E2F2A65E2{:08X}\x02WAIT\x01true"


@attrs.define
class Sink:
    """In the place of a Channel."""

    peer: str = "127.0.0.1:40000"
    is_closed: bool = False
    sent: list[Any] = attrs.field(factory=list)

    def write(self, *buffers: Any) -> None:
        """Keep until the end of the pass."""
        self.sent += buffers


def open_broker(root: pathlib.Path) -> Broker:
    """A SYNC_MASTER whose only slave is always there."""
    config = BrokerConfig(broker_role="SYNC_MASTER")
    store_config = StoreConfig(store_path_root_dir=root)
    settings = BrokerSettings(config, store_config, HaSettings(), Settings("bench", {}, {}))
    store = MessageStore.open(store_config, now_millis=lambda: int(time.time() * 1000))  # noqa: TID251 - a clock like the broker's
    now_millis = store.now_millis
    broker = Broker(
        settings=settings,
        config=config,
        store=store,
        topics=TopicTable(config, root / "topics.json", now_millis),
        subscriptions=SubscriptionGroupTable(config, root / "groups.json", now_millis),
        offsets=ConsumerOffsetTable(root / "offsets.json"),
        ha_master=SimpleNamespace(is_slave_ok=lambda _end: True),  # type: ignore[arg-type]
        ha_slave=SimpleNamespace(),  # type: ignore[arg-type]
        client=SimpleNamespace(),  # type: ignore[arg-type]
        registration=SimpleNamespace(register_soon=lambda *_a, **_k: None),  # type: ignore[arg-type]
        sync=SimpleNamespace(),  # type: ignore[arg-type]
        growth=SimpleNamespace(appended=lambda: None),  # type: ignore[arg-type]
        flush_waits=OffsetWaits(5.0, PutStatus.FLUSH_DISK_TIMEOUT),
        slave_waits=OffsetWaits(3.0, PutStatus.FLUSH_SLAVE_TIMEOUT),
        hold=PullHold(store.max_queue_offset),
        now_millis=now_millis,
        now=time.monotonic,
        emit=lambda _kind, **_fields: None,
    )
    store.dispatcher.on_dispatched = broker.message_arrived
    return broker


def receives(serialize_type: int, count: int) -> list[bytes]:
    """What a stock producer sends: several frames in each receive."""
    frames = []
    for number in range(count):
        fields = dict(
            zip(
                "abcdefghijkm",
                ["benchmark_producer", "BenchmarkTest", "TBW102", "4", str(number % 4), "0", "1795200547581", "0",
                 PROPERTIES.format(number), "0", "false", "false"],
                strict=True,
            )
        )  # fmt: skip
        command = request(RequestCode.SEND_MESSAGE_V2, fields, b"x" * 128, serialize_type=serialize_type)
        command.opaque = number
        frames.append(encode_command(command))
    return [b"".join(frames[at : at + BATCH]) for at in range(0, count, BATCH)]


def run(broker: Broker, passes: list[bytes]) -> None:
    """What a channel does with each receive."""
    dispatcher, decoder, sink = Dispatcher(HANDLERS, broker), FrameDecoder(), Sink()
    for data in passes:
        for frame in decoder.feed(data):
            dispatcher.serve(sink, decode_command(frame))
        broker.slave_waits.advance(broker.store.max_commit_log_offset)
        b"".join(sink.sent)
        sink.sent.clear()


def main() -> None:
    """Print microseconds per message; with --profile, where they go."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--count", type=int, default=48_000)
    arguments = parser.parse_args()
    for name, serialize_type in (("JSON", 0), ("ROCKETMQ", 1)):
        with tempfile.TemporaryDirectory() as directory:
            broker = open_broker(pathlib.Path(directory))
            passes = receives(serialize_type, arguments.count)
            run(broker, passes[:100])
            profile = cProfile.Profile()
            if arguments.profile:
                profile.enable()
            started = time.process_time()
            run(broker, passes[100:])
            used = time.process_time() - started
            profile.disable()
            print(f"{name:8} headers: {used / (arguments.count - 100 * BATCH) * 1e6:.1f} us of CPU a message")
            if arguments.profile:
                pstats.Stats(profile).sort_stats("tottime").print_stats(25)
            broker.store.close()


if __name__ == "__main__":
    main()
