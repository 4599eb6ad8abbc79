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

import pathlib
from collections.abc import Mapping
from typing import Any

import attrs

from broker.acl.account import Account
from broker.acl.addresses import Matcher, address_matcher
from broker.acl.denial import AclDenied
from remoting.bodies.topic import DataVersion

Document = dict[str, Any]


@attrs.frozen
class AclFile:
    """What one file says."""

    white: tuple[Matcher, ...]
    accounts: Mapping[str, Account]
    """By access key."""
    version: DataVersion

    @classmethod
    def of(cls, document: Document, now_millis: int) -> "AclFile":
        """Understand a file's content. AclDenied where it cannot be understood."""
        white = tuple(address_matcher(str(one)) for one in listed(document, "globalWhiteRemoteAddresses"))
        accounts = [Account.of(entry) for entry in listed(document, "accounts")]
        return cls(white, {one.access_key: one for one in reversed(accounts)}, version_of(document, now_millis))


def listed(document: Document, key: str) -> list[Any]:
    """Give the list under a key, empty where there is none. AclDenied where something else stands there."""
    value = document.get(key) or []
    if not isinstance(value, list) or (key != "globalWhiteRemoteAddresses" and not _are_mappings(value)):
        raise AclDenied(f"{key}: expected a list of entries")
    return value


def _are_mappings(values: list[Any]) -> bool:
    return all(isinstance(value, dict) for value in values)


def version_of(document: Document, now_millis: int) -> DataVersion:
    """Give the version that a file has; a first one where it has none."""
    for entry in listed(document, "dataVersion"):
        if isinstance(entry.get("counter"), int) and isinstance(entry.get("timestamp"), int):
            return DataVersion(timestamp=entry["timestamp"], counter=entry["counter"])
    return DataVersion(timestamp=now_millis, counter=0)


def find_acl_files(home: pathlib.Path) -> list[pathlib.Path]:
    """Give all ACL files below a home directory: those of `conf/acl`, then `conf/plain_acl.yml`."""
    folder, plain = home / "conf" / "acl", plain_acl_file(home)
    found = sorted(path for path in folder.rglob("*") if path.suffix in (".yml", ".yaml") and path.is_file())
    return found + ([plain] if plain.exists() else [])


def plain_acl_file(home: pathlib.Path) -> pathlib.Path:
    """Where new accounts go."""
    return home / "conf" / "plain_acl.yml"


def read_acl_file(path: pathlib.Path) -> Document:
    """Read a file; an empty one is an empty document. AclDenied where it is no YAML mapping."""
    import yaml  # noqa: PLC0415 - only brokers with access control pay for it

    try:
        document = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise AclDenied(f"{path}: {_in_one_line(exc)}") from None
    if document is not None and not isinstance(document, dict):
        raise AclDenied(f"{path}: expected keys such as accounts, not {document!r:.80}")
    return document or {}


def _in_one_line(exc: Exception) -> str:
    """What is wrong, and where: the parser of YAML draws a picture of it."""
    mark = getattr(exc, "problem_mark", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return where + " ".join(str(getattr(exc, "problem", None) or exc).split())


def write_acl_file(path: pathlib.Path, document: Document, now_millis: int) -> None:
    """Write a file anew, with its version moved on. AclDenied where that fails."""
    import yaml  # noqa: PLC0415 - as above

    counter = version_of(document, now_millis).counter + 1
    document["dataVersion"] = [{"counter": counter, "timestamp": now_millis}]
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), "utf-8")
        temporary.replace(path)
    except OSError as exc:
        raise AclDenied(f"{path}: {exc}") from None
