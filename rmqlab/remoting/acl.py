"""Request signatures: added by a client with an ACL hook, verified by the broker.

The signature is the HMAC-SHA1 of the ext field values, sorted by field name, followed by the body. It is sent in an
additional ext field, as base64. Sources: classes AclClientRPCHook, AclUtils, AclSigner of 4.9.8.
"""

import base64
import hashlib
import hmac
from collections.abc import Container, Mapping

import attrs

from rmqlab.remoting.command import Command

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 - the name of a field
SIGNATURE = "Signature"
SHORTEST_KEY = 7
"""Minimum length of an access key and of a secret key, in characters (class PlainPermissionManager of 4.9.8)."""


@attrs.frozen
class Credentials:
    """The account of a client: access key, secret key and optional security token."""

    access_key: str
    secret_key: str = attrs.field(repr=False)
    security_token: str | None = attrs.field(default=None, repr=False)
    """Signed and sent if set. 4.9 brokers ignore it."""


def keys_fault(access_key: str, secret_key: str) -> str | None:
    """Return why a pair of keys is invalid, or None if it is valid.

    The text never contains the secret, because it may be logged.
    """
    for name, key in (("access key", access_key), ("secret key", secret_key)):
        if not key:
            return f"the {name} is missing: an account has an access key and a secret key"
        if len(key) < SHORTEST_KEY:
            return f"the {name} has {len(key)} characters: plain_acl.yml accepts keys of 7 or more"
    return None


def signed_content(fields: Mapping[str, str], body: bytes, leave_out: Container[str] = (SIGNATURE,)) -> bytes:
    """Return the bytes to sign: the values sorted by field name, then the body."""
    return "".join(fields[name] for name in sorted(fields) if name not in leave_out).encode() + body


def signature(content: bytes, secret_key: str) -> str:
    """Return the signature of content: 20 bytes, as base64."""
    return base64.b64encode(hmac.digest(secret_key.encode(), content, hashlib.sha1)).decode()


def is_signed(content: bytes, secret_key: str, given: str) -> bool:
    """Return True if a signature matches the content. Compares in constant time."""
    return hmac.compare_digest(signature(content, secret_key).encode(), given.encode("utf-8", "replace"))


def sign(command: Command, credentials: Credentials) -> None:
    """Add the ACL fields and the signature to a request.

    A request that is sent again can be signed again.
    """
    fields = {**command.ext_fields, ACCESS_KEY: credentials.access_key}
    if credentials.security_token is not None:
        fields[SECURITY_TOKEN] = credentials.security_token
    fields[SIGNATURE] = signature(signed_content(fields, command.body), credentials.secret_key)
    command.raw_fields = fields
