"""What goes over the wire to a server of chat completions, and what its special answers become."""

import pytest

from components.errors import ApiIncompatible, BudgetSpent, ConfigurationError
from tests.components.generation.api.engines import engine_on, generate, make_request, texts
from tests.components.generation.api.wire_server import (
    MODEL,
    Reply,
    WireServer,
    chat_completion,
    choice,
    openai_error,
)


def test_one_request_asks_for_all_candidates(wire: WireServer) -> None:
    request = make_request("state", instructions="Who you are.", seeds=(5, 6, 7), max_new_tokens=9, temperature=0.5)
    with engine_on(wire, "openai") as engine:
        assert texts(generate(engine, request)) == [["state/0", "state/1", "state/2"]]
    (exchange,) = wire.exchanges
    seed = exchange.body.pop("seed")
    assert 0 <= seed < 2**31
    assert exchange.path == "/v1/chat/completions"
    assert exchange.body == {
        "model": MODEL,
        "messages": [{"role": "system", "content": "Who you are."}, {"role": "user", "content": "state"}],
        "max_completion_tokens": 9,
        "n": 3,
        "temperature": 0.5,
    }


def test_the_seed_of_a_request_follows_from_those_of_its_candidates(wire: WireServer) -> None:
    with engine_on(wire, "openai", max_requests_at_once=1) as engine:
        generate(
            engine, make_request("a", seeds=(1, 2)), make_request("a", seeds=(1, 2)), make_request("a", seeds=(1, 3))
        )
    first, again, other = (body["seed"] for body in wire.bodies)
    assert first == again != other


def test_a_server_without_n_is_asked_once_a_candidate_with_a_seed_each(wire: WireServer) -> None:
    with engine_on(wire, "openai", max_choices=1) as engine:
        assert texts(generate(engine, make_request("a", seeds=(1, 2, 3)), make_request("b"))) == [["a/0"] * 3, ["b/0"]]
    assert all("n" not in body for body in wire.bodies)
    assert len({body["seed"] for body in wire.bodies}) == 3


def test_more_candidates_than_one_request_may_ask_for_are_split(wire: WireServer) -> None:
    with engine_on(wire, "openai", max_choices=2, max_requests_at_once=1) as engine:
        assert texts(generate(engine, make_request("a", seeds=(1, 2, 3)))) == [["a/0", "a/1", "a/0"]]
    assert [body.get("n") for body in wire.bodies] == [2, None]


def test_the_dialect_of_older_servers_and_of_reasoning_models(wire: WireServer) -> None:
    with engine_on(wire, "openai", max_tokens_field="max_tokens", sends_seed=False, fixed_temperature=True) as engine:
        generate(engine, make_request("a", max_new_tokens=4))
    assert wire.bodies == [{"model": MODEL, "messages": [{"role": "user", "content": "a"}], "max_tokens": 4}]


def test_choices_are_taken_by_their_index(wire: WireServer) -> None:
    wire.script.append(Reply(body=chat_completion(choice("second", 1), choice("first", 0))))
    with engine_on(wire, "openai") as engine:
        assert texts(generate(engine, make_request("a", seeds=(1, 2)))) == [["first", "second"]]


def test_each_choice_has_its_own_finish_reason(wire: WireServer) -> None:
    wire.script.append(Reply(body=chat_completion(choice("a", 0), choice("b", 1, reason="length"))))
    with engine_on(wire, "openai") as engine:
        (answers,) = generate(engine, make_request("q", seeds=(1, 2)))
    assert [answer.finish_reason for answer in answers] == ["stop", "length"]


def test_refusals_are_data(wire: WireServer) -> None:
    wire.script.extend(
        [
            Reply(body=chat_completion(choice(None, refusal="I cannot help with that."))),
            Reply(body=chat_completion(choice("so f", reason="content_filter"))),
            openai_error(400, "The prompt triggered the content management policy.", code="content_filter"),
        ]
    )
    with engine_on(wire, "openai", max_requests_at_once=1) as engine:
        answers = generate(engine, make_request("a"), make_request("b"), make_request("c", seeds=(1, 2)))
        assert texts(answers) == [["I cannot help with that."], ["so f"], ["", ""]]
        assert {answer.finish_reason for answers_K in answers for answer in answers_K} == {"stop"}
        assert (engine.usage.num_refusals, engine.usage.num_failed_requests) == (4, 0)


def test_an_answer_without_usage_is_charged_with_its_bound(wire: WireServer) -> None:
    wire.script.append(Reply(body=chat_completion(choice("a"), usage=False)))
    with engine_on(wire, "openai", output_price=1.0) as engine:
        generate(engine, make_request("a", max_new_tokens=50))
        assert engine.usage.cost == pytest.approx(50e-6)
        assert engine.usage.num_unmetered_requests == 1


def test_an_answer_outside_the_protocol_is_named_with_a_remedy(wire: WireServer) -> None:
    strange: list[tuple[object, str]] = [
        (chat_completion(choice("a")), "gave 1 choices where n asked for 2; set policies.critic.api.max_choices to 1"),
        (chat_completion(choice("a"), choice("b", 1), answer_tokens=103), "set policies.critic.api.max_tokens_field"),
        (chat_completion(choice("a", reason="eos_token"), choice("b", 1)), "eos_token"),
        ({"choices": "none"}, "an unexpected form"),
        ([], "an unexpected form"),
        ({"id": "msg_1", "content": []}, r"policies.critic.api.provider 'openai'"),
    ]
    with engine_on(wire, "openai") as engine:
        for body, remedy in strange:
            wire.script.append(Reply(body=body))
            with pytest.raises(ApiIncompatible, match=remedy):
                generate(engine, make_request("a", seeds=(1, 2), max_new_tokens=50))
        assert engine.usage.num_failed_requests == len(strange)
        wire.script.append(Reply(body=chat_completion(choice("a"), choice("b", 1), answer_tokens=102)))
        assert texts(generate(engine, make_request("a", seeds=(1, 2), max_new_tokens=50))) == [["a", "b"]]


def test_no_credit_left_is_permanent(wire: WireServer) -> None:
    wire.script.append(openai_error(429, "You exceeded your current quota.", code="insufficient_quota"))
    with engine_on(wire, "openai") as engine, pytest.raises(BudgetSpent, match="OPENAI_API_KEY has no credit left"):
        generate(engine, make_request("a"))


def test_stop_strings_are_sent_and_a_refusal_of_them_has_a_remedy(wire: WireServer) -> None:
    with engine_on(wire, "openai") as engine:
        generate(engine, make_request("a", stop=("END", "\n")))
        with pytest.raises(ConfigurationError, match=r"use fewer or no agents\.<role>\.stop"):
            generate(engine, make_request("b", stop=tuple("abcde")))
    assert wire.bodies[0]["stop"] == ["END", "\n"]
