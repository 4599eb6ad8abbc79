"""Faults as one node receives them, with the affected connections for links.

The supervisor sends a node all rules that concern it each time that one of them changes, and gives a new process
those in force. They are sent as plain values, so the runtime package is independent of the kinds of faults.
"""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from rmqlab.faults import FAULTS
from rmqlab.faults.link.fault import LinkFault
from rmqlab.faults.specification import Fault
from rmqlab.faults.table import FaultTable, fault_values
from rmqlab.runtime.net.node_faults import PlainRules

if TYPE_CHECKING:
    from cattrs import Converter

F = TypeVar("F", bound=Fault)


@attrs.frozen(kw_only=True)
class LinkRule:
    """A link fault for the bytes that go one way between this node and certain peers.

    A peer is known by its IP address (`hosts`, or by not being in a network, `not_in`). Where all peers share one
    address, it is known by the address at which it serves (`addresses`), thus only on connections that this node opens.
    """

    id: str
    fault: LinkFault
    node: str = ""
    """Name of this node: nodes with one rule make other random choices."""
    is_outbound: bool
    """True for the bytes that this node sends, else for those that it receives."""
    is_enforced_here: bool = True
    """False if the peer impairs the bytes, and the rule counts for opening connections only."""
    hosts: tuple[str, ...] = ()
    not_in: tuple[str, ...] = ()
    """The beginnings of the addresses that the rule is not for."""
    addresses: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    """Ports at which the connection is served, by either node; empty for all."""

    def concerns(self, host: str, address: str, port: int) -> bool:
        """True if the rule covers a connection with these ends.

        The peer has the IP address `host` and serves at `address`, if it serves; `port` is the served port.
        """
        if self.ports and port not in self.ports:
            return False
        if self.not_in:
            return not host.startswith(self.not_in)
        return host in self.hosts or address in self.addresses


@attrs.frozen(kw_only=True)
class OwnRule:
    """A fault that concerns this node alone: its disk, its requests, its clock."""

    id: str
    fault: Fault


@attrs.frozen(kw_only=True)
class NodeRules:
    """All rules that are in force at one node, oldest first."""

    links: tuple[LinkRule, ...] = ()
    own: tuple[OwnRule, ...] = ()

    @property
    def ids(self) -> list[str]:
        """The ids of their faults, each once."""
        return list(dict.fromkeys(rule.id for rules in (self.links, self.own) for rule in rules))

    def own_faults(self, family: type[F]) -> dict[str, F]:
        """The faults of this node alone that are of one family, by id."""
        return {rule.id: rule.fault for rule in self.own if isinstance(rule.fault, family)}

    def to_plain(self) -> dict[str, Any]:
        """Return plain values, as they travel to the node.

        Empty without rules, so that most nodes need no converter.
        """
        if not self.links and not self.own:
            return {}
        plain: dict[str, Any] = _converter(FAULTS).unstructure(self)
        return plain

    @classmethod
    def from_plain(cls, plain: PlainRules, table: FaultTable = FAULTS) -> "NodeRules":
        """The reverse of `to_plain`; `table` has the kinds of faults that may occur."""
        return _converter(table).structure(plain, cls) if plain else cls()


@functools.cache
def _converter(table: FaultTable) -> "Converter":
    from cattrs import Converter  # noqa: PLC0415 -- most nodes never have a rule

    converter = Converter(forbid_extra_keys=True)

    def is_fault(cls: Any) -> bool:
        return isinstance(cls, type) and issubclass(cls, Fault)

    def structure(values: Mapping[str, Any], _cls: type[Fault]) -> Fault:
        return table.fault_of(values)

    converter.register_structure_hook_func(is_fault, structure)
    converter.register_unstructure_hook_func(is_fault, fault_values)
    return converter
