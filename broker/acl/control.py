"""Access control of one broker: check requests, load and change the ACL files.

Class PlainPermissionManager. The files are below a home directory; see `rmqlab.broker.acl.files`.
"""

import functools
import logging
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import trio

from rmqlab.broker.acl.access import Access, access_of
from rmqlab.broker.acl.account import PUB, check_keys, check_resource_perms, text_of
from rmqlab.broker.acl.denial import AclDenied
from rmqlab.broker.acl.files import (
    AclFile,
    Document,
    find_acl_files,
    listed,
    make_acl_file,
    plain_acl_file,
    read_acl_file,
    write_acl_file,
)
from rmqlab.remoting.acl import is_signed
from rmqlab.remoting.bodies.topic import DataVersion
from rmqlab.remoting.command import Command
from rmqlab.remoting.names import TRACE_TOPIC
from rmqlab.runtime.net.worker import in_thread

log = logging.getLogger(__name__)

Change = Callable[[Document], Document | None]
"""Returns the new content of a file, or None if it stays as it is."""

POLL_PERIOD = 5.0
"""Seconds between two checks for changed files (class AclFileWatchService)."""


@attrs.define(eq=False)
class AccessControl:
    """The accounts of all ACL files.

    An access key listed in several files counts in the first.
    """

    home: pathlib.Path
    now_millis: Callable[[], int]
    files: dict[pathlib.Path, AclFile] = attrs.field(factory=dict, init=False)
    path_of: dict[str, pathlib.Path] = attrs.field(factory=dict, init=False)
    """By access key. An account removed from a file stays until files are added or removed."""
    version: DataVersion = attrs.field(
        default=attrs.Factory(lambda self: DataVersion(timestamp=self.now_millis()), takes_self=True), init=False
    )
    """The last version of conf/plain_acl.yml; one of the start while the file is empty."""
    _modified: dict[pathlib.Path, int] = attrs.field(factory=dict, init=False)
    _busy: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """Held while a thread reads or writes a file."""

    @classmethod
    def open(cls, home: pathlib.Path, now_millis: Callable[[], int]) -> "AccessControl":
        """Read all files below `home`; create a missing conf/plain_acl.yml.

        AclDenied for invalid files.
        """
        control = cls(home, now_millis)
        plain = plain_acl_file(home)
        try:
            make_acl_file(plain)
        except OSError as exc:
            raise AclDenied(f"{plain}: {exc}") from None
        control._load_all()
        return control

    # -- checking --------------------------------------------------------------------------------

    def check(self, command: Command, peer: str) -> None:
        """Check that a request of a peer may be served.

        AclDenied, with RocketMQ's reason, if not; BodyError for an invalid heartbeat.
        """
        self.check_access(access_of(command, peer))

    def check_access(self, access: Access) -> None:
        """Do the checks in RocketMQ's order."""
        if any(is_white(access.address) for file in self.files.values() for is_white in file.white):
            return
        if access.access_key is None:
            raise AclDenied("No accessKey is configured", line=664)
        path = self.path_of.get(access.access_key)
        if path is None:
            raise AclDenied(f"No acl config for {access.access_key}", line=668)
        account = self.files[path].accounts.get(access.access_key) if path in self.files else None
        if account is None:
            raise AclDenied(f"No PlainAccessResource for accessKey={access.access_key}", line=675)
        if account.is_white(access.address):
            return
        if not is_signed(access.content, account.secret_key, access.signature or ""):
            raise AclDenied(f"Check signature failed for accessKey={access.access_key}", line=684)
        resources = access.resources()
        if resources.get(TRACE_TOPIC) == PUB:  # every account may write message traces
            return
        account.check(access.code, resources)

    # -- following the files ---------------------------------------------------------------------

    async def poll(self) -> None:
        """Reload files that have changed on disk.

        A thread parses them, also those that requests change: a file of 1 MB takes seconds. An invalid file is logged,
        and its former content stays in force.
        """
        try:
            async with self._busy:
                modified = self._modified_now()
                if len(modified) != len(self._modified):
                    self._use(await in_thread(_parsed_all, list(modified), self.now_millis()), modified)
                    return
                for path, at in modified.items():
                    if self._modified.get(path) != at:
                        self._modified[path] = at  # an invalid file is read once per change
                        self._use_one(path, await in_thread(_parsed, path, self.now_millis()))
        except (AclDenied, OSError) as exc:
            log.warning("the changed ACL files are not used: %s", exc)

    def _modified_now(self) -> dict[pathlib.Path, int]:
        return {path: _modified_at(path) for path in find_acl_files(self.home)}

    def _load_all(self) -> None:
        modified = self._modified_now()
        self._use(_parsed_all(list(modified), self.now_millis()), modified)

    def _use(self, files: dict[pathlib.Path, AclFile], modified: dict[pathlib.Path, int]) -> None:
        path_of: dict[str, pathlib.Path] = {}
        for path, file in files.items():
            for key in file.accounts:
                if key in path_of:
                    log.warning("the access key %s of %s is in %s already", key, path, path_of[key])
                path_of.setdefault(key, path)
        self.files, self.path_of, self._modified = files, path_of, modified
        self._note_version()

    def _use_one(self, path: pathlib.Path, file: AclFile | None) -> None:
        if file is None:
            log.warning("%s is empty: its former content stays in force", path)
            return
        self.files[path] = file
        for key in file.accounts:
            self.path_of.setdefault(key, path)
        self._note_version()

    def _note_version(self) -> None:
        if (plain := self.files.get(plain_acl_file(self.home))) is not None:
            self.version = plain.version

    # -- changing the files ----------------------------------------------------------------------

    async def update_account(self, entry: Mapping[str, Any]) -> None:
        """Add an account, or change one: members that the entry lacks stay as they are.

        AclDenied if the entry is invalid or its file cannot be written.
        """
        check_keys(entry.get("accessKey"), entry.get("secretKey"))
        check_resource_perms(entry.get("topicPerms"))
        check_resource_perms(entry.get("groupPerms"))
        async with self._busy:
            path = self.path_of.get(entry["accessKey"], plain_acl_file(self.home))
            await self._change(path, functools.partial(_with_account, entry))

    async def delete_account(self, access_key: str) -> bool:
        """Remove an account from its file. False if no file has it."""
        async with self._busy:
            path = self.path_of.get(access_key)
            if path is None:
                return False
            try:
                is_deleted = await self._change(path, functools.partial(_without_account, access_key))
            except _EmptyFileError:  # nothing is deleted, and 4.9 replies 0
                return True
            if is_deleted:
                del self.path_of[access_key]
            return is_deleted

    async def update_white_addresses(self, addresses: Sequence[str], file_name: str | None) -> bool:
        """Replace a file's global white addresses (default conf/plain_acl.yml).

        False if it is not an ACL file.
        """
        path = pathlib.Path(file_name) if file_name else plain_acl_file(self.home)
        async with self._busy:
            if path not in find_acl_files(self.home):
                log.error("%s is no ACL file below %s", path, self.home)
                return False
            await self._change(path, functools.partial(_with_white_addresses, addresses))
            return True

    async def _change(self, path: pathlib.Path, change: Change) -> bool:
        """Rewrite a file in a thread. False if there is nothing to change."""
        file = await in_thread(_rewritten, path, change, self.now_millis())
        if file is not None:
            self._use_one(path, file)
            self._modified[path] = _modified_at(path)
        return file is not None

    # -- versions --------------------------------------------------------------------------------

    @property
    def versions(self) -> dict[str, DataVersion]:
        """Return the version of each file that has content."""
        return {str(path): file.version for path, file in self.files.items()}


def _parsed(path: pathlib.Path, now_millis: int) -> AclFile | None:
    """Return the content of a changed file; None if it is empty.

    AclDenied if it is invalid.
    """
    document = read_acl_file(path)
    return AclFile.of(document, now_millis, is_read_again=True) if document else None


def _parsed_all(paths: Sequence[pathlib.Path], now_millis: int) -> dict[pathlib.Path, AclFile]:
    """Return the content of files that are not empty. AclDenied if one is invalid."""
    documents = ((path, read_acl_file(path)) for path in paths)
    return {path: AclFile.of(document, now_millis) for path, document in documents if document}


def _modified_at(path: pathlib.Path) -> int:
    return path.stat().st_mtime_ns


class _EmptyFileError(Exception):
    """An account is to be deleted from a file that is empty by now."""


def _with_account(entry: Mapping[str, Any], document: Document) -> Document:
    accounts = listed(document, "accounts")
    known = next((one for one in accounts if text_of(one.get("accessKey")) == entry["accessKey"]), None)
    kept = [one for one in accounts if one is not known]
    changed = {name: value for name, value in entry.items() if value is not None}
    return {**document, "accounts": [*kept, {**(known or {}), **changed}]}


def _without_account(access_key: str, document: Document) -> Document | None:
    if not document:
        raise _EmptyFileError
    accounts = listed(document, "accounts")
    kept = [one for one in accounts if text_of(one.get("accessKey")) != access_key]
    return None if len(kept) == len(accounts) else {**document, "accounts": kept}


def _with_white_addresses(addresses: Sequence[str], document: Document) -> Document:
    return {**document, "globalWhiteRemoteAddresses": list(addresses)}


def _rewritten(path: pathlib.Path, change: Change, now_millis: int) -> AclFile | None:
    """Change a file, and return its new content.

    None if the change leaves it as it is. AclDenied if the new content would be invalid, or cannot be written.
    """
    document = change(read_acl_file(path) if path.exists() else {})
    return None if document is None else write_acl_file(path, document, now_millis)
