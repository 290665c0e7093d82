"""Requests that found the database busy are repeated inside the server, not by the client seconds later.

SQLite refuses at once a transaction that has read and then wants to write after another has written. Prefect answers such a
request with 503, and its client waits two seconds before the second attempt. The transaction was rolled back, so repeating
it is what the client would do.
"""

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

FIRST_DELAY_SECONDS = 0.02
NUM_ATTEMPTS = 7
"""With doubled delays they take 1.3 s. The answer to the last one goes to the client, who tries again in his own time."""


@dataclass
class _Body:
    """The request's messages, kept so that they can be received again."""

    receive: Receive
    messages: list[Message] = field(default_factory=list)

    def from_start(self) -> Receive:
        """A `receive` that gives what has been received before what has not."""
        kept = iter(tuple(self.messages))

        async def receive() -> Message:
            for message in kept:
                return message
            message = await self.receive()
            if message["type"] == "http.request":
                self.messages.append(message)
            return message

        return receive


class RepeatingBusyRequests:
    """An ASGI app around `app`: a request answered with 503 is sent to it again, up to NUM_ATTEMPTS times in all."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection; all but HTTP requests pass through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(receive)
        for attempt in range(NUM_ATTEMPTS - 1):
            if await self._answered(scope, body, send):
                return
            await asyncio.sleep(FIRST_DELAY_SECONDS * 2**attempt)
        await self._app(scope, body.from_start(), send)

    async def _answered(self, scope: Scope, body: _Body, send: Send) -> bool:
        """Whether the app has answered with something other than 503; a 503 is not passed on."""
        is_busy = False

        async def send_unless_busy(message: Message) -> None:
            nonlocal is_busy
            if message["type"] == "http.response.start":
                is_busy = message["status"] == HTTPStatus.SERVICE_UNAVAILABLE
            if not is_busy:
                await send(message)

        try:
            # Handlers write into the scope, so each attempt gets its own.
            await self._app(dict(scope), body.from_start(), send_unless_busy)
        except Exception:
            # Starlette answers an unexpected error and then raises it for the server's log.
            if not is_busy:
                raise
        return not is_busy
