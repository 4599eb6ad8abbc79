"""Replies of servers: parsed, with errors that name the server. Pure."""

from collections.abc import Callable
from typing import Final, TypeVar

from rmqlab.client.errors import BrokerError, InvalidReplyError
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.header import Header, HeaderError
from rmqlab.remoting.message import RecordError

T = TypeVar("T")
H = TypeVar("H", bound=Header)

LONGEST_REMARK: Final = 4096
"""Characters of a remark in errors, logs and events: a frame has room for millions."""


def remark_of(response: Command) -> str | None:
    """Return the remark of a reply, cut if it is too long for a message."""
    remark = response.remark
    if remark is None or len(remark) <= LONGEST_REMARK:
        return remark
    return f"{remark[:LONGEST_REMARK]}... ({len(remark)} characters)"


def expect_success(address: str, response: Command) -> Command:
    """Return a successful response. BrokerError for any other."""
    if response.code != ResponseCode.SUCCESS:
        raise BrokerError(address, response.code, remark_of(response))
    response.source = address
    return response


def read_header(response: Command, kind: type[H]) -> H:
    """Return the typed header of a response. InvalidReplyError if it does not fit."""
    try:
        return response.header(kind)
    except HeaderError as exc:
        raise InvalidReplyError(response.source, str(exc)) from None


def read_body(response: Command, parse: Callable[[bytes], T]) -> T:
    """Return the parsed body of a response. InvalidReplyError if it does not parse."""
    try:
        return parse(response.body)
    except (BodyError, RecordError) as exc:
        raise InvalidReplyError(response.source, str(exc)) from None
