"""The property MIN_COPIES: the number of logs that a message demands."""

import pytest

from rmqlab.remoting.min_copies import MAX_MIN_COPIES, min_copies_of


@pytest.mark.parametrize(
    ("properties", "copies"),
    [
        ({}, 0),
        ({"MIN_COPIES": "1"}, 1),
        ({"MIN_COPIES": "2"}, 2),
        ({"MIN_COPIES": "007"}, 7),
        ({"MIN_COPIES": str(MAX_MIN_COPIES)}, MAX_MIN_COPIES),
    ],
)
def test_a_valid_number_is_returned(properties: dict[str, str], copies: int) -> None:
    assert min_copies_of(properties) == copies


@pytest.mark.parametrize("text", ["0", "-1", "+2", "2.0", "two", " 2", "2\n", "٢", str(MAX_MIN_COPIES + 1), "9" * 5000])
def test_another_value_is_rejected_and_shown_in_part(text: str) -> None:
    with pytest.raises(ValueError, match=r"^MIN_COPIES is '.{0,20}': expected the number of logs") as caught:
        min_copies_of({"MIN_COPIES": text})
    assert "\n" not in str(caught.value)
