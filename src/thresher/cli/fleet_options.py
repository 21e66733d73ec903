"""Options of `thresher fleet`, and the query that they make."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from thresher import verbs
from thresher.cli.parsing import parsed_bins, parsed_lines
from thresher.client.credentials import KEY
from thresher.client.fleet import Fleet
from thresher.errors import InvalidSetting
from thresher.verbs import QueryTaker

VERBS = ("histogram", "heavy-hitters", "quantiles", "ranges")

Verb = Annotated[str, typer.Argument(help=f"One of {', '.join(VERBS)}.", show_default=False)]
Columns = Annotated[list[str], typer.Argument(help="The attribute to ask about; several for a histogram of all.")]
QueryId = Annotated[str, typer.Argument(metavar="ID", help="Its id; `fleet list` shows it.", show_default=False)]
Server = Annotated[str, typer.Option(help="The server's address.", envvar="THRESHER_SERVER", show_default=False)]
Key = Annotated[
    str | None,
    typer.Option(help="An analyst's token; everybody on the machine can read it here.", show_default=False),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(help=f"A file with an analyst's token; or set {KEY} or {KEY}_FILE.", show_default=False),
]
CaFile = Annotated[
    Path | None, typer.Option("--ca-file", help="Certificates to trust, in place of the system's.", show_default=False)
]
Bins = Annotated[str | None, typer.Option(help="Edges, as 0,18,65,130, or a number of equal bins.", show_default=False)]
BinWidth = Annotated[float | None, typer.Option(help="Width of equal bins.", show_default=False)]
Lower = Annotated[float | None, typer.Option(help="Public lower bound.", show_default=False)]
Upper = Annotated[float | None, typer.Option(help="Public upper bound.", show_default=False)]
Dates = Annotated[str | None, typer.Option(help="Cut dates to day, week or month.", show_default=False)]
Domain = Annotated[Path | None, typer.Option(help="A file with a public bucket a line, shown even if not released.")]
Method = Annotated[
    str | None,
    typer.Option(help="one-shot or trie for heavy hitters, search or hierarchy for quantiles.", show_default=False),
]
Levels = Annotated[int | None, typer.Option(help="Levels of a trie or hierarchy.", show_default=False)]
Step = Annotated[int, typer.Option(help="Characters a level of a trie.")]
Steps = Annotated[int | None, typer.Option(help="Rounds of search for each quantile.", show_default=False)]
Quantile = Annotated[list[float] | None, typer.Option(help="A quantile, as 0.5; repeat it for several.")]
Branching = Annotated[int, typer.Option(help="How many times finer each level is.")]
Range = Annotated[list[str] | None, typer.Option("--range", help="A range to show, as 18:65; repeat it for several.")]
Seconds = Annotated[float | None, typer.Option(help="How long a round is open.", show_default=False)]
Completions = Annotated[
    int | None, typer.Option(help="Close a round when so many devices have completed it.", show_default=False)
]
ContactRate = Annotated[
    float | None, typer.Option(help="The part of the devices that a round is shown to.", show_default=False)
]
SampledBy = Annotated[
    str | None,
    typer.Option(
        help="Who tosses the coins: aggregator (by default), or device, where nothing is promised against whoever can "
        "add devices or reports.",
        show_default=False,
    ),
]
BucketSize = Annotated[int | None, typer.Option(help="Bytes that an answer may have.", show_default=False)]


@dataclass(frozen=True, slots=True)
class Asked:
    """A verb and its settings, as they were typed."""

    verb: str
    columns: list[str]
    epsilon: float | None
    delta: float | None
    bins: str | None
    bin_width: float | None
    lower: float | None
    upper: float | None
    dates: str | None
    domain: Path | None
    method: str | None
    levels: int | None
    step: int
    steps: int | None
    quantile: list[float] | None
    branching: int

    def submit_to(self, taker: QueryTaker, *, wait: bool = True) -> Any:
        """Make the query, with its plan, and hand it over."""
        target: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "wait": wait}
        if self.verb == "histogram":
            return verbs.histogram(
                taker,
                self.columns[0] if len(self.columns) == 1 else self.columns,
                bins=parsed_bins(self.bins),
                bin_width=self.bin_width,
                lower=self.lower,
                upper=self.upper,
                dates=self.dates,  # type: ignore[arg-type]
                domain=None if self.domain is None else parsed_lines(self.domain),
                **target,
            )
        if self.verb not in VERBS:
            raise InvalidSetting("verb", f"must be one of {', '.join(VERBS)}")
        if len(self.columns) != 1:
            raise InvalidSetting("column", f"must be one for {self.verb}")
        [column] = self.columns
        if self.verb == "heavy-hitters":
            method: Any = self.method or "one-shot"
            return verbs.heavy_hitters(taker, column, method=method, levels=self.levels, step=self.step, **target)
        if self.lower is None or self.upper is None:
            raise InvalidSetting(
                "lower", "and upper are missing", hint="They are public: choose them without the data."
            )
        bounds: dict[str, Any] = {"lower": self.lower, "upper": self.upper, "branching": self.branching}
        if self.verb == "ranges":
            return verbs.ranges(taker, column, levels=self.levels, **bounds, **target)
        if not self.quantile:
            raise InvalidSetting("quantile", "is missing", hint="For example --quantile 0.5 --quantile 0.99.")
        search: Any = self.method or "search"
        return verbs.quantiles(
            taker, column, self.quantile, method=search, steps=self.steps, levels=self.levels, **bounds, **target
        )


def connected(server: str, key: str | None, key_file: Path | None, ca_file: Path | None) -> Fleet:
    """The fleet at an address, with a token from the command line, a file or the environment."""
    warn_of_shown("key", key, KEY)
    return Fleet(server, key, key_file=key_file, ca_file=ca_file)


def warn_of_shown(option: str, given: str | None, variable: str) -> None:
    """Say that a secret on a command line is no secret on this machine."""
    if given:
        typer.echo(
            f"--{option} shows a secret in the process list; --{option}-file PATH or {variable} does not.", err=True
        )
