"""CPU per message of pulls from a backlog and of batch sends, without sockets.

Run it: `python -m tests.bench.pull_micro`. 128 B bodies in four queues; pulls of 32 messages as a Java push consumer
sends them, batches of 16 and 1000.
"""

import argparse
import cProfile
import pathlib
import pstats
import tempfile
import time

from rmqlab.broker.testing import TalkingBroker, open_talking_broker, pull_fields, send_fields
from rmqlab.remoting.batch import BatchItem, encode_batch
from rmqlab.remoting.codec import decode_command, encode_command
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import request
from rmqlab.remoting.frame import FrameDecoder
from rmqlab.remoting.message import format_properties
from tests.bench.send_micro import FILE_SIZES, Sink

QUEUES = 4
PULL_SIZE = 32
TOPIC, GROUP = "BenchmarkTest", "benchmark_consumer"
BATCH_SIZES = (16, 1000)


def batches(count: int, size: int, serialize_type: int) -> list[bytes]:
    """Frames of batch sends, with a message's properties as Java's client sets them."""
    frames = []
    for number in range(0, count, size):
        items = [
            BatchItem(
                b"x" * 128,
                format_properties({"UNIQ_KEY": f"C000020203C34E0E2F2A65E2{number + of:08X}", "WAIT": "true"}).encode(),
            )
            for of in range(size)
        ]
        fields = send_fields(TOPIC, number // size % QUEUES, WAIT="true") | {"m": "true"}
        command = request(RequestCode.SEND_BATCH_MESSAGE, fields, encode_batch(items), serialize_type=serialize_type)
        frames.append(encode_command(command))
    return frames


def pulls(count: int, serialize_type: int) -> list[bytes]:
    """Frames of pulls through all queues, from their beginning to their end."""
    changes = {"consumerGroup": GROUP, "sysFlag": 2, "suspendTimeoutMillis": 15_000, "maxMsgNums": PULL_SIZE}
    frames = []
    for offset in range(0, count // QUEUES, PULL_SIZE):
        for queue_id in range(QUEUES):
            fields = pull_fields(TOPIC, offset, queueId=queue_id, **changes)
            for absent in ("subscription",):
                fields.pop(absent, None)
            frames.append(encode_command(request(RequestCode.PULL_MESSAGE, fields, serialize_type=serialize_type)))
    return frames


def run(talking: TalkingBroker, frames: list[bytes]) -> tuple[float, int]:
    """Serve one frame after the other; return CPU seconds and reply bytes."""
    decoder, sink, answered = FrameDecoder(), Sink(), 0
    broker = talking.broker
    began = time.process_time()
    for data in frames:
        for frame in decoder.feed(data):
            talking.dispatcher.serve(sink, decode_command(frame))
        broker.slave_waits.advance(broker.store.max_commit_log_offset)
        answered += sum(map(len, sink.sent))
        sink.sent.clear()
    return time.process_time() - began, answered


def main() -> None:
    """Print microseconds per message; with --profile, where they go."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--count", type=int, default=256_000)
    arguments = parser.parse_args()
    count: int = arguments.count
    for name, serialize_type in (("JSON", 0), ("ROCKETMQ", 1)):
        with tempfile.TemporaryDirectory() as directory:
            talking = open_talking_broker(pathlib.Path(directory), broker_role="SYNC_MASTER", **FILE_SIZES)
            talking.replication.has_slave = True
            profile = cProfile.Profile()
            if arguments.profile:
                profile.enable()
            for size in BATCH_SIZES:
                used, _ = run(talking, batches(count // len(BATCH_SIZES), size, serialize_type))
                print(
                    f"{name:8} headers, batches of {size:4}: {used / count * len(BATCH_SIZES) * 1e6:5.2f} us of CPU a message"
                )
            dispatched = time.process_time()
            talking.broker.store.dispatch()
            used = time.process_time() - dispatched
            print(f"{name:8} headers, queues and index:    {used / count * 1e6:5.2f} us of CPU a message")
            talking.heartbeat(GROUP, TOPIC)
            frames = pulls(count, serialize_type)
            used, answered = run(talking, frames)
            assert answered > count * 128, f"only {answered} bytes were pulled"
            print(
                f"{name:8} headers, pulls of {PULL_SIZE}: {used / count * 1e6:13.2f} us of CPU a message,"
                f" {used / len(frames) * 1e6:.1f} us a pull"
            )
            profile.disable()
            if arguments.profile:
                pstats.Stats(profile).sort_stats("tottime").print_stats(30)
            talking.broker.store.close()


if __name__ == "__main__":
    main()
