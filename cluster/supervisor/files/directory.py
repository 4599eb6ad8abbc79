"""A cluster's directory: record, settings, stores, logs, journals, sockets, lock.

<home>/<cluster>/            mode 0700; home is ~/.rmqlab, or $RMQLAB_HOME
    cluster.json             the record: specification and addresses, reused at every start
    <node>/config.toml       rewritten at every start
    <node>/node.log  store/  ...
    journal/<node>.msgpack   events of each process (see rmqlab.runtime.journals.journalfiles)
    journal.old  journal.failed  journal.kept    those of the run before, of a failed start, of the last run during a start
    supervisor.log  forkserver.log  supervisor.lock  control.sock  command.sock
    control.json             address and token of the control API, mode 0600, while it serves
"""

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import attrs

from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError
from rmqlab.cluster.supervisor.plan.roles import MASTER_ID, with_changes
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Node, Placement, nodes_of
from rmqlab.runtime.config.validators import line_fault, shown, within
from rmqlab.runtime.journals.journalfiles import journal_path
from rmqlab.runtime.regularfile import check_regular, open_regular, read_regular_text
from rmqlab.verdict.runs import home

_LONGEST_SOCKET_PATH = 100  # systems limit paths of sockets to 104 to 108 bytes
_RECORD_VERSION = 1
LATEST_MILLIS = 253_402_300_799_000
"""The end of the year 9999 in ms since 1970: Python has no later date."""
_LONGEST_PID = 20
_LOCK_SECONDS = 0.01
_LOCK_ATTEMPTS = 4
_PATIENT_ATTEMPTS = 1000


class AlreadyUpError(Exception):
    """Another supervisor runs this cluster."""


class SetupError(Exception):
    """The cluster's directory cannot be created, or the configured network is invalid."""


class NoClusterError(Exception):
    """The cluster does not exist or is not running."""


class RecordNotSavedError(NodeFailedError):
    """The nodes are not changed, because their record cannot be written.

    The text names the file.
    """


class RecordError(ValueError):
    """The record of a cluster cannot be read, or is damaged. The text names the file."""


def _are_broker_ids(_record: object, _field: object, roles: Mapping[str, int]) -> None:
    if min(roles.values(), default=MASTER_ID) < MASTER_ID:
        raise ValueError("a broker id is negative")


@attrs.frozen(kw_only=True)
class Record:
    """The data of a cluster that outlive its supervisor."""

    version: int = _RECORD_VERSION
    spec: ClusterSpec
    placement: Placement
    clock_millis: int = attrs.field(default=0, validator=within(0, LATEST_MILLIS))
    """The cluster's time at its last regular stop."""
    run: str = ""
    """Id of the latest start, which the journals of its processes name."""
    roles: Mapping[str, int] = attrs.field(factory=dict, validator=_are_broker_ids)
    """Broker ids of brokers whose role was changed, in the order of the changes."""

    def nodes(self) -> list[Node]:
        """Return the nodes with their present roles, in the order of `nodes_of`."""
        return with_changes(nodes_of(self.spec, self.placement), self.roles, self.spec.role)


def check_path(path: Path) -> None:
    """SetupError for a path that settings cannot have, such as one in Latin-1."""
    if line_fault(str(path)):
        raise SetupError(
            f"cannot create {path}: expected a path in UTF-8, without line breaks and control characters (see"
            " RMQLAB_HOME)"
        )


@attrs.frozen
class ClusterDirectory:
    """The paths of one cluster. Creating an instance does not access the disk."""

    path: Path
    is_lasting: bool = True
    """False for a cluster that is started once: its addresses are free when it has ended."""

    @classmethod
    def named(cls, name: str) -> "ClusterDirectory":
        return cls(home() / name)

    @classmethod
    def at(cls, path: "ClusterDirectory | str | os.PathLike[str]") -> "ClusterDirectory":
        if path == "":
            raise ValueError("directory = '': expected a path")
        return path if isinstance(path, ClusterDirectory) else cls(Path(path).absolute())

    @property
    def record_path(self) -> Path:
        return self.path / "cluster.json"

    @property
    def journal_dir(self) -> Path:
        return self.path / "journal"

    def journal_path(self, node: str) -> Path:
        return journal_path(self.journal_dir, node)

    def begin_journal(self) -> None:
        """Create an empty journal directory for a start.

        The journals of the last run are kept beside it until the start has succeeded or failed. A start whose
        supervisor was killed has failed.
        """
        if self._kept_journal.exists():
            self.restore_journal()
        if self.journal_dir.exists():
            self.journal_dir.replace(self._kept_journal)
        self.journal_dir.mkdir(mode=0o700)

    def complete_journal(self) -> None:
        """Keep the journals of the run before as `journal.old`: this start succeeded."""
        if self._kept_journal.exists():
            _replace_directory(self._kept_journal, self.path / "journal.old")
        if self._failed_journal.exists():
            shutil.rmtree(self._failed_journal)

    def restore_journal(self) -> None:
        """Put the journals of the last run back after a failed start.

        Its own become `journal.failed`.
        """
        if self._kept_journal.exists():
            if self.journal_dir.exists():
                _replace_directory(self.journal_dir, self._failed_journal)
            self._kept_journal.replace(self.journal_dir)

    @property
    def _kept_journal(self) -> Path:
        return self.path / "journal.kept"

    @property
    def _failed_journal(self) -> Path:
        return self.path / "journal.failed"

    @property
    def supervisor_log(self) -> Path:
        return self.path / "supervisor.log"

    @property
    def control_socket(self) -> Path:
        """The socket for the control channels of the cluster's processes."""
        return self._socket("control.sock")

    @property
    def command_socket(self) -> Path:
        """The socket for requests of the command line to the supervisor."""
        return self._socket("command.sock")

    @property
    def control_path(self) -> Path:
        """The file with address and token of the control API, while it serves."""
        return self.path / "control.json"

    def data_dir(self, node: str) -> Path:
        return self.path / node

    def config_path(self, node: str) -> Path:
        return self.data_dir(node) / "config.toml"

    def log_path(self, node: str) -> Path:
        return self.data_dir(node) / "node.log"

    def create(self) -> None:
        """Create the directory if it is missing. SetupError if that fails.

        SetupError also for a log that is a pipe: the process that opens it would wait for a reader.
        """
        check_path(self.path)
        try:
            for path in (self.path.parent, self.path):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError as exc:
            raise SetupError(
                f"cannot create {self.path}: {exc.filename} is not a directory (see RMQLAB_HOME)"
            ) from None
        except OSError as exc:
            raise SetupError(f"cannot create {self.path}: {exc.strerror} (see RMQLAB_HOME)") from None
        for path in (self.supervisor_log, self.path / "forkserver.log"):
            if path.is_fifo():
                raise SetupError(f"{path}: a pipe, not a file")

    def read_record(self) -> Record | None:
        """Return the record of the last start; None for a new cluster.

        RecordError if it is damaged.
        """
        try:
            text = read_regular_text(self.record_path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise RecordError(f"{self.record_path} cannot be read: {exc.strerror}") from None
        except UnicodeDecodeError:
            text = ""
        import cattrs  # noqa: PLC0415 -- commands that read no record do not pay for it

        try:
            plain = json.loads(text)
            version = plain.get("version", _RECORD_VERSION) if isinstance(plain, dict) else _RECORD_VERSION
            record = cattrs.structure(plain, Record) if version in (None, _RECORD_VERSION) else None
        except (cattrs.BaseValidationError, ValueError, TypeError, RecursionError):
            raise RecordError(
                f"{self.record_path} is damaged: expected the record that `rmqlab up` writes; delete the file, and"
                " `rmqlab up` writes a new record and starts the cluster on its existing stores"
            ) from None
        if record is None:
            raise RecordError(
                f"{self.record_path} has version {shown(version)}: expected {_RECORD_VERSION}; use the version of"
                " rmqlab that wrote it"
            )
        return record

    def restore_record(self, record: Record | None) -> None:
        """Restore the record of the last run, or remove it after a failed first start."""
        if record is None:
            self.record_path.unlink(missing_ok=True)
        else:
            self.write_record(record)

    @contextlib.contextmanager
    def changed_record(self, **changes: Any) -> Iterator[None]:
        """Replace fields of the record, for the next start, once the body has succeeded.

        The new record is written before the body: RecordNotSavedError, without any effect, on a full disk, or if the
        present record is damaged.
        """
        with contextlib.ExitStack() as stack:
            try:
                if (record := self.read_record()) is not None:
                    stack.enter_context(self._staged(attrs.evolve(record, **changes)))
            except (OSError, RecordError) as exc:
                reason = exc if isinstance(exc, RecordError) else f"{self.record_path} cannot be saved: {exc.strerror}"
                raise RecordNotSavedError(f"{reason}; the cluster keeps its nodes, roles and settings") from None
            yield

    def write_record(self, record: Record) -> None:
        with self._staged(record):
            pass

    @contextlib.contextmanager
    def _staged(self, record: Record) -> Iterator[None]:
        """Write a record beside the present one, and replace that after the body."""
        import cattrs  # noqa: PLC0415 -- as above

        fresh = self.record_path.with_suffix(".json.new")
        try:
            fresh.touch(mode=0o600)
            fresh.write_text(json.dumps(cattrs.unstructure(record), indent=2) + "\n")
            yield
            fresh.replace(self.record_path)
        finally:
            fresh.unlink(missing_ok=True)

    def siblings(self) -> Iterator[Record]:
        """Return the records of the other lasting clusters in this home."""
        around = self.path.parent if self.is_lasting else home()
        for path in around.glob("*/cluster.json"):
            with contextlib.suppress(RecordError):  # another cluster's problem
                other = ClusterDirectory(path.parent)
                if other.path != self.path and (record := other.read_record()):
                    yield record

    @contextlib.contextmanager
    def locked(self, *, patient: bool = False) -> Iterator[None]:
        """Hold the lock of this cluster's supervisor.

        AlreadyUpError if another process holds it for longer than 40 ms, or 10 s if `patient`.
        """
        lock_path = self.path / "supervisor.lock"
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+") as lock:
            check_regular(descriptor, lock_path)
            if not _lock(lock, _PATIENT_ATTEMPTS if patient else _LOCK_ATTEMPTS):
                raise AlreadyUpError(
                    f"cluster {self.path.name} is already up (supervisor pid {lock.read(_LONGEST_PID)})"
                )
            lock.truncate()
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def is_up(self) -> bool:
        """Return True if a supervisor runs this cluster."""
        try:
            with open_regular(self.path / "supervisor.lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except BlockingIOError:
            return True
        return False

    def is_lost(self) -> bool:
        """Return True if the file that this process locked is no longer there.

        The directory was removed or renamed while the cluster runs. What is at its path now is not ours to change.
        """
        try:
            return self._locked_by() != str(os.getpid())
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:  # such as without a free file descriptor
            return False

    def supervisor_pid(self) -> str:
        """Return the process id of the last supervisor, as text; empty if unknown."""
        try:
            text = self._locked_by()
        except OSError:
            return ""
        return text if text.isdecimal() else ""

    def _locked_by(self) -> str:
        """Return what the last supervisor wrote into the lock. OSError."""
        with open_regular(self.path / "supervisor.lock") as lock:
            return lock.read(_LONGEST_PID).decode("ascii", "replace")

    def _socket(self, name: str) -> Path:
        path = self.path / name
        if len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH:
            return path
        import hashlib  # noqa: PLC0415 -- rarely needed, and slow to import
        import tempfile  # noqa: PLC0415 -- as above

        key = hashlib.sha1(os.fsencode(self.path.resolve()), usedforsecurity=False).hexdigest()[:16]
        short = Path(tempfile.gettempdir()) / f"rmqlab-{os.getuid()}"
        short.mkdir(mode=0o700, exist_ok=True)
        if short.stat().st_uid != os.getuid() or short.stat().st_mode & 0o077:
            raise PermissionError(f"{short} has another owner or is accessible to other users")
        return short / f"{key}-{name}"


def _replace_directory(path: Path, target: Path) -> None:
    """Rename a directory, and delete the one that had this name."""
    if target.exists():
        shutil.rmtree(target)
    path.replace(target)


def _lock(file: TextIO, attempts: int) -> bool:
    """Lock a file exclusively. Return False if all attempts, 10 ms apart, fail."""
    for attempt in range(attempts):
        if attempt:
            time.sleep(_LOCK_SECONDS)  # flock has no timeout, and signals interrupt it in the main thread only
        with contextlib.suppress(BlockingIOError):  # locked by a supervisor, or briefly by `is_up`
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False
