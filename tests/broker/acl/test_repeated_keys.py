"""Several accounts with one access key in an ACL file."""

import os
import pathlib

from rmqlab.broker.acl.control import AccessControl
from rmqlab.broker.acl.denial import AclDenied
from rmqlab.broker.acl.files import plain_acl_file
from rmqlab.remoting.acl import Credentials, sign
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import request

TWICE = "accounts: [{accessKey: RocketMQ, secretKey: first-key}, {accessKey: RocketMQ, secretKey: last-key}]"


def is_accepted(control: AccessControl, secret: str) -> bool:
    command = request(RequestCode.GET_BROKER_RUNTIME_INFO)
    sign(command, Credentials("RocketMQ", secret))
    try:
        control.check(command, "127.0.0.1:50001")
    except AclDenied:
        return False
    return True


async def test_the_first_account_counts_and_after_a_change_the_last(tmp_path: pathlib.Path) -> None:
    """As in 4.9.8: so the change of an account by request counts, too."""
    path = plain_acl_file(tmp_path)
    path.parent.mkdir()
    path.write_text(TWICE)
    os.utime(path, ns=(1, 1))
    control = AccessControl.open(tmp_path, lambda: 1_800_000_000_000)
    assert [is_accepted(control, secret) for secret in ("first-key", "last-key")] == [True, False]
    path.write_text(f"{TWICE}  # changed")
    await control.poll()
    assert [is_accepted(control, secret) for secret in ("first-key", "last-key")] == [False, True]
    await control.update_account({"accessKey": "RocketMQ", "secretKey": "changed"})
    assert is_accepted(control, "changed")
