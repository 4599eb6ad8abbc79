"""Errors of settings that a user reads."""

import attrs
import pytest

from remoting.checks import above, at_least, one_of, within


@attrs.frozen
class Settings:
    count: int = attrs.field(default=1, validator=at_least(1))
    seconds: float = attrs.field(default=1.0, validator=above(0))
    port: int = attrs.field(default=1, validator=within(0, 65535))
    role: str = attrs.field(default="KING", validator=one_of(("KING", "QUEEN")))
    state: str = attrs.field(default="", validator=one_of(("", "here", "gone")))


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("count", 0, "count = 0: expected at least 1"),
        ("count", "many", "count = 'many': expected at least 1"),
        ("seconds", 0, "seconds = 0: expected more than 0"),
        ("seconds", float("nan"), "seconds = nan: expected more than 0"),
        ("port", 65536, "port = 65536: expected 0 to 65535"),
        ("port", -1, "port = -1: expected 0 to 65535"),
        ("role", "king", "role = 'king': expected KING or QUEEN"),
        ("role", ["KING"], "role = ['KING']: expected KING or QUEEN"),
        ("state", "away", "state = 'away': expected here or gone"),
    ],
)
def test_what_does_not_fit_is_told_with_key_value_and_what_was_expected(key: str, value: object, said: str) -> None:
    with pytest.raises(ValueError, match="expected") as raised:
        Settings(**{key: value})  # type: ignore[arg-type]  # that is what is tested
    assert str(raised.value) == said


def test_the_ends_of_a_range_fit() -> None:
    assert [Settings(port=port).port for port in (0, 65535)] == [0, 65535]
