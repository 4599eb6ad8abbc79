"""Entries of journals for tests, and how to write them to a file."""

import pathlib

from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalwriter import JournalWriter

SENT = {"topic": "orders", "outcome": "SEND_OK", "began_at": 0}


def entry(number: int, node: str = "broker-a") -> JournalEntry:
    return JournalEntry(number, node, "sent", {"number": number, **SENT})


def write(path: pathlib.Path, *entries: JournalEntry) -> None:
    writer = JournalWriter(path)
    for it in entries:
        writer.append(it)
    writer.close()
