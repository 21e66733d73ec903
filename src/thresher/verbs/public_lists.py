"""Public lists of buckets: what somebody names beforehand, to be shown even if it is not released.

An answer is restricted to the list, and what of it was not released is shown as "below threshold". Both are
post-processing: nothing more is learned, nothing more is spent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from thresher.errors import InvalidSetting
from thresher.mechanism.release import Release
from thresher.mechanism.release_table import bucket_columns
from thresher.questions import normal

STATUS = "status"
"""The column that says of each row of the list which of the two it is."""
RELEASED, BELOW = "released", "below threshold"


def checked_domain(domain: Any, columns: tuple[str, ...], setting: str = "domain") -> tuple[Any, ...]:
    """A public list without repetitions, each bucket in the form in which it is counted; `setting` is its name."""
    if isinstance(domain, str):
        raise InvalidSetting(setting, "must be a list of buckets, not one text")
    try:
        buckets = tuple(dict.fromkeys(_normal_bucket(bucket, len(columns), setting) for bucket in domain))
    except TypeError:
        raise InvalidSetting(
            setting, "must be a list of values, or of tuples where there are several columns"
        ) from None
    if not buckets or None in buckets:
        raise InvalidSetting(setting, "must name at least one bucket, and none that is missing")
    try:  # what could not be shown is refused before anything is asked
        bucket_columns(buckets, columns)
    except InvalidSetting as error:
        raise InvalidSetting(setting, "has buckets of another type, or of several", hint=error.hint) from None
    return buckets


def written_bucket(bucket: Any) -> Any:
    """A bucket of the domain as somebody would type it: dates and times as text."""
    if isinstance(bucket, tuple):
        return tuple(map(written_bucket, bucket))
    return bucket.isoformat() if hasattr(bucket, "isoformat") else bucket


def _normal_bucket(bucket: Any, parts: int, setting: str) -> Any:
    if parts == 1:
        return normal(bucket)
    values = () if isinstance(bucket, str) else tuple(normal(part) for part in bucket)
    if len(values) != parts or None in values:
        raise InvalidSetting(setting, f"must have {parts} values a bucket, one for each column")
    return values


def restricted(
    release: Release, listed: tuple[Any, ...] | None, part: Callable[[Any], Any] = lambda bucket: bucket
) -> Release:
    """The release's rows whose bucket is listed, or that `part` of it which the list is about; without a list all."""
    if listed is None:
        return release
    import pyarrow as pa

    wanted = set(listed)
    mask = pa.array([part(bucket) in wanted for bucket in release.buckets], pa.bool_())
    return replace(release, table=release.table.filter(mask).combine_chunks())


def common_type(released: Any, listed: Any | None, rows: int) -> Any:
    """The type of a bucket column that holds both; an empty release has none of its own to insist on."""
    import pyarrow as pa

    if listed is None or released == listed:
        return released
    if not rows:
        return listed
    if pa.types.is_integer(released) and pa.types.is_floating(listed):
        return listed
    if pa.types.is_floating(released) and pa.types.is_integer(listed):
        return released
    raise InvalidSetting("domain", "has buckets of another type than the question's")
