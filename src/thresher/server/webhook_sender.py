"""Posts alerts to webhooks: a thread that sends what is due, so that no round ever waits for a receiver."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import httpx

from thresher._version import __version__
from thresher.errors import ThresherError
from thresher.server.webhooks import Webhook
from thresher.unreachable import trusted

if TYPE_CHECKING:
    from thresher.roles.coordinator.alerts import AlertKeeper, Delivery

log = logging.getLogger("thresher.server")

SECONDS = 5.0
"""A receiver must answer within this time, from the name's look-up to the status."""
AT_ONCE = 8
"""How many messages are on their way at a time."""
SIGNATURE = "Thresher-Signature"
_LOOK_SECONDS = 1.0


class WebhookSender(threading.Thread):
    """Sends the alerts that are due until it is stopped.

    Guarantee: posts to the given addresses only: no redirect is followed and no proxy of the environment is used. Only
    the status of an answer is read; any status from 200 to 299 says that the message was taken. A message is marked as
    sent after it was taken, so a crash in between sends it again, with the same id. No address is logged.
    """

    def __init__(
        self,
        alerts: AlertKeeper,
        webhooks: Iterable[Webhook],
        *,
        secret: str | None = None,
        claim: Callable[[], None] = lambda: None,
        seconds: float = SECONDS,
    ) -> None:
        """`secret` signs messages. `claim` raises while another server owns the store."""
        super().__init__(name="webhooks", daemon=True)
        self._alerts = alerts
        self._webhooks = {webhook.name: webhook for webhook in webhooks}
        self._secret = None if secret is None else secret.encode()
        self._claim = claim
        self._seconds = seconds
        self._ended = threading.Event()
        self._said: dict[str, str] = {}  # the last problem of each webhook, so that each is logged once

    def run(self) -> None:
        """Send until stopped."""
        with asyncio.Runner() as runner:
            while not self._ended.is_set():
                if not self._look(runner):
                    self._ended.wait(_LOOK_SECONDS)

    def stop(self) -> None:
        """Finish what is on its way and end."""
        self._ended.set()

    def send_due(self) -> int:
        """Send what is due now, at most `AT_ONCE` messages; how many that were."""
        with asyncio.Runner() as runner:
            return self._send_due(runner)

    def _look(self, runner: asyncio.Runner) -> int:
        """Send what is due. An error is logged, and the next look is made all the same."""
        try:
            self._claim()
            return self._send_due(runner)
        except ThresherError:  # the store is away, which the coordinator's loop counts
            return 0
        except Exception as error:
            log.error("alerts could not be sent: %s", type(error).__name__)
            return 0

    def _send_due(self, runner: asyncio.Runner) -> int:
        deliveries = self._alerts.due_deliveries(AT_ONCE)
        if deliveries:
            outcomes = runner.run(self._send_all(deliveries))
            for delivery, problem in zip(deliveries, outcomes, strict=True):
                self._note(delivery, problem)
        return len(deliveries)

    def _note(self, delivery: Delivery, problem: str | None) -> None:
        if problem is None:
            self._alerts.note_sent(delivery)
            self._said.pop(delivery.webhook, None)
            return
        self._alerts.note_failed(delivery)
        if self._said.get(delivery.webhook) != problem:
            self._said[delivery.webhook] = problem
            log.warning("the webhook %s did not take an alert: %s", delivery.webhook, problem)

    async def _send_all(self, deliveries: Iterable[Delivery]) -> list[str | None]:
        async with httpx.AsyncClient(
            verify=trusted(), follow_redirects=False, trust_env=False, timeout=self._seconds
        ) as client:
            return await asyncio.gather(*(self._send(client, delivery) for delivery in deliveries))

    async def _send(self, client: httpx.AsyncClient, delivery: Delivery) -> str | None:
        """Post one message; None if it was taken, and otherwise what went wrong, in words without the address."""
        webhook = self._webhooks.get(delivery.webhook)
        if webhook is None:
            return "the operator does not allow it any more"
        headers = {"Content-Type": "application/json", "User-Agent": f"thresher/{__version__}"}
        if self._secret is not None:
            headers[SIGNATURE] = f"sha256={hmac.new(self._secret, delivery.body, hashlib.sha256).hexdigest()}"
        try:
            # httpx limits each step of a request. This limits all of them together.
            async with (
                asyncio.timeout(self._seconds),
                client.stream("POST", webhook.url, content=delivery.body, headers=headers) as answer,
            ):
                return None if answer.is_success else f"it answered {answer.status_code}"
        except TimeoutError:
            return "it did not answer in time"
        except Exception as error:  # whatever a receiver does, the message waits for its next try
            return type(error).__name__
