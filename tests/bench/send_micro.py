"""CPU per message of a send, from received to sent bytes, without sockets.

Run it: `python -m tests.bench.send_micro`. Sixteen sends in each receive, 128 B bodies, both header codecs; the slave
acknowledges at the end of each pass. With `--batch 100`, each send is a batch of 100 messages.
"""

import argparse
import cProfile
import pathlib
import pstats
import tempfile
import time
from typing import Any

import attrs

from rmqlab.broker.testing import TalkingBroker, open_talking_broker, send_fields
from rmqlab.remoting.batch import BatchItem, encode_batch
from rmqlab.remoting.codec import decode_command, encode_command
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import request
from rmqlab.remoting.frame import FrameDecoder

PASS = 16
WARM_UP = 100
FILE_SIZES = {
    "mapped_file_size_commit_log": 1 << 30,
    "mapped_file_size_consume_queue": 6_000_000,
    "max_hash_slot_num": 5_000_000,
    "max_index_num": 20_000_000,
}


@attrs.define
class Sink:
    """In the place of a Channel."""

    peer: str = "127.0.0.1:40000"
    is_closed: bool = False
    sent: list[Any] = attrs.field(factory=list)

    def write(self, *buffers: Any) -> None:
        """Keep until the end of the pass."""
        self.sent += buffers


def receives(serialize_type: int, count: int) -> list[bytes]:
    """What a stock producer sends: several frames in each receive."""
    frames = []
    for number in range(count):
        fields = send_fields("BenchmarkTest", number % 4, UNIQ_KEY=_unique_key(number), WAIT="true")
        frames.append(_frame(RequestCode.SEND_MESSAGE_V2, fields, b"x" * 128, serialize_type, number))
    return [b"".join(frames[at : at + PASS]) for at in range(0, count, PASS)]


def receives_of_batches(serialize_type: int, count: int, batch: int) -> list[bytes]:
    """What a stock producer sends in batches: one frame in each receive."""
    fields, frames = send_fields("BenchmarkTest", 0, WAIT="true") | {"m": "true"}, []
    for start in range(0, count, batch):
        texts = [f"UNIQ_KEY\x01{_unique_key(number)}\x02WAIT\x01true" for number in range(start, start + batch)]
        body = encode_batch([BatchItem(b"x" * 128, text.encode()) for text in texts])
        frames.append(_frame(RequestCode.SEND_BATCH_MESSAGE, fields, body, serialize_type, start))
    return frames


def _unique_key(number: int) -> str:
    return f"C000020203C34E0E2F2A65E2{number:08X}"


def _frame(code: RequestCode, fields: dict[str, str], body: bytes, serialize_type: int, opaque: int) -> bytes:
    command = request(code, fields, body, serialize_type=serialize_type)
    command.opaque = opaque
    return encode_command(command)


def run(talking: TalkingBroker, passes: list[bytes]) -> None:
    """What a channel does with each receive."""
    decoder, sink = FrameDecoder(), Sink()
    for data in passes:
        for frame in decoder.feed(data):
            talking.dispatcher.serve(sink, decode_command(frame))
        talking.broker.store.enter_appended()
        talking.acknowledge(talking.broker.store.max_commit_log_offset)
        b"".join(sink.sent)
        sink.sent.clear()


def main() -> None:
    """Print microseconds per message; with --profile, where they go."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--count", type=int, default=48_000)
    parser.add_argument("--batch", type=int, default=1, help="messages in each send")
    arguments = parser.parse_args()
    for name, serialize_type in (("JSON", 0), ("ROCKETMQ", 1)):
        with tempfile.TemporaryDirectory() as directory:
            talking = open_talking_broker(pathlib.Path(directory), broker_role="SYNC_MASTER", **FILE_SIZES)
            talking.replication.has_slave = True
            batch = arguments.batch
            passes = (
                receives_of_batches(serialize_type, arguments.count, batch)
                if batch > 1
                else receives(serialize_type, arguments.count)
            )
            run(talking, passes[:WARM_UP])
            profile = cProfile.Profile()
            if arguments.profile:
                profile.enable()
            started = time.process_time()
            run(talking, passes[WARM_UP:])
            used = time.process_time() - started
            profile.disable()
            print(
                f"{name:8} headers: {used / (arguments.count - WARM_UP * (batch if batch > 1 else PASS)) * 1e6:.1f} us of CPU a message"
            )
            if arguments.profile:
                pstats.Stats(profile).sort_stats("tottime").print_stats(25)
            talking.broker.store.close()


if __name__ == "__main__":
    main()
