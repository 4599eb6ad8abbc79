"""Prepares the process of a hunt, from which each schedule is forked."""

import contextlib
import gc
import logging
import os
import random
import time
from collections.abc import Iterator

from rmqlab.cluster.hunt.case import Case
from rmqlab.cluster.hunt.faults import KINDS, Fault
from rmqlab.cluster.hunt.groupclaims import claims_in
from rmqlab.cluster.hunt.trial import try_case
from rmqlab.cluster.simulation.play import preload
from rmqlab.cluster.supervisor.plan.topology import MASTER_SLAVE
from rmqlab.runtime import stopwatch
from rmqlab.store.files.machine import set_machine, this_machine


def warm_up_case(mode: str) -> Case:
    """Return a case that runs most of the code of others.

    All its processes stop cleanly, so it leaves no state in this process.
    """
    restart = Fault("restart", KINDS["restart"].targets_in(mode)[0], 10.0, 0.0)
    return Case(seed=0, profile="hardened", mode=mode, flush="SYNC_FLUSH", faults=(restart,))


def warm_up(mode: str = MASTER_SLAVE) -> None:
    """Import what nodes need and play a case, once for all forked processes.

    A first case in a process compiles the codecs of all headers and bodies, and lets the interpreter specialize its
    bytecode: a seventh of the processor time of a short case. The course of later cases does not depend on it.
    """
    preload()
    with _unchanged_process():
        try_case(warm_up_case(mode), claims_in(mode))
    gc.collect()
    gc.freeze()  # collections in children neither visit these objects nor copy their pages


@contextlib.contextmanager
def _unchanged_process() -> Iterator[None]:
    """Restore what `rmqlab.cluster.simulation.host.simulate` replaces in its process."""
    root, zone, machine = logging.getLogger(), os.environ.get("TZ"), this_machine()
    handlers, level, state, clocks = root.handlers, root.level, random.getstate(), (stopwatch.wall, stopwatch.cpu)
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)
        random.setstate(state)
        stopwatch.replace(*clocks)
        set_machine(machine)
        if zone is None:
            os.environ.pop("TZ", None)
        else:
            os.environ["TZ"] = zone
        time.tzset()
