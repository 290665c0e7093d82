"""What goes over the wire to the Messages API, and what its special answers become."""

import pytest

from components.errors import ApiIncompatible, BudgetSpent, ConfigurationError
from tests.components.generation.api.engines import engine_on, generate, make_request, texts
from tests.components.generation.api.wire_server import (
    MODEL,
    NUM_PROMPT_TOKENS,
    Reply,
    WireServer,
    anthropic_error,
    message,
)


def test_each_candidate_is_a_request(wire: WireServer) -> None:
    request = make_request("state", instructions="Who you are.", seeds=(5, 6, 7), max_new_tokens=9, temperature=0.5)
    with engine_on(wire, "anthropic") as engine:
        assert texts(generate(engine, request)) == [["state/0"] * 3]
        assert engine.usage.num_prompt_tokens == 3 * NUM_PROMPT_TOKENS
    assert {exchange.path for exchange in wire.exchanges} == {"/v1/messages"}
    assert (
        wire.bodies
        == [
            {
                "model": MODEL,
                "system": "Who you are.",
                "messages": [{"role": "user", "content": "state"}],
                "max_tokens": 9,
                "temperature": 0.5,
            }
        ]
        * 3
    )


def test_a_model_that_takes_no_temperature_is_sent_none_under_the_newer_protocol(wire: WireServer) -> None:
    with engine_on(wire, "anthropic", fixed_temperature=True) as engine:
        generate(engine, make_request("a", temperature=0.0))
    (exchange,) = wire.exchanges
    assert "temperature" not in exchange.body
    assert exchange.headers["anthropic-version"] > "2023-06-01"


def test_a_temperature_that_the_model_refuses_has_a_remedy(wire: WireServer) -> None:
    with (
        engine_on(wire, "anthropic") as engine,
        pytest.raises(ConfigurationError, match=r"set policies\.critic\.api\.fixed_temperature to True"),
    ):
        generate(engine, make_request("a", temperature=1.5))


def test_only_blocks_of_text_are_the_answer(wire: WireServer) -> None:
    body = message("one", " two")
    body["content"].insert(0, {"type": "thinking", "thinking": "hm", "signature": "s"})
    wire.script.append(Reply(body=body))
    with engine_on(wire, "anthropic") as engine:
        assert texts(generate(engine, make_request("a"))) == [["one two"]]


def test_stop_reasons(wire: WireServer) -> None:
    finishes = {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "refusal": "stop",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
    }
    with engine_on(wire, "anthropic") as engine:
        for reason, finish in finishes.items():
            wire.script.append(Reply(body=message(*([] if reason == "refusal" else ["a"]), reason=reason)))
            ((completion,),) = generate(engine, make_request("a"))
            assert completion.finish_reason == finish
        assert engine.usage.num_refusals == 1


def test_an_answer_outside_the_protocol_is_named(wire: WireServer) -> None:
    strange: list[object] = [{"type": "message", "content": []}, {**message("a"), "stop_reason": None}, "text"]
    with engine_on(wire, "anthropic") as engine:
        for body in strange:
            wire.script.append(Reply(body=body))
            with pytest.raises(ApiIncompatible, match=r"policies\.critic\.api\.provider 'anthropic'"):
                generate(engine, make_request("a"))


def test_no_credit_left_is_permanent(wire: WireServer) -> None:
    wire.script.append(anthropic_error(402, "billing_error", "Your credit balance is too low."))
    with engine_on(wire, "anthropic") as engine, pytest.raises(BudgetSpent, match="ANTHROPIC_API_KEY has no credit"):
        generate(engine, make_request("a"))


def test_stop_strings_are_sent(wire: WireServer) -> None:
    with engine_on(wire, "anthropic") as engine:
        generate(engine, make_request("a", stop=("END",)))
    assert wire.bodies[0]["stop_sequences"] == ["END"]
