"""The reader of fastjson's dialect."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqlab.remoting.fastjson import (
    BODY_LIMITS,
    MAX_DEPTH,
    MAX_EXPANDED,
    MAX_REFERENCES,
    TABLE_LIMITS,
    FastJsonError,
    parse_dialect,
    parse_fastjson,
)
from rmqlab.remoting.queuekeys import ObjectKey

INTEGERS = st.integers(1 - 10**20, 10**20 - 1)
"""Of at most 20 digits: longer ones become floats."""
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
QUEUES = st.builds(
    lambda broker, queue, topic: ObjectKey(brokerName=broker, queueId=queue, topic=topic),
    st.text(),
    st.integers(-(2**31), 2**31 - 1),
    st.text(),
)


def written(value: Any) -> str:
    """Write the dialect: digits and objects as bare keys."""
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{written_key(key)}:{written(item)}" for key, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def written_key(key: Any) -> str:
    return key if isinstance(key, str) and key.isascii() and key.isdigit() else written(key)


@given(VALUES)
def test_strict_json_means_the_same_in_the_dialect(value: Any) -> None:
    text = json.dumps(value).encode()
    assert parse_dialect(text) == json.loads(text)


@given(
    st.dictionaries(st.integers(min_value=0).map(str), VALUES) | st.dictionaries(QUEUES, INTEGERS | st.lists(QUEUES))
)
def test_maps_with_number_and_object_keys_round_trip(value: dict[Any, Any]) -> None:
    assert parse_dialect(written(value).encode("utf-8", "surrogatepass")) == value


@example(b"0e")
@given(st.binary(max_size=60) | st.text(alphabet="{}[]:,\"'\\u0a1.-e $trufals\n", max_size=60).map(str.encode))
def test_any_bytes_give_a_value_or_one_kind_of_error(raw: bytes) -> None:
    with contextlib.suppress(FastJsonError):
        parse_fastjson(raw)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'{0:"a",1:"b"}', {"0": "a", "1": "b"}),
        (b'{-1:"before election"}', {"-1": "before election"}),
        (b"{name:1,$x_2:2,null:3}", {"name": 1, "$x_2": 2, "null": 3}),
        (b"{'it\\'s':'\"'}", {"it's": '"'}),
        (b"{0:1,,1:[1,],}", {"0": 1, "1": [1]}),
        (b"\xef\xbb\xbf{/* one */a:+1, // two\n b:NaN}", {"a": 1, "b": None}),
        (b"{0:{},1:[],2:[{}]}\n", {"0": {}, "1": [], "2": [{}]}),
        (b" { a : [ 1 , -2.5e3 , true , false , null ] } ", {"a": [1, -2500.0, True, False, None]}),
        (rb'{a:"\u0041\x42\/\b\f\n\r\t\v\0\\"}', {"a": "AB/\b\f\n\r\t\v\0\\"}),
        (rb'{a:"\ud83d\ude00 \ud83d"}', {"a": "\N{GRINNING FACE} \N{REPLACEMENT CHARACTER}"}),
        (b'{a:"\xff"}', {"a": "\N{REPLACEMENT CHARACTER}"}),
        (b'{{"queueId":0}:{1:2}}', {ObjectKey(queueId=0): {"1": 2}}),
        (b"{0:1,0:2}", {"0": 2}),
    ],
)
def test_extensions_of_the_dialect_are_parsed(raw: bytes, value: Any) -> None:
    """remoting-and-nameserver 1.4, broker-requests 0.3, broker-requests#5"""
    assert parse_fastjson(raw) == value


NEITHER = r"""{|{0|{0:|{0:1|{0:1,|{0 1}|[1 2]|[1,|"open|'open|"\"|{0:1}x|nul|{1a:2}|{[1]:2}|{{a:[1]}:2}|1.|}|:| |"""


@pytest.mark.parametrize("raw", NEITHER.split("|"))
def test_text_outside_the_dialect_is_rejected(raw: str) -> None:
    with pytest.raises(FastJsonError):
        parse_fastjson(raw.encode())


def test_an_error_names_the_place() -> None:
    with pytest.raises(FastJsonError, match=r"a value expected at character 3: 'nix\}'"):
        parse_fastjson(b"{0:nix}")


@pytest.mark.parametrize("opening", [b"[", b"{a:", b"{{"])
def test_depth_is_bounded(opening: bytes) -> None:
    with pytest.raises(FastJsonError, match="too deep"):
        parse_fastjson(opening * (MAX_DEPTH + 1))


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 500, 100_000])
@pytest.mark.parametrize("opening", [b'{"$ref":', b'{"]}":', b'[[],"]",'])
def test_depth_of_strict_json_is_bounded(opening: bytes, depth: int) -> None:
    closing = {b"{": b"}", b"[": b"]"}[opening[:1]]
    with pytest.raises(FastJsonError, match="too deep"):
        parse_fastjson(opening * depth + b"1" + closing * depth, TABLE_LIMITS)


def test_strict_json_can_have_many_objects_and_brackets_in_texts() -> None:
    rows = [{"a": [[["[[[{{{"], "\\"]], "b": {}}] * (MAX_DEPTH + 1)
    assert parse_fastjson(json.dumps(rows).encode()) == rows
    inner: list[Any] = []
    for _ in range(MAX_DEPTH - 1):
        inner = [[], inner]
    assert parse_fastjson(json.dumps(inner).encode()) == inner


def test_references_to_earlier_values_are_resolved() -> None:
    raw = (
        rb'{"sets":[{"topic":"T"},{"$ref":"$.sets[0]"}],"by\\.name":{"$ref":"$.sets"},0:{"$ref":"$.x[1]"},"x":{1:"%"}}'
    )
    with pytest.raises(FastJsonError, match="contains references"):
        parse_fastjson(raw)
    raw = rb'{"sets":[{"topic":"T"},{"$ref":"$.sets[0]"}],"%R%.g":{"a":[7]},"c":{"$ref":"$.\\%R\\%\\.g.a[0]"}}'
    assert parse_fastjson(raw) == {"sets": [{"topic": "T"}, {"topic": "T"}], "%R%.g": {"a": [7]}, "c": 7}
    assert parse_fastjson(b"{0:{$ref:'$.1[2]'},1:{2:'x'}}") == {"0": "x", "1": {"2": "x"}}


@pytest.mark.parametrize(
    "path",
    [
        "$",
        "$.a",
        "$.a.b",
        "..",
        "@",
        "$.none",
        "$.list[3]",
        "$.list[99999999999999999999]",
        "$x",
        "",
        "$.list.x",
        "$.t.x",
    ],
)
def test_a_reference_to_nothing_or_to_something_around_it_is_refused(path: str) -> None:
    with pytest.raises(FastJsonError):
        parse_fastjson(json.dumps({"a": {"b": {"$ref": path}}, "list": [1], "t": "text"}).encode())


def test_references_are_counted() -> None:
    many = [{"$ref": "$[0]"}] * MAX_REFERENCES
    assert len(parse_fastjson(json.dumps([1, *many]).encode())) == MAX_REFERENCES + 1
    with pytest.raises(FastJsonError, match="references"):
        parse_fastjson(json.dumps([1, *many, many[0]]).encode())


def test_object_keys_are_equal_by_content() -> None:
    [key] = parse_fastjson(b'{{"topic":"T","queueId":0}:1}')
    assert key == ObjectKey(queueId=0, topic="T")
    assert {ObjectKey(queueId=0, topic="T"): "found"}[key] == "found"


def test_a_reference_shares_the_value_it_names() -> None:
    value = parse_fastjson(b'{"a":{"b":[1,2]},"c":{"$ref":"$.a"},"d":[{"$ref":"$.a.b"}]}')
    assert value == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}, "d": [[1, 2]]}
    assert value["d"][0] is value["c"]["b"]


@pytest.mark.parametrize("large", [[{}] * 20_000, "x" * 200_000, {"y": {"x" * 300: "z" * 300}}], ids=type)
def test_references_repeat_a_bounded_amount(large: object) -> None:
    """issue 12.6: 1 MB became 284 MB."""
    raw = json.dumps({"large": large, "copies": [{"$ref": "$.large"}] * MAX_REFERENCES}).encode()
    if isinstance(large, dict):  # small enough a thousand times
        assert len(parse_fastjson(raw)["copies"]) == MAX_REFERENCES
    else:
        with pytest.raises(FastJsonError, match="repeat too much"):
            parse_fastjson(raw)


def test_a_body_may_repeat_as_much_as_its_own_size() -> None:
    large = "x" * (2 * MAX_EXPANDED)
    assert parse_fastjson(json.dumps([large, {"$ref": "$[0]"}]).encode()) == [large, large]


@pytest.mark.parametrize(
    "raw", [b"[%s1]" % (b"1," * BODY_LIMITS.values), b"{a:[%s{}]}" % (b"{}," * BODY_LIMITS.values)]
)
def test_values_are_counted(raw: bytes) -> None:
    with pytest.raises(FastJsonError, match="more than 200000 values"):
        parse_fastjson(raw)


@pytest.mark.parametrize("digits", ["9" * 21, "9" * 5_000, "1" + "0" * 4_000, "1e999999", "-1e999999"])
def test_numbers_beyond_64_bits_are_floats(digits: str) -> None:
    value = parse_dialect(b"{a:%s}" % digits.encode())["a"]
    assert isinstance(value, float)


def test_whole_numbers_with_equal_hashes_are_no_keys() -> None:
    """CPython hashes ints modulo 2**61 - 1: unbounded keys would share one map slot."""
    keys = [b"{a:%d}:0" % (number * (2**61 - 1)) for number in range(10_000)]
    value = parse_dialect(b"{" + b",".join(keys) + b"}")
    assert len({hash(key) for key in value}) > 0.99 * len(value)


@pytest.mark.parametrize("text", [b"/**/" * 30 + b"@", b"{" + b"/* a */ // b\n" * 30 + b"@}", b"//" * 5_000 + b"\n@"])
def test_comments_before_nothing_are_refused_at_once(text: bytes) -> None:
    """issue 12.2: this took for ever. A regression shows as pytest's timeout."""
    with pytest.raises(FastJsonError):
        parse_fastjson(text)


@pytest.mark.parametrize(("text", "kind"), [("-" + 20 * "9", int), (20 * "9", int), ("1" + 20 * "0", float)])
def test_the_sign_of_a_number_is_no_digit(text: str, kind: type) -> None:
    assert type(parse_dialect(f"{{{{}}:{text}}}".encode())[ObjectKey()]) is kind
