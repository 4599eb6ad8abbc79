"""One Spark session for all tests of this folder, small and quiet. The suite is `make spark`; it needs the extra.

Without the extra nothing here can be imported: then the files are not even collected.
"""

import gzip
import importlib.util
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE.parent / "golden" / "store"

collect_ignore_glob = [] if importlib.util.find_spec("pyspark") else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(600))  # a JVM starts slowly on a busy machine


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    from pipeline.session import open_session

    with open_session("local[2]", settings={"spark.sql.shuffle.partitions": "2"}) as session:
        yield session


@pytest.fixture(scope="session")
def manifest() -> dict[str, Any]:
    """What the recorded stores hold; `bulk_messages` is the list itself."""
    content: dict[str, Any] = json.loads((GOLDEN / "manifest.json").read_text())
    bulk = gzip.decompress((GOLDEN / content["bulk_messages"]).read_bytes())
    return content | {"bulk_messages": [json.loads(line) for line in bulk.splitlines()]}


@pytest.fixture(scope="session")
def golden(manifest: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The stores that a real RocketMQ wrote, unpacked: `master`, `slave` and `master-kill9` below one directory."""
    root = tmp_path_factory.mktemp("golden")
    for entry in manifest["files"]:
        packed = GOLDEN / entry["path"]
        target = (root / entry["path"]).with_name(entry["name"])
        target.parent.mkdir(parents=True, exist_ok=True)
        raw = packed.read_bytes()
        raw = gzip.decompress(raw) if packed.suffix == ".gz" else raw
        target.write_bytes(raw.ljust(entry.get("original_size", 0), b"\0"))
    return root


@pytest.fixture
def write_log(tmp_path: pathlib.Path) -> Callable[..., pathlib.Path]:
    """Writes one commit log file of records with these bodies below `tmp_path / node`; answers the store's directory."""
    from remoting.message import StoredMessage, body_crc, encode_message

    def writer(node: str, bodies: list[bytes], *, size: int = 64 * 1024, **changes: Any) -> pathlib.Path:
        raw = b""
        for number, body in enumerate(bodies):
            values: dict[str, Any] = {
                "store_size": 0, "body_crc": body_crc(body), "queue_id": number % 4, "flag": 0,
                "queue_offset": number // 4, "physical_offset": len(raw), "sys_flag": 0,
                "born_timestamp": 1_700_000_000_000 + number, "born_host": ("127.0.0.1", 4000),
                "store_timestamp": 1_700_000_000_001 + number, "store_host": ("127.0.0.1", 10911),
                "reconsume_times": 0, "prepared_transaction_offset": 0, "body": body, "topic": "orders",
                "properties_text": f"KEYS\x01n{number}\x02UNIQ_KEY\x01{number:032X}", "properties": {},
            }  # fmt: skip
            raw += encode_message(StoredMessage(**(values | changes)))
        store = tmp_path / node / "store"
        (store / "commitlog").mkdir(parents=True)
        (store / "commitlog" / f"{0:020d}").write_bytes(raw.ljust(size, b"\0"))
        return store

    return writer
