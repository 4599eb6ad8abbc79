"""Puts of a broker in a DLedger group: its leader appends, a quorum decides.

Sections 8.2 and 8.3, class DLedgerCommitLog.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from rmqlab.broker.dledger.entrylog import EntryLog
from rmqlab.dledger.bodies import AppendEntryResponse
from rmqlab.dledger.codes import DLedgerCode, DLedgerError
from rmqlab.dledger.entry import BODY_OFFSET, MAX_ENTRY, Entry
from rmqlab.remoting.batch import Batch, ReceivedBatch
from rmqlab.remoting.message import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, NewMessage
from rmqlab.store.config import StoreConfig
from rmqlab.store.put import Putter
from rmqlab.store.results import Decision, PutResult, PutStatus

UNDONE: Final[Mapping[DLedgerCode, PutStatus]] = {
    DLedgerCode.NOT_LEADER: PutStatus.SERVICE_NOT_AVAILABLE,
    DLedgerCode.INCONSISTENT_LEADER: PutStatus.SERVICE_NOT_AVAILABLE,
    DLedgerCode.LEADER_NOT_READY: PutStatus.SERVICE_NOT_AVAILABLE,
    DLedgerCode.DISK_FULL: PutStatus.SERVICE_NOT_AVAILABLE,
    DLedgerCode.WAIT_QUORUM_ACK_TIMEOUT: PutStatus.OS_PAGECACHE_BUSY,
    DLedgerCode.LEADER_PENDING_FULL: PutStatus.OS_PAGECACHE_BUSY,
}
"""Outcomes of appended entries that no quorum has acknowledged; all others are UNKNOWN_ERROR (dledger#54)."""


class GroupPutter(Putter):
    """Encodes records as a plain broker does, and passes them to the group."""

    log: EntryLog

    def reconfigure(self, config: StoreConfig) -> None:
        """Keep the limit of bodies of the start.

        Source: DLedgerCommitLog.MessageSerializer.
        """

    def append(self, message: NewMessage) -> PutResult:
        """Append one entry. Its outcome is the result's `decision`."""
        result = Putter.append(self, message)
        if not result.is_stored:
            return result
        return self._append(message, result, [self.log.buffer.map])

    def append_batch(self, message: NewMessage, batch: Batch | ReceivedBatch) -> PutResult:
        """Append one entry per message; the last one's outcome counts for all."""
        result = Putter.append_batch(self, message, batch)
        self._batches.clear()  # only committed entries go to the queues
        if not result.is_stored:
            return result
        ends = [*(result.physical_offsets or [])[1:], result.end_offset]
        starts = result.physical_offsets or []
        records = [self.log.buffer.map[start:end] for start, end in zip(starts, ends, strict=True)]
        return self._append(message, result, records)

    def _append(self, message: NewMessage, encoded: PutResult, records: Sequence[bytearray]) -> PutResult:
        """Pass encoded records to the group.

        The queue offsets of those that it refuses are used again.
        """
        log, decision, before = self.log, Decision(), self.log.entries.end_index
        try:
            _check_size(records)
            entries = log.server.append(list(map(bytes, records)), decision, log.now())
        except EntryTooLarge as exc:
            refusal = PutResult(PutStatus.UNKNOWN_ERROR, reason=str(exc))
        except DLedgerError as exc:
            refusal = PutResult(PutStatus.OS_PAGECACHE_BUSY, reason=str(exc))
        except OSError as problem:
            refusal = self.no_room(problem)
        else:
            return self._appended(encoded, entries, decision)
        finally:
            for notify in log.on_append:
                notify()
        if message.sys_flag & TRANSACTION_MASK not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
            queue = self.queues.open(message.topic, message.queue_id)
            queue.next_offset = encoded.queue_offset + log.entries.end_index - before
        return refusal

    def _appended(self, encoded: PutResult, entries: Sequence[Entry], decision: Decision) -> PutResult:
        offsets = [entry.pos + BODY_OFFSET for entry in entries]
        return PutResult(
            PutStatus.PUT_OK,
            offsets[0],
            entries[-1].end,
            encoded.queue_offset,
            encoded.store_timestamp,
            offsets if encoded.physical_offsets is not None else None,
            decision=decision,
        )


class EntryTooLarge(Exception):
    """An entry exceeds DLedger's write buffer."""


def _check_size(records: Sequence[bytearray]) -> None:
    size = max(map(len, records)) + BODY_OFFSET
    if size > MAX_ENTRY:
        raise EntryTooLarge(f"an entry of {size} bytes exceeds {MAX_ENTRY}")


def decide(decision: Decision, outcome: AppendEntryResponse) -> None:
    """Make the decision on a put from the outcome of its last entry."""
    code = outcome.dledger_code
    if code is DLedgerCode.SUCCESS:
        decision.make(PutStatus.PUT_OK)
    else:
        decision.make(UNDONE.get(code, PutStatus.UNKNOWN_ERROR), f"{code.name}: no quorum has stored the message")
