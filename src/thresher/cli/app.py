"""The command's root, and how errors leave it.

Exit codes: 0 done; 2 a setting or input is wrong; 3 the target cannot be reached; 4 the budget is exceeded; 5 a release
does not verify; 6 an optional package is missing; 1 anything else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import typer

from thresher._version import __version__
from thresher.cli import audit, devices, fleet, lab, ledger, planning, policies, privacy, shell_completion
from thresher.cli import look as looking
from thresher.cli import serve as serving
from thresher.cli.command_making import Commands
from thresher.cli.error_words import in_command_words
from thresher.cli.errors_shown import CLICK_ERROR, show_click_error, show_error
from thresher.cli.output import any_text
from thresher.cli.verb_commands import table_command
from thresher.cli.warnings_shown import switch_off, warnings_shown
from thresher.errors import ThresherError, exit_code, http_status
from thresher.verbs.asking import functions

app = typer.Typer(
    name="thresher",
    help="What many people hold, without learning what any one of them holds.",
    no_args_is_help=True,
    cls=Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("plan")(planning.plan)
for _verb in functions():
    app.command(_verb.replace("_", "-"))(table_command(_verb))
app.command("look")(looking.look)
app.command("audit")(audit.audit)
app.command("serve")(serving.serve)
app.command("device")(devices.device)
app.command("simulate")(devices.simulate)
app.add_typer(fleet.app, name="fleet")
app.add_typer(ledger.app, name="ledger")
app.add_typer(lab.app, name="lab")
app.add_typer(privacy.app, name="privacy")
app.add_typer(policies.app, name="policy")


def _version(show: bool) -> None:
    if show:
        typer.echo(f"thresher {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
    no_warnings: bool = typer.Option(
        False, "--no-warnings", help="Do not warn of an epsilon above 10 or a delta of 1/1000 or more."
    ),
) -> None:
    """What many people hold, without learning what any one of them holds."""
    if no_warnings:
        switch_off()


def main() -> None:
    """Run the command; an error of ours is a message and an exit code, never a traceback."""
    any_text(sys.stdout, sys.stderr)
    shell_completion.prepare()
    if shell_completion.asked():
        sys.exit(shell_completion.complete(app, _command))
    try:
        with warnings_shown():
            code = app(standalone_mode=False)
    except BrokenPipeError:
        # Whoever read the output has left, as head does; what was to be kept has been kept.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except ThresherError as error:
        message, hint = in_command_words(error, _options(sys.argv[1:]))
        show_error(error.code, http_status(error), message, hint)
        sys.exit(exit_code(error))
    except CLICK_ERROR as error:
        sys.exit(show_click_error(error))
    except typer.Abort:
        show_error("aborted", 400, "Aborted.")
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _options(arguments: Sequence[str]) -> list[str]:
    """The options of the command that these arguments run."""
    return [option for each in _command(arguments).params for option in each.opts]


def _command(arguments: Sequence[str]) -> Any:
    """The command that these arguments run."""
    found: Any = typer.main.get_command(app)
    for argument in arguments:
        found = getattr(found, "commands", {}).get(argument, found)
    return found
