"""Series: takes them, asks each date's query when it is due, pauses, resumes and ends them.

    received ──reserve──▶ running ◀──pause, resume──▶ paused
                             │                           │
                             ├──────── last date ────────┴──▶ done
                             └──────── a person ends it ────▶ ended

The budget of all releases is reserved when a series is taken. Each date has a query or is a gap, once and for all: the
store counts the dates that have come and stores the query in the same transaction. The query of a date is run like any
other query; the series has paid for it. When the last query has ended, what was never drawn is given back.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Collection

from thresher.clock import Clock
from thresher.errors import BudgetExceeded, Conflict, InvalidFormat, InvalidSetting, NotFound
from thresher.protocol.analyst_messages import RoundSettings
from thresher.protocol.messages import canonical
from thresher.protocol.series_messages import ScheduleStated, SeriesPreview, SeriesRequest, SeriesStatus
from thresher.protocol.states import OPEN_SERIES, GapState, QueryState, SeriesState
from thresher.roles.computing import Compute
from thresher.roles.coordinator import series_views
from thresher.roles.coordinator.cautions import Public
from thresher.roles.coordinator.payments import Payments
from thresher.roles.coordinator.round_runner import RETRY_SECONDS, UNAVAILABLE
from thresher.roles.coordinator.series_admission import AdmittedSeries, admit_series, check_begins, preview_series
from thresher.roles.coordinator.series_store import StoredSeries
from thresher.roles.coordinator.store import CoordinatorStore, StoredQuery
from thresher.roles.coordinator.views import Prepared

_log = logging.getLogger("thresher.coordinator")

MOST_SERIES = 1_000
"""How many series may be open at a time."""
_GOING = (SeriesState.RUNNING, SeriesState.PAUSED)


def _new_id() -> str:
    return f"s{secrets.token_hex(8)}"


def found_series(series: StoredSeries | None) -> StoredSeries:
    """A series that was looked up; `NotFound` if there is none."""
    if series is None:
        raise NotFound("There is no such series.", hint="GET /v1/series or thresher fleet series list lists them.")
    return series


class SeriesKeeper:
    """The coordinator's part that keeps series.

    Guarantee: a series' whole total is reserved once, before its first query. A date has one query at most, also after
    a crash anywhere. Methods may be called from any thread; `ask_due` and `finish` are called by one step at a time.
    """

    def __init__(
        self,
        store: CoordinatorStore,
        payments: Payments,
        clock: Clock,
        *,
        defaults: RoundSettings,
        compute: Compute,
        charging: threading.RLock,
        stepping: threading.Lock,
        public: Callable[[float], Public],
        most: int = MOST_SERIES,
        new_id: Callable[[], str] = _new_id,
    ) -> None:
        """`charging` is held while something is charged, `stepping` during a step."""
        self._store = store
        self._payments = payments
        self._ledger = payments.ledger
        self._clock = clock
        self._defaults = defaults
        self._compute = compute
        self._charging = charging
        self._stepping = stepping
        self._public = public
        self._most = most
        self._new_id = new_id
        self._compared = False  # whether the ledger was looked at for series that it has ended

    # What an analyst may do.

    def preview(self, request: SeriesRequest | bytes, come_back: float = 0.0) -> SeriesPreview:
        """What a series would cost, guarantee and see, and its first dates; reserves nothing."""
        budget, public = self._ledger.budget, self._public(come_back)
        preview: SeriesPreview = self._compute(
            preview_series, request, self._defaults, budget, public, self._clock.now()
        )
        return preview

    def create(self, request: SeriesRequest | bytes, by: str) -> SeriesStatus:
        """Store a series, reserve its budget, and start it; returns its status. A request in bytes is decoded first.

        Guarantee: idempotent by `by` and the request's name. A series that fails a check, or does not fit the budget,
        is not kept.
        Edge cases: another request under a name that is taken is a `Conflict`.
        """
        admitted: AdmittedSeries = self._compute(admit_series, request, self._defaults, self._clock.now())
        with self._charging:
            stored = self._store.series_named(by, admitted.release.name)
            if stored is None:
                check_begins(admitted.schedule, self._clock.now())
                self._payments.check()
                self._check_room()
                stored = self._store_new(admitted, by)
            if series_views.prepared_of(stored).request != admitted.request_hash:
                raise Conflict("Another series is stored under this name.", hint="Choose another name.")
            self._reserve(stored)
        return self.status(stored.id)

    def pause(self, series: str, by: str) -> SeriesStatus:
        """Let the dates of a series pass without asking, until it is resumed. A query that was asked goes on.

        Edge cases: a series that has ended stays as it is.
        """
        return self._change(series, SeriesState.PAUSED, [SeriesState.RUNNING], by)

    def resume(self, series: str, by: str) -> SeriesStatus:
        """Ask again from the next date on. Dates that passed meanwhile stay gaps.

        Edge cases: a series that has ended stays as it is.
        """
        stored = found_series(self._store.series_outline(series))
        if stored.state == SeriesState.PAUSED:
            self._pass_over(stored, self._clock.now())
        return self._change(series, SeriesState.RUNNING, [SeriesState.PAUSED], by)

    def end(self, series: str, by: str) -> SeriesStatus:
        """Ask no more. A query that was asked goes on; cancel it to stop it too. Then the rest is given back.

        Edge cases: a series that has ended stays as it is.
        """
        with self._charging:  # not between a reservation and the mark that it was made
            self._reserve(found_series(self._store.series_outline(series)))
            self._change(series, SeriesState.ENDED, _GOING, by)
        # A step that is at work gives the rest back; otherwise it is done here and now.
        if self._stepping.acquire(blocking=False):
            try:
                self._guarded(found_series(self._store.series_outline(series)), self._settle)
            finally:
                self._stepping.release()
        return self.status(series)

    def status(self, series: str) -> SeriesStatus:
        """Where a series stands, with every date that has come; `NotFound` if there is none."""
        stored = found_series(self._store.series(series))
        releases, gaps = self._store.releases_of(series), self._store.gaps(series)
        done = sum(each.state == QueryState.DONE for each in releases)
        return series_views.status(stored, releases, gaps, done)

    def all(self) -> list[SeriesStatus]:
        """All series without their dates, the newest first."""
        done = self._store.released()
        found = []
        for stored in reversed(self._store.all_series()):
            try:
                found.append(series_views.status(stored, (), {}, done.get(stored.id, 0)))
            except (InvalidFormat, InvalidSetting, ValueError):
                _log.warning("series %s cannot be read", stored.id)
        return found

    def _change(self, series: str, state: SeriesState, expected: Collection[SeriesState], by: str) -> SeriesStatus:
        found_series(self._store.series_outline(series))
        self._store.set_series_state(
            series, state, expected=expected, now=self._clock.now(), by=by, ended=state == SeriesState.ENDED
        )
        return self.status(series)

    # What the loop does.

    def ask_due(self) -> float | None:
        """Store the queries of dates that are due; seconds until the next date of any series, None if there is none.

        Guarantee: one series that cannot go on does not hold up the others.
        """
        self._end_given_back()
        waits = [self._guarded(series, self._advance) for series in self._store.unsettled_series()]
        return min((wait for wait in waits if wait is not None), default=None)

    def _end_given_back(self) -> None:
        """End the open series whose charge the ledger has ended. The first step after a start looks for them.

        A store that was restored from a backup has forgotten that somebody ended them since. None of their rounds could
        be drawn any more.
        """
        if self._compared:
            return
        over = {
            each.reference for each in self._ledger.history() if each.ended is not None and each.drawn < each.rounds
        }
        for series in self._store.unsettled_series() if over else ():
            if series.state in _GOING and series.id in over:
                self._store.set_series_state(
                    series.id, SeriesState.ENDED, expected=_GOING, now=self._clock.now(), ended=True
                )
                _log.warning("series %s was ended: the ledger has given back what it did not draw", series.id)
        self._compared = True

    def finish(self) -> float | None:
        """End the series whose dates have all come, and give back what series did not draw."""
        waits = [self._guarded(series, self._settle) for series in self._store.unsettled_series()]
        return min((wait for wait in waits if wait is not None), default=None)

    def _guarded(self, series: StoredSeries, work: Callable[[StoredSeries], float | None]) -> float | None:
        try:
            return work(series)
        except UNAVAILABLE:
            return RETRY_SECONDS
        except Exception as error:
            # Only the class of the error is logged, since its message could quote a value.
            _log.warning("series %s did not go on: %s", series.id, type(error).__name__)
            return RETRY_SECONDS

    def _advance(self, series: StoredSeries) -> float | None:
        """Decide the dates that have come; seconds until the next one."""
        if series.state == SeriesState.RECEIVED:  # a crash came between storing it and reserving its budget
            with self._charging:
                try:
                    self._reserve(series)
                except BudgetExceeded:
                    return None
            return 0.0
        if series.state not in OPEN_SERIES:
            return None
        schedule, now = series_views.schedule_of(series), self._clock.now()
        number = self._pass_over(series, now)
        if number < schedule.releases and schedule.due(number) <= now:
            if series.state != SeriesState.RUNNING or not self._store.start_release(self._query(series, number, now)):
                return 0.0
            number += 1
        return max(0.0, schedule.due(number) - now) if number < schedule.releases else None

    def _pass_over(self, series: StoredSeries, now: float) -> int:
        """Note the dates that cannot be asked any more as gaps; the number of the first date that is not one."""
        schedule = series_views.schedule_of(series)
        paused = series.state == SeriesState.PAUSED
        number = series.passed
        while number < schedule.releases and (schedule.due if paused else schedule.closes)(number) <= now:
            number += 1
        if number > series.passed:
            why = GapState.PAUSED if paused else GapState.MISSED
            self._store.pass_dates(series.id, series.passed, number, why)
        return number

    def _settle(self, series: StoredSeries) -> float | None:
        now = self._clock.now()
        is_open = series.state in OPEN_SERIES
        if is_open and series.passed < series_views.schedule_of(series).releases:
            return None
        if self._store.asking(series.id):
            return None
        if is_open:
            self._store.set_series_state(series.id, SeriesState.DONE, expected=_GOING, now=now, ended=True)
        self._ledger.give_back(series.id)
        self._store.settle_series(series.id, now)
        return None

    # Storing and reserving.

    def _check_room(self) -> None:
        open_now = self._store.count_series(OPEN_SERIES)
        if open_now >= self._most:
            raise Conflict(
                f"{open_now} series are running, which is as many as this server takes.", hint="End one first."
            )

    def _store_new(self, admitted: AdmittedSeries, by: str) -> StoredSeries:
        release = admitted.release
        prepared = series_views.PreparedSeries(
            total=admitted.guarantees,
            each=release.guarantees,
            request=admitted.request_hash,
            steps=release.steps,
        )
        stored, _ = self._store.create_series(
            StoredSeries(
                id=self._new_id(),
                by=by,
                name=release.name,
                verb=release.query.verb,
                what=release.query.what,
                query=canonical(release.query.to_dict()).decode(),
                settings=canonical(release.settings).decode(),
                prepared=canonical(prepared).decode(),
                schedule=canonical(ScheduleStated.of(admitted.schedule)).decode(),
                state=SeriesState.RECEIVED,
                passed=0,
                created=self._clock.now(),
            )
        )
        return stored

    def _reserve(self, series: StoredSeries) -> None:
        """Reserve a series' budget under its id and start it, unless that was done already.

        Guarantee: after a crash anywhere in here, calling it again reserves nothing twice.
        """
        if series.state != SeriesState.RECEIVED:
            return
        what, total = series_views.reserved_for(series), series_views.total_of(series)
        try:
            self._payments.reserve(total, what, series.id, series.by)
        except BudgetExceeded:
            self._store.delete_received_series(series.id)
            raise
        self._store.set_series_state(
            series.id, SeriesState.RUNNING, expected=[SeriesState.RECEIVED], now=self._clock.now()
        )

    def _query(self, series: StoredSeries, number: int, now: float) -> StoredQuery:
        """The query of a date. Its name is random, so that no other query can have it."""
        prepared = series_views.prepared_of(series)
        fixed = Prepared.of(prepared.each, prepared.request, prepared.steps)
        return StoredQuery(
            id=series_views.release_id(series.id, number),
            by=series.by,
            name=f"{series.id}-{secrets.token_hex(8)}",
            verb=series.verb,
            what=series.what,
            query=series.query,
            settings=series.settings,
            prepared=canonical(fixed).decode(),
            state=QueryState.RECEIVED,
            created=now,
            series=series.id,
            number=number,
        )
