"""Routes between roles that run on different machines. Each is one method of a port (`thresher.roles.ports`).

`peers` makes its requests from the same table.
"""

from __future__ import annotations

from thresher.errors import InvalidFormat
from thresher.mechanism.response import Response, RoundNumbers
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.messages import LARGEST_CONFIGURATION
from thresher.roles.collector.enrolment import Overview as FleetOverview
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
    WaitedFor,
)
from thresher.server.problem import Refused
from thresher.server.routing import OCTETS, Call, Routes

_BATCH = 32 * MIB
_CONFIGURATION = 2 * LARGEST_CONFIGURATION + 64 * KIB
"""A configuration is a string in the message: each of its characters may be written with a backslash before it."""

_COLLECTOR = Routes("collector", (COORDINATOR_TO_COLLECTOR,))
_AGGREGATOR = Routes("aggregator", (COORDINATOR_TO_AGGREGATOR,))
_BATCHES = Routes("aggregator", (COLLECTOR_TO_AGGREGATOR,))


@_COLLECTOR.add(
    "POST", "/v1/peer/collector/rounds", body=OpenRound, largest_body=_CONFIGURATION, problems=(400, 409, 422)
)
def open_round(call: Call) -> None:
    """Show a round to devices."""
    message: OpenRound = call.body
    configuration = RoundConfiguration.read(message.configuration)
    collector = call.services.the_collector
    rounds = collector.open_rounds()
    if len(rounds) >= call.services.limits.open_rounds and configuration.round not in rounds:
        raise Refused(429, "too-many-rounds", "Too many rounds are open.", retry_after=5)
    collector.open(configuration, message.target)


@_COLLECTOR.add("GET", "/v1/peer/collector/rounds/{round}", answer=NumbersStated, problems=(404,))
def round_progress(call: Call) -> RoundNumbers:
    """How far a round is."""
    return call.services.the_collector.progress(call.path["round"])


@_COLLECTOR.add("GET", "/v1/peer/collector/rounds/{round}/waited-for", problems=(404,))
def round_waits(call: Call) -> WaitedFor:
    """How many active devices have not answered a round."""
    return WaitedFor(devices=call.services.the_collector.waited_for(call.path["round"]))


@_COLLECTOR.add("POST", "/v1/peer/collector/rounds/{round}/close", answer=NumbersStated, problems=(404,))
def close_round(call: Call) -> RoundNumbers:
    """Take no more reports."""
    return call.services.the_collector.close(call.path["round"])


@_COLLECTOR.add("POST", "/v1/peer/collector/rounds/{round}/forward", problems=(404, 409))
def forward_round(call: Call) -> Forwarded:
    """Hand all reports to the aggregator."""
    return Forwarded(batches=call.services.the_collector.forward(call.path["round"]))


@_COLLECTOR.add("POST", "/v1/peer/collector/rounds/{round}/forget")
def forget_collected(call: Call) -> None:
    """Delete what is left of a round."""
    call.services.the_collector.forget(call.path["round"])


@_COLLECTOR.add("GET", "/v1/peer/collector/overview", answer=Overview)
def collector_overview(call: Call) -> FleetOverview:
    """Devices enrolled and active."""
    return call.services.the_collector.overview()


@_AGGREGATOR.add("GET", "/v1/peer/aggregator/key")
def aggregator_key(call: Call) -> AggregatorKey:
    """The key that new rounds are sealed to."""
    return AggregatorKey.of(call.services.the_aggregator.public_key())


@_AGGREGATOR.add("POST", "/v1/peer/aggregator/keys/retire", body=RetireKeys, problems=(400,))
def retire_keys(call: Call) -> KeysRetired:
    """Delete the private halves that no round needs."""
    message: RetireKeys = call.body
    return KeysRetired(retired=call.services.the_aggregator.retire_keys(frozenset(message.in_use)))


@_BATCHES.add(
    "PUT",
    "/v1/peer/aggregator/rounds/{round}/batches/{number}",
    takes=OCTETS,
    largest_body=_BATCH,
    problems=(400, 409, 422),
)
def add_batch(call: Call) -> None:
    """Store one batch of sealed reports."""
    number = call.path["number"]
    if not (number.isascii() and number.isdigit() and len(number) <= 12):
        raise InvalidFormat("A batch has a whole number.")
    call.services.the_aggregator.add_batch(call.path["round"], int(number), call.body)


@_AGGREGATOR.add(
    "POST",
    "/v1/peer/aggregator/rounds/{round}/release",
    body=ReleaseRound,
    largest_body=_CONFIGURATION,
    problems=(400, 404, 409, 422),
)
def release_round(call: Call) -> Released:
    """Open, count, threshold and release; once."""
    message: ReleaseRound = call.body
    configuration = RoundConfiguration.read(message.configuration)
    if configuration.round != call.path["round"]:
        raise InvalidFormat("The configuration is that of another round.")
    response = Response.of(message.response.stated, configuration.rates)
    aggregator = call.services.the_aggregator
    return Released(release=aggregator.release(configuration, message.batches, response))


@_AGGREGATOR.add("POST", "/v1/peer/aggregator/rounds/{round}/forget")
def forget_aggregated(call: Call) -> None:
    """Delete what is left of a round."""
    call.services.the_aggregator.forget(call.path["round"])


ROUTES = (*_COLLECTOR, *_AGGREGATOR, *_BATCHES)
