"""Signatures of requests: what a client with an ACL hook adds, and what a broker checks.

A request is signed by HMAC-SHA1 over the values of its ext fields, in the order of their names, and its body; the
signature goes into one ext field more, as base64. Sources: classes AclClientRPCHook, AclUtils, AclSigner of 4.9.8.
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
"""Characters that an access key and a secret key have at least (class PlainPermissionManager of 4.9.8)."""


@attrs.frozen
class Credentials:
    """Who a client is: an account's name and its secret."""

    access_key: str
    secret_key: str = attrs.field(repr=False)
    security_token: str | None = attrs.field(default=None, repr=False)
    """Signed and sent along where it is given. 4.9 brokers do not look at it."""


def keys_fault(access_key: str, secret_key: str) -> str | None:
    """Say why two keys can be those of no account, or None. Secrets are not repeated: what is said may be logged."""
    for name, key in (("access key", access_key), ("secret key", secret_key)):
        if not key:
            return f"the {name} is missing: an account has an access key and a secret key"
        if len(key) < SHORTEST_KEY:
            return f"the {name} has {len(key)} characters: plain_acl.yml takes accounts whose keys have more than 6"
    return None


def signed_content(fields: Mapping[str, str], body: bytes, leave_out: Container[str] = (SIGNATURE,)) -> bytes:
    """Give the bytes that a signature is made of: values by the order of their names, then the body."""
    return "".join(fields[name] for name in sorted(fields) if name not in leave_out).encode() + body


def signature(content: bytes, secret_key: str) -> str:
    """Sign content; base64 of 20 bytes."""
    return base64.b64encode(hmac.digest(secret_key.encode(), content, hashlib.sha1)).decode()


def is_signed(content: bytes, secret_key: str, given: str) -> bool:
    """Say whether a signature is that of content, in a time that does not depend on where it differs."""
    return hmac.compare_digest(signature(content, secret_key).encode(), given.encode("utf-8", "replace"))


def sign(command: Command, credentials: Credentials) -> None:
    """Add the fields of a signed request to it. One that is sent again may be signed again."""
    fields = {**command.ext_fields, ACCESS_KEY: credentials.access_key}
    if credentials.security_token is not None:
        fields[SECURITY_TOKEN] = credentials.security_token
    fields[SIGNATURE] = signature(signed_content(fields, command.body), credentials.secret_key)
    command.raw_fields = fields
