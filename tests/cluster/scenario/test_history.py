from rmqlab.cluster.scenario.history import history_lines
from rmqlab.runtime.journals.journalentry import JournalEntry


def test_each_event_is_a_line_and_messages_that_follow_each_other_are_one() -> None:
    entries = [
        JournalEntry(9_000, "broker-a", "node_ready", {"address": "127.0.0.1:1"}),
        JournalEntry(10_000, "", "step", {"number": 0, "label": "begin", "action": ""}),
        *(JournalEntry(10_100 + n, "orders", "sent", {"outcome": "SEND_OK"}) for n in range(3)),
        JournalEntry(10_200, "orders", "sent", {"outcome": "refused"}),
        JournalEntry(10_300, "orders", "produced", {"sent": 4, "text": "x" * 200}),
    ]
    lines = [line.split(maxsplit=2) for line in history_lines(entries)]
    assert lines[0] == ["-1.000", "s", "broker-a     node_ready  address=127.0.0.1:1"]
    assert [line[0] for line in lines] == ["-1.000", "+0.000", "+0.100", "+0.200", "+0.300"]
    assert lines[2][2] == "orders       3 x sent SEND_OK"
    assert lines[3][2] == "orders       1 x sent refused"
    assert len(lines[4][2]) < 160
    assert list(history_lines([])) == []


def test_sends_of_others_do_not_part_messages_but_an_event_and_an_outcome_do() -> None:
    def sent(at: int, outcome: str) -> JournalEntry:
        return JournalEntry(at, "orders", "sent", {"outcome": outcome})

    sampled = JournalEntry(2, "broker-a", "log_sampled", {"max": 1})
    paused = JournalEntry(4, "broker-a", "node_paused", {})
    shown = [
        line.split(" s  ")[1].split(maxsplit=1)
        for line in history_lines(
            [sent(1, "SEND_OK"), sampled, sent(3, "SEND_OK"), paused, sent(5, "SEND_OK"), sent(6, "refused"), sampled]
        )
    ]
    assert shown == [
        ["orders", "2 x sent SEND_OK"],
        ["broker-a", "1 x log_sampled"],
        ["broker-a", "node_paused"],
        ["orders", "1 x sent SEND_OK"],
        ["orders", "1 x sent refused"],
        ["broker-a", "1 x log_sampled"],
    ]
