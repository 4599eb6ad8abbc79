"""The header with the account of a cluster with access control."""

import re

import attrs

from rmqlab.cluster.control.inputs import Schema, invalid
from rmqlab.cluster.control.messages import Head

ACCOUNT_HEADER = "RocketMQ-Account"
_FORM = r"[!-9;-~]{7,200}:[!-~]{7,200}"
"""RocketMQ accepts keys of 7 characters or more."""
ACCOUNT_SCHEMA: Schema = {"type": "string", "pattern": f"^{_FORM}$", "examples": ["accesskey:secretkey"]}


@attrs.frozen(kw_only=True)
class Account:
    """The keys that sign the requests to brokers. Empty: they are not signed."""

    access_key: str = ""
    secret_key: str = attrs.field(default="", repr=False)


def account_of(head: Head) -> Account:
    """Return the account in a request.

    Rejected with status 422 if it has another form. The response does not contain the value: it may be a secret.
    """
    values = head.headers.get(ACCOUNT_HEADER.lower(), ())
    if not values:
        return Account()
    if len(values) > 1 or not re.fullmatch(_FORM, values[0]):
        invalid("expected one ACCESS_KEY:SECRET_KEY, keys of 7 or more printable characters", field=ACCOUNT_HEADER)
    access_key, _, secret_key = values[0].partition(":")
    return Account(access_key=access_key, secret_key=secret_key)
