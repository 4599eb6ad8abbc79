"""The order of broker names in routes.

Expected lists were printed by java.util.HashMap.
"""

import string

from rmqlab.nameserver.javaorder import in_java_order

LETTERS = [f"broker-{letter}" for letter in string.ascii_lowercase]


def test_names_are_in_the_order_of_their_buckets() -> None:
    assert in_java_order(["broker-a", "broker-b", "broker-c"]) == ["broker-b", "broker-c", "broker-a"]
    assert in_java_order(LETTERS[:12]) == [f"broker-{letter}" for letter in "jkhifgdebcal"]
    assert in_java_order([]) == []
    assert in_java_order(["alone"]) == ["alone"]


def test_a_larger_table_has_another_order() -> None:
    """The 13th name makes the table grow from 16 to 32 buckets."""
    assert in_java_order(LETTERS[:13]) == [f"broker-{letter}" for letter in "jkhifgdelmbca"]


def test_names_in_one_bucket_keep_their_order() -> None:
    """Aa and BB have the same hash."""
    names = ["Aa", "BB", "AaAa", "BBBB", "broker-1", "broker-0", "a", "b", "c"]
    assert in_java_order(names) == ["Aa", "BB", "a", "b", "c", "broker-0", "broker-1", "AaAa", "BBBB"]
    swapped = ["BBBB", "BB", "Aa", "AaAa"]
    assert in_java_order(swapped) == ["BB", "Aa", "BBBB", "AaAa"]
