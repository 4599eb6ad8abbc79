import attrs
import pytest

from rmqlab.pipeline.options import (
    OptionError,
    at_least,
    at_least_bytes,
    bind_options,
    boolean,
    duration,
    names,
    one_of,
    option,
    text,
)


@attrs.frozen(kw_only=True)
class _Options:
    name_server: str = option("nameServer", text, "host:port")
    read_from: str = option("readFrom", one_of("master", "slave", "suggested"), "whom to ask", default="suggested")
    limit: int = option("maxOffsetsPerTrigger", at_least(1), "messages of one batch", default=0)
    fail: bool = option("failOnDataLoss", boolean, "whether a gap is an error", default=True)
    tags: tuple[str, ...] = option("tags", names, "tags", default=())


def test_names_are_bound_in_any_case() -> None:
    bound = bind_options(
        _Options, {"nameserver": "a:1", "READFROM": "Slave", "failOnDataLoss": "FALSE", "tags": "a, b"}, source="x"
    )
    assert bound == _Options(name_server="a:1", read_from="slave", fail=False, tags=("a", "b"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "x: option nameServer is needed: host:port"),
        ({"nameserver": "a", "failOnDatalos": "true"}, "no option failOnDatalos; did you mean failOnDataLoss?"),
        ({"nameserver": "a", "readFrom": "slaves"}, "option readFrom is 'slaves': expected master, slave or suggested"),
        ({"nameserver": "a", "readFrom": "slaves"}, "did you mean slave?"),
        ({"nameserver": "a", "maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger is '0': expected at least 1"),
        ({"nameserver": "a", "maxOffsetsPerTrigger": "many"}, "expected a whole number"),
        ({"nameserver": "a", "maxOffsetsPerTrigger": "9" * 19}, "expected at most 9223372036854775807"),
        ({"nameserver": " "}, "expected a text"),
        ({"nameserver": "a", "zzz": "1"}, "no option zzz; options: nameServer, readFrom, "),
        ({"nameserver": "a", "Path": "1"}, "x: there is no option Path; use option tags"),
    ],
)
def test_an_invalid_option_is_reported_with_what_was_expected(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        bind_options(_Options, given, source="x", meant={"path": "option tags"})
    assert said in str(caught.value)


def test_a_long_list_of_options_does_not_follow_the_one_that_was_meant() -> None:
    with pytest.raises(OptionError, match=r"^x: there is no option tagss; did you mean tags\?$"):
        bind_options(_Options, {"tagss": "a"}, source="x")


@pytest.mark.parametrize(
    ("text", "millis"), [("250ms", 250), ("30s", 30_000), ("15 m", 900_000), ("2min", 120_000), ("1H", 3_600_000)]
)
def test_durations_have_units(text: str, millis: int) -> None:
    assert duration(text) == millis


@pytest.mark.parametrize("text", ["", "15", "m", "-1s", "1.5s", "1w", "1m30s"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as 30s or 15m"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [("250", 250), ("64m", 64 * 2**20), ("1 GB", 2**30), ("3k", 3072), ("2t", 2**41), ("9b", 9), ("512 bytes", 512)],
)
def test_bytes_may_have_units(text: str, count: int) -> None:
    assert at_least_bytes(1)(text) == count


@pytest.mark.parametrize("text", ["", "m", "-1", "1.5g", "64 x", "64mib", "1m1k", "٣"])
def test_other_numbers_of_bytes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="or one with a unit"):
        at_least_bytes(1)(text)


@pytest.mark.parametrize("text", ["0", "0g", "4095", "3k"])
def test_too_few_bytes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected at least 4096"):
        at_least_bytes(4096)(text)
