"""Reloading of changed ACL files while the broker serves."""

import os
import pathlib
import threading

import pytest
import trio

import rmqlab.broker.acl.control as control_module
from rmqlab.broker.acl.control import AccessControl
from rmqlab.broker.acl.files import Document, plain_acl_file, read_acl_file


async def test_changed_files_are_parsed_in_a_thread_and_requests_meanwhile_win(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 1 MB stopped the broker's loop for 1.8 s."""
    path = plain_acl_file(tmp_path)
    path.parent.mkdir()
    path.write_text("accounts: [{accessKey: initial, secretKey: 12345678}]")
    os.utime(path, ns=(1, 1))
    control = AccessControl.open(tmp_path, lambda: 1_800_000_000_000)
    loop, parsers = threading.get_ident(), list[int]()
    may_end = threading.Event()

    def read_slowly(file: pathlib.Path) -> Document:
        parsers.append(threading.get_ident())
        document = read_acl_file(file)
        if parsers[-1] != loop:
            assert may_end.wait(30)
        return document

    monkeypatch.setattr(control_module, "read_acl_file", read_slowly)
    path.write_text("accounts: [{accessKey: newcomer, secretKey: 12345678}]")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(control.poll)
        while not parsers:
            await trio.lowlevel.checkpoint()
        assert control.files[path].accounts.keys() == {"initial"}
        control.update_account({"accessKey": "requested", "secretKey": "12345678"})
        may_end.set()
    assert parsers[0] != loop
    assert control.files[path].accounts.keys() == {"newcomer", "requested"}
