"""TOML of people, read in a time that does not explode."""

import tomllib

import pytest

from rmqlab.runtime.config.tomltext import BYTE_ORDER_MARK, MOST_PARTS, parse_toml


@pytest.mark.parametrize(
    "text",
    [
        ".".join(["a"] * 200_000) + " = 1",
        "[" + " . ".join(['"a"'] * 100_000) + "]",
        "b = {" + ".".join(["'a'"] * 100_000) + "=1}",
        "a" * 500_000 + "." * 500_000,
        ".".join([r'"\""'] * 100_000) + " = 1",
        'b = {c = """1"""", ' + ".".join(["a"] * 100_000) + ' = "1"}',
        '"""' + '\n\\"""' * 200_000,
        "." * MOST_PARTS + "a" * 500_000,
        "." * MOST_PARTS + '"' + '\\"' * 250_000,
        "x = 1 # '\n" + ".".join(["a"] * 200_000) + " = 1 # '",
    ],
    ids=[
        "bare",
        "quoted",
        "inline",
        "dots",
        "escapes",
        "after four quotes",
        "no end",
        "word",
        "line without end",
        "between quotes in comments",
    ],
)
def test_a_key_of_very_many_parts_is_invalid(text: str) -> None:
    """`tomllib` needs minutes for the first ones."""
    with pytest.raises(tomllib.TOMLDecodeError):
        parse_toml(text)


def test_keys_of_some_parts_and_texts_with_many_dots_are_valid() -> None:
    key = ".".join(["a"] * (MOST_PARTS - 1))
    assert parse_toml(f"{key} = 1") == tomllib.loads(f"{key} = 1")
    assert parse_toml(f'"{"." * 10_000}".b = "{"." * 10_000}"') == {"." * 10_000: {"b": "." * 10_000}}
    assert parse_toml("[[step]]\n" + "at = 1.5\n[[step]]\n" * 1000)["step"][999] == {"at": 1.5}


@pytest.mark.parametrize(
    "text",
    [
        "x = '{}'",
        'x = "\\" {}"',
        'x = """\n{}\n"""',
        'x = """""" # {}',
        "x = '''\n'{}'\n'''",
        "# {}",
        'x = ["1", "{}"]',
    ],
)
def test_texts_and_comments_with_many_words_between_dots_are_valid(text: str) -> None:
    """They are no keys."""
    text = text.replace("{}", ".".join(["a"] * 2 * MOST_PARTS))
    assert parse_toml(text) == tomllib.loads(text)


def test_a_byte_order_mark_is_ignored() -> None:
    assert parse_toml(f"{BYTE_ORDER_MARK}name = 1") == {"name": 1}
