"""What the fork server does once for all nodes."""

import gc
import importlib
import sys
import tomllib
import types
import typing
from pathlib import Path

import pytest

from rmqlab.cluster.supervisor.fork.forklaunch import PRELOADED
from rmqlab.cluster.supervisor.fork.forkserver import preload
from rmqlab.cluster.supervisor.fork.nodemodules import MODULES, module_of
from rmqlab.cluster.supervisor.fork.prewarm import BODIES, MESSAGES, SETTINGS, prewarm
from rmqlab.cluster.supervisor.plan.nodesettings import node_settings
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Node, Placement, nodes_of, place
from rmqlab.runtime.config.settings import SettingsError
from rmqlab.runtime.node.controlmessages import Message
from rmqlab.runtime.regularfile import read_regular_text

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="nodes are forked on Linux only")


def test_each_message_of_the_control_channel_is_rehearsed() -> None:
    assert {type(message) for message in MESSAGES} == set(typing.get_args(Message))


@pytest.mark.parametrize("body", BODIES)
def test_each_rehearsed_body_can_be_empty(body: type[typing.Any]) -> None:
    """Otherwise the encoder would not be prewarmed."""
    assert body.decode(b"{}").encode_pretty()


@only_linux
def test_a_module_with_settings_reads_an_empty_file() -> None:
    read: list[str] = []
    module = types.ModuleType("fake")
    module.__dict__["load_config"] = lambda path: read.append(read_regular_text(path))
    prewarm(module)
    assert read == [""]


@only_linux
@pytest.mark.parametrize("name", SETTINGS)
def test_the_settings_of_nodes_are_loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise no table that their reading needs would be built before the fork."""
    module = importlib.import_module(name)
    loaded: list[object] = []
    load_config = module.load_config
    monkeypatch.setattr(module, "load_config", lambda path: loaded.append(load_config(path)))
    prewarm(module)
    assert len(loaded) == 1


@pytest.mark.parametrize("node", nodes_of(ClusterSpec(), place(ClusterSpec(), Placement())), ids=lambda node: node.name)
def test_the_rehearsed_settings_have_the_keys_of_a_node(node: Node, tmp_path: Path) -> None:
    expected = node_settings(ClusterSpec(), node, [node], tmp_path)
    assert tomllib.loads(SETTINGS[module_of(node, MODULES)]).keys() == expected.keys()


def test_a_module_whose_settings_have_no_defaults_is_rehearsed_as_well() -> None:
    def load_config(path: str) -> typing.NoReturn:
        raise SettingsError(f"{path}: topic is missing")

    module = types.ModuleType("fake")
    module.__dict__["load_config"] = load_config
    prewarm(module)
    prewarm(types.ModuleType("without settings"))


@pytest.mark.parametrize("module", PRELOADED)
def test_all_modules_of_nodes_can_be_rehearsed(module: str, capfd: pytest.CaptureFixture[str]) -> None:
    preload(module)
    gc.unfreeze()
    assert capfd.readouterr().err == ""
