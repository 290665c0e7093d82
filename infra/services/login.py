"""The login page in front of Prefect's and MLflow's pages: a browser that opens a link comes here first, and then to the page.

Prefect's pages keep the password in the browser's storage of their origin and send it themselves. MLflow's send none: for them
the browser keeps it, as after its own dialog. A cookie would do neither: browsers send it to every port of this machine.
"""

import base64
import hashlib
import hmac
import html
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote

from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from infra.services.secrets import USER

PAGE, VERIFY, ENTER = "/troupe-login", "/troupe-login-verify", "/troupe-login-enter"
"""Beside each other: a browser sends a password it knows to all that lies in the folder of the path that first asked for it."""
_LONGEST_BODY = 4096
CHALLENGE = {"WWW-Authenticate": 'Basic realm="troupe"'}


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How a browser logs in to a server.

    `storage_key`: under which the server's pages keep the password in the browser's storage; None: the browser keeps it.
    """

    title: str
    password: str
    storage_key: str | None = None

    def mark_name(self, host: str) -> str:
        """The name of the cookie that tells a browser which has logged in here from one that has not."""
        return f"troupe-{host.rpartition(':')[2] or 'login'}"

    def mark(self, host: str) -> str:
        """The value of that cookie: it opens nothing but pages that are empty without the password."""
        return hmac.new(self.password.encode(), f"mark {host}".encode(), hashlib.sha256).hexdigest()

    def is_marked(self, conn: HTTPConnection) -> bool:
        """Whether the request comes from a browser that has logged in here."""
        host = conn.headers.get("host", "")
        return hmac.compare_digest(conn.cookies.get(self.mark_name(host), "").encode(), self.mark(host).encode())


def is_navigation(conn: HTTPConnection) -> bool:
    """Whether a browser asks for a page to show, and not a page or a program for content."""
    if conn.scope["type"] != "http" or conn.scope["method"] not in ("GET", "HEAD"):
        return False
    mode = conn.headers.get("sec-fetch-mode")
    return mode == "navigate" if mode else "text/html" in conn.headers.get("accept", "")


def redirect_to_login(conn: HTTPConnection) -> Response:
    """To the login page, which leads back. A browser keeps what follows # in the address."""
    wanted = conn.url.path + (f"?{conn.url.query}" if conn.url.query else "")
    return RedirectResponse(
        f"{PAGE}?next={quote(wanted, safe='/')}", HTTPStatus.SEE_OTHER, headers={"Cache-Control": "no-store"}
    )


class LoginPages:
    """ASGI middleware that answers the paths of the login itself."""

    def __init__(self, app: ASGIApp, login: Login) -> None:
        self._app = app
        self._login = login

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for the login; leave all others to `app`."""
        if scope["type"] != "http" or scope["path"] not in (PAGE, VERIFY, ENTER):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        response = self._verify(request, await _body(request)) if scope["path"] == VERIFY else self._show_form(request)
        response.headers["Cache-Control"] = "no-store"
        await response(scope, receive, send)

    def _show_form(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("use GET", HTTPStatus.METHOD_NOT_ALLOWED)
        target = own_path(request.query_params.get("next", "/"))
        if request.url.path == PAGE:
            return _page(self._login, target)
        if self._login.storage_key is None:
            # Behind the guard: only a browser that has sent the password comes so far.
            return RedirectResponse(target, HTTPStatus.SEE_OTHER)
        return RedirectResponse(f"{PAGE}?next={quote(target, safe='/')}", HTTPStatus.SEE_OTHER)

    def _verify(self, request: Request, body: bytes) -> Response:
        if request.method != "POST":
            return PlainTextResponse("use POST", HTTPStatus.METHOD_NOT_ALLOWED)
        if not hmac.compare_digest(body, self._login.password.encode()):
            return PlainTextResponse("wrong password", HTTPStatus.FORBIDDEN)
        response = Response(status_code=HTTPStatus.NO_CONTENT)
        if self._login.storage_key is not None:
            host = request.headers.get("host", "")
            response.set_cookie(
                self._login.mark_name(host),
                self._login.mark(host),
                max_age=365 * 86400,
                httponly=True,
                samesite="lax",
            )
        return response


def own_path(target: str) -> str:
    """`target` if it is a path of this server, else the root: a link may not lead to another one."""
    is_custom = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if is_custom and not target.startswith(PAGE) else "/"


async def _body(request: Request) -> bytes:
    """The body of a request, cut where it is longer than any password."""
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > _LONGEST_BODY:
            break
    return content


_SCRIPT = (
    """
const form = document.querySelector("form"), told = document.querySelector("output");
const target = form.dataset.next + location.hash, key = form.dataset.key;
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const password = form.elements.password.value.trim();
  try {
    const answer = await fetch("VERIFY", {method: "POST", body: password});
    if (!answer.ok) { told.textContent = "This is not the password."; return; }
  } catch (error) { told.textContent = "The server does not answer."; return; }
  if (key) { localStorage.setItem(key, btoa(password)); location.replace(target); return; }
  const enter = new XMLHttpRequest();  // with a name and a password, which the browser keeps
  enter.open("GET", "ENTER", true, "USER", password);
  enter.onloadend = () => location.replace("ENTER?next=" + encodeURIComponent(form.dataset.next) + location.hash);
  enter.send();
});
""".replace("VERIFY", VERIFY)
    .replace("ENTER", ENTER)
    .replace("USER", USER)
)
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 26em; margin: 15vh auto; padding: 0 1em; color-scheme: light dark }
input, button { font: inherit; padding: .4em .6em; width: 100%; box-sizing: border-box; margin-top: .6em }
code { overflow-wrap: anywhere }
"""


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_POLICY = (
    f"default-src 'none'; script-src {_hash(_SCRIPT)}; style-src {_hash(_STYLE)}; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


def _page(login: Login, target: str) -> Response:
    title, shown, key = (html.escape(text) for text in (login.title, target, login.storage_key or ""))
    return HTMLResponse(
        f"""<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Log in to {title}</title><style>{_STYLE}</style>
<h1>{title}</h1>
<p>Log in to see this page. <code>troupe status</code> prints where the password is.
<form method="post" data-next="{shown}" data-key="{key}">
<input name="username" value="{USER}" autocomplete="username" readonly hidden>
<input name="password" type="password" autocomplete="current-password" aria-label="Password" placeholder="Password" autofocus
 required>
<button>Log in</button> <output role="status"></output>
</form>
<noscript><p>The pages of {title} need JavaScript.</noscript>
<script>{_SCRIPT}</script></html>
""",
        headers={"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer"},
    )
