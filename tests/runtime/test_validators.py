"""Errors of settings that a user reads."""

import attrs
import pytest

from rmqlab.runtime.config.validators import (
    above,
    addresses,
    at_least,
    is_host,
    line_fault,
    one_of,
    positive_within,
    shown,
    within,
)


@attrs.frozen
class Settings:
    count: int = attrs.field(default=1, validator=at_least(1))
    seconds: float = attrs.field(default=1.0, validator=above(0))
    period: float = attrs.field(default=1.0, validator=positive_within(60))
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
        ("period", 0, "period = 0: expected more than 0, at most 60"),
        ("period", 61, "period = 61: expected more than 0, at most 60"),
        ("port", 65536, "port = 65536: expected 0 to 65535"),
        ("port", -1, "port = -1: expected 0 to 65535"),
        ("role", "king", "role = 'king': expected KING or QUEEN"),
        ("role", ["KING"], "role = ['KING']: expected KING or QUEEN"),
        ("state", "away", "state = 'away': expected here or gone"),
    ],
)
def test_an_invalid_setting_is_reported_with_key_value_and_expectation(key: str, value: object, said: str) -> None:
    with pytest.raises(ValueError, match="expected") as raised:
        Settings(**{key: value})  # type: ignore[arg-type]  # that is what is tested
    assert str(raised.value) == said


def test_the_ends_of_a_range_fit() -> None:
    assert [Settings(port=port).port for port in (0, 65535)] == [0, 65535]


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\x1b[2J", "a\u2028b", "a\u0085b", "a\x7f", "a\ud800", "a" * 4097])
def test_text_that_does_not_fit_in_a_line_has_a_fault(text: str) -> None:
    assert line_fault(text)


@pytest.mark.parametrize("text", ["", "a b", "é", "\U0001f600", "\u00a0", "\u200b", "C:\\x", "a" * 4096])
def test_text_of_one_line_has_no_line_fault(text: str) -> None:
    assert line_fault(text) is None


def test_a_long_value_is_cut_off_where_it_is_shown() -> None:
    assert shown("a" * 1000) == "'" + "a" * 99 + "..."
    assert shown(10**5000) == "a number of several thousand digits"


@pytest.mark.parametrize("text", ["h", "h:", ":1", "h:0", "h:65536", "h:²", "h:+1", "a..b:1", "a b:1", "x" * 64 + ":1"])
def test_unconnectable_addresses_are_invalid(text: str) -> None:
    @attrs.frozen
    class Peer:
        peers: str = attrs.field(validator=addresses())

    assert Peer("h:1;127.0.0.1:65535; ;::1:9876")
    with pytest.raises(ValueError, match=r"is not host:port"):
        Peer(text)


def test_a_host_is_a_name_that_the_resolver_accepts() -> None:
    assert all(map(is_host, ("127.0.0.1", "::1", "fe80::1%eth0", "broker-a.example", "bücher.example")))
    assert not any(map(is_host, ("", "a b", "a..b", "x" * 64, "http://broker-a")))
