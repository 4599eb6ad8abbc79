"""Which files a start, a power loss and a wipe touch (issue 12.1)."""

import json
import pathlib
from collections.abc import Callable

import pytest

from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
from rmqlab.cluster.supervisor.files.nodestore import (
    NothingToWipeError,
    OutsideError,
    check_inside,
    check_startable,
    check_wipeable,
    lose_power,
    store_config,
    wipe,
    write_settings,
)
from rmqlab.cluster.supervisor.plan.nodesettings import node_settings
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Node, NodeKind, Placement, nodes_of, place
from rmqlab.store.offline.powerloss import Lost

NODES = {node.name: node for node in nodes_of(ClusterSpec(), place(ClusterSpec(), Placement(subnet=1)))}
BROKER, NAMESERVER = NODES["broker-a"], NODES["namesrv-1"]


@pytest.fixture
def directory(tmp_path: pathlib.Path) -> ClusterDirectory:
    """A cluster's directory with the settings of its nodes, none of which ever ran."""
    found = ClusterDirectory(tmp_path / "lab")
    found.create()
    for node in NODES.values():
        settings = node_settings(ClusterSpec(), node, NODES.values(), found.data_dir(node.name))
        write_settings(found, node.name, settings)
    return found


@pytest.fixture
def precious(tmp_path: pathlib.Path) -> pathlib.Path:
    """Files of a user, named like those of a store and of a nameserver."""
    path = tmp_path / "precious"
    for folder in ("commitlog", "consumequeue", "config"):
        (path / folder).mkdir(parents=True)
        (path / folder / "00000000000000000000").write_bytes(b"data")
    (path / "kv.json").write_text("{}")
    return path


def add_setting(directory: ClusterDirectory, node: Node, key: str, value: object) -> None:
    """Do to a settings file what request 25 could do before."""
    path = directory.config_path(node.name)
    kept = [line for line in path.read_text().splitlines() if not line.startswith(f"{key} =")]
    path.write_text("\n".join([*kept, f"{key} = {json.dumps(str(value))}"]))


def files(path: pathlib.Path) -> dict[pathlib.Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("key", ["store_path_root_dir", "store_path_commit_log"])
def test_paths_outside_the_cluster_are_not_wiped_and_prevent_a_start(
    directory: ClusterDirectory, precious: pathlib.Path, key: str
) -> None:
    add_setting(directory, BROKER, key, precious / "commitlog" if key.endswith("log") else precious)
    before = files(precious)
    with pytest.raises(NothingToWipeError):
        check_wipeable(directory, BROKER)
    assert wipe(directory, BROKER) == 0
    assert lose_power(directory, BROKER) == Lost()
    assert store_config(directory, "broker-a").store_path_commit_log == directory.path / "broker-a/store/commitlog"
    with pytest.raises(OutsideError, match=rf"{key} = '.*precious.*': expected '.*/lab/broker-a/store.*rmqlab up"):
        check_startable(directory, BROKER)
    assert files(precious) == before


@pytest.mark.parametrize("key", ["kv_config_path", "config_store_path"])
def test_nor_does_one_in_a_nameservers(directory: ClusterDirectory, precious: pathlib.Path, key: str) -> None:
    add_setting(directory, NAMESERVER, key, precious / "kv.json")
    assert wipe(directory, NAMESERVER) == 0
    assert (precious / "kv.json").exists()
    with pytest.raises(OutsideError, match=key):
        check_startable(directory, NAMESERVER)


def test_a_settings_file_without_its_paths_starts_no_node(directory: ClusterDirectory) -> None:
    """It would write to the home directory of the user."""
    directory.config_path("broker-a").write_text("")
    with pytest.raises(OutsideError, match="store_path_root_dir = None: expected"):
        check_startable(directory, BROKER)


def test_files_that_a_node_may_change_are_no_obstacle(directory: ClusterDirectory) -> None:
    add_setting(directory, BROKER, "region_id", "/elsewhere")
    add_setting(directory, BROKER, "store_path_commit_log", store_config(directory, "broker-a").store_path_commit_log)
    for node in NODES.values():
        check_startable(directory, node)


def test_an_unreadable_settings_file_is_for_the_node_to_explain(directory: ClusterDirectory) -> None:
    directory.config_path("broker-a").write_text("= = =")
    check_startable(directory, BROKER)


def link_store(directory: ClusterDirectory, precious: pathlib.Path) -> None:
    (directory.path / "broker-a/store").symlink_to(precious)


def link_log(directory: ClusterDirectory, precious: pathlib.Path) -> None:
    (directory.path / "broker-a/store").mkdir()
    (directory.path / "broker-a/store/commitlog").symlink_to(precious / "commitlog")


def link_file(directory: ClusterDirectory, precious: pathlib.Path) -> None:
    (directory.path / "broker-a/store/commitlog").mkdir(parents=True)
    name = "00000000000000000000"
    (directory.path / "broker-a/store/commitlog" / name).symlink_to(precious / "commitlog" / name)


def link_node(directory: ClusterDirectory, precious: pathlib.Path) -> None:
    directory.data_dir("broker-a").rename(precious / "broker-a")
    directory.data_dir("broker-a").symlink_to(precious / "broker-a")


def link_log_of_node(directory: ClusterDirectory, precious: pathlib.Path) -> None:
    directory.log_path("broker-a").symlink_to(precious / "kv.json")


@pytest.mark.parametrize("link", [link_store, link_log, link_file, link_node, link_log_of_node])
def test_a_link_out_of_the_nodes_directory_is_not_followed(
    directory: ClusterDirectory, precious: pathlib.Path, link: Callable[[ClusterDirectory, pathlib.Path], None]
) -> None:
    link(directory, precious)
    before = files(precious)
    for action in (check_startable, check_wipeable, lose_power, wipe):
        with pytest.raises(OutsideError, match=r"is a link to .*precious.*outside the node's directory.*RMQLAB_HOME"):
            action(directory, BROKER)
    assert files(precious) == before


def test_a_link_that_leads_to_itself_is_named(directory: ClusterDirectory) -> None:
    log = directory.log_path("broker-a")
    log.symlink_to(log.name)
    with pytest.raises(OutsideError, match=f"{log} is a link that leads to itself"):
        check_startable(directory, BROKER)


def test_links_within_the_directory_and_a_home_that_is_one_are_as_before(
    directory: ClusterDirectory, tmp_path: pathlib.Path
) -> None:
    (directory.path / "broker-a/store").mkdir()
    (directory.path / "broker-a/current").symlink_to(directory.path / "broker-a/store")
    check_inside(directory, "broker-a")
    (tmp_path / "home").symlink_to(tmp_path / "lab")
    check_inside(ClusterDirectory(tmp_path / "home"), "broker-a")


def test_settings_are_not_written_through_a_link(directory: ClusterDirectory, precious: pathlib.Path) -> None:
    directory.config_path("broker-a").unlink()
    directory.config_path("broker-a").symlink_to(precious / "kv.json")
    write_settings(directory, "broker-a", {"region_id": "x"})
    assert (precious / "kv.json").read_text() == "{}"
    assert directory.config_path("broker-a").read_text() == 'region_id = "x"\n'
    directory.data_dir("x").symlink_to(precious)
    with pytest.raises(OutsideError):
        write_settings(directory, "x", {})
    assert not (precious / "config.toml").exists()


def test_only_a_workload_has_no_files_of_its_own(directory: ClusterDirectory) -> None:
    write_settings(directory, "produce-1", {"topic": "orders"})
    workload = Node(name="produce-1", kind=NodeKind.WORKLOAD, host="127.0.0.1")
    check_startable(directory, workload)
    with pytest.raises(NothingToWipeError, match="a workload that has no data"):
        check_wipeable(directory, workload)
