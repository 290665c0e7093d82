"""Failures of both providers: what is retried and how, what each becomes, and that the key is in none of it."""

import logging
import pickle
import socket
import sys
import traceback
from typing import Any

import pytest

from components.errors import (
    ApiIncompatible,
    ApiUnavailable,
    ConfigurationError,
    PermanentError,
    ServiceMissing,
    TransientError,
    TroupeError,
)
from components.generation.api import chat
from components.generation.api.engine import open_api_generator
from components.generation.api.http import MAX_ANSWER_BYTES
from tests.components.generation.api.engines import PROVIDERS, config_for, engine_on, generate, make_request, texts
from tests.components.generation.api.wire_server import KEY, MODEL, Reply, WireServer, wire_server

VARIABLES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
SOON = {"retry-after": "0.02"}


def make_failure(status: int, **settings: Any) -> Reply:
    return Reply(status, {"error": {"message": "said by the server"}}, **settings)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_may_pass_is_retried_and_counted(wire: WireServer, provider: str) -> None:
    statuses = (408, 409, 429, 500, 503, 529)
    wire.script.extend(make_failure(status, headers=SOON) for status in statuses)
    with engine_on(wire, provider, max_retries=len(statuses)) as engine:
        assert texts(generate(engine, make_request("a"))) == [["a/0"]]
        usage = engine.usage
    assert (usage.num_requests, usage.num_retries, usage.num_failed_requests) == (1, len(statuses), 0)
    assert len(wire.exchanges) == 1 + len(statuses)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_server_says_how_long_to_wait(wire: WireServer, provider: str) -> None:
    wire.script.append(make_failure(429, headers={"retry-after": "0.7"}))
    with engine_on(wire, provider, max_retries=1) as engine:
        generate(engine, make_request("a"))
    first, second = wire.exchanges
    # Without the header the SDKs wait at most 0.5 s before the first retry.
    assert second.at - first.at >= 0.65


@pytest.mark.parametrize("provider", PROVIDERS)
def test_after_all_retries_it_is_transient(wire: WireServer, provider: str) -> None:
    statuses = (408, 409, 429, 500, 529)
    with engine_on(wire, provider, max_retries=1, output_price=1.0) as engine:
        for status in statuses:
            wire.script.extend([make_failure(status, headers=SOON)] * 2)
            with pytest.raises(ApiUnavailable, match=rf"'{MODEL}' at .* answered {status}: .*said by the server"):
                generate(engine, make_request("a"))
        usage = engine.usage
    assert (usage.num_requests, usage.num_retries, usage.num_failed_requests, usage.cost) == (5, 5, 5, 0.0)
    assert len(wire.exchanges) == 2 * len(statuses)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_slow_answer_is_given_up_and_charged_with_its_bound(wire: WireServer, provider: str) -> None:
    wire.script.append(Reply(delay_seconds=0.4))
    with engine_on(wire, provider, timeout_seconds=0.1, output_price=1.0) as engine:
        with pytest.raises(ApiUnavailable, match=r"timed out.*timeout_seconds 0\.1"):
            generate(engine, make_request("a", max_new_tokens=50))
        assert engine.usage.cost == pytest.approx(50e-6)
        assert engine.usage.num_unmetered_requests == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_timeout_is_retried(wire: WireServer, provider: str) -> None:
    wire.script.append(Reply(delay_seconds=1.2))
    with engine_on(wire, provider, timeout_seconds=0.6, max_retries=1) as engine:
        assert texts(generate(engine, make_request("a"))) == [["a/0"]]
        assert engine.usage.num_retries == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_nobody_there_is_transient_and_costs_nothing(wire: WireServer, provider: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with engine_on(wire, provider, base_url=nobody, output_price=1.0) as engine:
            with pytest.raises(ApiUnavailable, match=r"did not answer.*Connection refused"):
                generate(engine, make_request("a"))
            assert (engine.usage.cost, engine.usage.num_failed_requests) == (0.0, 1)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_broken_json_is_transient_and_another_kind_of_document_is_not(wire: WireServer, provider: str) -> None:
    kinds: list[tuple[Reply, type[TroupeError]]] = [
        (Reply(body=b'{"choices": [{"index"'), ApiUnavailable),
        (Reply(body=b"\xff\xfe\x00", content_type="application/json; charset=utf-8"), ApiUnavailable),
        (Reply(body=b"<html>Welcome</html>", content_type="text/html"), ApiIncompatible),
    ]
    with engine_on(wire, provider) as engine:
        for reply, error in kinds:
            wire.script.append(reply)
            with pytest.raises(error, match="no JSON document"):
                generate(engine, make_request("a"))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("settings", "request_settings", "remedy"),
    [
        ({"api_key": "sk-other"}, {}, r"{variable} holds a key that is not accepted"),
        ({"api_key": None}, {}, r"{variable} is not set"),
        ({"model": "wire-9"}, {}, r"check policies\.critic\.api\.model 'wire-9' and policies\.critic\.api\.base_url"),
        ({}, {"temperature": 2.5}, r"set policies\.critic\.api\.fixed_temperature to True"),
    ],
)
def test_the_users_mistakes_are_permanent_and_have_a_remedy(
    wire: WireServer, provider: str, settings: dict[str, Any], request_settings: dict[str, Any], remedy: str
) -> None:
    said = remedy.replace("{variable}", VARIABLES[provider])
    with engine_on(wire, provider, max_retries=3, **settings) as engine:
        with pytest.raises(ConfigurationError, match=said):
            generate(engine, make_request("a", **request_settings))
        assert (engine.usage.num_failed_requests, engine.usage.cost) == (1, 0.0)
    assert len(wire.exchanges) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_errors_survive_a_border_between_processes(wire: WireServer, provider: str) -> None:
    for status, kind in ((400, PermanentError), (500, TransientError)):
        wire.script.append(make_failure(status))
        with engine_on(wire, provider) as engine, pytest.raises(kind) as caught:
            generate(engine, make_request("a"))
        again = pickle.loads(pickle.dumps(caught.value))
        assert (type(again), str(again)) == (type(caught.value), str(caught.value))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_key_is_in_no_error_log_or_representation(
    wire: WireServer, provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    for status in (400, 401, 500):
        wire.script.append(Reply(status, {"error": {"message": f"got the header Bearer {KEY}", "code": KEY}}))
    wire.script.append(make_failure(503))
    wire.script.append(Reply(200, f"not JSON but {KEY}".encode()))
    wire.script.append(Reply(200, {KEY: 1}))
    caplog.set_level(logging.DEBUG)
    with engine_on(wire, provider) as engine:
        for _ in range(6):
            with pytest.raises(TroupeError) as caught:
                generate(engine, make_request("a"))
            shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
            assert KEY not in shown + repr(caught.value)
        held = [engine, engine.usage, *vars(engine).values(), *vars(vars(engine)["_client"]).values()]
        assert not [repr(value) for value in held if KEY in repr(value)]
    assert len(wire.exchanges) == 6
    assert KEY in wire.exchanges[0].headers["authorization"]
    assert KEY not in caplog.text


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_half_of_the_key_is_left_where_an_error_is_cut(wire: WireServer, provider: str) -> None:
    with engine_on(wire, provider) as engine:
        for num_before in range(250, 300):
            wire.script.append(Reply(500, {"error": {"message": "." * num_before + KEY}}))
            with pytest.raises(ApiUnavailable) as caught:
                generate(engine, make_request("a"))
            assert KEY[:6] not in str(caught.value)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_providers_own_server_needs_a_key(wire: WireServer, provider: str) -> None:
    for key in (None, ""):
        with pytest.raises(ConfigurationError, match=rf"policies\.critic\.api: .* set {VARIABLES[provider]}"):
            open_api_generator("critic", config_for(wire, provider, base_url=None), api_key=key)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_key_with_a_line_break_is_named_without_being_shown(wire: WireServer, provider: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{VARIABLES[provider]} holds a blank") as caught:
        open_api_generator("critic", config_for(wire, provider), api_key=f"{KEY}\n")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_sdks_take_neither_key_nor_address_from_the_environment(
    wire: WireServer, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = provider.upper()
    with wire_server() as elsewhere:
        monkeypatch.setenv(f"{name}_BASE_URL", elsewhere.base_url(provider))
        monkeypatch.setenv(f"{name}_API_KEY", KEY)
        monkeypatch.setattr(chat, "PROVIDER_ADDRESSES", {provider: wire.base_url(provider)})
        with engine_on(wire, provider, base_url=None) as engine:
            generate(engine, make_request("a"))
        with engine_on(wire, provider, api_key=None) as engine, pytest.raises(ConfigurationError):
            generate(engine, make_request("a"))
        assert elsewhere.exchanges == []
    assert [KEY in exchange.headers["authorization"] for exchange in wire.exchanges] == [True, False]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_without_the_sdk_the_message_says_how_to_get_it(
    wire: WireServer, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, provider, None)
    monkeypatch.delitem(sys.modules, f"components.generation.api.{provider}_client", raising=False)
    with pytest.raises(ServiceMissing, match="make extras"):
        open_api_generator("critic", config_for(wire, provider), api_key=KEY)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(body=b"x" * (MAX_ANSWER_BYTES + 1)), "more than 8 MiB"),
        (Reply(body=b"x", headers={"Content-Encoding": "gzip"}), "in the encoding 'gzip'"),
        (Reply(body=b"[" * 100_000), "nested too deep"),
        (Reply(body=b"[" + b"[]," * 1_100_000 + b"0]"), "at most 500000 are read"),
    ],
    ids=["endless", "packed", "deep", "many"],
)
def test_an_answer_that_would_fill_the_memory_is_refused_by_name(
    wire: WireServer, provider: str, reply: Reply, words: str
) -> None:
    wire.script.append(reply)
    with engine_on(wire, provider) as engine, pytest.raises((ApiIncompatible, ApiUnavailable), match=words):
        generate(engine, make_request("hello"))
