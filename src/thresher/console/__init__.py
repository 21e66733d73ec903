"""The web page that an analyst opens: see the fleet, ask a question, watch it answered, trust the number.

Server-rendered pages in the coordinator's process, with a little JavaScript of our own. Pages load nothing from other
hosts.
Needs the extra `server`.
"""

from thresher.console.ports import (
    AnalystService,
    Caller,
    EnrolledDevice,
    EnrolmentKey,
    Operations,
    SealingKey,
    SeriesService,
    Token,
    TokenChecker,
)
from thresher.console.routing import routes

__all__ = [
    "AnalystService",
    "Caller",
    "EnrolledDevice",
    "EnrolmentKey",
    "Operations",
    "SealingKey",
    "SeriesService",
    "Token",
    "TokenChecker",
    "routes",
]
