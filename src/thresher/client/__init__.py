"""The analyst's Python: a fleet is asked like a table."""

from __future__ import annotations

from thresher.client.fleet import Fleet

__all__ = ["Fleet"]
