"""What is checked before a series is taken, and its preview: nothing is stored or reserved for one that cannot run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from thresher.errors import InvalidSetting
from thresher.ledger.durations import in_words
from thresher.privacy.budget import Budget
from thresher.privacy.plans import Plan
from thresher.privacy.series import SMALLEST_EPSILON, rounds_in_all
from thresher.privacy.settings import check_delta, check_epsilon
from thresher.protocol.analyst_messages import QueryRequest, RoundSettings
from thresher.protocol.configurations import Guarantees
from thresher.protocol.messages import canonical, decode
from thresher.protocol.schedules import Schedule
from thresher.protocol.series_messages import ScheduleStated, SeriesPreview, SeriesRequest
from thresher.roles.coordinator.admission import Admitted, admit
from thresher.roles.coordinator.cautions import Public, series_cautions
from thresher.roles.coordinator.previews import preview_admitted, price_in_words, values_in_words

_DATES = 5
"""How many dates a preview lists."""


@dataclass(frozen=True, slots=True)
class AdmittedSeries:
    """A series that can run: one release with every setting filled in, the total of all, and their dates."""

    release: Admitted
    total: Plan
    guarantees: Guarantees
    schedule: Schedule
    request_hash: str


def admit_series(request: SeriesRequest | bytes, defaults: RoundSettings, now: float) -> AdmittedSeries:
    """Check a request for a series that would be taken now. A request in bytes, as it was sent, is read first.

    Guarantee: what one release and all releases together guarantee has been recomputed and holds; the rounds of one
    release fit between two dates.
    Edge cases: whether the first date has passed is not checked here (`check_begins`), so that asking again for a
    series that was taken long ago is not refused.
    """
    if isinstance(request, bytes):
        request = decode(SeriesRequest, request)
    schedule = request.schedule.schedule(now)
    release = admit(QueryRequest(name=request.name, query=request.query, settings=request.settings), defaults)
    total = replace(
        release.plan,
        epsilon=check_epsilon(request.epsilon),
        delta=check_delta(request.delta),
        rounds=rounds_in_all(schedule.releases, release.plan.rounds),
    )
    if not total.epsilon >= SMALLEST_EPSILON:
        raise InvalidSetting("epsilon", f"must be at least {SMALLEST_EPSILON:g} for all releases together")
    _ = total.guarantee  # recomputed, or refused
    _check_fits(release, schedule)
    return AdmittedSeries(
        release=release,
        total=total,
        guarantees=Guarantees.of(total, release.rates),
        schedule=schedule,
        request_hash=hashlib.sha256(canonical(request)).hexdigest(),
    )


def check_begins(schedule: Schedule, now: float) -> None:
    """Refuse a series whose first date could not be asked any more."""
    if not now < schedule.closes(0):
        raise InvalidSetting("start", "lies in the past", hint="Leave it out to start at once.")


def _check_fits(release: Admitted, schedule: Schedule) -> None:
    steps = release.steps
    if not release.lasting <= schedule.every.seconds:
        number = "" if steps == 1 else f"times {steps} rounds one after another "
        raise InvalidSetting(
            "seconds",
            f"{number}must be at most {in_words(schedule.every.seconds)}, so that a release ends before the next one "
            "begins",
            hint="Shorten the rounds, ask for fewer of them, or ask less often.",
        )


def preview_series(
    request: SeriesRequest | bytes, defaults: RoundSettings, budget: Budget, public: Public, now: float
) -> SeriesPreview:
    """The preview of a request, which is checked first."""
    admitted = admit_series(request, defaults, now)
    schedule, total = admitted.schedule, admitted.total
    check_begins(schedule, now)
    charge = budget.price(total)
    return SeriesPreview(
        schedule=ScheduleStated.of(schedule),
        dates=schedule.dates(_DATES),
        last=schedule.last,
        window=schedule.closes(0) - schedule.due(0),
        rounds=total.rounds,
        guarantees=admitted.guarantees,
        release=preview_admitted(admitted.release, budget, public),
        words=[*_words(admitted), price_in_words(budget, charge)],
        cost_epsilon=total.epsilon,
        cost_delta=total.delta,
        left_epsilon=budget.left_epsilon,
        left_delta=budget.left_delta,
        fits=budget.allows(charge),
        takes=budget.takes(charge),
        left_share=budget.left_share,
        warnings=series_cautions(admitted.release, public, _in_period(schedule, public.policy.period), total),
    )


def _in_period(schedule: Schedule, seconds: float) -> int:
    """How many dates of a schedule there are in so much time, at most."""
    return min(schedule.releases, 1 + int(seconds / schedule.every.seconds))


def _words(admitted: AdmittedSeries) -> list[str]:
    """The series in sentences."""
    schedule, total, release = admitted.schedule, admitted.total, admitted.release.plan
    late = {
        "skip": f"A date whose release could not start within {in_words(schedule.closes(0) - schedule.due(0))} is "
        "skipped: it stays a gap.",
        "late": "A date that was missed is asked as soon as the server is back, until the next date is due.",
    }[schedule.missed]
    return [
        f"The query is asked every {schedule.every}, {schedule.releases} times in all. {late}",
        f"All {schedule.releases} releases together cost epsilon {total.epsilon:g} and delta {total.delta:g}. That is "
        f"reserved at the start. One release by itself has epsilon {release.epsilon:.3g} at delta {release.delta:.3g}.",
        *values_in_words(total),
        f"Counts below {total.threshold} are dropped. A value that {total.smallest_visible():,} devices hold is "
        "in a release with 95 % probability.",
        *admitted.guarantees.values.in_words(),
        f"One release: {admitted.release.in_all[0].lower()}{admitted.release.in_all[1:]}",
    ]
