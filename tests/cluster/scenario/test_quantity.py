import datetime as dt
import math

import pytest

from rmqlab.cluster.scenario.quantity import Quantity, QuantityError, parse_seconds


@pytest.mark.parametrize(
    ("text", "quantity"),
    [
        ("10 s", Quantity(10, "s")),
        ("200 ms", Quantity(0.2, "s")),
        ("1.5min", Quantity(90, "s")),
        ("2 h", Quantity(7200, "s")),
        ("0 messages", Quantity(0, "messages")),
        ("-5 s", Quantity(-5, "s")),
        ("14 SERVICE_NOT_AVAILABLE", Quantity(14, "SERVICE_NOT_AVAILABLE")),
    ],
)
def test_a_number_and_its_unit_are_read_and_times_are_seconds(text: str, quantity: Quantity) -> None:
    assert Quantity.parse(text) == quantity


@pytest.mark.parametrize("text", ["10", 10, 1.5, "s", "ten s", "", None, True, "1 s s", "1,5 s"])
def test_a_number_alone_is_no_quantity(text: object) -> None:
    with pytest.raises(QuantityError, match="expected a number with a unit"):
        Quantity.parse(text)


@pytest.mark.parametrize(
    ("text", "number"), [("2", "2"), (2, "2"), ("two", "5"), (math.inf, "5"), (1e300, "5"), (-0.0, "5"), (True, "5")]
)
def test_an_error_shows_the_number_with_a_unit(text: object, number: str) -> None:
    with pytest.raises(QuantityError, match=f'such as "{number} s" or "{number} messages"$'):
        Quantity.parse(text)
    with pytest.raises(QuantityError, match=f'such as "{number} s"$'):
        parse_seconds(text)


def test_a_date_is_shown_as_toml_has_it() -> None:
    with pytest.raises(QuantityError, match=r"^1979-05-27T07:32:00\+00:00: expected"):
        Quantity.parse(dt.datetime(1979, 5, 27, 7, 32, tzinfo=dt.UTC))


@pytest.mark.parametrize(("text", "message"), [("3 messages", "expected a time"), ("-1 s", "from 0 s to 720 h")])
def test_a_time_is_in_units_of_time_and_not_negative(text: str, message: str) -> None:
    with pytest.raises(QuantityError, match=message):
        parse_seconds(text)
