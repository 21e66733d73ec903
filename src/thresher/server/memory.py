"""What a process does about memory that large arrays have come and gone in."""

from __future__ import annotations

import contextlib
import ctypes

_HEAPS, _OWN_MAPPING, _KEPT = -8, -3, -1  # M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD of <malloc.h>


def bound_heaps() -> None:
    """Keep the C library from holding on to what was freed.

    Otherwise every thread may get a heap of its own, and each heap keeps up to 64 MB once large arrays, such as a
    plan's check needs, have come and gone. Nothing to do where the C library is not glibc.
    """
    with contextlib.suppress(AttributeError, OSError):
        adjust = ctypes.CDLL(None).mallopt
        for setting, value in ((_HEAPS, 2), (_OWN_MAPPING, 1 << 20), (_KEPT, 1 << 20)):
            adjust(setting, value)
