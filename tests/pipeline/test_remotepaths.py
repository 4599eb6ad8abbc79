"""Offline sources read object stores: a stand-in for S3, with the real client."""

import pathlib
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow.fs import FileInfo, FileSelector, FileType, FSSpecHandler, PyFileSystem
from pyspark.sql.types import StructType

from rmqlab.pipeline.errors import NoPathError
from rmqlab.pipeline.journals.journalsource import JournalSource
from rmqlab.pipeline.options import OptionError
from rmqlab.pipeline.paths import remotepaths
from rmqlab.pipeline.paths.remotepaths import fetch, is_remote, remote_paths
from rmqlab.pipeline.paths.sourcepaths import local_file
from rmqlab.pipeline.stores.queuesource import QueueSource
from rmqlab.pipeline.stores.storesource import StoreSource
from tests.pipeline.objectstore import ObjectStore, object_store
from tests.pipeline.violations import clean_run, write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Source = type[StoreSource | QueueSource | JournalSource]
pytestmark = pytest.mark.usefixtures("spark")  # schemas are parsed by its JVM
SOURCES: list[Source] = [StoreSource, QueueSource, JournalSource]


@pytest.fixture
def bucket(tmp_path: pathlib.Path) -> Iterator[ObjectStore]:
    """A bucket with the content of `tmp_path`."""
    with object_store(tmp_path) as store:
        yield store


@pytest.fixture
def run(tmp_path: pathlib.Path) -> pathlib.Path:
    """A run with journals, and the stores of a master and its slave."""
    return write_run(clean_run(), tmp_path / "runs" / "demo")


def read(source: Source, path: str) -> pa.Table:
    """What a source reads from a path, within this process; without column `file`."""
    made = source({"path": path})
    reader = made.reader(StructType.fromDDL(made.schema()))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    table = pa.Table.from_batches(batches)
    return table.drop_columns(["file"]) if "file" in table.column_names else table


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("path", ["runs/demo", "runs/*"])
def test_an_object_store_has_the_rows_of_its_files(
    run: pathlib.Path, bucket: ObjectStore, source: Source, path: str
) -> None:
    assert read(source, bucket.uri(path)) == read(source, str(run))


def test_workers_fetch_each_file_once(spark: "SparkSession", run: pathlib.Path, bucket: ObjectStore) -> None:
    uri = bucket.uri("runs/demo")
    stored = spark.read.format("rocketmq-store").option("maxPartitionBytes", 4096).load(uri)
    bucket.requests.clear()
    found = {row.file for row in stored.select("file").distinct().collect()}
    assert found == {
        f"s3a://user@bucket/runs/demo/{node}/store/commitlog/{0:020d}" for node in ("broker-a", "broker-a-s")
    }
    logs = [one for one in bucket.requests if one.startswith("GET /bucket/runs/demo/broker-a/store/commitlog/")]
    assert len(logs) == 2  # its first bytes at planning, and all of it by one task
    assert stored.count() == spark.read.format("rocketmq-store").load(str(run)).count()


def test_zeros_at_the_end_of_a_file_become_a_hole_and_others_stay(tmp_path: pathlib.Path, bucket: ObjectStore) -> None:
    content = b"head" + bytes(3 * 2**20) + b"tail"
    (tmp_path / "file").write_bytes(content + bytes(8 * 2**20))
    (tmp_path / "copies").mkdir()
    copy = fetch(bucket.uri("file"), tmp_path / "copies")
    assert copy.read_bytes() == content + bytes(8 * 2**20)
    assert copy.stat().st_blocks * 512 < len(content) + 2**16


def test_names_with_percent_signs_and_spaces_are_read(tmp_path: pathlib.Path, bucket: ObjectStore) -> None:
    entry = struct.pack(">qiq", 0, 100, 0)
    for topic in ("%RETRY%group a", "a%41"):
        queue = tmp_path / "store" / "consumequeue" / topic / "0"
        queue.mkdir(parents=True)
        (queue / f"{0:020d}").write_bytes(entry)
    (tmp_path / "store" / "commitlog").mkdir()
    (tmp_path / "store" / "commitlog" / f"{0:020d}").touch()
    assert read(QueueSource, bucket.uri("store"))["topic"].to_pylist() == ["%RETRY%group a", "a%41"]
    assert remote_paths(bucket.uri("store/consumequeue/%25RETRY%25group%20a"))


def test_a_pattern_matches_part_by_part(tmp_path: pathlib.Path, bucket: ObjectStore) -> None:
    for name in ("a-1/x/f", "a-2/x/f", "b-1/x/f", "a-3"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for pattern, wanted in (
        ("a-*", ["/a-1", "/a-2", "/a-3"]),
        ("a-*/x", ["/a-1/x", "/a-2/x"]),
        ("[ab]-1/*/f", ["/a-1/x/f", "/b-1/x/f"]),
        ("a-1", ["/a-1"]),
        ("a-3", ["/a-3"]),
    ):
        assert [str(found.path) for found in remote_paths(bucket.uri(pattern))] == wanted
    (tree,) = remote_paths(bucket.uri(""))
    assert [child.name for child in tree.iterdir()] == ["a-1", "a-2", "a-3", "b-1"]
    assert (tree / "a-1").is_dir()
    assert not (tree / "a-3").is_dir()
    assert (tree / "a-3").is_file()
    assert not (tree / "a").is_dir()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nothing", "^rocketmq-store: there are no files at s3a://user@bucket/nothing$"),
        ("nothing-*", r"^rocketmq-store: nothing matches s3a://user@bucket/nothing-\*$"),
        ("runs/demo/journal", "^rocketmq-store: s3a://user@bucket/runs/demo/journal holds no commit log"),
    ],
)
def test_a_path_that_an_object_store_lacks_is_named_without_the_password(
    run: pathlib.Path, bucket: ObjectStore, path: str, said: str
) -> None:
    assert run.exists()
    with pytest.raises(OptionError, match=said) as caught:
        StoreSource({"path": bucket.uri(path)})
    assert "secret" not in str(caught.value)


class _Unlistable:
    """Local files as a file system of fsspec that cannot list `hidden`."""

    def info(self, path: str) -> dict[str, Any]:
        found = pathlib.Path(path).stat()
        return {"name": path, "size": found.st_size, "type": "file" if pathlib.Path(path).is_file() else "directory"}

    def walk(self, path: str, *, detail: bool, on_error: str = "omit") -> Iterator[tuple[str, object, dict[str, Any]]]:
        assert detail
        if path.endswith("hidden"):
            if on_error == "raise":
                raise OSError("the server closed the connection")
            return
        entries = [self.info(str(child)) for child in sorted(pathlib.Path(path).iterdir())]
        itself = {"name": path, "size": 0, "type": "directory"}  # as in an object store
        yield path, {}, {"": itself} | {entry["name"]: entry for entry in entries if entry["type"] == "file"}
        for entry in entries:
            if entry["type"] == "directory":
                yield from self.walk(entry["name"], detail=detail, on_error=on_error)


def test_a_directory_that_cannot_be_listed_is_an_error(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("seen/a", "hidden/b"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"12")
    monkeypatch.setattr(remotepaths, "_filesystem", lambda *_: (PyFileSystem(FSSpecHandler(_Unlistable())), ""))
    (seen,) = remote_paths(f"some://host{tmp_path}/seen")
    assert [(str(file.path), file.size) for file in seen.glob("*")] == [(f"{tmp_path}/seen/a", 2)]
    assert not seen.is_file()
    with pytest.raises(NoPathError, match=r"cannot read some://host/.*: the server closed the connection"):
        remote_paths(f"some://host{tmp_path}")
    with pytest.raises(NoPathError, match="there are no files at"):
        remote_paths(f"some://host{tmp_path}/nothing")


def test_a_server_that_does_not_respond_is_not_an_empty_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's HDFS client finds no path then.

    It lists nothing if asked to ignore a missing directory.
    """

    class Away:
        def get_file_info(self, asked: str | FileSelector) -> FileInfo | list[FileInfo]:
            if isinstance(asked, str):
                return FileInfo(asked, FileType.NotFound)
            if asked.allow_not_found:
                return []
            raise OSError(255, "HDFS list directory failed")

    monkeypatch.setattr(remotepaths, "_filesystem", lambda *_: (Away(), ""))
    with pytest.raises(NoPathError, match=r"cannot read hdfs://away:8020/runs: .*HDFS list directory failed"):
        remote_paths("hdfs://away:8020/runs")


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("nosuch://bucket/a", r"^\S+ cannot read nosuch://bucket/a: .*fsspec"),
        ("s3a://bucket/a?colour=red", "cannot read s3a://bucket/a: .*colour"),
        (
            "s3a://user:secret@bucket/a?scheme=http&endpoint_override=127.0.0.1:1",
            r"^\S+ cannot read s3a://user@bucket/a: ",
        ),
    ],
)
def test_file_systems_that_cannot_be_used_are_one_line(uri: str, said: str) -> None:
    with pytest.raises(NoPathError, match=said) as caught:
        remote_paths(uri)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_that_a_worker_lacks_is_named_with_the_remedy(
    run: pathlib.Path, bucket: ObjectStore, tmp_path: pathlib.Path
) -> None:
    for uri, said in (
        (str(run), "has no /.*put them on a shared file system"),
        (bucket.uri("runs/demo"), "cannot read s3a://user@bucket/runs/demo/"),
    ):
        reader = StoreSource({"path": uri}).reader(StructType.fromDDL("body binary"))
        part = reader.partitions()[0]
        log = run / part.value.node / "store" / "commitlog" / f"{0:020d}"
        log.rename(tmp_path / "away")
        with pytest.raises(NoPathError, match=said):
            list(reader.read(part))
        (tmp_path / "away").rename(log)


def test_file_uris_and_paths_are_local(tmp_path: pathlib.Path) -> None:
    assert [is_remote(path) for path in ("/a/b", "file:/a", "file:///a", "FILE:///a", "C:/a", "hdfs://a/b")] == [
        *[False] * 5, True,
    ]  # fmt: skip
    (tmp_path / "a://b").mkdir(parents=True)
    with local_file(str(tmp_path / "a://b")) as path:
        assert path == tmp_path / "a://b"
