"""Values that a careless or hostile peer sends: texts, numbers, JSON trees.

Everything follows from one seeded Random.
"""

import json
import random
from typing import Any

import msgspec

NUMBERS = (
    *("0", "1", "-1", "7", "127", "128", "65536", "2147483647", "-2147483648", "2147483648", "4294967296"),
    *("9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551616"),
    *("1.5", "1e9", "1e999999", "NaN", "Infinity", "0x10", "0x1p99999", "٣", " 1", "+1", "1_000", "00000001", ""),
)
NAMES = (
    *("FuzzTopic", "FuzzOther", "TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"),
    *("RMQ_SYS_TRANS_OP_HALF_TOPIC", "RMQ_SYS_TRACE_TOPIC", "%RETRY%fuzz", "%DLQ%fuzz", "fuzz", "DefaultCluster"),
    *("broker-a", "BenchmarkTest", "OFFSET_MOVED_EVENT", "CID_ONSAPI_OWNER", "SELF_TEST_TOPIC", "rmq_sys_x"),
)
TEXTS = (
    *(
        "",
        " ",
        "null",
        "true",
        "false",
        "*",
        "a || b",
        "../../x",
        "a/b",
        "a\\b",
        "a\x00b",
        "a\nb=c",
        "[/oops]",
        "\x1b[2J",
    ),
    *("\u202eabc", "\ud7ff", "é" * 40, "{}", "[]", '{"a":1}', "TAGS\x01a\x02KEYS\x01b\x02", "\x01\x02\x01", "a" * 127),
    *(
        "a" * 256,
        "k" * 5_000,
        "9" * 5_000,
        "x" * 40_000,
        "(" * 3_000,
        "a IS NULL " * 300,
        "/**/" * 30,
        "127.0.0.1:99999",
    ),
    *("127.0.0.1", "host.invalid:10911", "127.0.0.1:0", "config_store_path", "brokerPermission=0\nlistenPort=1"),
)
LONG = 50_000
"""Characters from which on a list item is not copied hundreds of times: two such lists exceed any frame."""


class Odd(random.Random):
    """Draws values. A seed makes the same ones again."""

    def often(self, share: float) -> bool:
        """True in this share of all calls."""
        return self.random() < share

    def text(self) -> str:
        """Any text; now and then a very long one."""
        if self.often(0.002):
            return "L" * self.choice((70_000, 1_000_000))
        return self.choice(self.choice((NUMBERS, NAMES, TEXTS)))

    def binary(self, most: int = 300) -> bytes:
        """Any bytes."""
        return self.randbytes(self.randrange(most))

    def plausible(self, name: str, info: msgspec.inspect.Type) -> Any:
        """A value of a field's type, such as a real client might send."""
        match info:
            case msgspec.inspect.UnionType(types=types):
                return self.plausible(
                    name, self.choice([one for one in types if not isinstance(one, msgspec.inspect.NoneType)])
                )
            case msgspec.inspect.IntType():
                return self.choice((0, 0, 1, 2, 4, 16, 1000, -1))
            case msgspec.inspect.FloatType():
                return self.random()
            case msgspec.inspect.BoolType() | msgspec.inspect.EnumType():
                return self.often(0.5)
            case msgspec.inspect.StructType(fields=fields):
                return {field.encode_name: self.plausible(field.encode_name, field.type) for field in fields}
            case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.SetType(item_type=item):
                return [self.plausible(name, item) for _ in range(self.randrange(3))]
            case msgspec.inspect.DictType(key_type=key, value_type=value):
                return {str(self.plausible(name, key)): self.plausible(name, value) for _ in range(self.randrange(3))}
        return self.choice(NAMES) if "opic" in name or "roup" in name else self.choice(TEXTS[:8] + NAMES)

    def tree(self, depth: int = 3) -> Any:
        """Any JSON value."""
        if depth == 0 or self.often(0.4):
            return self.choice((None, True, 0, -1, 2**63, 2**70, 1.5, self.text(), self.text()))
        if self.often(0.5):
            return [self.tree(depth - 1) for _ in range(self.randrange(4))]
        return {self.text(): self.tree(depth - 1) for _ in range(self.randrange(4))}

    def spoiled(self, value: Any) -> Any:
        """The same value with one place in it changed, doubled, or gone."""
        if isinstance(value, dict) and value and self.often(0.8):
            key = self.choice(list(value))
            rest = {name: one for name, one in value.items() if name != key}
            if self.often(0.3):
                return rest
            return rest | {self.text() if self.often(0.1) else key: self.spoiled(value[key])}
        if isinstance(value, list) and value and self.often(0.8):
            at = self.randrange(len(value))
            item = self.spoiled(value[at])
            copies = self.choice((0, 1, 2, 300 if len(str(item)) < LONG else 2))
            return value[:at] + [item] * copies + value[at + 1 :]
        return self.tree(2)

    def json_body(self, kind: type[Any] | None) -> bytes:
        """The JSON of a body class, mostly spoiled; or something that no class has."""
        if kind is None or self.often(0.1):
            value = self.tree()
        else:
            value = self.plausible("", msgspec.inspect.type_info(kind))
            for _ in range(self.randrange(3)):
                value = self.spoiled(value)
        text = json.dumps(value, ensure_ascii=self.often(0.5)).encode("utf-8", "surrogatepass")
        return self.damaged(text) if self.often(0.1) else text

    def damaged(self, data: bytes) -> bytes:
        """Cut, or with some bytes altered."""
        if not data or self.often(0.3):
            return data[: self.randrange(len(data) + 1)]
        altered = bytearray(data)
        for _ in range(self.randrange(1, 4)):
            altered[self.randrange(len(altered))] = self.randrange(256)
        return bytes(altered)
