"""Topics and groups that the other corpora work on."""

import json

from tests.interop.differential.case import Case, Corpus


def set_up() -> Corpus:
    """Topics and groups that the corpus requires."""

    def topic(name: str, read: int, write: int, perm: int) -> Case:
        fields = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": read, "writeQueueNums": write, "perm": perm}
        return Case(
            f"make {name}", "master", 17, {**fields, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False}
        )

    def group(name: str, **more: object) -> Case:
        plain = {"groupName": name, "consumeEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0}
        return Case(f"make group {name}", "master", 200, None, json.dumps({**plain, **more}).encode())

    return [
        topic("DiffOne", 1, 1, 6),
        topic("DiffQueues", 4, 4, 6),
        topic("DiffEmpty", 1, 1, 6),
        topic("DiffRead", 1, 1, 4),
        topic("DiffWrite", 1, 1, 2),
        topic("DiffAsym", 2, 1, 6),
        group("DiffGroup"),
        group("DiffNoRetry", retryQueueNums=0),
        group("DiffNoConsume", consumeEnable=False),
        group("DiffNoBroadcast", consumeBroadcastEnable=False),
        group("DiffSlow", whichBrokerWhenConsumeSlowly=5, brokerId=3),
    ]
