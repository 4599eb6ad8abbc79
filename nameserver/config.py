"""What an operator may set: RocketMQ's keys of NamesrvConfig and NettyServerConfig with their defaults, and a few of ours.

Source: remoting-and-nameserver section 3.3.
"""

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import attrs

from remoting.checks import above, at_least, within
from remoting.settings import converter, read_settings, settings_lines, snake

FIXED_BLACK_LIST = frozenset({"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"})
"""Keys that request 318 may never touch."""

PROPERTIES_SUFFIXES = (".properties", ".conf")

_positive: Any = above(0)


def _in_home(name: str) -> str:
    return str(pathlib.Path.home() / "namesrv" / name)


@attrs.frozen(kw_only=True)
class NameserverConfig:
    """One nameserver. Seconds and bytes; what is marked `unused` is only reported, for nothing here is sized by it."""

    listen_address: str = "127.0.0.1"
    """Ours: the address to listen at. RocketMQ listens at all."""
    listen_port: int = attrs.field(default=9876, validator=within(0, 65535))
    """0 lets the system choose; the ready line tells."""
    kv_config_path: str = attrs.field(factory=lambda: _in_home("kvConfig.json"))
    """The KV table, written at every change, its last content kept beside it as `.bak`."""
    config_store_path: str = attrs.field(factory=lambda: _in_home("namesrv.properties"))
    """Where request 318 writes the settings. A properties file given at the start takes its place, as with `-c`."""
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"
    """More keys that request 318 must not touch, separated by `;`."""
    order_message_enable: bool = False
    """Routes carry the order configuration of their topic. Takes effect at once when request 318 sets it."""

    scan_first_delay: float = attrs.field(default=5.0, validator=at_least(0))
    """Ours, fixed in RocketMQ: seconds from the start to the first scan for silent brokers."""
    scan_period: float = attrs.field(default=10.0, validator=_positive)
    """Ours, fixed in RocketMQ."""
    broker_expiry: float = attrs.field(default=120.0, validator=_positive)
    """Ours, fixed in RocketMQ: a broker that has not registered for longer than this is dropped by the next scan."""

    rocketmq_home: str = attrs.field(factory=lambda: os.environ.get("ROCKETMQ_HOME", ""))
    product_env_name: str = "center"
    cluster_test: bool = False
    server_channel_max_idle_time_seconds: int = attrs.field(default=120, validator=_positive)
    """A connection on which nothing moved for so long is closed."""
    server_worker_threads: int = 8  # unused, as all that follow
    server_callback_executor_threads: int = 0
    server_selector_threads: int = 3
    server_oneway_semaphore_value: int = 256
    server_async_semaphore_value: int = 64
    server_socket_snd_buf_size: int = 0
    server_socket_rcv_buf_size: int = 0
    write_buffer_high_water_mark: int = 0
    write_buffer_low_water_mark: int = 0
    server_socket_backlog: int = 1024
    server_pooled_byte_buf_allocator_enable: bool = True
    use_epoll_native_selector: bool = False

    extra_properties: Mapping[str, str] = attrs.field(factory=dict)
    """Keys of a properties file that nobody here knows: reported by request 319, as RocketMQ does."""


def load_config(path: str | pathlib.Path) -> NameserverConfig:
    """Read a TOML file, or a properties file written for RocketMQ. SettingsError where that cannot be done."""
    settings = read_settings(path, [NameserverConfig])
    config = settings.bind(NameserverConfig)
    if pathlib.Path(path).suffix in PROPERTIES_SUFFIXES:
        return attrs.evolve(config, extra_properties=dict(settings.unknown), config_store_path=str(path))
    return config


def config_text(config: NameserverConfig) -> str:
    """Give all settings as RocketMQ reports and stores them: `key=value` lines under its names."""
    lines = dict(config.extra_properties) | settings_lines(config)
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def is_black_listed(config: NameserverConfig, keys: Mapping[str, str]) -> bool:
    """Tell whether any of these keys must not be changed by a request (remoting#39; since 4.9.8)."""
    return not keys.keys().isdisjoint(FIXED_BLACK_LIST | set(config.config_black_list.split(";")))


def updated_config(config: NameserverConfig, properties: Mapping[str, str]) -> NameserverConfig:
    """Apply what request 318 asks for. Unknown keys are passed over, and values that do not fit, as in RocketMQ."""
    fields = attrs.fields_dict(NameserverConfig)
    extra = {key: properties.get(key, value) for key, value in config.extra_properties.items()}
    config = attrs.evolve(config, extra_properties=extra)
    for key, value in properties.items():
        name = snake(key)
        if name not in fields or name == "extra_properties":
            continue
        try:
            config = attrs.evolve(config, **{name: converter.structure(value, fields[name].type)})  # type: ignore[arg-type]  # never None here
        except (ValueError, TypeError):
            continue
    return config
