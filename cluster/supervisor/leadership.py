"""Leadership transfer in a DLedger group, requested by an operator.

DLedger's own command line asks for it in the same way. Source: request 51005, classes LeadershipTransferCommand and
DLedgerClient (section 4.5 of docs/protocol/dledger.md). RocketMQ's mqadmin has no command for it.
"""

from collections.abc import Sequence
from typing import Final

import trio

from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError, WrongStateError
from rmqlab.cluster.supervisor.plan.roles import acting_master
from rmqlab.cluster.supervisor.plan.topology import Node
from rmqlab.cluster.supervisor.processes import Processes
from rmqlab.dledger.bodies import LeadershipTransferRequest, LeadershipTransferResponse
from rmqlab.dledger.codes import DLedgerCode, DLedgerRequestCode
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.command import request
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.net.reactor import open_reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.remoting_errors import RemotingError

TRANSFER_SECONDS: Final = 10.0
"""Timeout in real seconds. The leader waits 3 s of its own clock for the new leader."""
LEAD_SECONDS: Final = 10.0
"""Real seconds within which an elected member becomes master: it commits and dispatches its log first."""


async def hand_over(processes: Processes, *names: str) -> None:
    """Make a member the leader of its group, and wait until it is master.

    WrongStateError as `transfer_leadership`; NodeFailedError for a member that does not become master.
    """
    code = await transfer_leadership(processes, *names)
    if code is not DLedgerCode.SUCCESS:
        raise NodeFailedError(f"{names[0]} does not lead: the transfer ended with {code.value} {code.name}")
    with trio.move_on_after(real_seconds(LEAD_SECONDS)):
        while not processes.nodes[names[0]].is_master:
            await processes.events.wait_changed()
        return
    raise NodeFailedError(f"{names[0]} was elected, and is not master {LEAD_SECONDS:g} s later")


async def transfer_leadership(processes: Processes, *names: str) -> DLedgerCode:
    """Ask a group's leader to hand over to a member. Return the code of its response.

    WrongStateError, without any effect, if the request cannot be sent.
    """
    nodes = processes.nodes
    leader, member = check_transferee([nodes[name] for name in names], [*nodes.values()])
    if not processes.state_of(member.name).is_alive:
        raise WrongStateError(f"{member.name} is {processes.state_of(member.name).state}: expected a running member")
    facts = (await processes.snapshot(leader.name) or {}).get("dledger")
    if not facts:
        raise WrongStateError(f"{leader.name}, the leader of {leader.group}, does not respond")
    code = await _ask(leader, member, facts["term"])
    processes.record(member.name, "leadership_asked", broker_name=member.group, term=facts["term"], code=code.value)
    return code


def check_transferee(members: Sequence[Node], nodes: Sequence[Node]) -> tuple[Node, Node]:
    """Return the leader of a group, and the member that is to lead.

    WrongStateError for several members, one that leads already, or a group without leader.
    """
    (member, *others) = members
    if others:
        names = ", ".join(node.name for node in members)
        raise WrongStateError(f"{names}: expected one member, for a DLedger group has one leader")
    leader = acting_master(member.group, nodes)
    if leader is None:
        raise WrongStateError(f"{member.group} has no leader that could hand over to {member.name}")
    if leader.name == member.name:
        raise WrongStateError(f"{member.name} already leads {member.group}")
    return leader, member


async def _ask(leader: Node, member: Node, term: int) -> DLedgerCode:
    """Send request 51005 to a leader, and return the code of its response.

    NETWORK_ERROR without a response, and UNKNOWN for foreign bytes.
    """
    order = LeadershipTransferRequest(
        group=leader.group,
        remote_id=leader.member_id,
        term=term,
        transfer_id=leader.member_id,
        transferee_id=member.member_id,
    )
    async with open_reactor() as reactor:
        client = RemotingClient(reactor)
        try:
            command = request(DLedgerRequestCode.LEADERSHIP_TRANSFER, body=order.encode())
            address = f"{leader.host}:{leader.group_port}"
            reply = await client.request(address, command, real_seconds(TRANSFER_SECONDS))
            return LeadershipTransferResponse.decode(reply.body).dledger_code
        except RemotingError:
            return DLedgerCode.NETWORK_ERROR
        except BodyError:
            return DLedgerCode.UNKNOWN
        finally:
            client.close()
