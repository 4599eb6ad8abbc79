"""Runs our broker as a process that can be cut off from all others.

    python -m tests.interop.isolatable CONFIG

SIGUSR1: packets from and to it vanish, as under `rmqlab isolate`. SIGUSR2: they arrive again.
"""

import signal
import sys

import trio

from rmqlab.broker.config import BrokerSettings, load_config
from rmqlab.broker.main import main
from rmqlab.faults.link.blackhole import Blackhole
from rmqlab.faults.process import faults_of_process
from rmqlab.faults.rules import LinkRule, NodeRules
from rmqlab.runtime.clock import ClockSettings, RatedClock
from rmqlab.runtime.node.control import ControlLink
from rmqlab.runtime.node.logfile import log_to_stderr
from rmqlab.runtime.node.process import run_process

NO_ADDRESS = ("-",)
"""The beginning of no address: a rule that is not for these is for all."""
CONNECTED = NodeRules().to_plain()
ISOLATED = NodeRules(
    links=tuple(
        LinkRule(id="f1", fault=Blackhole(src="*", dst="*"), is_outbound=is_outbound, not_in=NO_ADDRESS)
        for is_outbound in (False, True)
    )
).to_plain()
RULES = {signal.SIGUSR1: ISOLATED, signal.SIGUSR2: CONNECTED}


def run(path: str) -> None:
    """Run the broker of a settings file until SIGTERM."""
    log_to_stderr()
    clock = RatedClock(ClockSettings.starting_now())
    faults = faults_of_process(clock, CONNECTED)

    async def follow_signals(*, task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(*RULES) as signals:
            task_status.started()
            async for number in signals:
                faults.set(RULES[signal.Signals(number)])

    async def run_isolatable(settings: BrokerSettings, link: ControlLink) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(follow_signals)
            await main(settings, link)
            nursery.cancel_scope.cancel()

    run_process(run_isolatable, load_config(path), control=None, clock=clock, faults=faults)


if __name__ == "__main__":
    run(sys.argv[1])
