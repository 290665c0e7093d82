"""The guard in front of a local server: it refuses foreign hosts, foreign pages, and requests without the password."""

import base64
import binascii
import hmac
from urllib.parse import urlsplit

from starlette.authentication import AuthCredentials, AuthenticationBackend, AuthenticationError, BaseUser, SimpleUser
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from infra.services.password import USER
from infra.services.ports import LOOPBACK

HOSTS = (LOOPBACK, "localhost")


class PasswordRefused(AuthenticationError):
    """No password, or a wrong one."""


def guarded(app: ASGIApp, *, password: str | None = None, open_path: str | None = None) -> ASGIApp:
    """`app` for this machine's callers alone, HTTP and websockets: requests under another host's name (DNS rebinding) or from
    pages of another origin are refused.

    With a `password`, all but `open_path` asks for it and for the name USER, as HTTP Basic. Without one, `app` has to ask
    itself.
    """
    asking = AuthenticationMiddleware(app, _OwnCallers(password, open_path), on_error=_refusal)
    return TrustedHostMiddleware(asking, allowed_hosts=HOSTS, www_redirect=False)


class _OwnCallers(AuthenticationBackend):
    def __init__(self, password: str | None, open_path: str | None) -> None:
        self._expected = f"{USER}:{password}".encode() if password is not None else None
        self._open_path = open_path

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, BaseUser]:
        if _is_foreign_page(conn):
            raise AuthenticationError("pages of another origin are refused")
        if not self._may_enter(conn):
            raise PasswordRefused("a name and a password are asked for")
        return AuthCredentials(), SimpleUser(USER)

    def _may_enter(self, conn: HTTPConnection) -> bool:
        if self._expected is None or conn.scope["path"] == self._open_path:
            return True
        return hmac.compare_digest(_basic_credentials(conn), self._expected)


def _is_foreign_page(conn: HTTPConnection) -> bool:
    """Whether a browser says that the request comes from a page of another server, be it one of this machine.

    Following a link to here is no such request; sending a form, and showing us in a frame, is.
    """
    hosts = conn.headers.getlist("host")
    if any(urlsplit(origin).netloc not in hosts for origin in conn.headers.getlist("origin")):
        return True
    from_elsewhere = conn.headers.get("sec-fetch-site") in ("cross-site", "same-site")
    return from_elsewhere and conn.headers.get("sec-fetch-dest") != "document"


def _basic_credentials(conn: HTTPConnection) -> bytes:
    """The request's `name:password`; empty if it has none."""
    scheme, _, encoded = conn.headers.get("authorization", "").partition(" ")
    try:
        return base64.b64decode(encoded, validate=True) if scheme.lower() == "basic" else b""
    except (binascii.Error, ValueError):
        return b""


def _refusal(conn: HTTPConnection, error: Exception) -> Response:
    if isinstance(error, PasswordRefused):
        return PlainTextResponse(str(error), status_code=401, headers={"WWW-Authenticate": 'Basic realm="troupe"'})
    return PlainTextResponse(str(error), status_code=403)
