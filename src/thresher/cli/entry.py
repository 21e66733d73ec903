"""Where the command starts. Nothing large is imported here, so that Ctrl-C is answered from the beginning."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Run the command. Ctrl-C ends it quietly also while it is still being imported, which takes a second."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:
        # An exception may be lost between two modules; there is nothing to clean up yet.
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from thresher.cli.app import main as run

    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, usual)
    run()
