"""Intended differences of ours, and of 4.9.8 from 4.9.7, which these tests run."""

import re

_DEPARTURES = {
    # docs/departures.md
    r"slave progress 308": "a commit of a group without a name, which its master had, and after which 4.9 fails",
    r"(maxMsgNums|maxNum) '2147483647'": "memory for as many messages as are asked for",
    r"view '1'": "bytes of the log that are no message",
    r"null sets|null queues|null topic|an odd queue": "null where a set, a topic or a name is due",
    r"frame: (JSON: (a type|names in other letters)|language (99|-1)|extFields|body 5|opaque (null|missing))": "headers that only fastjson reads so",
    r"frame: (header '{?,?}'|binary ext block of \d+, not)": "no request, or fields beyond their block",
    r"namesrv frame: .*code (''|None|True|missing|-1)": "an answer instead of silence",
    r"ns .* unknown code": "an answer instead of silence",
    r"entries": "a queue that has no entries, but was asked for",
    # 4.9.8 has a black list, and no request 54
    r"set a (home|config path)|settings|code 54": "4.9.7",
}
_ANY = re.compile("|".join(_DEPARTURES))


def departs(name: str) -> bool:
    """True for a case whose replies differ for a known reason."""
    return _ANY.search(name) is not None
