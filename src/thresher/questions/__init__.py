"""Questions: from what a unit holds to the bucket it is counted in."""

from __future__ import annotations

from thresher.questions.question import (
    END,
    KINDS,
    LONGEST_PREFIX,
    MOST_BINS,
    Below,
    Bins,
    Bucket,
    Cells,
    Dates,
    Every,
    Joint,
    Prefixes,
    Question,
    Values,
    check_domain,
    from_dict,
    normal,
    to_dict,
)

__all__ = [
    "END",
    "KINDS",
    "LONGEST_PREFIX",
    "MOST_BINS",
    "Below",
    "Bins",
    "Bucket",
    "Cells",
    "Dates",
    "Every",
    "Joint",
    "Prefixes",
    "Question",
    "Values",
    "check_domain",
    "from_dict",
    "normal",
    "to_dict",
]
