"""Profiles: values for many keys at once, under a name.

A key that is set by hand wins over the profile.

`4.9` is RocketMQ 4.9.8, flaws included. `hardened` turns on every switch by which we depart from it: see the table of
switches in docs/switches.md. Clients and peers of 4.9 work with all of them; that page lists
what each switch fixes, and which ones need both sides to be ours.
"""

from collections.abc import Mapping
from typing import Any, Final

PROFILES: Final[Mapping[str, Mapping[str, Any]]] = {
    "4.9": {},
    "hardened": {
        "ha_report_at_once": True,
        "ha_drop_silent_master": True,
        "in_sync_replicas": 2,
        "ha_fail_lost_slave_at_once": True,
        "ha_report_trouble": True,
        "ha_bootstrap_from_first_byte": True,
        "ha_refuse_false_reports": True,
        "ha_restart_expired_slave": True,
        "ha_truncate_diverged": True,
        "ha_check_master": True,
        "ha_verify_received": True,
        "keep_newer_consumer_offsets": True,
        "hand_back_consumer_offsets": True,
        "obey_min_copies": True,
        "wake_held_pulls_on_slave": True,
        "dleger_ack_after_sync": True,
    },
}
"""By the value of the key `profile`: our names of keys, and their values."""
