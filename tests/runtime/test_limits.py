"""Numbers in journals that are beyond the limits of their fields."""

import pathlib

import pytest

from rmqlab.runtime.journals.journalentry import JournalEntry, pack_entry
from rmqlab.runtime.journals.journalsurvey import survey_journals
from rmqlab.runtime.journals.schema import EVENT_TYPES, OFFSET_LIMIT


@pytest.mark.parametrize(
    ("kind", "name", "value", "read"),
    [
        ("delivered", "born_at", 2**60, None),
        ("sent", "queue", 2**31, 2**31 - 1),
        ("sent", "queue", -(2**63), -(2**31)),
        ("sent", "offset", 2**63 - 1, OFFSET_LIMIT - 1),
        ("offset_moved_back", "before", 2**63 - 1, OFFSET_LIMIT - 1),
        ("broker_registered", "broker_id", 2**40, 2**31 - 1),
        ("log_sampled", "acknowledged", 2**62, OFFSET_LIMIT - 1),
        ("ha_first_report", "offset", 2**62, OFFSET_LIMIT - 1),
        ("node_spawned", "pid", 2**64 - 1, 2**63 - 1),
    ],
)
def test_a_number_that_a_peer_chose_is_read_as_the_nearest_one_within_its_limit(
    tmp_path: pathlib.Path, kind: str, name: str, value: int, read: int | None
) -> None:
    """Servers accept such numbers, and the event is true all the same.

    The fault ha-report reports 2^62 by default.
    """
    needed = {
        field: "x" if one.type == "text" else 0 for field, one in EVENT_TYPES[kind].fields.items() if one.is_needed
    }
    entry = JournalEntry(1, "n", kind, {**needed, name: value})
    (tmp_path / "n.msgpack").write_bytes(pack_entry(entry, 1))
    (journal,), (survey,) = survey_journals(tmp_path)
    assert [one.fields[name] for one in journal] == [read]
    assert survey.torn_bytes == 0
