"""Both providers through the engine: order, concurrency, kept answers, cost, and the Generator's contract."""

import threading
from pathlib import Path

import pytest

from components.errors import ApiUnavailable, BudgetSpent, ConfigurationError, PermanentError, StaleEngine
from components.generation.api.chat import api_version
from components.generation.base import Generator
from components.rollout.router import RoleBinding, RoleRequest, Router
from components.schema import Observation, PolicyVersion
from tests.components.generation.api.engines import (
    PROVIDERS,
    TOKENIZER,
    config_for,
    engine_on,
    generate,
    make_request,
    texts,
)
from tests.components.generation.api.wire_server import (
    NUM_ANSWER_TOKENS,
    NUM_PROMPT_TOKENS,
    Reply,
    WireServer,
    make_answer,
)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_is_its_bytes_and_the_end_token(wire: WireServer, provider: str) -> None:
    wire.answer = lambda state, index: f"é{state}"
    with engine_on(wire, provider) as engine:
        ((completion,),) = generate(engine, make_request("go"))
    assert completion.tokens == (0xC3, 0xA9, *b"go", TOKENIZER.end_token)
    assert completion.finish_reason == "stop"
    assert completion.logprobs == ()
    assert completion.version == engine.version == api_version("critic", config_for(wire, provider))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_truncated_answer_has_no_end_token(wire: WireServer, provider: str) -> None:
    wire.script.extend([make_answer(provider, "half an ans", length=True), make_answer(provider, "", length=True)])
    with engine_on(wire, provider, max_requests_at_once=1) as engine:
        (first,), (empty,) = generate(engine, make_request("a"), make_request("b"))
    assert (first.tokens, first.finish_reason) == (tuple(b"half an ans"), "length")
    assert (empty.tokens, empty.finish_reason) == ((), "length")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_empty_answer_is_an_answer(wire: WireServer, provider: str) -> None:
    wire.answer = lambda state, index: ""
    with engine_on(wire, provider) as engine:
        ((completion,),) = generate(engine, make_request("go"))
    assert (completion.tokens, completion.finish_reason) == ((TOKENIZER.end_token,), "stop")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_half_a_surrogate_pair_on_the_wire_is_no_crash(wire: WireServer, provider: str) -> None:
    wire.answer = lambda state, index: "a\ud83d"
    with engine_on(wire, provider) as engine:
        assert texts(generate(engine, make_request("go"))) == [["a�"]]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_requests_run_side_by_side_up_to_the_limit_and_results_are_in_order(wire: WireServer, provider: str) -> None:
    four_came = threading.Barrier(4, timeout=20)
    wire.delay_of = lambda state: 0.01 * (8 - int(state)) + four_came.wait() * 0.0
    with engine_on(wire, provider, max_requests_at_once=4) as engine:
        answers = generate(engine, *(make_request(str(number)) for number in range(8)))
    assert texts(answers) == [[f"{number}/0"] for number in range(8)]
    assert wire.peak == 4


def test_the_limit_holds_over_several_calls(wire: WireServer) -> None:
    three_came = threading.Barrier(3, timeout=20)
    wire.delay_of = lambda state: 0.01 + three_came.wait() * 0.0
    with engine_on(wire, "openai", max_requests_at_once=3) as engine:
        calls = [
            threading.Thread(target=generate, args=(engine, *(make_request(str(n)) for n in range(4)))) for _ in "abc"
        ]
        for call in calls:
            call.start()
        for call in calls:
            call.join()
    assert (wire.peak, len(wire.exchanges)) == (3, 12)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_error_ends_the_call_and_a_second_attempt_asks_for_the_rest_alone(wire: WireServer, provider: str) -> None:
    wire.script.extend([Reply(), Reply(), Reply(503, {"error": {"message": "down"}})])
    requests = [make_request(str(number), seeds=(number,)) for number in range(6)]
    with engine_on(wire, provider, max_requests_at_once=1) as engine:
        with pytest.raises(ApiUnavailable, match="503"):
            generate(engine, *requests)
        assert len(wire.exchanges) == 3
        assert texts(generate(engine, *requests)) == [[f"{number}/0"] for number in range(6)]
        assert [body["messages"][-1]["content"] for body in wire.bodies[3:]] == ["2", "3", "4", "5"]
        generate(engine, *requests)
    assert len(wire.exchanges) == 3 + 4 + 6


def test_a_permanent_error_decides_over_a_transient_one(wire: WireServer) -> None:
    both_came = threading.Barrier(2, timeout=20)
    wire.delay_of = lambda state: both_came.wait() * 0.0
    wire.script.append(Reply(500, {"error": {"message": "down"}}))
    wire.script.append(Reply(400, {"error": {"message": "no"}}, delay_seconds=0.1))
    with engine_on(wire, "openai", max_requests_at_once=2) as engine, pytest.raises(ConfigurationError):
        generate(engine, make_request("a"), make_request("b"))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_tokens_requests_and_cost_are_counted(wire: WireServer, provider: str) -> None:
    prices = {"input_price": 2.0, "output_price": 10.0}
    with engine_on(wire, provider, **prices) as engine:
        generate(engine, make_request("a", seeds=(1, 2, 3)), make_request("b"))
        usage = engine.usage
    num_requests = 2 if provider == "openai" else 4
    assert (usage.num_requests, usage.num_answers) == (num_requests, 4)
    assert usage.num_prompt_tokens == num_requests * NUM_PROMPT_TOKENS
    assert usage.num_answer_tokens == 4 * NUM_ANSWER_TOKENS
    assert usage.cost == pytest.approx((usage.num_prompt_tokens * 2 + usage.num_answer_tokens * 10) / 1e6)
    assert (usage.num_retries, usage.num_failed_requests, usage.num_unmetered_requests) == (0, 0, 0)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_request_goes_out_that_could_exceed_the_bound(wire: WireServer, provider: str) -> None:
    # Each request may cost 1000 * 50 = 0.05 and costs 0.003: after 0.006 another 0.05 still fits into 0.058, after 0.009 not.
    with engine_on(wire, provider, output_price=1000.0, max_cost=0.058, max_requests_at_once=4) as engine:
        with pytest.raises(BudgetSpent, match=r"policies\.critic\.api\.max_cost 0\.058: 0\.009 is spent"):
            generate(engine, *(make_request(str(number)) for number in range(9)))
        assert engine.usage.cost == pytest.approx(0.009)
    assert len(wire.exchanges) == 3


def test_only_its_own_version_is_loaded_and_asked(wire: WireServer) -> None:
    with engine_on(wire, "openai") as engine:
        engine.load(Path("nowhere"), engine.version)
        for other in (
            PolicyVersion(policy="critic", step=1, weights_digest=engine.version.weights_digest),
            PolicyVersion(policy="critic", step=0, weights_digest="0" * 64),
        ):
            with pytest.raises(ConfigurationError, match="takes no weights"):
                engine.load(Path("nowhere"), other)
            with pytest.raises(StaleEngine):
                engine.generate([make_request("a")], other)
        assert generate(engine) == []
    assert wire.exchanges == []


def test_scoring_is_refused_for_good(wire: WireServer) -> None:
    with engine_on(wire, "openai") as engine, pytest.raises(PermanentError, match="no log-probabilities"):
        engine.score([(1,)], [(2,)])


def test_a_router_plays_a_role_with_it(wire: WireServer) -> None:
    with engine_on(wire, "anthropic") as engine:
        fits: Generator = engine
        router = Router(
            {"critic": fits},
            seats={"judge": RoleBinding(policy="critic", prompt_format="chat", max_new_tokens=9)},
            versions={"critic": engine.version},
        )
        prompt = router.encode("judge", Observation(instructions="Judge.", state="2+2=5"))
        (candidates,) = router.generate(
            [RoleRequest(role="judge", prompt_tokens=prompt, seeds_K=(1, 2))], temperature=1.0
        )
    assert [router.decode("judge", candidate.tokens) for candidate in candidates] == ["2+2=5/0"] * 2
    assert wire.bodies[0]["system"] == "Judge."
    assert wire.bodies[0]["max_tokens"] == 9


def test_closing_ends_the_threads(wire: WireServer) -> None:
    with engine_on(wire, "openai") as engine:
        generate(engine, make_request("a"))
        assert _threads()
    assert not _threads()


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("api-critic")]
