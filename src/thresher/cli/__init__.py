"""The command `thresher`: thin commands over the library, for people (Rich) and for machines (`--json`)."""

from __future__ import annotations

from thresher.cli.entry import main

__all__ = ["main"]
