"""Makes the objects of a process immortal, so that forks share memory.

Python counts the references to each object that it uses, and each count that a fork changes copies a page. From Python
3.12 on, objects whose count has a certain value are immortal (PEP 683): they are never freed, and their references are
not counted. Python offers no function for this, so the value is copied from the count of `None`.
"""

import ctypes
import gc
import sys

_REFERENCES = 3


def make_objects_immortal() -> int:
    """Make all objects of this process immortal, and freeze them.

    The garbage collector does not visit frozen objects. For a process that keeps nearly all of them to its end. Returns
    the number of objects that were mortal; 0, without an effect, before Python 3.12, in a Python without a global lock,
    and in other implementations.
    """
    gc.unfreeze()
    count = _make_reachable_immortal() if _has_immortal_objects() else 0
    gc.freeze()
    return count


def _make_reachable_immortal() -> int:
    """Follow all references from what the collector tracks: not strings.

    Returns the number of objects that were mortal.
    """
    immortal = _count(None).value
    objects = gc.get_objects()
    met: set[int] = set()  # made after that list, which would have it
    made = 0
    while objects:
        mortal = []
        for one in objects:
            if id(one) not in met:
                met.add(id(one))
                count = _count(one)
                if count.value != immortal:
                    count.value = immortal
                    mortal.append(one)
        made += len(mortal)
        objects = gc.get_referents(*mortal)
    return made


def _has_immortal_objects() -> bool:
    """True if references of `None` are not counted, but those of others.

    Their counts must be where `_count` reads them.
    """
    if sys.implementation.name != "cpython":
        return False
    mortal = object()
    none_before, mortal_before = _count(None).value, _count(mortal).value
    references = [None, mortal] * _REFERENCES
    none_after, mortal_after = _count(None).value, _count(mortal).value
    del references
    return none_after == none_before and mortal_after == mortal_before + _REFERENCES


def _count(one: object) -> ctypes.c_uint32:
    """Return the low half of an object's count.

    It is the object's first field on little-endian machines.
    """
    return ctypes.c_uint32.from_address(id(one))
