"""Requests of every code of DLedger, in the name of other members.

Terms and indices are extreme, and entries odd.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any

import msgspec

from rmqlab.dledger import bodies
from rmqlab.dledger.codes import DLedgerRequestCode
from tests.fuzz.frames import JSON, frame
from tests.fuzz.odd import Odd

KINDS: dict[int, type[bodies.Message]] = {
    DLedgerRequestCode.METADATA: bodies.MetadataRequest,
    DLedgerRequestCode.APPEND: bodies.AppendEntryRequest,
    DLedgerRequestCode.GET: bodies.GetEntriesRequest,
    DLedgerRequestCode.VOTE: bodies.VoteRequest,
    DLedgerRequestCode.HEART_BEAT: bodies.HeartBeatRequest,
    DLedgerRequestCode.PUSH: bodies.PushEntryRequest,
    DLedgerRequestCode.LEADERSHIP_TRANSFER: bodies.LeadershipTransferRequest,
}
NUMBERS = (0, 0, 1, -1, 2, 3, 10, 53, 2**31, 2**62, 2**62 + 1, 2**63 - 1, -(2**63), 2**63, 2**64)


def request(odd: Odd, group: str, members: Sequence[str], opaque: int) -> bytes:
    """One request: of a code that is served, mostly."""
    code = odd.choice([*KINDS]) if odd.often(0.97) else odd.choice((51000, 51003, 51006, 49999, -1))
    header = {"code": code, "flag": 0, "language": "JAVA", "opaque": opaque, "version": 0}
    return frame(JSON, json.dumps(header).encode(), _body(odd, KINDS.get(code, bodies.VoteRequest), group, members))


def _body(odd: Odd, kind: type[bodies.Message], group: str, members: Sequence[str]) -> bytes:
    if odd.often(0.05):
        return odd.json_body(kind)
    value = _plausible(odd, msgspec.inspect.type_info(kind), "", group, members)
    for _ in range(odd.randrange(3)):
        value = odd.spoiled(value)
    text = json.dumps(value).encode("utf-8", "surrogatepass")
    return odd.damaged(text) if odd.often(0.05) else text


def _plausible(odd: Odd, info: msgspec.inspect.Type, name: str, group: str, members: Sequence[str]) -> Any:
    match info:
        case msgspec.inspect.UnionType(types=types):
            given = [one for one in types if not isinstance(one, msgspec.inspect.NoneType)]
            return _plausible(odd, odd.choice(given), name, group, members)
        case msgspec.inspect.IntType():
            return odd.choice(NUMBERS)
        case msgspec.inspect.EnumType(cls=cls):
            return odd.choice([member.name for member in cls])
        case msgspec.inspect.BytesType():
            return base64.b64encode(odd.binary(odd.choice((2, 300, 4000)))).decode()
        case msgspec.inspect.StructType(fields=fields):
            return {
                field.encode_name: _plausible(odd, field.type, field.encode_name, group, members) for field in fields
            }
        case msgspec.inspect.ListType(item_type=item):
            return [_plausible(odd, item, name, group, members) for _ in range(odd.randrange(4))]
    return group if name == "group" else odd.choice((*members, *members, "n9", ""))
