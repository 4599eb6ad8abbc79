"""The table at the end of the demo, with planted faults."""

from rmqlab.cluster.demo.account import count_outcomes


def test_every_message_is_counted_under_its_send_outcome() -> None:
    outcomes = {1: "SEND_OK", 2: "SEND_OK", 3: "SLAVE_NOT_AVAILABLE", 4: "refused"}
    reckoning = count_outcomes(outcomes, on_master=[1, 2, 3], on_slave=[1, 2], deliveries={"g": [1, 2, 3]})
    assert [(row.outcome, row.sent, row.on_master, row.on_slave, row.consumed) for row in reckoning.rows] == [
        ("SEND_OK", 2, 2, 2, 2),
        ("SLAVE_NOT_AVAILABLE", 1, 1, 0, 1),
        ("refused", 1, 0, 0, 0),
    ]
    assert (reckoning.sent, reckoning.lost, reckoning.duplicated) == (4, 0, 0)


def test_an_acknowledged_message_on_no_disk_is_lost() -> None:
    reckoning = count_outcomes({1: "SEND_OK", 2: "SEND_OK"}, on_master=[1], on_slave=[1], deliveries={})
    assert reckoning.rows[0].lost == (2,)


def test_a_message_on_the_slave_alone_is_not_lost() -> None:
    assert count_outcomes({1: "SEND_OK"}, on_master=[], on_slave=[1], deliveries={}).lost == 0


def test_a_send_in_doubt_is_never_lost_and_shows_when_it_was_stored() -> None:
    reckoning = count_outcomes({1: "indeterminate", 2: "indeterminate"}, on_master=[1], on_slave=[], deliveries={})
    assert (reckoning.lost, reckoning.rows[0].on_master) == (0, 1)


def test_a_refused_message_that_is_stored_shows_on_the_disk() -> None:
    (row,) = count_outcomes({1: "refused"}, on_master=[1], on_slave=[], deliveries={}).rows
    assert row.on_master == 1


def test_a_message_stored_twice_is_a_duplicate() -> None:
    assert count_outcomes({1: "SEND_OK"}, on_master=[1, 1], on_slave=[1], deliveries={}).duplicated == 1


def test_a_message_that_one_group_got_twice_is_a_duplicate_and_one_that_two_groups_got_is_not() -> None:
    outcomes = {1: "SEND_OK", 2: "SEND_OK"}
    reckoning = count_outcomes(outcomes, on_master=[1, 2], on_slave=[], deliveries={"a": [1, 1, 2], "b": [2]})
    assert reckoning.rows[0].duplicated == (1,)


def test_unsent_messages_are_counted_as_unknown() -> None:
    assert count_outcomes({1: "SEND_OK"}, on_master=[1, 9], on_slave=[9], deliveries={}).unknown == 1
