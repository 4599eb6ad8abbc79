"""What the fork server does once for all nodes."""

import gc
import os
import types
import typing

import pytest

from rmqlab.cluster.supervisor.forklaunch import PRELOADED
from rmqlab.cluster.supervisor.forkserver import preload
from rmqlab.cluster.supervisor.rehearsal import BODIES, MESSAGES, rehearse
from rmqlab.runtime.control import Message
from rmqlab.runtime.settings import SettingsError


def test_each_message_of_the_control_channel_is_rehearsed() -> None:
    assert {type(message) for message in MESSAGES} == set(typing.get_args(Message))


@pytest.mark.parametrize("body", BODIES)
def test_each_rehearsed_body_can_be_empty(body: type[typing.Any]) -> None:
    """Otherwise the encoder would not be rehearsed."""
    assert body.decode(b"{}").encode_pretty()


def test_a_module_with_settings_reads_the_defaults() -> None:
    read: list[str] = []
    module = types.ModuleType("fake")
    module.__dict__["load_config"] = read.append
    rehearse(module)
    assert read == [os.devnull]


def test_a_module_whose_settings_have_no_defaults_is_rehearsed_as_well() -> None:
    def load_config(path: str) -> typing.NoReturn:
        raise SettingsError(f"{path}: topic is missing")

    module = types.ModuleType("fake")
    module.__dict__["load_config"] = load_config
    rehearse(module)
    rehearse(types.ModuleType("without settings"))


@pytest.mark.parametrize("module", PRELOADED)
def test_all_modules_of_nodes_can_be_rehearsed(module: str, capfd: pytest.CaptureFixture[str]) -> None:
    preload(module)
    gc.unfreeze()
    assert capfd.readouterr().err == ""
