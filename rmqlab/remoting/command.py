"""A command: one request or response, understood but not yet typed."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from rmqlab.remoting.codes import VERSION
from rmqlab.remoting.frame import JSON
from rmqlab.remoting.header import Header, fields_from_json, header_from_fields, header_from_json, header_to_fields
from rmqlab.remoting.templates import AlikeFields

RESPONSE = 1
"""Flag bit 0."""
ONEWAY = 2
"""Flag bit 1: nobody waits for a reply."""

H = TypeVar("H", bound=Header)


class Command(msgspec.Struct, eq=False):
    """What a frame says (remoting-and-nameserver section 1.3).

    `raw_fields` holds the ext fields as they came: an undecoded JSON object, or names and text, or what they differ in
    from others before them, or None where the command had none at all.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    language: str = "JAVA"
    version: int = VERSION
    remark: str | None = None
    body: bytes = b""
    serialize_type: int = JSON
    raw_fields: msgspec.Raw | AlikeFields | dict[str, str] | None = None

    @property
    def is_response(self) -> bool:
        """True for the answer to a request of ours."""
        return self.flag & RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """True where the peer waits for no answer."""
        return self.flag & ONEWAY != 0

    @property
    def ext_fields(self) -> dict[str, str]:
        """The ext fields as text by name, whatever JSON type they came in (remoting#6). HeaderError if unreadable."""
        fields = self.raw_fields
        if fields is None:
            return {}
        if isinstance(fields, AlikeFields):
            fields = self.raw_fields = fields.as_dict()
        elif not isinstance(fields, dict):
            fields = self.raw_fields = fields_from_json(fields)
        return fields

    def header(self, kind: type[H]) -> H:
        """Read the ext fields as a typed header. HeaderError where they do not make one."""
        fields = self.raw_fields
        if isinstance(fields, AlikeFields):
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
    """Make a request. Its opaque is set by the channel that sends it."""
    return Command(
        code,
        flag=ONEWAY if oneway else 0,
        language=language,
        body=body,
        serialize_type=serialize_type,
        raw_fields=fields_of(header),
    )


def fields_of(header: Header | Mapping[str, str] | None) -> dict[str, str] | None:
    """Give the ext fields of a header in either form."""
    if header is None:
        return None
    return header_to_fields(header) if isinstance(header, Header) else dict(header)
