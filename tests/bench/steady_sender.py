"""Sends a constant rate of messages until killed.

Run it: `python -m tests.bench.steady_sender NAMESERVER TOPIC RATE`, with a rate per second.
"""

import sys

import trio

from rmqlab.client.config import ClientConfig
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message
from rmqlab.client.producer import Producer

_PORTIONS = 20  # a second


async def send(server: str, topic: str, rate: int) -> None:
    portion = max(1, rate // _PORTIONS)
    async with open_client(ClientConfig(namesrv_addr=server)) as client:
        producer, began = Producer(client, "bench"), trio.current_time()
        for number in range(sys.maxsize):
            await trio.sleep_until(began + number * portion / rate)
            await producer.send_batch([Message(topic=topic, body=b"x" * 100) for _ in range(portion)])


if __name__ == "__main__":
    trio.run(send, sys.argv[1], sys.argv[2], int(sys.argv[3]))
