"""Faults of a cluster: one file for each kind, and one table of all kinds.

A kind's file has its values, its checks and its effect. A new kind is a class in a file of its own, and a line in this
table. `rmqlab fault`, scenario files, the Python API, error messages and `docs/faults.md` take it from here.
"""

from rmqlab.faults.clock.skew import ClockSkew
from rmqlab.faults.clock.step import ClockStep
from rmqlab.faults.disk.failing_sync import FailingSync
from rmqlab.faults.disk.full import DiskFull
from rmqlab.faults.disk.read_only import ReadOnlyDisk
from rmqlab.faults.disk.slow_sync import SlowSync
from rmqlab.faults.disk.used import DiskUsed
from rmqlab.faults.ha_report import ForgedHaReport
from rmqlab.faults.isolate import Isolation
from rmqlab.faults.link.bandwidth import Bandwidth
from rmqlab.faults.link.blackhole import Blackhole
from rmqlab.faults.link.corrupt import Corrupt
from rmqlab.faults.link.cut import Cut
from rmqlab.faults.link.full_table import FullTable
from rmqlab.faults.link.latency import Latency
from rmqlab.faults.link.loss import Loss
from rmqlab.faults.link.refuse import Refuse
from rmqlab.faults.link.reorder import Reorder
from rmqlab.faults.link.reset import Reset
from rmqlab.faults.link.slice import Slice
from rmqlab.faults.link.slow_reader import SlowReader
from rmqlab.faults.request.answer import AnswerRequest
from rmqlab.faults.request.delay import DelayRequest
from rmqlab.faults.request.drop import DropRequest
from rmqlab.faults.specification import Fault, FaultError
from rmqlab.faults.table import FaultTable, describe_fault, fault_values, targets_of

__all__ = [
    "FAULTS",
    "AnswerRequest",
    "Bandwidth",
    "Blackhole",
    "ClockSkew",
    "ClockStep",
    "Corrupt",
    "Cut",
    "DelayRequest",
    "DiskFull",
    "DiskUsed",
    "DropRequest",
    "FailingSync",
    "Fault",
    "FaultError",
    "ForgedHaReport",
    "FullTable",
    "Isolation",
    "Latency",
    "Loss",
    "ReadOnlyDisk",
    "Refuse",
    "Reorder",
    "Reset",
    "Slice",
    "SlowReader",
    "SlowSync",
    "describe_fault",
    "fault_of",
    "fault_values",
    "targets_of",
]

FAULTS = FaultTable(
    (
        Isolation,
        Blackhole,
        Refuse,
        Reset,
        Latency,
        Bandwidth,
        Cut,
        Slice,
        Corrupt,
        Loss,
        Reorder,
        SlowReader,
        FullTable,
        DiskFull,
        SlowSync,
        FailingSync,
        ReadOnlyDisk,
        DiskUsed,
        AnswerRequest,
        DelayRequest,
        DropRequest,
        ClockStep,
        ClockSkew,
        ForgedHaReport,
    )
)
"""Every kind of fault, in the order of help texts and documents."""

fault_of = FAULTS.fault_of
