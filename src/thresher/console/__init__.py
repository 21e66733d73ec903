"""The web page that an analyst opens: see the fleet, ask a question, watch it answered, trust the number.

Server-rendered pages in the coordinator's process, with a little JavaScript of our own; no other host is ever asked.
Needs the extra `server`.
"""

from thresher.console.ports import Caller, Desk, Doorkeeper, EnrolledDevice, EnrolmentKey, Operations, SealingKey, Token
from thresher.console.routing import routes

__all__ = [
    "Caller",
    "Desk",
    "Doorkeeper",
    "EnrolledDevice",
    "EnrolmentKey",
    "Operations",
    "SealingKey",
    "Token",
    "routes",
]
