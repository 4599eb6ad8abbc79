"""Settings from a file: TOML, or `.properties` as RocketMQ's.

TOML has Python's names, a `.properties` file has RocketMQ's names. One flat file can contain the settings of several
classes. An unknown key in TOML is an error that suggests a similar key; in a properties file it is ignored, as in
RocketMQ (store-ha#7). Each key has exactly one valid spelling (issue 12.1).
"""

import functools
import logging
import pathlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import attrs

from rmqlab.remoting.properties import parse_properties_text, properties_file_text
from rmqlab.runtime.config.settingvalues import convert, describe_kind, property_text, toml_text
from rmqlab.runtime.config.tomltext import parse_toml, why_no_toml
from rmqlab.runtime.config.validators import as_written, line_fault, shown
from rmqlab.runtime.regularfile import read_regular_text
from rmqlab.runtime.text.nearmiss import near_miss

log = logging.getLogger(__name__)

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

LARGEST_CHANGE: Final = 128 * 1024
"""Maximum size of the body of requests 25 and 318 in bytes; all settings of 4.9.8 need about 10 kB."""

NO_KEY: Final = {"is_key": False}
"""Metadata of a field that is not a setting."""

_IRREGULAR = {
    "broker_ip1": "brokerIP1",
    "broker_ip2": "brokerIP2",
    "check_crc_on_recover": "checkCRCOnRecover",
    "enable_dleger_commit_log": "enableDLegerCommitLog",
    "store_path_dledger_commit_log": "storePathDLedgerCommitLog",
    "serve_requests_of_5x": "serveRequestsOf5x",
    "use_tls": "useTLS",
}
_READ_NAMES = {"is_enable_batch_push": "enableBatchPush"}
"""Names by which RocketMQ reads settings that it shows by others: the setter is not named like its field."""
_IRREGULAR_BACK = {wire: name for names in (_IRREGULAR, _READ_NAMES) for name, wire in names.items()}


PROPERTIES_SUFFIXES: Final = (".properties", ".conf")
MOST_BYTES = 2**20
"""Bytes of a settings file."""
NO_SIMILAR_KEY: Final = "RocketMQ's settings files have no similar key; an example of one: listen_port"
"""End of an error about an unknown key."""


class SettingsError(Exception):
    """Invalid settings. The message contains file, key, and the expected value."""


def camel(name: str) -> str:
    """Return RocketMQ's name of a key: `listenPort` for `listen_port`."""
    return _IRREGULAR.get(name) or re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def snake(name: str) -> str:
    """Return our name of a RocketMQ key: `listen_port` for `listenPort`."""
    return _IRREGULAR_BACK.get(name) or re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _cached_by_class(function: F) -> F:
    """Cache the results of a function of classes.

    mypy rejects `type[Any]` as an argument of `functools.cache`.
    """
    return cast("F", functools.cache(function))


@_cached_by_class
def setting_fields(*kinds: type[Any]) -> "Mapping[str, attrs.Attribute[Any]]":
    """Return the settings of these classes by RocketMQ's names."""
    return {
        camel(field.name): field
        for kind in kinds
        for field in attrs.fields(kind)
        if field.init and field.metadata.get("is_key", True)
    }


@_cached_by_class
def readable_fields(*kinds: type[Any]) -> "Mapping[str, attrs.Attribute[Any]]":
    """Return the settings of these classes by the names that are read.

    In files and in requests.
    """
    fields = setting_fields(*kinds)
    return {**fields, **{_READ_NAMES[field.name]: field for field in fields.values() if field.name in _READ_NAMES}}


@_cached_by_class
def _names_in(*kinds: type[Any]) -> frozenset[str]:
    """Return our names of the settings of these classes."""
    return frozenset(field.name for field in setting_fields(*kinds).values())


@_cached_by_class
def _types_of(kind: type[Any]) -> Mapping[str, Any]:
    """Return the types of a class's fields by name."""
    return {field.name: field.type for field in attrs.fields(kind)}


def forbidden_keys(changes: Iterable[str], kinds: Sequence[type[Any]], *listed: str) -> list[str]:
    """Return those of the keys that requests must not change.

    These are settings with FIXED, and the listed keys. Keys are compared without case and punctuation, so that no other
    spelling is accepted.
    """
    fixed = [key for key, field in setting_fields(*kinds).items() if field.metadata.get("is_fixed")]
    forbidden = set(map(_plain, [*fixed, *listed])) - {""}
    return sorted(key for key in changes if _plain(key) in forbidden)


def _plain(key: str) -> str:
    return re.sub(r"[\W_]", "", unicodedata.normalize("NFKC", key).casefold())


@attrs.frozen
class Settings:
    """The content of a settings file: values by our names, and unknown keys."""

    source: str
    values: Mapping[str, Any]
    unknown: Mapping[str, str]

    def bind(self, kind: type[T]) -> T:
        """Return a settings class filled from its known keys.

        SettingsError for an invalid value.
        """
        types = _types_of(kind)
        known = {}
        for name, value in self.values.items():
            if name in types:
                try:
                    known[name] = converted(name, value, types[name])
                except SettingsError as exc:
                    raise SettingsError(f"{self.source}: {exc}") from None
        try:
            return kind(**known)
        except (ValueError, TypeError) as exc:  # attrs' validators add the checked values as further arguments
            raise SettingsError(f"{self.source}: {exc.args[0]}") from None


def read_settings(path: str | pathlib.Path, kinds: Sequence[type[Any]]) -> Settings:
    """Read a settings file for these classes.

    SettingsError if it is missing or invalid.
    """
    path = pathlib.Path(path)
    try:
        text = read_regular_text(path, MOST_BYTES)
    except OSError as exc:
        raise SettingsError(f"{path}: cannot be read: {exc.strerror or exc}") from None
    except UnicodeDecodeError as exc:
        raise SettingsError(f"{path}: cannot be read: {exc}") from None
    fields = readable_fields(*kinds)
    if path.suffix in PROPERTIES_SUFFIXES:
        return _from_properties(path, parse_properties_text(text), fields)
    try:
        values = parse_toml(text)
    except (ValueError, RecursionError) as exc:
        raise SettingsError(f"{path}: not TOML: {why_no_toml(exc)}") from None
    known = _names_in(*kinds)
    for key in values:
        if key not in known:
            hint = near_miss(snake(key), known) or f"; {NO_SIMILAR_KEY}"
            raise SettingsError(f"{path}: unknown key {shown(key)[1:-1]}{hint}")
    return Settings(str(path), values, {})


def _from_properties(
    path: pathlib.Path, pairs: Mapping[str, str], fields: "Mapping[str, attrs.Attribute[Any]]"
) -> Settings:
    values, unknown = {}, {}
    meant = {_plain(key): key for key in fields}
    for key, value in pairs.items():
        if (field := fields.get(key)) is not None:
            values[field.name] = value
        elif line_fault(key) or line_fault(value):
            log.warning("%s: dropped, for it is not a line of text: %s", path, shown(key))
        else:
            unknown[key] = value
            if _plain(key) in meant:
                log.warning("%s: ignored: %s; did you mean %s?", path, key, meant[_plain(key)])
    return Settings(str(path), values, unknown)


def settings_lines(*settings: Any) -> dict[str, str]:
    """Return settings by RocketMQ's names, as text, for requests 26 and 319."""
    lines = {}
    for value in settings:
        for field in attrs.fields(type(value)):
            one = getattr(value, field.name)
            if isinstance(one, bool):
                one = "true" if one else "false"
            if isinstance(one, (str, int, float, pathlib.Path)):
                lines[camel(field.name)] = str(one)
    return lines


def parse_change(body: bytes, errors: str = "strict") -> dict[str, str]:
    """Parse the body of request 25 or 318.

    SettingsError if it is too long or not text.
    """
    if len(body) > LARGEST_CHANGE:
        raise SettingsError(f"{len(body)} bytes of settings: expected at most {LARGEST_CHANGE}")
    try:
        return parse_properties_text(body.decode("utf-8", errors))
    except UnicodeDecodeError as exc:
        raise SettingsError(str(exc)) from None


def change_settings(settings: T, changes: Mapping[str, str]) -> tuple[T, dict[str, Any]]:
    """Return settings with `changes` applied, and the changed values by our names.

    `changes` has RocketMQ's names, and values as text; unknown names are ignored. SettingsError for an invalid value.
    """
    fields = readable_fields(type(settings))
    changed = {}
    for key, text in changes.items():
        if (field := fields.get(key)) is not None:
            changed[field.name] = converted(key, text, field.type)
    return evolved(settings, changed), changed


def changed_unknown(settings: Settings, changes: Mapping[str, str]) -> dict[str, str]:
    """Return the unknown keys of a file with `changes` applied to them.

    SettingsError for text that is not one line.
    """
    changed = {key: changes.get(key, value) for key, value in settings.unknown.items()}
    for key, value in changed.items():
        if fault := line_fault(value):
            raise SettingsError(f"{key} = {shown(value)}: expected {fault}")
    return changed


def evolved(settings: T, changed: Mapping[str, Any]) -> T:
    """Return settings with these values, by our names.

    SettingsError if a validator rejects a value.
    """
    try:
        return attrs.evolve(settings, **changed)  # type: ignore[misc]
    except (ValueError, TypeError) as exc:  # as above
        raise SettingsError(str(exc.args[0])) from None


def settings_text(settings: Settings) -> str:
    """Return settings in the format of their file.

    TOML with our names, or properties with RocketMQ's.
    """
    if pathlib.Path(settings.source).suffix in PROPERTIES_SUFFIXES:
        lines = {_READ_NAMES.get(name) or camel(name): property_text(value) for name, value in settings.values.items()}
        return properties_file_text({**lines, **settings.unknown})
    return "".join(f"{name} = {toml_text(value)}\n" for name, value in settings.values.items())


def converted(name: str, value: Any, kind: Any) -> Any:
    """Return a value converted to the type of its setting.

    SettingsError if that is impossible.
    """
    try:
        return convert(value, kind)
    except (ValueError, TypeError):
        raise SettingsError(f"{name} = {as_written(value)}: expected {describe_kind(kind)}") from None
