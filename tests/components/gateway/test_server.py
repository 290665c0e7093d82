"""The gateway over HTTP, with the clients that agents use."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from components.errors import ConfigurationError, EngineUnavailable
from components.gateway import guarded_socket
from components.gateway import server as gateway_server
from components.gateway.server import Entrance, GatewayServer, Seat
from components.generation.base import Completion, GenerationRequest
from tests.components.gateway.clients.fault_proxy import FaultProxy
from tests.components.gateway.talks import ADD, ask, say
from tests.components.gateway.test_gateway import Kept, Scripted, open_gateway, open_session, serve

KEY = "the key of this session"
QUESTION = [{"role": "user", "content": "q"}]
FORM = {"model": "main", "messages": QUESTION}


class Slow(Scripted):
    """An engine that answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()
        self.fails = False

    def sample(self, policy: str, request: GenerationRequest) -> tuple[Completion, ...]:
        assert self.may_answer.wait(20)
        if self.fails:
            raise EngineUnavailable("no server answers at 10.0.0.9")
        return super().sample(policy, request)


@pytest.fixture
def engine() -> Slow:
    slow = Slow()
    slow.may_answer.set()
    return slow


@pytest.fixture
def url(engine: Slow) -> Iterator[str]:
    entrance = Entrance.for_one(open_session(journal=Kept()), KEY)
    with GatewayServer(open_gateway(engine)) as server:
        yield server.listen("127.0.0.1", 0, entrance)


def open_openai(url: str, **also: Any) -> openai.OpenAI:
    return openai.OpenAI(**{"base_url": f"{url}/v1", "api_key": KEY, **also})


def open_anthropic(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key=KEY)


def test_three_dialects_ask_one_policy(url: str, engine: Slow) -> None:
    with open_openai(url) as client, open_anthropic(url) as other:
        texts = [
            client.chat.completions.create(model="main", messages=QUESTION).choices[0].message.content,  # type: ignore[arg-type]
            client.responses.create(model="main", input="q").output_text,
            other.messages.create(model="main", max_tokens=64, messages=QUESTION).content[0].text,  # type: ignore[arg-type, union-attr]
        ]
        with client.chat.completions.create(model="main", messages=QUESTION, stream=True) as stream:  # type: ignore[call-overload]
            texts.append("".join(chunk.choices[0].delta.content or "" for chunk in stream))
        assert other.messages.count_tokens(model="main", messages=QUESTION).input_tokens == len(
            engine.asked[0].prompt_tokens
        )  # type: ignore[arg-type]
        assert (
            [each.id for each in client.models.list()] == [each.id for each in other.models.list()] == ["main", "other"]
        )
    assert len(set(texts)) == 4, "four samples of one request, whatever it is written in"
    assert len({each.prompt_tokens for each in engine.asked}) == 1


def test_keys_and_names_are_checked(url: str) -> None:
    with open_openai(url, api_key="another") as client, pytest.raises(openai.AuthenticationError):
        client.models.list()
    with httpx.Client(base_url=url) as client:
        for headers in ({"Authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}):
            assert client.post("/v1/chat/completions", json=FORM, headers=headers).status_code == 200
        assert client.post("/v1/chat/completions", json=FORM).status_code == 401
        unknown = client.post(
            "/v1/messages", json={**FORM, "model": "gpt", "max_tokens": 4}, headers={"x-api-key": KEY}
        )
        assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "not_found_error")
        assert "main, other" in unknown.json()["error"]["message"]
        assert client.head("/").status_code == client.get("/health").status_code == 200
        absent = client.get("/v1/files")
        assert (absent.status_code, "/v1/responses" in absent.json()["error"]["message"]) == (404, True)


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 400), (b"[]", 400), (b"{", 400), (b"[" * 100_000, 400), (b'{"a":' * 50_000, 400), (b"\xff\xfe\x00", 400)],
)
def test_a_hostile_body_is_refused(url: str, body: bytes, status: int) -> None:
    refused = httpx.post(f"{url}/v1/chat/completions", content=body, headers={"x-api-key": KEY})
    assert refused.status_code == status
    assert refused.json()["error"]["message"]


def test_a_body_that_is_too_long_is_refused(url: str, monkeypatch: pytest.MonkeyPatch, engine: Slow) -> None:
    monkeypatch.setattr(gateway_server, "MAX_BODY_BYTES", 1000)
    with GatewayServer(open_gateway(engine)) as server:
        short = server.listen("127.0.0.1", 0, Entrance.for_one(open_session()))
        long = {**FORM, "messages": [{"role": "user", "content": "q" * 2000}]}
        assert httpx.post(f"{short}/v1/chat/completions", json=long).status_code == 413


@pytest.mark.parametrize("streams", [False, True])
def test_who_gives_up_and_asks_again_is_sampled_for_once(url: str, engine: Slow, streams: bool) -> None:
    """As codex, opencode and Claude Code do: no header says that it is a retry."""
    engine.may_answer.clear()
    with httpx.Client(base_url=url, headers={"x-api-key": KEY}) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post("/v1/chat/completions", json={**FORM, "stream": streams}, timeout=0.3)
        engine.may_answer.set()
        again = client.post("/v1/chat/completions", json=FORM)
        assert again.status_code == 200
        assert len(engine.asked) == 1
        assert client.post("/v1/chat/completions", json=FORM).json() != again.json(), "then it wants another sample"


def test_a_recorded_answer_waits_for_no_engine(url: str, engine: Slow) -> None:
    journal = Kept()
    first = open_gateway(engine).answer(open_session(journal=journal), ask(say("q")), lambda: True)
    with GatewayServer(open_gateway(engine)) as server, httpx.Client(timeout=20) as client:
        place = f"{server.listen('127.0.0.1', 0, Entrance.for_one(open_session(journal=journal)))}/v1/chat/completions"
        engine.may_answer.clear()
        other = {**FORM, "messages": [{"role": "user", "content": "another question"}]}
        asking = [threading.Thread(target=httpx.post, args=(place,), kwargs={"json": other}) for _ in range(6)]
        for each in asking:
            each.start()
        assert client.post(place, json=FORM).json()["choices"][0]["message"]["content"] == first.answer.text
        engine.may_answer.set()
        for each in asking:
            each.join()
    assert len(engine.asked) == 7


@pytest.mark.parametrize("streams", [False, True])
def test_an_answer_whose_connection_is_reset_is_asked_again(url: str, engine: Slow, streams: bool) -> None:
    """As by a network that breaks within the answer, when all of it was written: no header says that it is a retry."""
    with (
        FaultProxy(url, "within", at=0) as proxy,
        httpx.Client(base_url=proxy.url, headers={"x-api-key": KEY}) as client,
    ):
        form = {**FORM, "stream": streams}
        with pytest.raises(httpx.RemoteProtocolError):
            client.post("/v1/chat/completions", json=form)
        again = client.post("/v1/chat/completions", json=form)
        assert len(engine.asked) == 1
        assert client.post("/v1/chat/completions", json=form).text != again.text, "then it wants another sample"


def test_a_client_that_is_gone_is_no_error(url: str, engine: Slow, caplog: pytest.LogCaptureFixture) -> None:
    engine.may_answer.clear()
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/v1/chat/completions", json=FORM, headers={"x-api-key": KEY}, timeout=0.3)
    engine.may_answer.set()
    assert httpx.post(f"{url}/v1/chat/completions", json=FORM, headers={"x-api-key": KEY}).status_code == 200
    assert not caplog.records


def test_a_client_that_tries_again_by_itself_finds_its_answer(url: str, engine: Slow) -> None:
    """The OpenAI SDK's own retries, which it marks."""
    engine.may_answer.clear()
    threading.Timer(0.6, engine.may_answer.set).start()
    with open_openai(url, timeout=0.4, max_retries=4) as client:
        client.chat.completions.create(model="main", messages=QUESTION)  # type: ignore[arg-type]
    assert len(engine.asked) == 1


@pytest.mark.parametrize("streams", [False, True])
def test_who_waits_is_kept_waiting(url: str, engine: Slow, monkeypatch: pytest.MonkeyPatch, streams: bool) -> None:
    monkeypatch.setattr(gateway_server, "KEEP_ALIVE_SECONDS", 0.1)
    engine.may_answer.clear()
    threading.Timer(0.8, engine.may_answer.set).start()
    with open_openai(url, timeout=httpx.Timeout(5, read=0.4), max_retries=0) as client:
        if streams:
            with client.chat.completions.create(model="main", messages=QUESTION, stream=True) as stream:  # type: ignore[call-overload]
                text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        else:
            text = client.chat.completions.create(model="main", messages=QUESTION).choices[0].message.content or ""  # type: ignore[arg-type]
    assert text.startswith("word")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_an_engine_that_is_away_is_said_without_its_secrets(url: str, engine: Slow, path: str) -> None:
    engine.fails = True
    away = httpx.post(f"{url}{path}", json={**FORM, "max_tokens": 4}, headers={"x-api-key": KEY})
    assert away.status_code == 503
    assert "10.0.0.9" not in away.text
    with httpx.Client(base_url=url, headers={"x-api-key": KEY}) as client:
        engine.fails = True
        assert client.post(path, json={**FORM, "max_tokens": 4}).status_code == 503
        engine.fails = False
        again = client.post(path, json={**FORM, "max_tokens": 4})
    alone = Slow()
    alone.may_answer.set()
    first = open_gateway(alone).answer(open_session(), ask(say("q"), max_tokens=4), lambda: True)
    assert first.answer.text in again.text, "on the same connection it is the first answer, no second sample"


@pytest.mark.parametrize("header", ["x-claude-code-parent-agent-id", "x-openai-subagent", "x-parent-session-id"])
def test_a_sub_agent_and_a_fixed_name_of_a_model_find_their_roles(engine: Slow, header: str) -> None:
    engine.may_answer.set()
    session = open_session()
    seat = Seat(session, None, {"claude-opus-4-8": "main"}, "second")
    with GatewayServer(open_gateway(engine, models={"main": serve(), "second": serve("second")})) as server:
        url = server.listen("127.0.0.1", 0, Entrance(find_seat=lambda key: seat))
        for headers in ({}, {header: "7"}, {header: ""}):
            form = {**FORM, "model": "claude-opus-4-8", "messages": [{"role": "user", "content": f"{headers}"}]}
            asked = httpx.post(f"{url}/v1/chat/completions", json=form, headers=headers)
            assert (asked.status_code, asked.json()["model"]) == (200, "claude-opus-4-8")
        unknown = httpx.post(f"{url}/v1/chat/completions", json={**FORM, "model": "gpt"})
        assert unknown.status_code == 404
        assert "main, second" in unknown.text
    assert [call.model for call in session.kept.values()] == ["main", "second", "main"]


def test_a_socket_is_the_identity_of_its_session(tmp_path: Path, engine: Slow) -> None:
    sessions = [open_session(name=f"s{number}") for number in range(8)]
    with GatewayServer(open_gateway(engine)) as server:
        for session in sessions:
            server.open_socket(tmp_path / session.name, Entrance.for_one(session))
        for session in (*sessions, sessions[0]):
            transport = httpx.HTTPTransport(uds=str(tmp_path / session.name))
            with httpx.Client(transport=transport, base_url="http://gateway") as client:
                assert client.post("/v1/chat/completions", json=FORM).status_code == 200
        assert [len(session.kept) for session in sessions] == [2] + [1] * 7
        with pytest.raises(ConfigurationError, match="no socket can be opened"):
            server.open_socket(tmp_path / "absent" / "s", Entrance.for_one(sessions[0]))


def test_a_session_that_is_hostile_holds_up_no_other(
    tmp_path: Path, engine: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a number of connections, a number of requests at a time, and a number of refusals."""
    monkeypatch.setattr(guarded_socket, "MOST_CONNECTIONS", 3)
    monkeypatch.setattr(guarded_socket, "MOST_REFUSED", 5)

    def ask(name: str, form: Any) -> int:
        transport = httpx.HTTPTransport(uds=str(tmp_path / name))
        with httpx.Client(transport=transport, base_url="http://gateway", timeout=2.0) as client:
            return client.post("/v1/chat/completions", json=form).status_code

    with GatewayServer(open_gateway(engine)) as server:
        for name in ("hostile", "honest"):
            server.open_socket(tmp_path / name, Entrance.for_one(open_session(name=name, journal=Kept())))
        held = [socket.socket(socket.AF_UNIX) for _ in range(4)]
        for each in held:
            each.connect(str(tmp_path / "hostile"))
        time.sleep(0.2)
        with pytest.raises(httpx.ReadTimeout):
            ask("hostile", FORM)
        assert ask("honest", FORM) == 200
        for each in held:
            each.close()
        statuses = [ask("hostile", {"model": "none", "messages": QUESTION}) for _ in range(8)]
        assert (statuses, ask("hostile", FORM)) == ([404] * 5 + [403] * 3, 403)
        assert ask("honest", FORM) == 200
        server.close_socket(tmp_path / "hostile")
        assert (tmp_path / "hostile").exists() is False
        assert ask("honest", FORM) == 200


@pytest.mark.parametrize(
    "also",
    [
        {
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "t", "parameters": {"properties": {"a": {"type": "string", "enum": 5}}}},
                }
            ]
        },
        {
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "t", "parameters": {"properties": {"a": {"type": "string", "enum": ["é"]}}}},
                }
            ]
        },
    ],
)
def test_odd_choices_are_the_agents_affair(also: dict[str, Any], engine: Slow) -> None:
    """An engine that draws among the values of a tool reads values that are none, or that it cannot write."""

    def encode_choice(text: str) -> tuple[int, ...]:
        if not text.isascii():
            raise ConfigurationError("character 'é' is not in the alphabet")
        return (1,)

    with GatewayServer(open_gateway(engine, models={"main": serve(encode_choice=encode_choice)})) as server:
        where = server.listen("127.0.0.1", 0, Entrance.for_one(open_session()))
        assert httpx.post(f"{where}/v1/chat/completions", json={**FORM, **also}).status_code in (200, 400)
        assert server.failure is None


def test_a_call_as_deep_as_a_model_likes_fails_nothing(engine: Slow) -> None:
    with GatewayServer(open_gateway(engine)) as server:
        where = server.listen("127.0.0.1", 0, Entrance.for_one(open_session()))
        for depth in range(900, 1000, 7):
            arguments = '{"a":' * depth + "1" + "}" * depth
            function = {"name": "t", "arguments": arguments}
            messages = [
                *QUESTION,
                {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]},
            ]
            status = httpx.post(
                f"{where}/v1/chat/completions", json={"model": "main", "messages": messages}
            ).status_code
            assert (status, server.failure) == (200, None)


def test_a_taken_port_is_named(url: str, engine: Slow) -> None:
    with (
        GatewayServer(open_gateway(engine)) as server,
        pytest.raises(ConfigurationError, match=r"port \d+: .*name another port"),
    ):
        server.listen("127.0.0.1", int(url.rpartition(":")[2]), Entrance.for_one(open_session()))


def test_a_closed_gateway_leaves_nothing(engine: Slow) -> None:
    before = set(threading.enumerate())
    with GatewayServer(open_gateway(engine)) as server:
        where = server.listen("127.0.0.1", 0, Entrance.for_one(open_session()))
        assert httpx.post(f"{where}/v1/chat/completions", json=FORM).status_code == 200
    deadline = time.monotonic() + 10
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before
    with pytest.raises(httpx.ConnectError):
        httpx.post(f"{where}/v1/chat/completions", json=FORM)


def test_an_agent_loop_with_tools_goes_through(url: str, engine: Slow) -> None:
    """Unmodified SDK code: a call, its result, an answer; the second prompt continues the first."""
    written = iter(['<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>', "it is 2"])
    engine.write = lambda seed: next(written)
    tools: list[Any] = [{"type": "function", "function": {"name": "add", "parameters": dict(ADD.parameters)}}]
    messages: list[Any] = list(QUESTION)
    with open_openai(url) as client:
        said = client.chat.completions.create(model="main", messages=messages, tools=tools).choices[0].message
        assert said.tool_calls
        messages.append(said)
        result = json.dumps(json.loads(said.tool_calls[0].function.arguments)["a"] + 1)  # type: ignore[union-attr]
        messages.append({"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": result})
        last = client.chat.completions.create(model="main", messages=messages, tools=tools).choices[0]
    assert (last.message.content, last.finish_reason) == ("it is 2", "stop")
    first, second = (each.prompt_tokens for each in engine.asked)
    assert second[: len(first)] == first


def test_many_connections_at_once_are_answered(url: str, engine: Slow) -> None:
    async def ask_all() -> list[int]:
        async with httpx.AsyncClient(headers={"x-api-key": KEY}, limits=httpx.Limits(max_connections=100)) as client:
            asked = [client.post(f"{url}/v1/chat/completions", json=FORM, timeout=60) for _ in range(100)]
            return [each.status_code for each in await asyncio.gather(*asked)]

    assert asyncio.run(ask_all()) == [200] * 100
    assert len(engine.asked) == 100


def test_half_a_request_holds_up_nobody(url: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        assert httpx.post(f"{url}/v1/chat/completions", json=FORM, headers={"x-api-key": KEY}).status_code == 200
