"""A new kind of fault: one class and one table entry; the rest is derived."""

import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import pytest
from click.testing import CliRunner

from rmqlab.cluster.cli.fault_options import family_command
from rmqlab.cluster.faults.active_faults import ActiveFaults
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Placement, nodes_of, place
from rmqlab.faults import FAULTS, FaultError, describe_fault, fault_values
from rmqlab.faults.documents import table_of_kinds, table_of_options
from rmqlab.faults.link.fault import LinkFault
from rmqlab.faults.link.netem import Impairment
from rmqlab.faults.process import node_faults
from rmqlab.faults.rules import LinkRule, NodeRules
from rmqlab.faults.specification import option
from rmqlab.faults.table import FaultTable
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import request
from rmqlab.runtime.net.dispatch import Dispatcher, Reply, Request, Route, handler_table
from rmqlab.runtime.net.reactor import open_reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.server import Server

ECHO = RequestCode.HEART_BEAT


@attrs.frozen(kw_only=True)
class Garble(LinkFault):
    """Bytes of one value arrive as another."""

    kind = "garble"
    example: ClassVar = {"src": "broker-a", "dst": "broker-a-s", "byte": 63}

    byte: int = option("The value that does not arrive.", least=0, most=255)
    arrives_as: int | None = option("The value instead.", least=0, most=255, default=None, unless_given=33, flag="--as")

    def impair(self, before: Impairment) -> Impairment:
        return attrs.evolve(before, transforms=(*before.transforms, self._garble))

    def _garble(self, data: bytes) -> bytes:
        return data.replace(bytes([self.byte]), bytes([33 if self.arrives_as is None else self.arrives_as]))


@attrs.frozen(kw_only=True)
class Stall(LinkFault):
    """The first bytes arrive late."""

    kind = "stall"
    example: ClassVar = {"src": "broker-a", "dst": "broker-a-s", "millis": 500}

    millis: float = option("Length of the stall.", unit="ms", least=0)


TABLE = FaultTable((*FAULTS.kinds, Garble))
LINK = {"type": "link", "src": "broker-a", "dst": "broker-a-s"}


def test_its_values_are_accepted_and_described() -> None:
    fault = TABLE.fault_of({**LINK, "kind": "garble", "byte": 7})
    assert fault == Garble(src="broker-a", dst="broker-a-s", byte=7)
    assert describe_fault(fault_values(fault)) == "link broker-a -> broker-a-s garble byte=7"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "garbel"}, "full-table, garble; did you mean garble?"),
        ({"kind": "garble"}, "link: kind garble needs byte"),
        ({"kind": "garble", "byte": 256}, "link: byte = 256: expected at most 255"),
        ({"kind": "garble", "byte": 1, "bite": 2}, "no key 'bite'.*did you mean byte?"),
        (
            {"kind": "garble", "byte": 1, "millis": 2},
            "kind garble has no value millis; it takes byte, arrives_as",
        ),
        ({"kind": "reset", "byte": 1}, "kind reset has no value byte; it takes no options"),
    ],
)
def test_its_values_are_checked(values: dict[str, Any], message: str) -> None:
    with pytest.raises(FaultError, match=message):
        TABLE.fault_of({**LINK, **values})


def test_the_command_line_has_its_options() -> None:
    applied: list[Mapping[str, Any]] = []

    def apply(_name: str, values: Mapping[str, Any], *, as_json: bool) -> None:
        assert not as_json
        applied.append({key: value for key, value in values.items() if value})

    app = family_command(TABLE.families["link"], apply)
    shown = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    assert "garble: Bytes of one value arrive as another." in shown
    assert "full-table | garble" in shown
    assert "garble: The value instead. [33]" in shown
    CliRunner().invoke(app, ["broker-a", "broker-a-s", "-k", "garble", "--byte", "7", "--as", "8"])
    assert applied == [{**LINK, "kind": "garble", "byte": 7, "arrives_as": 8}]


def test_an_option_that_two_kinds_have_is_explained_for_both() -> None:
    table = FaultTable((*FAULTS.kinds, Stall))
    app = family_command(table.families["link"], lambda *_values, **_more: None)
    shown = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    assert "--millis NUMBER latency: Delay added to all bytes. In ms. stall: Length of the stall. In ms." in shown


def test_the_documents_have_its_rows() -> None:
    row = "| link: garble | `fault link broker-a broker-a-s -k garble --byte 63` | Bytes of one value arrive as another. |"
    assert row in table_of_kinds(TABLE).splitlines()
    assert (
        "| link: garble | `arrives_as` | `--as` |  | The value instead. [33] |" in table_of_options(TABLE).splitlines()
    )


def test_the_supervisor_sends_it_to_the_nodes_of_its_link() -> None:
    spec = ClusterSpec(slaves=1)
    nodes = nodes_of(spec, place(spec, Placement(subnet=9)))
    active = ActiveFaults()
    fault = Garble(src="broker-a", dst="broker-a-s", byte=7)
    active.add(fault, nodes, 0)
    rules = {node.name: active.rules_for(node, nodes) for node in nodes}
    assert [rule.fault for rule in rules["broker-a-s"].links] == [fault]
    assert NodeRules.from_plain(rules["broker-a-s"].to_plain(), TABLE) == rules["broker-a-s"]
    assert rules["namesrv-1"] == NodeRules()


def echo(_state: None, _header: None, asked: Request) -> Reply:
    return Reply(body=asked.command.body)


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is Linux's")
async def test_a_new_fault_kind_affects_a_socket() -> None:
    faults = node_faults(TABLE)
    rule = LinkRule(
        id="f1", fault=Garble(src="client", dst="server", byte=ord("?")), is_outbound=False, hosts=("127.0.0.2",)
    )
    async with open_reactor(faults) as reactor, open_reactor() as other:
        server: Server[None] = Server(reactor, Dispatcher(handler_table([Route(ECHO, None, echo)]), None))
        host, port = server.listen("127.0.0.1", 0)
        client = RemotingClient(other, source_ip="127.0.0.2")

        async def ask() -> bytes:
            return (await client.request(f"{host}:{port}", request(ECHO, body=b"yes?"), 60)).body

        assert await ask() == b"yes?"
        faults.set(NodeRules(links=(rule,)).to_plain())
        assert await ask() == b"yes!"
        faults.set({})
        assert await ask() == b"yes?"
        client.close()
        server.close()
