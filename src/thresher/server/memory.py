"""Makes the C library give freed memory back to the system."""

from __future__ import annotations

import contextlib
import ctypes

_HEAPS, _OWN_MAPPING, _KEPT = -8, -3, -1  # M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD of <malloc.h>


def bound_heaps() -> None:
    """Limit how much freed memory glibc keeps.

    Otherwise every thread may get a heap of its own, and each heap keeps up to 64 MB after large arrays, such as those
    of a plan's check, were freed. Does nothing with another C library.
    """
    with contextlib.suppress(AttributeError, OSError):
        adjust = ctypes.CDLL(None).mallopt
        for setting, value in ((_HEAPS, 2), (_OWN_MAPPING, 1 << 20), (_KEPT, 1 << 20)):
            adjust(setting, value)
