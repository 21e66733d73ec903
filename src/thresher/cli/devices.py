"""`thresher device` runs one real device, `thresher simulate` many of them."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from thresher.cli import options
from thresher.cli.comparison import show
from thresher.cli.fleet_options import warn_of_shown
from thresher.cli.output import print_json, say
from thresher.cli.progress import progress_bar
from thresher.client.credentials import ANALYST_KEY, ENROLMENT_KEY, secret
from thresher.errors import InvalidSetting
from thresher.verbs.answer import Answer
from thresher.verbs.asking import Target, answer_of, function_of, functions, make
from thresher.verbs.query import Query
from thresher.verbs.settings import settings_of

if TYPE_CHECKING:
    from thresher.device.policy import Policy
    from thresher.simulator.population import Column, ListColumn
    from thresher.simulator.simulation import Told

Server = Annotated[str, typer.Option(help="The server's address, as http://127.0.0.1:8000.", show_default=False)]
CaFile = Annotated[
    Path | None, typer.Option(help="Certificates to trust, in place of the system's.", show_default=False)
]
EnrolmentKey = Annotated[
    str | None,
    typer.Option(help="The fleet's enrolment key; everybody on the machine can read it here.", show_default=False),
]
EnrolmentKeyFile = Annotated[
    Path | None,
    typer.Option(
        help=f"A file with the fleet's enrolment key, needed once in a device's lifetime; or set {ENROLMENT_KEY} or "
        f"{ENROLMENT_KEY}_FILE.",
        show_default=False,
    ),
]


def device(
    server: Server,
    attribute: Annotated[
        list[str],
        typer.Option(
            help="What the device holds, as name=value; repeat it. A name that comes again has several values.",
            show_default=False,
        ),
    ],
    state: Annotated[Path, typer.Option(help="The file in which the device remembers what it has sent.")],
    enrolment_key: EnrolmentKey = None,
    enrolment_key_file: EnrolmentKeyFile = None,
    once: Annotated[bool, typer.Option("--once", help="Check in once and end.")] = False,
    policy: Annotated[
        Path | None,
        typer.Option(
            help="A file with the policy, as `thresher policy compile` writes it. The options below change it.",
            show_default=False,
        ),
    ] = None,
    max_epsilon: Annotated[float | None, typer.Option(help="Largest epsilon a query.", show_default=False)] = None,
    max_delta: Annotated[float | None, typer.Option(help="Largest delta a query.", show_default=False)] = None,
    min_threshold: Annotated[int | None, typer.Option(help="Smallest threshold.", show_default=False)] = None,
    max_contributions: Annotated[
        int | None, typer.Option(help="Most values of this device that count in a round.", show_default=False)
    ] = None,
    pinned_key: Annotated[
        str | None, typer.Option(help="The only key to seal for, in hexadecimal.", show_default=False)
    ] = None,
    coins: Annotated[
        str | None,
        typer.Option(
            help="any or aggregator: with aggregator, answer only what holds against whoever can add devices or "
            "reports.",
            show_default=False,
        ),
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            help="An attribute by which a query may filter; repeat it. By default every one that the device holds.",
            show_default=False,
        ),
    ] = None,
    ca_file: CaFile = None,
    text: Annotated[bool, typer.Option("--text", help="Take every value as text, also numbers.")] = False,
    json: options.Json = False,
) -> None:
    """Run one device: check in, answer what its policy allows, come back when told."""
    enrolment_key = _secret("enrolment-key", enrolment_key, enrolment_key_file, ENROLMENT_KEY)
    from thresher.device.device import Device
    from thresher.device.policy import Policy
    from thresher.device.policy_file import changed_policy

    given: dict[str, Any] = {
        "max_epsilon": max_epsilon,
        "max_delta": max_delta,
        "min_threshold": min_threshold,
        "max_contributions": max_contributions,
        "coins": coins,
    }
    given |= {"pinned_key": None if pinned_key is None else _hexadecimal(pinned_key)}
    given |= {"filters": frozenset(filters) if filters else None}
    changes = {name: value for name, value in given.items() if value is not None}
    agreed = changed_policy(Policy() if policy is None else Policy.from_file(policy), changes)
    logging.basicConfig(format="%(message)s")
    logging.getLogger("thresher.device").setLevel(logging.INFO)  # what is waited for
    with Device(server, enrolment_key, _attributes(attribute, text), state, agreed, ca_file=ca_file) as running:
        if once:
            _show_outcomes(running.check_in(), agreed, json)
            return
        with _until_interrupted() as stop:
            running.run(stop)


def simulate(
    server: Server,
    enrolment_key: EnrolmentKey = None,
    enrolment_key_file: EnrolmentKeyFile = None,
    coordinator: Annotated[
        str | None,
        typer.Option(help="Where the query is asked, if not at the server that devices talk to.", show_default=False),
    ] = None,
    devices: Annotated[int, typer.Option(help="How many.", min=1)] = 1_000,
    attribute: Annotated[str, typer.Option(help="The attribute that they hold.")] = "word",
    values: Annotated[
        Path | None,
        typer.Option(
            help="A file with one value a line; after a tab it may have a weight. Without it values are invented.",
            show_default=False,
        ),
    ] = None,
    zipf: Annotated[
        float | None,
        typer.Option(help="Line k is held by a share as k to minus this; 0: all equally.", show_default=False),
    ] = None,
    held: Annotated[
        int, typer.Option(help="Each device holds a list of up to so many distinct values; only for texts.", min=1)
    ] = 1,
    contributions: Annotated[
        int | None,
        typer.Option(
            help="How many values of a device count. Fewer than --held: estimates are lower than the truth.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Which device holds what; coins and keys are never seeded.")] = 1,
    analyst_key: Annotated[
        str | None,
        typer.Option(help="Also ask a query, and compare; everybody on the machine can read it.", show_default=False),
    ] = None,
    analyst_key_file: Annotated[
        Path | None,
        typer.Option(
            help=f"The same, from a file with an analyst's token; or set {ANALYST_KEY} or {ANALYST_KEY}_FILE.",
            show_default=False,
        ),
    ] = None,
    verb: Annotated[str, typer.Option(help=f"The query: {', '.join(functions()).replace('_', '-')}.")] = "histogram",
    epsilon: options.Epsilon = 1.0,
    delta: options.Delta = 1e-8,
    method: Annotated[
        str | None, typer.Option(help="one-shot or trie; search or hierarchy.", show_default=False)
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Levels of a trie or hierarchy, steps of a search.", show_default=False)
    ] = None,
    step: Annotated[int, typer.Option(help="Characters a level of a trie.")] = 1,
    lower: Annotated[float, typer.Option(help="Public lower bound, for quantiles and ranges.")] = 0.0,
    upper: Annotated[float, typer.Option(help="Public upper bound, for quantiles and ranges.")] = 4096.0,
    quantile: Annotated[list[float] | None, typer.Option(help="A quantile; repeat it.", show_default=False)] = None,
    contact_rate: Annotated[float, typer.Option(help="Which part of the devices a round is shown to.")] = 1.0,
    sampled_by: Annotated[str, typer.Option(help="aggregator or device: whose coins.")] = "aggregator",
    seconds: Annotated[
        float | None, typer.Option(help="How long a round is open; without a query, how long to run.")
    ] = None,
    completions: Annotated[
        int | None, typer.Option(help="Close a round at this many reports; all that come, if not given.")
    ] = None,
    dropouts: Annotated[float, typer.Option(help="Share of devices that vanish from a round.")] = 0.0,
    retries: Annotated[float, typer.Option(help="Share of reports whose answer is lost.")] = 0.0,
    duplicates: Annotated[float, typer.Option(help="Share of reports sent twice.")] = 0.0,
    slow: Annotated[float, typer.Option(help="Share of reports that arrive in pieces.")] = 0.0,
    hostile: Annotated[float, typer.Option(help="Hostile clients, as a share of the devices.")] = 0.0,
    ca_file: CaFile = None,
    json: options.Json = False,
) -> None:
    """Drive many real devices over HTTP and compare the release with the truth. Nobody else knows both."""
    enrolment_key = _secret("enrolment-key", enrolment_key, enrolment_key_file, ENROLMENT_KEY)
    analyst_key = _secret("analyst-key", analyst_key, analyst_key_file, ANALYST_KEY)
    from dataclasses import replace

    from thresher.client.fleet import Fleet
    from thresher.simulator.behaviour import Behaviour
    from thresher.simulator.population import Population
    from thresher.simulator.report import compare
    from thresher.simulator.simulation import Simulation
    from thresher.simulator.simulation import simulate as run

    verb = verb.replace("-", "_")
    function_of(verb)
    if not enrolment_key:
        raise InvalidSetting(
            "enrolment-key", "is missing", hint="It is in enrolment.key in the server's data directory: name that file."
        )
    query = None
    if analyst_key:
        given = {"column": attribute, "method": method, "step": step, "probabilities": quantile or [0.5, 0.9]}
        given |= {"contributions": contributions}
        query = _query(verb, Target(epsilon, delta), given, (lower, upper), rounds)
    column = _column(values, devices, seed, zipf, held, query)
    behaviour = Behaviour(dropouts, retries, duplicates, slow, hostile)
    with _until_interrupted() as stop, _told(json) as told, contextlib.ExitStack() as stack:
        simulation = Simulation(
            server, enrolment_key, Population({attribute: column}), behaviour, told=told, ca_file=ca_file
        )
        ask = None
        if query is not None:
            if completions is None and contact_rate == 1:
                completions = simulation.completions
            fleet = stack.enter_context(Fleet(coordinator or server, key=analyst_key, ca_file=ca_file))
            rehearsed = fleet.with_rounds(
                seconds=seconds,
                completions=completions,
                contact_rate=contact_rate,
                sampled_by=cast(Any, sampled_by),
            )
            # Devices of a simulation come with the question, so how many were active before says nothing. The bar of
            # the devices is enough.
            ask = functools.partial(rehearsed.submit, query, wait=True, progress=lambda *_: None, warn=False)
        answer = run(simulation, ask, stop=stop, seconds=None if analyst_key else seconds)
    result = simulation.result
    if answer is not None:
        result = replace(result, comparison=compare(answer, column, _quarters(lower, upper)))
    if json:
        print_json(result.to_dict())
    else:
        show(result)
    if result.outcomes.unexpected or (result.comparison is not None and result.comparison.invented):
        raise typer.Exit(1)


def _secret(option: str, given: str | None, file: Path | None, variable: str) -> str | None:
    warn_of_shown(option, given, variable)
    return secret(option, given, file, variable)


def _column(
    values: Path | None, devices: int, seed: int, exponent: float | None, held: int, query: Query | None
) -> Column | ListColumn:
    from thresher.simulator import population

    numeric = None if query is None else "text" not in query.first_question.parts[0].reads
    if held > 1:
        if numeric:
            raise InvalidSetting("held", "must be 1 for this query")
        texts = population.words() if values is None else list(dict.fromkeys(population.read_lines(values)))
        return population.lists(texts, devices, seed, held, population.ZIPF if exponent is None else exponent)
    if values is not None:
        return population.from_file(values, devices, seed, numbers=numeric, exponent=exponent)
    if numeric:
        return population.waiting_times(devices, seed)
    return population.zipf(population.words(), devices, seed, population.ZIPF if exponent is None else exponent)


def _query(verb: str, target: Target, given: dict[str, Any], bounds: tuple[float, float], rounds: int | None) -> Query:
    """The query to rehearse: what was typed, as far as it is a setting of the verb, and the usual values for the rest.

    `rounds` stands for whichever setting of the verb is a number of rounds, `bounds` for those that a verb requires.
    """
    if answer_of(verb).compared is Answer.compared:
        raise InvalidSetting("verb", f"{verb!r} cannot be compared with the truth", hint="Ask it without simulate.")
    described = settings_of(function_of(verb))
    if given.get("contributions") is not None and "contributions" not in described:
        raise InvalidSetting("contributions", f"is no setting of {verb!r}", hint="Leave it out.")
    required = {name for name, setting in described.items() if setting.required}
    given |= {name: value for name, value in zip(("lower", "upper"), bounds, strict=True) if name in required}
    settings = {name: value for name, value in given.items() if name in described and value is not None}
    all_of_them = {name: settings.get(name, setting.default) for name, setting in described.items()}
    counted = [setting.name for setting in described.values() if setting.is_rounds and setting.matters(all_of_them)]
    if rounds is not None and counted:
        settings[counted[0]] = rounds
    return make(verb, target, settings)


def _quarters(lower: float, upper: float) -> list[tuple[float, float]]:
    """Four ranges to read off a hierarchy: each part is as wide as all before it, as data with a long tail needs."""
    cuts = [lower, *(lower + (upper - lower) / 2**power for power in (3, 2, 1)), upper]
    return list(itertools.pairwise(cuts))


def _attributes(given: list[str], text: bool) -> dict[str, Any]:
    from thresher.simulator.population import plain

    held: dict[str, list[Any]] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise InvalidSetting(
                "attribute", "must be a name, an equals sign and a value", hint="For example os=linux."
            )
        held.setdefault(name, []).append(value if text else plain(value))
    return {name: values if len(values) > 1 else values[0] for name, values in held.items()}


def _hexadecimal(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InvalidSetting("pinned_key", "must be hexadecimal") from None


def _show_outcomes(outcomes: list[Any], policy: Policy, json: bool) -> None:
    if json:
        print_json([{"round": each.round, "status": each.status, "reason": each.reason} for each in outcomes])
        return
    for each in outcomes:
        say(f"{each.round}: {each.status}" + (f", because {policy.in_words(each.reason)}" if each.reason else ""))
    if not outcomes:
        say("No round to answer.")


@contextlib.contextmanager
def _until_interrupted() -> Iterator[threading.Event]:
    """An event that Ctrl-C or a termination sets, so that devices end between two requests."""
    stop = threading.Event()
    before = {each: signal.signal(each, lambda *_: stop.set()) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextlib.contextmanager
def _told(quiet: bool) -> Iterator[Told | None]:
    """What a simulation tells how far it is."""
    with progress_bar(quiet, "enrolling") as report:
        yield None if report is None else lambda what, done, total: report(done, total, what)
