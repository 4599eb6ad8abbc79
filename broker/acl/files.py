"""ACL files: YAML, read and written (classes AclUtils, PlainPermissionManager).

globalWhiteRemoteAddresses: [10.10.103.*]
accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms: [topicA=DENY, topicB=PUB|SUB]
    groupPerms: [groupA=DENY]
dataVersion: [{counter: 1, timestamp: 1600000000000}]      # written by the broker with each change
"""

import os
import pathlib
import stat
from collections.abc import Mapping
from typing import Any, Final

import attrs

from rmqlab.broker.acl.account import Account, text_of
from rmqlab.broker.acl.addresses import Matcher, address_matcher
from rmqlab.broker.acl.denial import AclDenied
from rmqlab.remoting.bodies.topic import DataVersion
from rmqlab.runtime.config.validators import shown
from rmqlab.runtime.regularfile import read_regular_text

Document = dict[str, Any]

MOST_BYTES: Final = 2**20
"""Size of a file. A broker parses a changed one while it serves; that of 1000 accounts has some 200 kB."""
MOST_NODES: Final = 500_000
"""Values in a file, with those that aliases repeat."""


@attrs.frozen
class AclFile:
    """The content of one file."""

    white: tuple[Matcher, ...]
    accounts: Mapping[str, Account]
    """By access key."""
    version: DataVersion

    @classmethod
    def of(cls, document: Document, now_millis: int, *, is_read_again: bool = False) -> "AclFile":
        """Parse a file's content. AclDenied if it is invalid.

        Of several accounts with one access key the first counts, and the last after a change of the file, as in 4.9.8.
        """
        white = tuple(address_matcher(text_of(one)) for one in listed(document, "globalWhiteRemoteAddresses"))
        accounts = [Account.of(entry) for entry in listed(document, "accounts")]
        by_key = {one.access_key: one for one in (accounts if is_read_again else reversed(accounts))}
        return cls(white, by_key, version_of(document, now_millis))


def listed(document: Document, key: str) -> list[Any]:
    """Return the list under a key, empty if the key is missing.

    AclDenied if the value is not a list.
    """
    value = document.get(key)
    if value is None or value == "":
        return []
    if not isinstance(value, list) or (key != "globalWhiteRemoteAddresses" and not _are_mappings(value)):
        raise AclDenied(f"{key}: expected a list of entries")
    return value


def _are_mappings(values: list[Any]) -> bool:
    return all(isinstance(value, dict) and _has_text_keys(value) for value in values)


def _has_text_keys(mapping: Mapping[Any, Any]) -> bool:
    """False for keys such as 1 or true, which fastjson does not accept."""
    return all(key is None or isinstance(key, str) for key in mapping)


def version_of(document: Document, now_millis: int) -> DataVersion:
    """Return the version of a file; a first version if the file has none.

    AclDenied if it is invalid.
    """
    entries = listed(document, "dataVersion")
    first = entries[0] if entries else {}
    return DataVersion(timestamp=_long(first.get("timestamp"), now_millis), counter=_long(first.get("counter"), 0))


def _long(value: object, default: int) -> int:
    """Return a whole number of a version as fastjson reads it.

    It may be in quotes, or have a fraction.
    """
    if value is None or value == "":
        return default
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        raise AclDenied(f"dataVersion: expected whole numbers, not {shown(text_of(value) or '')}") from None


def find_acl_files(home: pathlib.Path) -> list[pathlib.Path]:
    """Return all ACL files below `home`: those of `conf/acl`, then plain_acl.yml."""
    folder, plain = home / "conf" / "acl", plain_acl_file(home)
    found = sorted(path for path in folder.rglob("*") if path.suffix in (".yml", ".yaml") and path.is_file())
    return found + ([plain] if plain.exists() else [])


def plain_acl_file(home: pathlib.Path) -> pathlib.Path:
    """Return the file for new accounts."""
    return home / "conf" / "plain_acl.yml"


def read_acl_file(path: pathlib.Path) -> Document:
    """Read a file; an empty one is an empty document.

    AclDenied if it is not a YAML mapping.
    """
    try:
        text = read_regular_text(path, MOST_BYTES)
    except (OSError, ValueError) as exc:
        raise AclDenied(f"{path}: {_in_one_line(exc)}") from None
    return _document_of(path, text)


def _document_of(path: pathlib.Path, text: str) -> Document:
    import yaml  # noqa: PLC0415 - only brokers with access control pay for it

    from rmqlab.broker.acl.yamlloader import AclLoader  # noqa: PLC0415 - as above

    try:
        loader = AclLoader(text)
        node = loader.get_single_node()
        if node is not None and _nodes_below(node, {}) > MOST_NODES:
            raise AclDenied(f"{path}: more than {MOST_NODES} values, with those that aliases repeat")
        document = None if node is None else loader.construct_document(node)
    except (ValueError, RecursionError, yaml.YAMLError) as exc:
        raise AclDenied(f"{path}: {_in_one_line(exc)}") from None
    if document is None or document == []:
        return {}
    if not isinstance(document, dict):  # not shown: it may hold secrets
        raise AclDenied(f"{path}: expected keys such as accounts, not a {type(document).__name__}")
    if not _has_text_keys(document):
        raise AclDenied(f"{path}: expected keys such as accounts, not numbers, booleans or dates")
    return document


def _nodes_below(node: Any, known: dict[int, int]) -> int:
    """Return the size of a YAML node, in nodes; at most MOST_NODES + 1.

    An alias counts as often as it is used: 30 lines of merges, each twice in the next one, make 2^30 entries. One
    within itself is too large.
    """
    if id(node) not in known:
        known[id(node)] = MOST_NODES + 1
        parts = node.value if isinstance(node.value, list) else ()
        children = [one for part in parts for one in (part if isinstance(part, tuple) else (part,))]
        known[id(node)] = min(1 + sum(_nodes_below(child, known) for child in children), MOST_NODES + 1)
    return known[id(node)]


def _in_one_line(exc: Exception) -> str:
    """Return a parser error with its position in one line.

    The YAML parser prints several.
    """
    mark = getattr(exc, "problem_mark", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return where + " ".join(str(getattr(exc, "problem", None) or exc).split())


def write_acl_file(path: pathlib.Path, document: Document, now_millis: int) -> AclFile:
    """Rewrite a file with an increased version; return the content read back.

    AclDenied, and the file stays as it is, if the next start would reject it, or if the file cannot be written.
    """
    import yaml  # noqa: PLC0415 - as above

    counter = version_of(document, now_millis).counter + 1
    document["dataVersion"] = [{"counter": counter, "timestamp": now_millis}]
    try:
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    except RecursionError as exc:
        raise AclDenied(f"{path}: {_in_one_line(exc)}") from None
    content = text.encode("utf-8", "replace")
    if len(content) > MOST_BYTES:
        raise AclDenied(f"{path}: the change makes it larger than {MOST_BYTES} bytes")
    file = AclFile.of(_document_of(path, content.decode()), now_millis, is_read_again=True)
    try:
        _replace(path, content)
    except OSError as exc:
        raise AclDenied(f"{path}: {exc}") from None
    return file


NEW_FILE_MODE: Final = 0o600
"""Permissions of a new file: it contains secrets."""


def _replace(path: pathlib.Path, content: bytes) -> None:
    """Replace a file as a whole, and keep its mode and owner.

    OSError where that fails.
    """
    target = path.resolve()  # a symbolic link stays a link
    temporary = target.with_name(target.name + ".tmp")
    temporary.unlink(missing_ok=True)  # never written through: it may have another mode, or be a link
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, NEW_FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            if target.exists():
                _keep_access(descriptor, target.stat())
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _keep_access(descriptor: int, before: os.stat_result) -> None:
    """Copy owner and mode of the old file to the new one.

    Sets the owner first: changing it clears mode bits.
    """
    now = os.fstat(descriptor)
    mode = stat.S_IMODE(before.st_mode)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(descriptor, before.st_uid, before.st_gid)
        except PermissionError:  # the owner changes: our group must not get the old group's rights
            mode &= 0o700
    os.fchmod(descriptor, mode)


def make_acl_file(path: pathlib.Path) -> None:
    """Create a file if it is missing, readable by its owner only.

    OSError if that fails.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(NEW_FILE_MODE)
