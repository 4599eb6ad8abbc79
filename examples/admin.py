"""Show a cluster and the bounds of a topic's queues.

Run it: `python examples/admin.py 127.0.0.1:9876 --topic orders`.
"""

import click
import trio

from rmqlab.client.admin import Admin
from rmqlab.client.config import ClientConfig
from rmqlab.client.instance import open_client
from rmqlab.client.script import without_traceback


async def main(namesrv_addr: str, topic: str | None = None) -> None:
    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client:
        admin = Admin(client)
        info = await admin.cluster_info()
        for cluster, names in info.cluster_addr_table.items():
            for name in names:
                for broker_id, address in sorted(info.broker_addr_table[name].broker_addrs.items()):
                    print(cluster, name, "master" if broker_id == 0 else f"slave {broker_id}", address)
        for name in await admin.topics() if topic is None else []:
            print("topic", name)
        if topic is not None:
            for queue, bounds in (await admin.topic_stats(topic)).offset_table.items():
                print(queue.broker_name, queue.queue_id, bounds.min_offset, bounds.max_offset)


@click.command()
@click.argument("namesrv_addr")
@click.option("--topic", default="")
def command(namesrv_addr: str, topic: str) -> None:
    """Show a cluster and the bounds of a topic's queues."""
    with without_traceback():
        trio.run(main, namesrv_addr, topic or None)


if __name__ == "__main__":
    command()
