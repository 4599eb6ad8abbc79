"""The producer that all consumers of a client share, for their retry topics.

Source: class MQClientInstance, method getDefaultMQProducer.
"""

from typing import Final

from rmqlab.client.instance import Client
from rmqlab.client.producer import Producer

GROUP: Final = "CLIENT_INNER_PRODUCER"
"""The name that Java's clients use, too: operators see it in lists of producers."""


def inner_producer(client: Client) -> Producer:
    """Return the producer of a client instance; the first call makes it.

    It leaves its group with the instance.
    """
    if client.inner_producer is None:
        client.inner_producer = Producer(client, GROUP)
    return client.inner_producer
