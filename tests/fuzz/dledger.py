"""Requests of every code of DLedger, in the name of other members.

Terms and indices are extreme, and entries odd.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import msgspec

from rmqlab.dledger import bodies
from rmqlab.dledger.codes import DLedgerRequestCode
from rmqlab.dledger.entry import MAGIC
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
NUMBERS = (0, 1, -1, 2, 3, 10, 53, 2**31, 2**62, 2**62 + 1, 2**63 - 1, -(2**63), 2**63, 2**64)


@attrs.frozen
class Target:
    """One member of a group, and what a request must know of it to be taken seriously."""

    group: str
    members: Sequence[str]
    member: str
    leader: str
    numbers: Sequence[int]
    """Its term and the ends of its log, and those next to them."""

    @classmethod
    def of(cls, group: str, members: Sequence[str], member: str, facts: Mapping[str, Any]) -> "Target":
        """Return a member with the facts of its snapshot."""
        known = [facts[name] for name in ("term", "end_index", "committed_index")]
        leader = facts["leader"] or member
        return cls(group, members, member, leader, [one + step for one in known for step in (0, 0, 1)])


def request(odd: Odd, target: Target, opaque: int) -> bytes:
    """One request: of a code that is served, mostly."""
    code = odd.choice([*KINDS]) if odd.often(0.97) else odd.choice((51000, 51003, 51006, 49999, -1))
    header = {"code": code, "flag": odd.choice((0, 0, 0, 2)), "language": "JAVA", "opaque": opaque, "version": 0}
    return frame(JSON, json.dumps(header).encode(), _body(odd, KINDS.get(code, bodies.VoteRequest), target))


def _body(odd: Odd, kind: type[bodies.Message], target: Target) -> bytes:
    if odd.often(0.05):
        return odd.json_body(kind)
    value = _plausible(odd, msgspec.inspect.type_info(kind), "", target)
    for _ in range(odd.choice((0, 0, 1, 2))):
        value = odd.spoiled(value)
    text = json.dumps(value).encode("utf-8", "surrogatepass")
    return odd.damaged(text) if odd.often(0.05) else text


def _plausible(odd: Odd, info: msgspec.inspect.Type, name: str, target: Target) -> Any:
    match info:
        case msgspec.inspect.UnionType(types=types):
            given = [one for one in types if not isinstance(one, msgspec.inspect.NoneType)]
            return _plausible(odd, odd.choice(given), name, target)
        case msgspec.inspect.IntType() if name == "magic" and odd.often(0.9):
            return MAGIC
        case msgspec.inspect.IntType():
            return odd.choice(target.numbers if odd.often(0.7) else NUMBERS)
        case msgspec.inspect.EnumType(cls=cls):
            return odd.choice([member.name for member in cls])
        case msgspec.inspect.BytesType():
            return base64.b64encode(odd.binary(odd.choice((1, 2, 300, 4000)))).decode()
        case msgspec.inspect.StructType(fields=fields):
            return {field.encode_name: _plausible(odd, field.type, field.encode_name, target) for field in fields}
        case msgspec.inspect.ListType(item_type=item):
            return [_plausible(odd, item, name, target) for _ in range(odd.randrange(4))]
    match name:
        case "group":
            return target.group
        case "remoteId" if odd.often(0.9):
            return target.member
        case "leaderId" if odd.often(0.6):
            return target.leader
    return odd.choice((*target.members, *target.members, "n9", ""))
