"""Reading and writing of ACL files while the broker serves."""

import os
import pathlib
import threading

import pytest
import trio
import trio.testing

import rmqlab.broker.acl.control as control_module
from rmqlab.broker.acl.control import AccessControl
from rmqlab.broker.acl.files import AclFile, Document, plain_acl_file, read_acl_file, write_acl_file


async def test_files_are_read_and_written_in_a_thread_one_at_a_time(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 1 MB stopped the broker's loop for 1.8 s."""
    path = plain_acl_file(tmp_path)
    path.parent.mkdir()
    path.write_text("accounts: [{accessKey: initial, secretKey: 12345678}]")
    os.utime(path, ns=(1, 1))
    control = AccessControl.open(tmp_path, lambda: 1_800_000_000_000)
    threads = list[int]()
    may_end = threading.Event()

    def read_slowly(file: pathlib.Path) -> Document:
        threads.append(threading.get_ident())
        document = read_acl_file(file)
        assert may_end.wait(30)
        return document

    def write(file: pathlib.Path, document: Document, now_millis: int) -> AclFile:
        threads.append(threading.get_ident())
        return write_acl_file(file, document, now_millis)

    monkeypatch.setattr(control_module, "read_acl_file", read_slowly)
    monkeypatch.setattr(control_module, "write_acl_file", write)
    path.write_text("accounts: [{accessKey: newcomer, secretKey: 12345678}]")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(control.poll)
        while not threads:
            await trio.lowlevel.checkpoint()
        nursery.start_soon(control.update_account, {"accessKey": "requested", "secretKey": "12345678"})
        await trio.testing.wait_all_tasks_blocked()
        assert len(threads) == 1
        assert control.files[path].accounts.keys() == {"initial"}
        may_end.set()
    assert len(threads) == 3
    assert threading.get_ident() not in threads
    assert control.files[path].accounts.keys() == {"newcomer", "requested"}
    assert read_acl_file(path)["dataVersion"][0]["counter"] == 1
