"""Requests about a broker's settings: show and change them at run time.

Sources: broker-requests section 6.5; classes AdminBrokerProcessor, Configuration.
"""

import logging
from pathlib import Path

from rmqlab.broker.config import KINDS
from rmqlab.broker.ignored_settings import ineffective_settings
from rmqlab.broker.state import Broker
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.headers.broker_admin import GetBrokerConfigResponseHeader
from rmqlab.remoting.properties import write_properties_text
from rmqlab.runtime.config.settings import (
    SettingsError,
    forbidden_keys,
    parse_change,
    readable_fields,
    settings_lines,
    snake,
)
from rmqlab.runtime.config.validators import shown
from rmqlab.runtime.net.dispatch import Refusal, Reply, Request, Route
from rmqlab.store.files.machine import this_machine

log = logging.getLogger(__name__)

NEVER_CHANGED = frozenset({"brokerConfigPath", "rocketmqHome", "configBlackList"})
"""Keys that no tool may change, independent of the configured black list. So are all paths
(rmqlab.runtime.config.validators.FIXED)."""
_KNOWN = frozenset(readable_fields(*KINDS))
_NAMED = 5
"""Keys that a refusal names: a request may hold thousands."""


def get_broker_config(broker: Broker, _header: None, _request: Request) -> Reply:
    """Return all settings as `key=value` lines (broker-requests#61).

    Unknown settings of the file, too. The header has the version that counts their changes.
    """
    settings = broker.settings
    known = settings_lines(settings.broker, settings.store, settings.ha, settings.dledger, settings.unused)
    lines = {**settings.source.unknown, **known}
    for path in ("storePathRootDir", "storePathCommitLog"):
        lines[path] = this_machine().path_name(Path(lines[path]))
    lines["haListenPort"] = broker.registration.ha_address.rpartition(":")[2]
    header = GetBrokerConfigResponseHeader(version=broker.config_version.encode().decode())
    return Reply(header=header, body=write_properties_text(lines).encode())


def update_broker_config(broker: Broker, _header: None, request: Request) -> Reply | None:
    """Change settings at once, and in their file.

    Unknown keys are ignored unless the file has them. Code 16 for a key that no request may change, in any spelling. If
    one value is invalid, or the file cannot be saved, nothing changes. RocketMQ would run with settings that its file
    does not have. The reply to a change of `brokerPermission` is sent when the nameservers have it.
    """
    try:
        requested = parse_change(request.command.body)
        if forbidden := forbidden_keys(requested, KINDS, *NEVER_CHANGED, *broker.config.config_black_list.split(";")):
            names = ", ".join(shown(key)[1:-1] for key in forbidden[:_NAMED])
            raise Refusal(ResponseCode.NO_PERMISSION, f"{names} cannot be changed by a tool")
        own = _KNOWN | broker.settings.source.unknown.keys()
        changes = {key: value for key, value in requested.items() if key in own}
        settings = broker.settings.changed(changes)
        settings.save()
    except SettingsError as exc:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(exc)) from None
    except OSError as exc:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the change is not saved: {exc.strerror or exc}") from None
    broker.reconfigure(settings)
    if ineffective := ineffective_settings({snake(key): value for key, value in changes.items()}):
        log.warning("%s set keys without effect here: %s", request.channel.peer, ", ".join(ineffective))
    broker.emit("settings_changed", changes=changes, peer=request.channel.peer)
    if "brokerPermission" not in changes:
        return Reply()
    broker.topics.bump_version()  # also without a change, as in 4.9.8
    broker.registration.register_soon(then=lambda: request.reply(Reply()))
    return None


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.GET_BROKER_CONFIG, None, get_broker_config),
    Route(RequestCode.UPDATE_BROKER_CONFIG, None, update_broker_config),
]
