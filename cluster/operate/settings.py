"""Settings of brokers and nameservers.

The model is mqadmin's getBrokerConfig, updateBrokerConfig, getNamesrvConfig, updateNamesrvConfig.
"""

from collections.abc import Mapping, Sequence

import attrs

from rmqlab.cluster.operate.errors import OperationError, unknown_setting
from rmqlab.cluster.operate.session import NAME_SERVERS, Operator
from rmqlab.cluster.operate.values import checked_settings


@attrs.frozen(kw_only=True)
class SettingsAt:
    """The settings of one server."""

    server: str
    """`broker-a:0`, the broker's name and id; or the nameserver's address."""
    address: str
    settings: Mapping[str, str]


@attrs.frozen(kw_only=True)
class ChangedSetting:
    """One changed setting of one server."""

    server: str
    address: str
    key: str
    before: str
    after: str


async def get_settings(operator: Operator, target: str, keys: Sequence[str] = ()) -> list[SettingsAt]:
    """Return settings of a broker, or of all nameservers for `namesrv`.

    Those with these keys, or all.

    OperationError for an unknown target, UnknownSettingError for an unknown key.
    """
    found = await _read(operator, target)
    for one in found:
        if not one.settings:
            raise OperationError(f"{one.server} replied without settings")
        for key in keys:
            if key not in one.settings:
                raise unknown_setting(one.server, key, one.settings)
    return [
        attrs.evolve(one, settings={key: one.settings[key] for key in keys or sorted(one.settings)}) for one in found
    ]


async def set_settings(operator: Operator, target: str, changes: Mapping[str, str]) -> list[ChangedSetting]:
    """Change settings of a running broker, or of all nameservers for `namesrv`.

    UnknownSettingError for an unknown key. OperationError for an unknown target, a value that the server rejects, or a
    setting that did not change.
    """
    changes = checked_settings(dict(changes))
    before = await get_settings(operator, target, [*changes])
    if target == NAME_SERVERS:
        await operator.admin.update_name_server_config(changes)
    else:
        await operator.admin.update_broker_config(before[0].address, changes)
    after = await get_settings(operator, target, [*changes])
    changed = [
        ChangedSetting(
            server=new.server, address=new.address, key=key, before=old.settings[key], after=new.settings[key]
        )
        for old, new in zip(before, after, strict=True)
        for key in changes
    ]
    for one in changed:
        if one.after == one.before and not _is_same(changes[one.key], one.after):
            raise OperationError(f"{one.server} ignored the change: {one.key} is still {one.after!r}")
    return changed


async def _read(operator: Operator, target: str) -> list[SettingsAt]:
    if target == NAME_SERVERS:
        settings = await operator.admin.name_server_config()
        return [SettingsAt(server=address, address=address, settings=one) for address, one in settings.items()]
    broker = await operator.find(target, NAME_SERVERS)
    settings_of = await operator.admin.broker_config(broker.address)
    return [SettingsAt(server=str(broker), address=broker.address, settings=settings_of)]


def _is_same(requested: str, value: str) -> bool:
    """Return True if both texts mean one value: TRUE and true, 07 and 7."""
    if requested.isdecimal() and value.isdecimal():
        return int(requested) == int(value)
    return requested.lower() == value.lower()
