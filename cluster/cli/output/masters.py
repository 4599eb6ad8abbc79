"""Warnings about the masters of groups, for `status`, `up` and the live view."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from rmqlab.cluster.supervisor.plan.roles import MASTER_ID, several_masters
from rmqlab.cluster.supervisor.plan.topology import DLEDGER


def masters_notes(document: Mapping[str, Any]) -> Iterator[Text]:
    """Yield a line for each group that has several masters, or only slaves that run.

    A stopped master counts, because it would be another one if it were started.
    """
    for group, running in document["masters"].items():
        brokers = [node for node in document["nodes"] if node["group"] == group]
        members = [node for node in brokers if node["broker_id"] == MASTER_ID]
        slaves = [node["name"] for node in brokers if node["broker_id"] != MASTER_ID and node["state"] == "ready"]
        stopped = [node["name"] for node in members if node["name"] not in running]
        if len(running) > 1:
            yield Text(several_masters(group, running, is_dledger=document.get("mode") == DLEDGER), "bold red")
        elif running and stopped and document.get("mode") != DLEDGER:
            yield Text(f"started again, {', '.join(stopped)} would be a second master; `demote` first", "yellow")
        elif stopped and slaves and document.get("mode") != DLEDGER:
            remedy = f"`start {stopped[0]}`, or `promote {slaves[0]}`"
            text = f"{group} has no running master: slaves serve reads, and RocketMQ promotes none; {remedy}"
            yield Text(text, "yellow")
