"""What the tests of the lonely person share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples: paths may be in messages, and must be the same."""
    return tmp_path_factory.mktemp("lonely")
