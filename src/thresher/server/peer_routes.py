"""Routes between roles that run apart: each is one method of a port (`thresher.roles.ports`)."""

from __future__ import annotations

from thresher.errors import InvalidFormat
from thresher.mechanism.response import Response
from thresher.protocol.messages import LARGEST_CONFIGURATION
from thresher.server.auth import COLLECTOR_TO_AGGREGATOR, COORDINATOR_TO_AGGREGATOR, COORDINATOR_TO_COLLECTOR
from thresher.server.limits import KIB, MIB
from thresher.server.peer_messages import (
    AggregatorKey,
    Forwarded,
    KeysRetired,
    NumbersStated,
    OpenRound,
    Overview,
    Released,
    ReleaseRound,
    RetireKeys,
)
from thresher.server.problem import Refused
from thresher.server.routing import OCTETS, Call, Route

LARGEST_BATCH = 32 * MIB
_COLLECTOR = "/v1/peer/collector"
_AGGREGATOR = "/v1/peer/aggregator"
_COORDINATOR_ONLY = (COORDINATOR_TO_AGGREGATOR,)


def _open(call: Call) -> None:
    collector = call.services.the_collector
    message: OpenRound = call.body
    rounds = call.services.open_rounds()
    if len(rounds) >= call.services.limits.open_rounds and message.configuration.round not in rounds:
        raise Refused(429, "too-many-rounds", "Too many rounds are open.", retry_after=5)
    collector.open(message.configuration, message.target)


def _progress(call: Call) -> NumbersStated:
    return NumbersStated.of(call.services.the_collector.progress(call.path["round"]))


def _close(call: Call) -> NumbersStated:
    return NumbersStated.of(call.services.the_collector.close(call.path["round"]))


def _forward(call: Call) -> Forwarded:
    return Forwarded(batches=call.services.the_collector.forward(call.path["round"]))


def _forget_collected(call: Call) -> None:
    call.services.the_collector.forget(call.path["round"])


def _overview(call: Call) -> Overview:
    view = call.services.the_collector.overview()
    return Overview(enrolled=view.enrolled, active=view.active, check_ins=list(view.check_ins))


def _key(call: Call) -> AggregatorKey:
    key = call.services.the_aggregator.public_key()
    return AggregatorKey(key_id=key.key_id, public_key=key.raw.hex())


def _retire(call: Call) -> KeysRetired:
    message: RetireKeys = call.body
    return KeysRetired(retired=call.services.the_aggregator.retire_keys(frozenset(message.in_use)))


def _add_batch(call: Call) -> None:
    number = call.path["number"]
    if not (number.isascii() and number.isdigit() and len(number) <= 12):
        raise InvalidFormat("A batch has a whole number.")
    call.services.the_aggregator.add_batch(call.path["round"], int(number), call.body)


def _release(call: Call) -> Released:
    message: ReleaseRound = call.body
    if message.configuration.round != call.path["round"]:
        raise InvalidFormat("The configuration is that of another round.")
    response = Response.of(message.response.stated, message.configuration.rates)
    aggregator = call.services.the_aggregator
    return Released(release=aggregator.release(message.configuration, message.batches, response))


def _forget_aggregated(call: Call) -> None:
    call.services.the_aggregator.forget(call.path["round"])


ROUTES = (
    Route(
        "POST", f"{_COLLECTOR}/rounds", "open_round", "Show a round to devices.",
        (COORDINATOR_TO_COLLECTOR,), "collector", _open,
        body=OpenRound, largest_body=LARGEST_CONFIGURATION + 64 * KIB, problems=(400, 409, 422),
    ),
    Route(
        "GET", f"{_COLLECTOR}/rounds/{{round}}", "round_progress", "How far a round is.",
        (COORDINATOR_TO_COLLECTOR,), "collector", _progress, answer=NumbersStated, problems=(404,),
    ),
    Route(
        "POST", f"{_COLLECTOR}/rounds/{{round}}/close", "close_round", "Take no more reports.",
        (COORDINATOR_TO_COLLECTOR,), "collector", _close, answer=NumbersStated, problems=(404,),
    ),
    Route(
        "POST", f"{_COLLECTOR}/rounds/{{round}}/forward", "forward_round", "Hand all reports to the aggregator.",
        (COORDINATOR_TO_COLLECTOR,), "collector", _forward, answer=Forwarded, problems=(404, 409),
    ),
    Route(
        "POST", f"{_COLLECTOR}/rounds/{{round}}/forget", "forget_collected", "Delete what is left of a round.",
        (COORDINATOR_TO_COLLECTOR,), "collector", _forget_collected,
    ),
    Route(
        "GET", f"{_COLLECTOR}/overview", "collector_overview", "Devices enrolled and active.",
        (COORDINATOR_TO_COLLECTOR,), "collector", _overview, answer=Overview,
    ),
    Route(
        "GET", f"{_AGGREGATOR}/key", "aggregator_key", "The key that new rounds are sealed to.",
        _COORDINATOR_ONLY, "aggregator", _key, answer=AggregatorKey,
    ),
    Route(
        "POST", f"{_AGGREGATOR}/keys/retire", "retire_keys", "Delete the private halves that no round needs.",
        _COORDINATOR_ONLY, "aggregator", _retire, body=RetireKeys, answer=KeysRetired, problems=(400,),
    ),
    Route(
        "PUT", f"{_AGGREGATOR}/rounds/{{round}}/batches/{{number}}", "add_batch", "Store one batch of sealed reports.",
        (COLLECTOR_TO_AGGREGATOR,), "aggregator", _add_batch,
        takes=OCTETS, largest_body=LARGEST_BATCH, problems=(400, 409, 422),
    ),
    Route(
        "POST", f"{_AGGREGATOR}/rounds/{{round}}/release", "release_round", "Open, count, threshold and release; once.",
        _COORDINATOR_ONLY, "aggregator", _release, body=ReleaseRound, answer=Released,
        largest_body=LARGEST_CONFIGURATION + 64 * KIB, problems=(400, 404, 409, 422),
    ),
    Route(
        "POST", f"{_AGGREGATOR}/rounds/{{round}}/forget", "forget_aggregated", "Delete what is left of a round.",
        _COORDINATOR_ONLY, "aggregator", _forget_aggregated,
    ),
)  # fmt: skip
