"""Repeats requests that found the database busy inside the server, instead of seconds later by the client.

SQLite refuses a transaction that reads and then writes after another has written. Prefect answers 503, and its client waits
two seconds before it retries. The transaction was rolled back, so the server may retry as the client would.
"""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

FIRST_DELAY_SECONDS = 0.02
NUM_ATTEMPTS = 7
"""They take 1.3 s with doubled delays. The client gets the last answer, and may retry later."""


class RepeatingBusyRequests:
    """ASGI middleware: a request answered with 503 is sent to `app` again, up to NUM_ATTEMPTS times in total."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection; only HTTP requests are repeated."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        messages = [await receive()]
        while messages[-1].get("more_body"):
            messages.append(await receive())
        for attempt in range(NUM_ATTEMPTS - 1):
            if await self._answered(scope, _replayed(messages, receive), send):
                return
            await asyncio.sleep(FIRST_DELAY_SECONDS * 2**attempt)
        await self._app(scope, _replayed(messages, receive), send)

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Whether the app answered with another status than 503; a 503 is not sent on."""
        is_busy = False

        async def send_unless_busy(message: Message) -> None:
            nonlocal is_busy
            if message["type"] == "http.response.start":
                is_busy = message["status"] == HTTPStatus.SERVICE_UNAVAILABLE
            if not is_busy:
                await send(message)

        try:
            # Handlers write into the scope, so each attempt gets a copy.
            await self._app(dict(scope), receive, send_unless_busy)
        except Exception:
            # Starlette answers an unexpected error and then raises it again for the server's log.
            if not is_busy:
                raise
        return not is_busy


def _replayed(messages: Sequence[Message], receive: Receive) -> Receive:
    """A `receive` that returns the messages of a request again, then new ones."""
    kept = iter(messages)

    async def next_message() -> Message:
        return next(kept, None) or await receive()

    return next_message
