"""JSON Schema of the values of faults, from the declarations of their kinds."""

from typing import Any

import attrs

from rmqlab.faults import FAULTS
from rmqlab.faults.specification import Fault, is_required, meaning_of, option_of
from rmqlab.faults.table import description_of, title_of

Schema = dict[str, Any]

_TYPES: dict[Any, str] = {
    str: "string",
    str | None: "string",
    int: "integer",
    int | None: "integer",
    float: "number",
    float | None: "number",
    bool: "boolean",
}


def fault_schemas() -> list[Schema]:
    """Return one schema for each kind of fault."""
    return [_schema_of(kind) for kind in FAULTS.kinds]


def _schema_of(cls: type[Fault]) -> Schema:
    fields = attrs.fields(cls)
    kind = {"kind": {"const": cls.kind}} if cls.kind else {}
    return {
        "title": title_of(cls),
        "description": description_of(cls),
        "type": "object",
        "properties": {"type": {"const": cls.family}, **kind, **{field.name: _value(field) for field in fields}},
        "required": ["type", *kind, *(field.name for field in fields if is_required(field))],
        "additionalProperties": False,
        "examples": [{"type": cls.family, **({"kind": cls.kind} if cls.kind else {}), **cls.example}],
    }


def _value(field: "attrs.Attribute[Any]") -> Schema:
    option = option_of(field)
    bounds = {"minimum": option.least, "exclusiveMinimum": option.above, "maximum": option.most}
    return {
        "type": _TYPES[field.type],
        "description": meaning_of(field),
        **({"enum": list(option.choices)} if option.choices else {}),
        **{name: bound for name, bound in bounds.items() if bound is not None},
    }
