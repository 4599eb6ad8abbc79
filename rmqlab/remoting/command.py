"""A command: one decoded request or response, with untyped ext fields."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from rmqlab.remoting.codes import VERSION
from rmqlab.remoting.frame import JSON
from rmqlab.remoting.header import Header, fields_from_json, header_from_fields, header_from_json, header_to_fields
from rmqlab.remoting.templates import TemplateFields

RESPONSE = 1
"""Flag bit 0."""
ONEWAY = 2
"""Flag bit 1: the sender expects no reply."""

H = TypeVar("H", bound=Header)


class Command(msgspec.Struct, eq=False):
    """The content of a frame (remoting-and-nameserver section 1.3).

    `raw_fields` holds the ext fields as received: an undecoded JSON object, a map of text, the values that differ from
    a template, or None if the command has no ext fields.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    language: str = "JAVA"
    version: int = VERSION
    remark: str | None = None
    body: bytes = b""
    serialize_type: int = JSON
    raw_fields: msgspec.Raw | TemplateFields | dict[str, str] | None = None
    source: str = ""
    """Address of the server that sent a response, for errors about its content."""

    @property
    def is_response(self) -> bool:
        """True for the response to a request."""
        return self.flag & RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """True if the peer expects no response."""
        return self.flag & ONEWAY != 0

    @property
    def ext_fields(self) -> dict[str, str]:
        """The ext fields as text by name, whatever their JSON type (remoting#6).

        HeaderError if unreadable.
        """
        fields = self.raw_fields
        if fields is None:
            return {}
        if isinstance(fields, TemplateFields):
            fields = self.raw_fields = fields.as_dict()
        elif not isinstance(fields, dict):
            fields = self.raw_fields = fields_from_json(fields)
        return fields

    def header(self, kind: type[H]) -> H:
        """Return the ext fields as a typed header. HeaderError if they do not fit."""
        fields = self.raw_fields
        if isinstance(fields, TemplateFields):
            return fields.header(kind)
        if isinstance(fields, msgspec.Raw):
            return header_from_json(kind, fields)
        return header_from_fields(kind, fields or {})


def request(
    code: int,
    header: Header | Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    oneway: bool = False,
    language: str = "JAVA",
    serialize_type: int = JSON,
) -> Command:
    """Return a new request. The channel that sends it sets its opaque."""
    return Command(
        code,
        flag=ONEWAY if oneway else 0,
        language=language,
        body=body,
        serialize_type=serialize_type,
        raw_fields=fields_of(header),
    )


def fields_of(header: Header | Mapping[str, str] | None) -> dict[str, str] | None:
    """Return the ext fields of a header, which is typed or a map."""
    if header is None:
        return None
    return header_to_fields(header) if isinstance(header, Header) else dict(header)
