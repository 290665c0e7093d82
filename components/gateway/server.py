"""The gateway over HTTP: on a port, with a key, and on one Unix socket for each session."""

import asyncio
import hmac
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web
from aiohttp.typedefs import Middleware

from components.errors import ConfigurationError, TransientError
from components.gateway.base import AgentRequest, RequestRefused
from components.gateway.dialects.messages import write_token_count
from components.gateway.dialects.table import CHAT, COUNT_TOKENS_PATH, DIALECTS, MESSAGES, Dialect
from components.gateway.dialects.wire import BODY_KEEP_ALIVE, STREAM_KEEP_ALIVE, write_json, write_models
from components.gateway.gateway import Answered, Gateway, Unanswered
from components.gateway.guarded_socket import WIRE_LOG, GuardedSocket, bind_socket, guard_session
from components.gateway.sessions import AgentSession, Asking, IsOpen
from components.machine.closeable import Closeable
from components.text.bounded_json import parse_bounded_json

T = TypeVar("T")

MAX_BODY_BYTES = 4 << 20
MAX_VALUES = 100_000
"""Of a body's JSON."""
KEEP_ALIVE_SECONDS = 10.0
"""How long a client waits without a byte."""
_START_SECONDS = 10.0
_STOP_SECONDS = 5.0
_NUM_FINDING = 4
"""Threads that read records and write prompts."""
_SUB_AGENT_HEADERS = ("x-claude-code-parent-agent-id", "x-openai-subagent", "x-parent-session-id")
"""Of Claude Code, codex, opencode and pi."""
_RETRY_HEADER = "x-stainless-retry-count"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Seat:
    """A session, and the gateway that answers it; None: that of the server that it comes to.

    `models` are the gateway's models by further names; `sub_agents` is that of requests whose headers name a sub-agent, empty
    if these do not matter.
    """

    session: AgentSession
    gateway: Gateway | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    sub_agents: str = ""

    def name_model(self, asked: AgentRequest, headers: Mapping[str, str]) -> AgentRequest:
        """The request with the gateway's own name of its model."""
        if self.sub_agents and any(headers.get(name) for name in _SUB_AGENT_HEADERS):
            return replace(asked, model=self.sub_agents)
        return replace(asked, model=self.models.get(asked.model, asked.model))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """Where requests come in, and the seat of a key; None for a key of no session. A socket needs no key."""

    find_seat: Callable[[str], Seat | None]

    @classmethod
    def for_one(cls, session: AgentSession, key: str | None = None, **names: Any) -> "Entrance":
        """That of one session, with its key; None: whoever reaches it. `names` are those of its seat."""
        seat = Seat(session, **names)
        return cls(find_seat=lambda given: seat if key is None or _is_equal(given, key) else None)


class GatewayServer(Closeable):
    """Serves a gateway, or those of its sessions, from a thread of its own, until it is closed."""

    def __init__(self, gateway: Gateway | None = None, *, num_at_once: int = 1) -> None:
        """`num_at_once` answers are sampled at once, of all gateways; a server's own gateway has a number of its own."""
        self.gateway = gateway
        self._loop = asyncio.new_event_loop()
        self._finding = ThreadPoolExecutor(_NUM_FINDING, thread_name_prefix="gateway-records")
        # One alone samples in the order in which requests came.
        self._answering = ThreadPoolExecutor(
            gateway.num_at_once if gateway else num_at_once, thread_name_prefix="gateway-answers"
        )
        self._runners: list[web.AppRunner] = []
        self._sockets: dict[Path, GuardedSocket] = {}
        self._last: dict[web.RequestHandler, tuple[Asking, IsOpen]] = {}
        """The last answer on each connection, and what tells whether it is still asked there."""
        self.failure: Exception | None = None
        """The first error of an engine or of a journal."""
        self._thread = threading.Thread(target=self._loop.run_forever, name="gateway", daemon=True)
        self._thread.start()

    def listen(self, host: str, port: int, entrance: Entrance) -> str:
        """Take requests at an address; its URL, with the port that was free if `port` is 0. Raises ConfigurationError."""
        try:
            runner = self._run(self._listen(entrance, host, port))
        except OSError as error:
            raise ConfigurationError(
                f"port {port}: {host} cannot be listened on ({error}); name another port"
            ) from error
        bound_host, bound_port = runner.addresses[0][:2]
        return f"http://{f'[{bound_host}]' if ':' in bound_host else bound_host}:{bound_port}"

    def open_socket(self, path: Path, entrance: Entrance) -> None:
        """Take the requests of one session at a Unix socket, from all who reach its folder. Raises ConfigurationError."""
        try:
            self._sockets[path] = self._run(self._open_socket(entrance, path))
        except OSError as error:
            raise ConfigurationError(f"{path}: no socket can be opened there ({error})") from error

    def close_socket(self, path: Path) -> None:
        """Take no more requests there."""
        self._run(self._sockets.pop(path).close())
        path.unlink(missing_ok=True)

    def close(self) -> None:
        """Stop listening. Requests in flight are cut off; their clients ask again."""
        for path in tuple(self._sockets):
            self.close_socket(path)
        for runner in self._runners:
            self._run(runner.cleanup())
        self._runners.clear()
        self._run(_end_others())
        for pool in (self._finding, self._answering):
            pool.shutdown(wait=True, cancel_futures=True)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_SECONDS)

    async def _listen(self, entrance: Entrance, host: str, port: int) -> web.AppRunner:
        runner = await self._make_runner(entrance)
        await web.TCPSite(runner, host, port).start()
        self._runners.append(runner)
        return runner

    async def _open_socket(self, entrance: Entrance, path: Path) -> GuardedSocket:
        listening = bind_socket(path)
        try:
            return GuardedSocket(await self._make_runner(entrance, guard_session()), listening)
        except BaseException:
            listening.close()
            raise

    async def _make_runner(self, entrance: Entrance, *middlewares: Middleware) -> web.AppRunner:
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=middlewares)
        for path, dialect in DIALECTS.items():
            app.router.add_post(path, partial(self._answer, entrance, dialect))
        app.router.add_post(COUNT_TOKENS_PATH, partial(self._count, entrance))
        app.router.add_get("/v1/models", partial(self._list_models, entrance))
        app.router.add_get("/health", _say_well)
        app.router.add_get("/", _say_well)
        app.router.add_route("*", "/{tail:.*}", _say_unknown)
        runner = web.AppRunner(
            app,
            access_log=None,
            logger=WIRE_LOG if middlewares else _log,
            shutdown_timeout=_STOP_SECONDS,
            handler_cancellation=False,
        )
        await runner.setup()
        assert runner.server is not None
        runner.server.connection_lost = partial(self._note_end, runner.server.connection_lost)  # type: ignore[method-assign]
        return runner

    def _note_end(
        self, also: Callable[..., None], connection: web.RequestHandler, error: BaseException | None = None
    ) -> None:
        """A connection that is reset has lost the last answer on it: who had read all of it would have closed it."""
        asking, is_open = self._last.pop(connection, (None, None))
        if asking is not None and asking.is_open is is_open and error is not None:
            asking.is_delivered = False
        also(connection, error)

    async def _answer(self, entrance: Entrance, dialect: Dialect, request: web.Request) -> web.StreamResponse:
        try:
            seat = find_seat(entrance, request.headers)
            asked = dialect.read(await _read_body(request), seat.session.known[dialect.path])
        except RequestRefused as refused:
            return _refuse(dialect, refused)
        gateway, session = self._find_gateway(seat), seat.session
        finding = partial(
            gateway.find,
            session,
            seat.name_model(asked, request.headers),
            lambda: _is_open(request),
            is_marked_retry=_is_marked_retry(request.headers),
        )
        answering = asyncio.ensure_future(self._find_or_sample(gateway, finding))
        response = await _wait(request, asked, answering)
        try:
            answered = await answering
        except (RequestRefused, RecursionError) as error:
            why = error if isinstance(error, RequestRefused) else RequestRefused("the body is nested too deep")
            return await _deliver_refusal(asked, dialect, why, response)
        except Exception as error:  # the border of a request: its client gets an error of its dialect, never a trace
            _log.exception("a request for %s failed", asked.model)
            self.failure = self.failure or error
            session.failure = session.failure or error
            if response is not None:
                raise ConnectionResetError("the answer failed after the response had begun") from error
            return _refuse(dialect, _failure(error))
        try:
            return await self._deliver(request, asked, dialect, answered, response)
        except ConnectionResetError:  # the client is gone; what it asked for is recorded
            return web.Response(status=499)

    async def _deliver(
        self,
        request: web.Request,
        asked: AgentRequest,
        dialect: Dialect,
        answered: Answered,
        response: web.StreamResponse | None,
    ) -> web.StreamResponse:
        if _is_open(request):
            self._last[request.protocol] = (answered.asking, answered.asking.is_open)
        if asked.wants_stream:
            body = b"".join(dialect.stream(asked, answered.answer))
        else:
            body = write_json(dialect.write(asked, answered.answer))
        response = response or await _begin(request, asked, body)
        if not isinstance(response, web.Response):
            await response.write(body)
        await response.write_eof()
        answered.asking.is_delivered = _is_open(request)
        return response

    def _find_gateway(self, seat: Seat) -> Gateway:
        gateway = seat.gateway or self.gateway
        assert gateway is not None, f"session {seat.session.name} has no gateway"
        return gateway

    async def _find_or_sample(self, gateway: Gateway, finding: Callable[[], Answered | Unanswered]) -> Answered:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._finding, finding)
        if isinstance(found, Answered):
            return found
        return await loop.run_in_executor(self._answering, gateway.sample_answer, found)

    async def _count(self, entrance: Entrance, request: web.Request) -> web.StreamResponse:
        try:
            seat = find_seat(entrance, request.headers)
            gateway = self._find_gateway(seat)
            read = MESSAGES.read(await _read_body(request), seat.session.known[MESSAGES.path])
            asked = seat.name_model(read, request.headers)
            counting = partial(gateway.count_tokens, asked)
            num_tokens = await asyncio.get_running_loop().run_in_executor(self._finding, counting)
        except RequestRefused as refused:
            return _refuse(MESSAGES, refused)
        return web.json_response(write_token_count(num_tokens))

    async def _list_models(self, entrance: Entrance, request: web.Request) -> web.StreamResponse:
        try:
            gateway = self._find_gateway(find_seat(entrance, request.headers))
        except RequestRefused as refused:
            return _refuse(CHAT, refused)
        return web.json_response(write_models(list(gateway.models)))


async def _end_others() -> None:
    """End what still waits for a client that is slow or gone."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def find_seat(entrance: Entrance, headers: Mapping[str, str]) -> Seat:
    """The seat of a request's key, from either of the two headers. Raises RequestRefused."""
    given = headers.get("x-api-key") or headers.get("Authorization", "").removeprefix("Bearer ")
    if (seat := entrance.find_seat(given)) is None:
        raise RequestRefused(
            "this key is none of the gateway's; send it as Authorization: Bearer or x-api-key",
            status=401,
            code="invalid_api_key",
        )
    return seat


def _is_equal(given: str, key: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), key.encode())


async def _read_body(request: web.Request) -> Mapping[str, Any]:
    try:
        body = parse_bounded_json(await request.read(), max_values=MAX_VALUES)
    except web.HTTPRequestEntityTooLarge as error:
        raise RequestRefused(f"the body has more than {MAX_BODY_BYTES >> 20} MiB", status=413) from error
    except (ValueError, LookupError) as error:
        raise RequestRefused(f"the body is not read: {error}") from error
    if not isinstance(body, dict):
        raise RequestRefused(f"the body is a {type(body).__name__}; send a JSON object")
    return body


async def _wait(
    request: web.Request, asked: AgentRequest, answering: asyncio.Future[Answered]
) -> web.StreamResponse | None:
    """The begun response of a client that had to be kept waiting, once there is an answer; None if there was one in time."""
    response = None
    while not (await asyncio.wait([answering], timeout=KEEP_ALIVE_SECONDS))[0]:
        if _is_open(request):
            response = response or await _begin(request, asked)
            await response.write(STREAM_KEEP_ALIVE if asked.wants_stream else BODY_KEEP_ALIVE)
    return response


async def _begin(request: web.Request, asked: AgentRequest, body: bytes | None = None) -> web.StreamResponse:
    """The response of which `body` is all, if it is known already and no stream."""
    kind = "text/event-stream" if asked.wants_stream else "application/json"
    headers = {"Content-Type": kind, "Cache-Control": "no-store"}
    is_whole = body is not None and not asked.wants_stream
    response = web.Response(body=body, headers=headers) if is_whole else web.StreamResponse(headers=headers)
    await response.prepare(request)
    return response


async def _deliver_refusal(
    asked: AgentRequest, dialect: Dialect, why: RequestRefused, response: web.StreamResponse | None
) -> web.StreamResponse:
    if response is None:
        return _refuse(dialect, why)
    await response.write(dialect.stream_refusal(why) if asked.wants_stream else write_json(dialect.write_refusal(why)))
    return response


def _refuse(dialect: Dialect, refused: RequestRefused) -> web.Response:
    return web.json_response(dialect.write_refusal(refused), status=refused.status)


def _failure(error: Exception) -> RequestRefused:
    status = 503 if isinstance(error, TransientError) else 500
    return RequestRefused("the policy cannot be asked now; the gateway's log says why", status=status)


def _is_open(request: web.Request) -> bool:
    return request.transport is not None and not request.transport.is_closing()


def _is_marked_retry(headers: Mapping[str, str]) -> bool:
    count = headers.get(_RETRY_HEADER, "0")
    return count.isascii() and count.isdigit() and count.strip("0") != ""


async def _say_well(request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def _say_unknown(request: web.Request) -> web.Response:
    known = ", ".join([*DIALECTS, COUNT_TOKENS_PATH, "/v1/models", "/health"])
    message = f"{request.method} {request.path[:200]} is not served; there are {known}"
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": "not_found"}
    return web.json_response({"error": error}, status=404)
