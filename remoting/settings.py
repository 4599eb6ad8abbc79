"""Settings from a file: TOML in Python's names, or a `.properties` file written for RocketMQ in its own.

One flat file may feed several classes: each takes the keys that it knows. An unknown key in TOML is an error
that names the near miss; in a properties file it is kept aside, for RocketMQ ignores it too (store-ha#7).
"""

import difflib
import json
import pathlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import attrs
import cattrs

from remoting.properties import parse_properties_text, write_properties_text

T = TypeVar("T")

_IRREGULAR = {
    "broker_ip1": "brokerIP1",
    "broker_ip2": "brokerIP2",
    "check_crc_on_recover": "checkCRCOnRecover",
    "enable_dleger_commit_log": "enableDLegerCommitLog",
    "store_path_dledger_commit_log": "storePathDLedgerCommitLog",
    "use_tls": "useTLS",
}
_IRREGULAR_BACK = {wire: name for name, wire in _IRREGULAR.items()}


class SettingsError(Exception):
    """A settings file that cannot be used. The text names file, key, and what was expected."""


def camel(name: str) -> str:
    """RocketMQ's name for a key: `listen_port` gives `listenPort`."""
    return _IRREGULAR.get(name) or re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def snake(name: str) -> str:
    """Our name for a key of RocketMQ's: `listenPort` gives `listen_port`."""
    return _IRREGULAR_BACK.get(name) or re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


@attrs.frozen
class Settings:
    """What a file says: values by our names, and the keys that nobody here knows."""

    source: str
    values: Mapping[str, Any]
    unknown: Mapping[str, str]

    def bind(self, kind: type[T]) -> T:
        """Make the settings class of the keys that it knows. SettingsError for a value that does not fit."""
        fields = {field.name: field for field in attrs.fields(kind)}  # type: ignore[arg-type]  # any attrs class
        known = {}
        for name, value in self.values.items():
            if name in fields:
                try:
                    known[name] = _converted(name, value, fields[name].type)
                except SettingsError as exc:
                    raise SettingsError(f"{self.source}: {exc}") from None
        try:
            return kind(**known)
        except (ValueError, TypeError) as exc:  # attrs' validators put what they checked behind the text
            raise SettingsError(f"{self.source}: {exc.args[0]}") from None


def read_settings(path: str | pathlib.Path, kinds: Sequence[type[Any]]) -> Settings:
    """Read a settings file for these classes. SettingsError where it is missing, unreadable or misspelt."""
    path = pathlib.Path(path)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsError(f"{path}: cannot be read: {exc}") from None
    known = {field.name for kind in kinds for field in attrs.fields(kind) if field.init}
    if path.suffix in (".properties", ".conf"):
        pairs = parse_properties_text(text)
        values = {snake(key): value for key, value in pairs.items() if snake(key) in known}
        return Settings(str(path), values, {key: value for key, value in pairs.items() if snake(key) not in known})
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise SettingsError(f"{path}: not TOML: {exc}") from None
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingsError(f"{path}: unknown key {key}{hint}")
    return Settings(str(path), values, {})


def settings_lines(*settings: Any) -> dict[str, str]:
    """Give settings under RocketMQ's names, as text, for requests 26 and 319."""
    lines = {}
    for value in settings:
        for field in attrs.fields(type(value)):
            one = getattr(value, field.name)
            if isinstance(one, bool):
                one = "true" if one else "false"
            if isinstance(one, (str, int, float, pathlib.Path)):
                lines[camel(field.name)] = str(one)
    return lines


def change_settings(settings: T, changes: Mapping[str, str]) -> tuple[T, dict[str, Any]]:
    """Make those of the changes, in RocketMQ's names and as text, that these settings know.

    Answers the settings, and what was changed by our names. SettingsError for a value that does not fit.
    """
    fields = {camel(field.name): field for field in attrs.fields(type(settings)) if field.init}  # type: ignore[arg-type]  # any attrs class
    changed = {}
    for key, text in changes.items():
        if (field := fields.get(key)) is None:
            continue
        changed[field.name] = _converted(key, text, field.type)
    try:
        return attrs.evolve(settings, **changed), changed  # type: ignore[misc]
    except (ValueError, TypeError) as exc:  # as above
        raise SettingsError(str(exc.args[0])) from None


def settings_text(settings: Settings) -> str:
    """Write settings in the form that their file has: TOML in our names, or properties in RocketMQ's."""
    if not settings.source.endswith(".toml"):
        lines = {camel(name): _property_text(value) for name, value in settings.values.items()}
        return write_properties_text({**lines, **settings.unknown})
    return "".join(f"{name} = {_toml_text(value)}\n" for name, value in settings.values.items())


def _converted(name: str, value: Any, kind: Any) -> Any:
    try:
        return converter.structure(value, kind)
    except (cattrs.BaseValidationError, ValueError, TypeError):
        raise SettingsError(f"{name} = {value!r}: expected {_wanted(kind)}") from None


def _wanted(kind: Any) -> str:
    """A type of a setting as a reader of the file knows it."""
    for known, text in ((bool, "true or false"), (int, "a whole number"), (float, "a number")):
        if kind in (known, known | None):
            return text
    return getattr(kind, "__name__", str(kind))


def _property_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _toml_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else json.dumps(str(value))


def _structure_bool(value: object, _kind: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError(value)


def _structure_int(value: object, _kind: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(value)
    return int(value)


converter = cattrs.Converter()
converter.register_structure_hook(bool, _structure_bool)
converter.register_structure_hook(int, _structure_int)
