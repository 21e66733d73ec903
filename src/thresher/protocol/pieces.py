"""The sealed pieces of a report: one for each value of a device that may count in the round.

A report of a round with c contributions is c pieces of one length, one after another. Each piece is sealed by itself
and holds a bucket or a decoy. The collector takes them apart and shuffles each piece by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from thresher.errors import InvalidSetting
from thresher.privacy.plans import Plan
from thresher.protocol.readable import LARGEST_REPORT
from thresher.protocol.sealing import OVERHEAD


def piece_size(bucket_size: int) -> int:
    """Bytes of one sealed piece."""
    return bucket_size + OVERHEAD


def report_size(plan: Plan, bucket_size: int) -> int:
    """Bytes of a whole report."""
    return plan.contributions * piece_size(bucket_size)


def pieces(sealed: bytes, size: int) -> Iterator[bytes]:
    """The pieces of `size` bytes each that a report, or a batch, consists of."""
    return (sealed[start : start + size] for start in range(0, len(sealed), size))


def check_report_size(plan: Plan, bucket_size: int) -> None:
    """Refuse a round whose reports would be too large to hand in."""
    if not report_size(plan, bucket_size) <= LARGEST_REPORT:
        most = LARGEST_REPORT // piece_size(bucket_size)
        raise InvalidSetting(
            "contributions",
            f"must be at most {most} where bucket_size is {bucket_size}: a report has at most {LARGEST_REPORT:,} bytes",
            hint="Use fewer contributions, or a smaller bucket_size.",
        )
