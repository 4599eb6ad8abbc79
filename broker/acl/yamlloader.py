"""Reads the YAML of ACL files as 4.9.8 does (class AclUtils, SnakeYAML 2.0).

Import it where a file is read: only brokers with access control pay for the YAML parser.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import yaml

_CORE: Final = "tag:yaml.org,2002:"
_EXPONENT_ONLY: Final = re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?[eE][-+]?[0-9]+\Z")
"""Numbers for SnakeYAML, texts for PyYAML: `1234567e8` and `1.5e3`."""
_BOOLEANS: Final = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


_MOST_BITS: Final = 14_000
"""Bits of a number: Python converts no more than 4300 digits to text."""


class AclLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Accepts one Java type, PlainAccessConfig.

    Programs that write accounts with AclUtils name it.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - PyYAML's signature
        """Return the value of a node.

        Raises ConstructorError, with the place, for a value that is not of the node's type, such as `!!int ""`. PyYAML
        itself raises any error of the conversion.
        """
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, OverflowError):
            raise _invalid(f"not a value of type {node.tag.removeprefix(_CORE)}", node) from None

    def construct_yaml_int(self, node: yaml.Node) -> int:
        """Return a whole number.

        Raises ValueError for a number that is too long, such as a hexadecimal one of many digits.
        """
        number: int = super().construct_yaml_int(node)
        if number.bit_length() > _MOST_BITS:
            raise ValueError(f"a number of more than {_MOST_BITS} bits")
        return number


def _account(loader: AclLoader, node: yaml.Node) -> dict[str, Any]:
    """Return an account of the Java type.

    Its texts are as written: 0123456 is no number. ConstructorError for members that the class does not have.
    """
    if not isinstance(node, yaml.MappingNode):
        raise _invalid("expected the members of an account", node)
    loader.flatten_mapping(node)
    return {key.value: _member(key)(value) for key, value in node.value}


def _member(key: yaml.Node) -> Callable[[yaml.Node], Any]:
    if not isinstance(key, yaml.ScalarNode) or key.value not in _MEMBERS:
        raise _invalid("unknown member of an account", key)
    return _MEMBERS[key.value]


def _text(node: yaml.Node) -> str | None:
    if not isinstance(node, yaml.ScalarNode):
        raise _invalid("expected a text", node)
    return None if node.tag == _CORE + "null" else str(node.value)


def _texts(node: yaml.Node) -> list[str | None] | None:
    if node.tag == _CORE + "null":
        return None
    if not isinstance(node, yaml.SequenceNode):
        raise _invalid("expected a list", node)
    return [_text(one) for one in node.value]


def _boolean(node: yaml.Node) -> bool:
    word = str(_text(node)).lower()
    if word not in _BOOLEANS:
        raise _invalid("expected true or false", node)
    return _BOOLEANS[word]


def _invalid(problem: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


_MEMBERS: Final[dict[str, Callable[[yaml.Node], Any]]] = {
    "accessKey": _text,
    "secretKey": _text,
    "whiteRemoteAddress": _text,
    "admin": _boolean,
    "defaultTopicPerm": _text,
    "defaultGroupPerm": _text,
    "topicPerms": _texts,
    "groupPerms": _texts,
}

AclLoader.add_constructor(_CORE + "org.apache.rocketmq.common.PlainAccessConfig", _account)
AclLoader.add_constructor(_CORE + "int", AclLoader.construct_yaml_int)
AclLoader.add_constructor(_CORE + "value", lambda _loader, node: node.value)  # a lone `=`
AclLoader.add_implicit_resolver(_CORE + "float", _EXPONENT_ONLY, list("-+0123456789"))
