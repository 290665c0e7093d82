"""The middleware in front of a local server: refuses foreign hosts, foreign pages, and requests without the password."""

import base64
import binascii
import hmac
from http import HTTPStatus
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


def guarded(app: ASGIApp, *, password: str | None = None, open_path: str | None = None) -> ASGIApp:
    """`app` behind checks on HTTP and websocket requests: no foreign host name (DNS rebinding), no page of another origin.

    With a `password`, every path but `open_path` requires it, with the name USER, by HTTP Basic.
    """
    asking = AuthenticationMiddleware(app, _OwnCallers(password, open_path), on_error=_refusal)
    return TrustedHostMiddleware(asking, allowed_hosts=HOSTS, www_redirect=False)


class _OwnCallers(AuthenticationBackend):
    def __init__(self, password: str | None, open_path: str | None) -> None:
        self._expected = f"{USER}:{password}".encode() if password is not None else None
        self._open_path = open_path

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, BaseUser]:
        if _is_foreign_page(conn):
            raise AuthenticationError("pages of another origin are refused", HTTPStatus.FORBIDDEN)
        if (
            self._expected is not None
            and conn.scope["path"] != self._open_path
            and not hmac.compare_digest(_basic_credentials(conn), self._expected)
        ):
            raise AuthenticationError("a name and a password are required", HTTPStatus.UNAUTHORIZED)
        return AuthCredentials(), SimpleUser(USER)


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
    headers = {"WWW-Authenticate": 'Basic realm="troupe"'} if status == HTTPStatus.UNAUTHORIZED else None
    return PlainTextResponse(message, status_code=status, headers=headers)
