"""`thresher serve`: the server of a fleet, all roles in one process or one of them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from thresher.cli.output import say
from thresher.cli.warnings_shown import switch_off
from thresher.client.credentials import ALERT_SECRET, ALERT_WEBHOOKS, STORE, check_no_password, secret
from thresher.errors import InvalidSetting, require

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.routing import BaseRoute

    from thresher.privacy.budget import Composing
    from thresher.server.assembly import Settings
    from thresher.server.services import Services

_ALL = ("collector", "aggregator", "coordinator")


def serve(
    data_dir: Annotated[
        Path | None, typer.Option(help="State and secrets; made on the first start.", show_default=False)
    ] = None,
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 8080,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    store: Annotated[
        str | None, typer.Option(help="postgresql://… without a password, instead of SQLite files.", show_default=False)
    ] = None,
    store_file: Annotated[
        Path | None,
        typer.Option(help=f"A file with that address, password and all; or set {STORE}.", show_default=False),
    ] = None,
    adopt_store: Annotated[
        bool, typer.Option("--adopt-store", help="Take this store, though the data directory was used with another.")
    ] = False,
    role: Annotated[
        list[str] | None, typer.Option(help="collector, aggregator, coordinator or all; several if repeated.")
    ] = None,
    collector: Annotated[str | None, typer.Option(help="Where the collector runs, if not here.")] = None,
    aggregator: Annotated[str | None, typer.Option(help="Where the aggregator runs, if not here.")] = None,
    peer_key_file: Annotated[
        list[Path] | None, typer.Option(help="A key copied from a peer's data directory; repeat for each.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key, PEM.")] = None,
    tls_ca: Annotated[Path | None, typer.Option(help="Who signs the peers' certificates, PEM.")] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(help="Address or network of a proxy that ends TLS and sends X-Forwarded-Proto; repeat for each."),
    ] = None,
    budget_epsilon: Annotated[float | None, typer.Option(help="The fleet's whole epsilon; 10 at first.")] = None,
    budget_delta: Annotated[float | None, typer.Option(help="The fleet's whole delta; 1e-6 at first.")] = None,
    budget_composition: Annotated[
        str | None,
        typer.Option(
            help="How queries compose: adaptive lets many times more through than sum. Chosen at the first start.",
            show_default="adaptive",
        ),
    ] = None,
    budget_period: Annotated[
        str | None,
        typer.Option(
            help="The budget renews after this time, as 30d: the promise is then for each period by itself. Chosen "
            "at the first start.",
            show_default="never",
        ),
    ] = None,
    fleet: Annotated[str, typer.Option(help="The fleet's name.")] = "fleet",
    round_seconds: Annotated[float | None, typer.Option(help="How long a round is open, by default an hour.")] = None,
    spark: Annotated[
        str | None, typer.Option(help="A Spark master that opens large rounds, such as spark://host:7077.")
    ] = None,
    batches: Annotated[
        Path | None, typer.Option(help="A folder that all Spark workers can read; by default in the data directory.")
    ] = None,
    enrolments_per_hour: Annotated[
        int, typer.Option(help="Devices that enrol with one key in an hour, unless the key says otherwise.")
    ] = 100_000,
    enrolments_per_address: Annotated[
        int, typer.Option(help="Devices that enrol from one address in an hour; not for this machine's own.")
    ] = 1_000,
    connections: Annotated[int, typer.Option(help="Connections open at a time.")] = 20_000,
    connections_per_address: Annotated[
        int, typer.Option(help="Of those, from one address; a trusted proxy's are not counted.")
    ] = 1_000,
    device_policy: Annotated[
        Path | None,
        typer.Option(
            help="A JSON file with the policy that devices are shipped with; analysts are warned of queries that it "
            "does not allow. By default that of thresher.Policy().",
            show_default=False,
        ),
    ] = None,
    attributes: Annotated[
        str | None,
        typer.Option(
            help="What devices hold, as country,app_version; analysts are warned of other names.", show_default=False
        ),
    ] = None,
    alert_webhook: Annotated[
        list[str] | None,
        typer.Option(
            help="Where alerts on series may be posted, as ops=https://hooks.example/abc; analysts choose it by its "
            "name. Repeat for each.",
            show_default=False,
        ),
    ] = None,
    alert_webhook_file: Annotated[
        Path | None,
        typer.Option(help=f"A file with such lines; or set {ALERT_WEBHOOKS}.", show_default=False),
    ] = None,
    alert_secret_file: Annotated[
        Path | None,
        typer.Option(
            help=f"A file with a secret that signs what is posted; or set {ALERT_SECRET}.", show_default=False
        ),
    ] = None,
    public_url: Annotated[
        str | None, typer.Option(help="Where people reach the console, for links in alerts.", show_default=False)
    ] = None,
    come_back: Annotated[float, typer.Option(help="Seconds between a device's visits.")] = 60.0,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            help="Web pages of this origin may be devices, as https://app.example; * for all. Repeat for each.",
            show_default=False,
        ),
    ] = None,
    console_pages: Annotated[bool, typer.Option("--console/--no-console", help="Serve the web console.")] = True,
    demo: Annotated[bool, typer.Option("--demo", help="With simulated devices that keep checking in.")] = False,
) -> None:
    """Run a fleet's server. The first start makes its tokens and keys and says how to use them."""
    for module in ("starlette", "uvicorn"):
        require(module, "server")
    if spark is not None:
        require("pyspark", "spark")
    from thresher.device.policy import Policy
    from thresher.device.policy_file import read_policy, with_attributes
    from thresher.protocol.analyst_messages import RoundSettings
    from thresher.protocol.limits import limits
    from thresher.server.assembly import Settings
    from thresher.server.limits import Limits
    from thresher.server.serving import serve as run
    from thresher.server.webhooks import check_no_credentials, read_webhooks

    if round_seconds is not None and not (allowed := limits(RoundSettings, "seconds")).allow(round_seconds):
        raise InvalidSetting("round-seconds", str(allowed))
    if store is not None:
        check_no_password("store", store)
    roles = tuple(dict.fromkeys(role or ["all"]))
    if data_dir is None and not demo:
        raise InvalidSetting("data-dir", "is missing", hint="For example --data-dir fleet, or try --demo.")
    policy = Policy() if device_policy is None else read_policy(device_policy)
    if attributes is not None:
        policy = with_attributes(policy, attributes.split(","))
    where = secret("store", store, store_file, STORE)
    if demo and where is not None:
        raise InvalidSetting(
            "store",
            "is not for a demo, whose devices are simulated: it keeps its data in files",
            hint=f"Leave --store out, and unset {STORE} and {STORE}_FILE.",
        )
    given = alert_webhook or []
    check_no_credentials(given)
    more = secret("alert-webhook", None, alert_webhook_file, ALERT_WEBHOOKS) or ""
    settings = Settings(
        data_dir=data_dir or Path(),
        roles=_ALL if "all" in roles else roles,
        host=host,
        port=port,
        store=where,
        adopt_store=adopt_store,
        collector=collector,
        aggregator=aggregator,
        peer_key_files=tuple(peer_key_file or ()),
        tls_cert=tls_cert,
        tls_key=tls_key,
        tls_ca=tls_ca,
        proxies=tuple(trusted_proxy or ()),
        budget_epsilon=budget_epsilon,
        budget_delta=budget_delta,
        budget_composition=cast("Composing | None", budget_composition),  # checked with the settings
        budget_period=budget_period,
        fleet=fleet,
        rounds=RoundSettings(seconds=round_seconds),
        spark=spark,
        batches=batches,
        device_policy=policy,
        webhooks=read_webhooks([*given, *more.splitlines()]),
        webhook_secret=secret("alert-secret", None, alert_secret_file, ALERT_SECRET),
        public_url=public_url,
        come_back=come_back,
        allow_origins=tuple(allow_origin or ()),
        limits=Limits(
            enrolments_per_hour=enrolments_per_hour,
            enrolments_per_address=enrolments_per_address,
            connections=connections,
            connections_per_address=connections_per_address,
        ),
    )
    if demo:
        _serve_demo(settings, data_dir)
    else:
        run(settings, pages=_console() if console_pages else None, announce=_announce)


def _serve_demo(settings: Settings, data_dir: Path | None) -> None:
    """Serve with the console and a fleet of simulated devices."""
    from thresher.cli import demo_fleet, demo_page
    from thresher.server.serving import serve as run

    if set(settings.roles) != set(_ALL):
        raise InvalidSetting("demo", "runs all roles in one process", hint="Leave --role out.")
    if settings.budget_epsilon is None:
        switch_off()  # the demo's own budget is large: nobody's value is at stake
    console, built = _console(), demo_page.page_directory()
    with demo_fleet.data_directory(data_dir) as directory:
        page = None if built is None else demo_page.DemoPage(settings, built)
        devices = demo_fleet.DemoFleet(page)

        def pages(services: Services) -> Sequence[BaseRoute]:
            if page is None:
                return console(services, demo_fleet.ATTRIBUTES)
            page.make_key(services, directory)
            return console(services, demo_fleet.ATTRIBUTES, device_page=page.url)

        try:
            run(
                demo_fleet.demo_settings(replace(settings, data_dir=directory), page),
                pages=pages,
                announce=_announce if data_dir is not None else lambda line: None,
                ready=lambda url: devices.start(url, directory),
            )
        finally:
            devices.end()


def _announce(line: str) -> None:
    say(line)
    sys.stdout.flush()  # at once: whoever started the process waits for this line


def _console() -> Callable[..., Sequence[BaseRoute]]:
    require("jinja2", "server")
    from thresher.console.adapter import console_pages

    return console_pages
