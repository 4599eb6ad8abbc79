"""What holds for all header classes alike."""

import importlib
import pkgutil
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rmqlab.remoting.headers
from rmqlab.remoting.header import (
    Header,
    HeaderError,
    JavaBoolean,
    header_from_fields,
    header_from_json,
    header_to_fields,
)
from rmqlab.remoting.headers.offset import QueryConsumerOffsetRequestHeader

MODULES = [
    importlib.import_module(f"rmqlab.remoting.headers.{m.name}")
    for m in pkgutil.iter_modules(rmqlab.remoting.headers.__path__)
]
KINDS = sorted(
    {
        kind
        for module in MODULES
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Header) and kind is not Header
    },
    key=lambda kind: kind.__name__,
)
JUNK: dict[str, object] = {
    "Signature": "x",
    "AccessKey": "rocketmq2",
    "OnsChannel": "",
    "ReqT": "STREAM",
    "bname": "broker-a",
    "ns": "n",
    "nsd": "true",
    "oway": True,
    "lo": False,
    "__ZONE_NAME": None,
}
"""What any request may carry (remoting-and-nameserver 1.8)."""


def headers(kind: type[Header]) -> st.SearchStrategy[Header]:
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    return st.builds(kind, **{field.name: values(field.type) for field in info.fields})


def values(info: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case msgspec.inspect.UnionType(types=types):
            return st.one_of(*map(values, types))
        case msgspec.inspect.NoneType():
            return st.none()
        case msgspec.inspect.StrType():
            return st.text(alphabet=st.characters(codec="utf-8"))
        case msgspec.inspect.IntType(ge=lowest, le=highest):
            return st.integers(-(2**63) if lowest is None else lowest, 2**63 - 1 if highest is None else highest)
        case msgspec.inspect.EnumType(cls=cls) if cls is JavaBoolean:
            return st.booleans().map(JavaBoolean)
    raise NotImplementedError(info)


def unquoted(text: str) -> object:
    """Give the JSON number or boolean that a C++ or JS client writes for a text."""
    if text in {"true", "false"}:
        return text == "true"
    is_number = text.removeprefix("-").isdigit() and text.isascii() and str(int(text)) == text
    return int(text) if is_number else text


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(data=st.data())
def test_a_header_round_trips_through_text_numbers_and_booleans(kind: type[Header], data: st.DataObject) -> None:
    """remoting#6, broker-requests#4, #6"""
    header = data.draw(headers(kind))
    fields = header_to_fields(header)
    assert all(isinstance(text, str) for text in fields.values())
    assert header_from_fields(kind, fields) == header
    assert header_from_json(kind, msgspec.json.encode({**JUNK, **fields})) == header
    bare = {name: unquoted(text) for name, text in fields.items()}
    assert header_from_json(kind, msgspec.json.encode({**bare, **JUNK})) == header


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_is_frozen_named_as_in_rocketmq_and_says_its_code(kind: type[Header]) -> None:
    assert kind.__struct_config__.frozen
    assert kind.__name__.endswith("Header") or kind.__name__.endswith("HeaderV2")
    assert kind.__doc__
    assert kind.__doc__.split(":")[0].split(",")[0].split(".")[0].split(" ")[0].isdigit()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.__name__.endswith("ResponseHeader")])
def test_no_field_of_a_response_is_required(kind: type[Header]) -> None:
    """A failure carries no fields (broker-requests 0.1)."""
    assert header_to_fields(header_from_json(kind, b"{}")) == {}


@pytest.mark.parametrize("raw", [b"[]", b'"text"', b"7", b'{"queueId":' + b"1" * 5000 + b"}"])
def test_ext_fields_that_are_no_fields_are_a_header_error(raw: bytes) -> None:
    """broker-requests#8"""
    for kind in KINDS:
        if any(field.required for field in msgspec.structs.fields(kind)):
            with pytest.raises(HeaderError):
                header_from_json(kind, raw)


@pytest.mark.parametrize("text", ["1.0", "1.00", "1e5", "1E5", "-1e2", "1.50e1", "150e-1"])
def test_fractions_and_exponents_are_no_integers(text: str) -> None:
    """Integer.parseInt and Long.parseLong reject them; JSON numbers arrive as text."""
    fields = {"consumerGroup": "g", "topic": "T", "queueId": text}
    with pytest.raises(HeaderError, match="queueId is not a number"):
        header_from_fields(QueryConsumerOffsetRequestHeader, fields)
    quoted = msgspec.json.encode(fields)
    for raw in (quoted, quoted.replace(b'"' + text.encode() + b'"', text.encode()), quoted.replace(b":", b" :\n ")):
        with pytest.raises(HeaderError, match="queueId is not a number"):
            header_from_json(QueryConsumerOffsetRequestHeader, raw)
