"""A copy of a run: everything but sockets and what judges wrote, holes as holes."""

import os
import socket
from pathlib import Path

from rmqlab.cluster.plant.copying import copy_run

SIZE = 64 * 2**20
AT = 3 * 2**20 + 5


def test_a_sparse_file_stays_sparse_and_whole(tmp_path: Path) -> None:
    source = tmp_path / "run"
    source.mkdir()
    with (source / "log").open("wb") as file:
        file.truncate(SIZE)
        file.seek(AT)
        file.write(b"record")
    copy_run(source, tmp_path / "copy")
    copied = tmp_path / "copy" / "log"
    assert copied.stat().st_size == SIZE
    assert copied.stat().st_blocks * 512 < SIZE // 8
    with copied.open("rb") as file:
        file.seek(AT)
        assert file.read(7) == b"record\0"


def test_sockets_and_the_folders_of_judges_are_left_out(tmp_path: Path) -> None:
    source = tmp_path / "run"
    (source / "audit").mkdir(parents=True)
    (source / "node" / "audit").mkdir(parents=True)
    here = Path.cwd()
    os.chdir(source)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("control.sock")
            copy_run(source, tmp_path / "copy")
    finally:
        os.chdir(here)
    assert {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*")} == {
        "node",
        "node/audit",
    }
