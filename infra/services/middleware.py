"""The middleware in front of a local server: who may ask, and what to do when its database is busy.

`guard_app` refuses foreign hosts, foreign pages, and requests without the password; a browser that opens a page comes to
`login.py`. `RepeatingBusyRequests` repeats requests that
found the database busy inside the server, instead of seconds later by the client: SQLite refuses a transaction that reads and
then writes after another has written; Prefect answers 503, and its client waits two seconds before it retries. The transaction
was rolled back, so the server may retry as the client would.
"""

import asyncio
import base64
import binascii
import hmac
from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.authentication import AuthCredentials, AuthenticationBackend, AuthenticationError, BaseUser, SimpleUser
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infra.services.login import CHALLENGE, ENTER, PAGE, VERIFY, Login, LoginPages, is_navigation, redirect_to_login
from infra.services.loopback import LOOPBACK
from infra.services.secrets import USER

HOSTS = (LOOPBACK, "localhost")
FIRST_DELAY_SECONDS = 0.02
NUM_ATTEMPTS = 7
"""They take 1.3 s with doubled delays. The client gets the last answer, and may retry later."""


def guard_app(app: ASGIApp, login: Login | None = None, *, open_path: str | None = None) -> ASGIApp:
    """`app` behind checks on HTTP and websocket requests: no foreign host name (DNS rebinding), no page of another origin.

    A browser without the password of `login` that opens a page is sent to the login page. Where the browser keeps the password,
    every path but `open_path` requires it, with the name USER, by HTTP Basic; where pages keep it, `app` itself asks for it.
    """
    inner = app if login is None else LoginPages(app, login)
    asking = AuthenticationMiddleware(inner, _OwnCallers(login, open_path), on_error=_refusal)
    return TrustedHostMiddleware(asking, allowed_hosts=HOSTS, www_redirect=False)


class _OwnCallers(AuthenticationBackend):
    def __init__(self, login: Login | None, open_path: str | None) -> None:
        self._login = login
        self._open_paths = (PAGE, VERIFY, open_path)

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, BaseUser]:
        if _is_foreign_page(conn):
            raise AuthenticationError("pages of another origin are refused", HTTPStatus.FORBIDDEN)
        if (
            self._login is not None
            and conn.scope["path"] not in self._open_paths
            and not self._lets_in(conn, self._login)
        ):
            raise AuthenticationError("a name and a password are required", HTTPStatus.UNAUTHORIZED)
        return AuthCredentials(), SimpleUser(USER)

    def _lets_in(self, conn: HTTPConnection, login: Login) -> bool:
        if login.storage_key is not None:
            return not is_navigation(conn) or conn.scope["path"].startswith("/api/") or login.is_marked(conn)
        return hmac.compare_digest(_basic_credentials(conn), f"{USER}:{login.password}".encode())


def _is_foreign_page(conn: HTTPConnection) -> bool:
    """Whether another server's page sent the request. Following a link is allowed; sending a form or showing a frame is not."""
    hosts = conn.headers.getlist("host")
    if any(urlsplit(origin).netloc not in hosts for origin in conn.headers.getlist("origin")):
        return True
    from_elsewhere = conn.headers.get("sec-fetch-site") in ("cross-site", "same-site")
    return from_elsewhere and conn.headers.get("sec-fetch-dest") != "document"


def _basic_credentials(conn: HTTPConnection) -> bytes:
    """The request's `name:password`; empty without one."""
    scheme, _, encoded = conn.headers.get("authorization", "").partition(" ")
    try:
        return base64.b64decode(encoded, validate=True) if scheme.lower() == "basic" else b""
    except (binascii.Error, ValueError):
        return b""


def _refusal(conn: HTTPConnection, error: Exception) -> Response:
    message, status = error.args
    if status == HTTPStatus.UNAUTHORIZED and is_navigation(conn) and conn.scope["path"] != ENTER:
        return redirect_to_login(conn)
    return PlainTextResponse(
        message, status_code=status, headers=CHALLENGE if status == HTTPStatus.UNAUTHORIZED else None
    )


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
            if await self._answer(scope, _replay(messages, receive), send):
                return
            await asyncio.sleep(FIRST_DELAY_SECONDS * 2**attempt)
        await self._app(scope, _replay(messages, receive), send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> bool:
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


def _replay(messages: Sequence[Message], receive: Receive) -> Receive:
    """A `receive` that returns the messages of a request again, then new ones."""
    kept = iter(messages)

    async def next_message() -> Message:
        return next(kept, None) or await receive()

    return next_message
