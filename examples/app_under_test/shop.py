"""A small shop, which sends orders as messages and repeats unconfirmed sends.

    python examples/app_under_test/shop.py 127.0.0.1:9876 book pen

An order whose send was refused, or whose end is not known, is sent again until it is stored. So each order arrives,
and some arrive twice: receivers identify orders by their keys.
"""

import sys
from collections.abc import Iterable

import trio

from rmqlab.client.config import ClientConfig
from rmqlab.client.errors import ClientError
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message
from rmqlab.client.producer import Producer

PAUSE = 0.2


async def sell(namesrv_addr: str, orders: Iterable[str]) -> int:
    """Send every order until it is stored; return the number of sends."""
    sends = 0
    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client:
        producer = Producer(client, "shop")
        for order in orders:
            while True:
                sends += 1
                try:
                    await producer.send(Message(topic="orders", body=order.encode(), keys=order))
                    break
                except ClientError as exc:
                    print(f"{order}: {exc}", file=sys.stderr)
                    await trio.sleep(PAUSE)
    return sends


if __name__ == "__main__":
    print(trio.run(sell, sys.argv[1], sys.argv[2:]), "sends")
