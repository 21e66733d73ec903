"""Output for people and for machines."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.console import Console

console = Console(highlight=False)


def print_json(content: Any) -> None:
    """One JSON document on standard output, nothing else."""
    typer.echo(json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False))
