"""Costs of hostile or many peers for a broker: memory, delays of other clients.

Run it: `python -m tests.bench.limits`. A broker runs in a process of its own. In another process a probe asks it for a
queue's end every 5 ms over one connection, and notes the longest wait. Memory is what no file backs (RssAnon); the
queue files of a test come on top. Figures move with the machine and its load; they are for docs/benchmarks.md, and
nothing is judged here (issue 12.6).
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from rmqlab.broker.testing import pull_fields, send_fields
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqlab.remoting.codec import encode_command
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import request
from tests.bench.process import own_memory_mb
from tests.interop.rawrequest import ask

HOST = "127.0.0.1"
MESSAGE = b"x" * 250_000
PROBE_PERIOD = 0.005


_stacks: list[contextlib.ExitStack] = []
"""Resources of a measurement to close at its end."""


@attrs.frozen
class Node:
    """A broker that runs."""

    address: tuple[str, int]
    pid: int

    @property
    def text(self) -> str:
        return f"{HOST}:{self.address[1]}"


def free_port() -> int:
    """Return a port that is free, with those around it that a broker needs."""
    with socket.create_server((HOST, 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


@contextlib.contextmanager
def running_broker(directory: Path, *, topics: int = 0) -> Iterator[Node]:
    """Run a broker with so many topics. It has no nameserver."""
    port, store = free_port(), directory / "store"
    (store / "config").mkdir(parents=True)
    if topics:
        table = {f"T{number}": TopicConfig(topic_name=f"T{number}") for number in range(topics)}
        wrapper = TopicConfigSerializeWrapper(data_version=DataVersion(), topic_config_table=table)
        (store / "config" / "topics.json").write_bytes(wrapper.encode_pretty())
    config = directory / "broker.toml"
    config.write_text(
        f'listen_address = "{HOST}"\nlisten_port = {port}\nfast_listen_port = 0\nha_listen_port = 0\n'
        f'broker_ip1 = "{HOST}"\nstore_path_root_dir = "{store}"\nmapped_file_size_commit_log = 104857600\n'
    )
    with subprocess.Popen([sys.executable, "-m", "rmqlab.broker", str(config)], stdout=subprocess.DEVNULL) as process:
        node = Node((HOST, port), process.pid)
        try:
            wait_for(lambda: is_listening(node))
            yield node
        finally:
            process.terminate()


def is_listening(node: Node) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(node.address, 1):
        return True
    return False


def wait_for(holds: Callable[[], bool], timeout: float = 60.0) -> None:
    until = time.monotonic() + timeout
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError(holds)
        time.sleep(0.02)


@contextlib.contextmanager
def probe(node: Node) -> Iterator[Callable[[], float]]:
    """Probe a broker meanwhile.

    The function ends that and returns the longest wait, in ms.
    """
    arguments = [sys.executable, "-m", "tests.bench.limits", "--probe", node.text]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "probing\n"
        yield lambda: float(process.communicate()[0])


def run_probe(address: str) -> None:
    host, _, port = address.partition(":")
    frame = encode_command(request(RequestCode.GET_MAX_OFFSET, {"topic": "none", "queueId": "0"}))
    longest = 0.0
    with socket.create_connection((host, int(port))) as sock:
        os.set_blocking(sys.stdin.fileno(), False)
        print("probing", flush=True)
        while not _is_ended(sys.stdin.fileno()):
            began = time.perf_counter()
            sock.sendall(frame)
            sock.recv(4096)
            longest = max(longest, time.perf_counter() - began)
            time.sleep(PROBE_PERIOD)
    print(longest * 1000)


def _is_ended(fd: int) -> bool:
    try:
        return os.read(fd, 1) == b""
    except BlockingIOError:
        return False


def measure(name: str, work: Callable[[Node, Path], object], *, topics: int = 0, after: float = 2.0) -> None:
    """Run a broker, load it, wait `after` seconds, and print the costs."""
    with (
        tempfile.TemporaryDirectory(prefix="rmqlab-limits-") as directory,
        running_broker(Path(directory), topics=topics) as node,
    ):
        time.sleep(5)
        before = own_memory_mb(node.pid)
        with probe(node) as longest, contextlib.ExitStack() as stack:
            _stacks.append(stack)
            work(node, Path(directory))
            time.sleep(after)
            grown, wait = own_memory_mb(node.pid) - before, longest()
            _stacks.pop()
    print(f"| {name} | {before:.0f} MB | {grown:+.0f} MB | {wait:.0f} ms |", flush=True)


def connect(node: Node) -> socket.socket:
    return _stacks[-1].enter_context(socket.create_connection(node.address))


def send(node: Node) -> None:
    assert ask(node.text, RequestCode.SEND_MESSAGE_V2, send_fields("T"), MESSAGE).code == 0


def parked_pulls(node: Node, _directory: Path) -> None:
    send(node)
    pull = encode_command(request(RequestCode.PULL_MESSAGE, pull_fields("T", 1, sysFlag=6)))
    connect(node).sendall(pull * 2000)
    time.sleep(1)
    send(node)


def pipelined_pulls(connections: int, pulls: int) -> Callable[[Node, Path], None]:
    def work(node: Node, _directory: Path) -> None:
        send(node)
        pull = encode_command(request(RequestCode.PULL_MESSAGE, pull_fields("T", 0)))
        for _ in range(connections):
            sock = connect(node)
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                sock.send(pull * pulls)

    return work


def idle_connections(node: Node, _directory: Path) -> None:
    for _ in range(5000):
        connect(node)


def many_groups(node: Node, _directory: Path) -> None:
    with socket.create_connection(node.address) as sock:
        for first in range(0, 100_000, 100):
            fields = (
                {"consumerGroup": f"g{number}", "topic": "T", "queueId": "0", "commitOffset": "1"}
                for number in range(first, first + 100)
            )
            sock.sendall(b"".join(encode_command(request(RequestCode.UPDATE_CONSUMER_OFFSET, one)) for one in fields))
            got = 0
            while got < 100:
                got += sock.recv(2**16).count(b'"opaque"')


def one_commit_more(node: Node, _directory: Path) -> None:
    many_groups(node, _directory)
    time.sleep(15)


def topic_stats(node: Node, _directory: Path) -> None:
    fields = {
        "topic": "Wide", "readQueueNums": "32768", "writeQueueNums": "32768", "perm": "6", "order": "false",
        "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG",
    }  # fmt: skip
    assert ask(node.text, RequestCode.UPDATE_AND_CREATE_TOPIC, fields).code == 0
    for _ in range(5):
        answer = ask(node.text, RequestCode.GET_TOPIC_STATS_INFO, {"topic": "Wide"})
        assert len(answer.body) > 1_000_000


def one_topic_more(node: Node, _directory: Path) -> None:
    assert json.loads(ask(node.text, RequestCode.GET_ALL_TOPIC_CONFIG, {}).body)["topicConfigTable"]
    send(node)


def main() -> None:
    print("| load | before | memory | longest wait of others |\n|---|---|---|---|", flush=True)
    measure("nothing", lambda _node, _directory: None)
    measure("2,000 held pulls of one silent reader, and a message of 250 kB", parked_pulls)
    measure("10 silent readers that pipeline 10,000 pulls of 250 kB each", pipelined_pulls(10, 10_000))
    measure("one silent reader that pipelines 1,000 pulls of 250 kB", pipelined_pulls(1, 1000))
    measure("5,000 idle connections", idle_connections)
    measure("offsets of 100,000 groups, saved while others commit", one_commit_more, after=6)
    measure("request 202 about 32,768 queues, five times", topic_stats)
    measure("20,000 topics, all read, and one created", one_topic_more, topics=20_000)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--probe"]:
        run_probe(sys.argv[2])
    else:
        main()
