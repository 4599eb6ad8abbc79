"""Settings of a nameserver: RocketMQ's keys with their defaults, and ours.

The keys are those of NamesrvConfig and NettyServerConfig. Source: remoting-and-nameserver section 3.3.
"""

import contextlib
import logging
import os
import pathlib
from collections.abc import Collection, Mapping
from typing import Any, Final

import attrs

from rmqlab.remoting.properties import properties_file_text, write_properties_text
from rmqlab.runtime.config.settings import (
    NO_KEY,
    PROPERTIES_SUFFIXES,
    SettingsError,
    converted,
    evolved,
    forbidden_keys,
    read_settings,
    setting_fields,
    settings_lines,
)
from rmqlab.runtime.config.validators import FIXED, INT32, is_host, line_fault, one_line_texts, shown, within
from rmqlab.runtime.homedir import home_directory

log = logging.getLogger(__name__)

NEVER_CHANGED = "configBlackList"
"""Beside all paths (rmqlab.runtime.config.validators.FIXED), the key that request 318 may never touch."""

NO_EFFECT: Final = {"has_no_effect": True}
"""Metadata of settings that are kept and shown only: of thread pools, Netty, and ClusterTestRequestProcessor."""

_seconds: Any = within(0.001, 1e9)
"""Minimum of a period, because with 0 the loop would never sleep."""
_int: Any = within(-INT32, INT32)


def _is_host(_config: object, field: "attrs.Attribute[str]", value: str) -> None:
    if value and not is_host(value):
        raise ValueError(f"{field.name} = {shown(value)}: expected an IP address or a host name")


def _are_lines(_config: object, _field: object, pairs: Mapping[str, str]) -> None:
    for key, value in pairs.items():
        if fault := line_fault(key) or line_fault(value):
            raise ValueError(f"{shown(key)[1:-1]} = {shown(value)}: expected {fault}")


def _in_home(name: str) -> str:
    """Return a path in the home directory.

    In the working directory for a user without one.
    """
    return str((home_directory() or pathlib.Path.cwd()) / "namesrv" / name)


@attrs.frozen(kw_only=True, field_transformer=one_line_texts)
class NameserverConfig:
    """One nameserver.

    Seconds and bytes.
    """

    listen_address: str = attrs.field(default="127.0.0.1", validator=_is_host)
    """Ours: the listening address. RocketMQ listens at all addresses."""
    listen_port: int = attrs.field(default=9876, validator=within(0, 65535))
    """0 lets the system choose; the ready line shows the port."""
    kv_config_path: str = attrs.field(factory=lambda: _in_home("kvConfig.json"), metadata=FIXED)
    """The KV table, written at every change, its last content kept beside it as `.bak`."""
    config_store_path: str = attrs.field(factory=lambda: _in_home("namesrv.properties"), metadata=FIXED)
    """Where request 318 writes the settings. A properties file given at the start replaces it, as with `-c`."""
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"
    """More keys that request 318 must not touch, separated by `;`."""
    order_message_enable: bool = False
    """Routes carry the order configuration of their topic. Takes effect at once when request 318 sets it."""

    scan_first_delay: float = attrs.field(default=5.0, validator=within(0, 1e9))
    """Ours, fixed in RocketMQ: seconds from the start to the first scan for silent brokers."""
    scan_period: float = attrs.field(default=10.0, validator=_seconds)
    """Ours, fixed in RocketMQ."""
    broker_expiry: float = attrs.field(default=120.0, validator=_seconds)
    """Ours, fixed in RocketMQ: a broker that has not registered for longer than this is dropped by the next scan."""

    rocketmq_home: str = attrs.field(factory=lambda: os.environ.get("ROCKETMQ_HOME", ""), metadata=FIXED)
    server_channel_max_idle_time_seconds: int = attrs.field(default=120, validator=within(-1, INT32))
    """Connections without traffic for so long are closed; 0 or -1 keeps all, as in Netty."""
    product_env_name: str = attrs.field(default="center", metadata=NO_EFFECT)
    cluster_test: bool = attrs.field(default=False, metadata=NO_EFFECT)
    server_worker_threads: int = attrs.field(default=8, validator=_int, metadata=NO_EFFECT)
    server_callback_executor_threads: int = attrs.field(default=0, validator=_int, metadata=NO_EFFECT)
    server_selector_threads: int = attrs.field(default=3, validator=_int, metadata=NO_EFFECT)
    server_oneway_semaphore_value: int = attrs.field(default=256, validator=_int, metadata=NO_EFFECT)
    server_async_semaphore_value: int = attrs.field(default=64, validator=_int, metadata=NO_EFFECT)
    server_socket_snd_buf_size: int = attrs.field(default=0, validator=_int, metadata=NO_EFFECT)
    server_socket_rcv_buf_size: int = attrs.field(default=0, validator=_int, metadata=NO_EFFECT)
    write_buffer_high_water_mark: int = attrs.field(default=0, validator=_int, metadata=NO_EFFECT)
    write_buffer_low_water_mark: int = attrs.field(default=0, validator=_int, metadata=NO_EFFECT)
    server_socket_backlog: int = attrs.field(default=1024, validator=_int, metadata=NO_EFFECT)
    server_pooled_byte_buf_allocator_enable: bool = attrs.field(default=True, metadata=NO_EFFECT)
    use_epoll_native_selector: bool = attrs.field(default=False, metadata=NO_EFFECT)

    extra_properties: Mapping[str, str] = attrs.field(factory=dict, validator=_are_lines, metadata=NO_KEY)
    """Unknown keys of a properties file: reported by request 319, as RocketMQ does."""


_INEFFECTIVE: Final = [field for field in attrs.fields(NameserverConfig) if field.metadata.get("has_no_effect")]


def load_config(path: str | pathlib.Path) -> NameserverConfig:
    """Read a TOML file, or a properties file written for RocketMQ.

    SettingsError if it is missing or invalid.
    """
    settings = read_settings(path, [NameserverConfig])
    config = settings.bind(NameserverConfig)
    if ineffective := ineffective_settings(config, settings.values):
        log.warning("%s: no effect here: %s", path, ", ".join(ineffective))
    if pathlib.Path(path).suffix in PROPERTIES_SUFFIXES:
        return attrs.evolve(config, extra_properties=dict(settings.unknown), config_store_path=str(path))
    return config


def ineffective_settings(config: NameserverConfig, names: Collection[str]) -> list[str]:
    """Return the settings with these names that are changed, and have no effect here."""
    return [
        field.name for field in _INEFFECTIVE if field.name in names and getattr(config, field.name) != field.default
    ]


def config_text(config: NameserverConfig) -> str:
    """Return all settings as RocketMQ reports them: `key=value` lines under its names."""
    return write_properties_text(_lines(config))


def stored_text(config: NameserverConfig) -> str:
    """Return all settings as stored: the same lines, which `load_config` reads back."""
    return properties_file_text(_lines(config))


def is_black_listed(config: NameserverConfig, keys: Mapping[str, str]) -> bool:
    """True if requests must not change one of these keys, in any spelling.

    Source: remoting#39, since 4.9.8.
    """
    return bool(forbidden_keys(keys, [NameserverConfig], NEVER_CHANGED, *config.config_black_list.split(";")))


def updated_config(config: NameserverConfig, properties: Mapping[str, str]) -> NameserverConfig:
    """Apply the changes of request 318.

    Unknown keys, and text that is not of the setting's type, are ignored as in RocketMQ. SettingsError for a value of
    the right type that is invalid: RocketMQ accepts it.
    """
    changed: dict[str, Any] = {
        "extra_properties": {key: properties.get(key, value) for key, value in config.extra_properties.items()}
    }
    for key, field in setting_fields(NameserverConfig).items():
        if key in properties:
            with contextlib.suppress(SettingsError):
                changed[field.name] = converted(key, properties[key], field.type)
    return evolved(config, changed)


def _lines(config: NameserverConfig) -> dict[str, str]:
    return {**config.extra_properties, **settings_lines(config)}
