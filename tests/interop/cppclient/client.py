"""Sends or consumes with the C++ client that the Python package `rocketmq` has.

    python client.py NAMESRV send|consume TOPIC FEATURE COUNT

Bodies are m-0, m-1, ...; messages with odd numbers have the tag `odd`. A consumer prints `GOT body born stored queue`,
with times in ms, and ends when it has COUNT different bodies, or with status 1 after some time.
"""

import os
import sys
import threading

from rocketmq.client import Message, Producer, PushConsumer

PATIENCE = 100.0
"""Seconds for all messages: a consumer of a topic without a route looks again after 30 s."""


def main(namesrv: str, action: str, topic: str, feature: str, count: str) -> int:
    act = send if action == "send" else consume
    return act(namesrv, topic, feature, int(count))


def send(namesrv: str, topic: str, feature: str, count: int) -> int:
    producer = Producer(f"{topic}Senders")
    producer.set_namesrv_addr(namesrv)
    producer.start()
    messages = [message(topic, feature, number) for number in range(count)]
    match feature:
        case "async":
            send_async(producer, messages)
        case "oneway":
            for one in messages:
                producer.send_oneway(one)
        case "orderly":
            for number, one in enumerate(messages):
                producer.send_orderly(one, number % 3)
        case _:
            for one in messages:
                producer.send_sync(one)
    producer.shutdown()
    return 0


def message(topic: str, feature: str, number: int) -> Message:
    made = Message(topic)
    made.set_keys(f"k-{number}")
    made.set_tags("odd" if number % 2 else "even")
    made.set_body(f"m-{number}")
    if feature == "delay":
        made.set_delay_time_level(2)
    return made


def send_async(producer: Producer, messages: list[Message]) -> None:
    """Send all, and wait until each was acknowledged."""
    acknowledged = threading.Semaphore(0)
    for one in messages:
        producer.send_async(one, lambda _: acknowledged.release(), lambda error: print("FAILED", error, flush=True))
    for _ in messages:
        if not acknowledged.acquire(timeout=PATIENCE):
            raise SystemExit("an asynchronous send was not acknowledged")


def consume(namesrv: str, topic: str, feature: str, count: int) -> int:
    bodies: set[str] = set()
    has_all = threading.Event()

    def receive(got: Message) -> None:
        body = got.body.decode()
        line = f"GOT {body} {got.born_timestamp} {got.store_timestamp} {got.queue_id}\n"
        os.write(sys.stdout.fileno(), line.encode())  # in one call: the client has several threads
        bodies.add(body)
        if len(bodies) == count:
            has_all.set()

    consumer = PushConsumer(f"{topic}Readers", orderly=feature == "orderly")
    consumer.set_namesrv_addr(namesrv)
    consumer.subscribe(topic, receive, "odd" if feature == "tag" else "*")
    consumer.start()
    is_complete = has_all.wait(PATIENCE)
    consumer.shutdown()
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
