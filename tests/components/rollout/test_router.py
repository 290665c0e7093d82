"""Requests of any roles reach the right policy, at once, and come back in order."""

from collections.abc import Sequence
from typing import Any

import pytest

from components.config import PromptConfig, parse_config
from components.errors import ConfigurationError, StaleEngine
from components.generation.base import Completion, GenerationRequest
from components.rollout.prompts import encode_observation
from components.rollout.router import REASONING_TOKENS, RoleBinding, RoleRequest, Router, bind_roles
from components.schema import Observation, PolicyVersion
from tests.components.generation.scripted import CharacterTokenizer
from tests.components.rollout.toy_team import RecordingGenerator

OLD = PolicyVersion(policy="small", step=0, weights_digest="a")
SMALL = PolicyVersion(policy="small", step=1, weights_digest="b")
LARGE = PolicyVersion(policy="large", step=1, weights_digest="c")


def engines() -> dict[str, RecordingGenerator]:
    return {
        "small": RecordingGenerator(SMALL, lambda prompt, seed: f"s{prompt}{seed}"),
        "large": RecordingGenerator(LARGE, lambda prompt, seed: f"l{prompt}{seed}"),
    }


def router(generators: dict[str, RecordingGenerator], small: PolicyVersion = SMALL) -> Router:
    seats = {
        "tool": RoleBinding(policy="small", prompt_format="compact", max_new_tokens=4),
        "plan": RoleBinding(policy="large", prompt_format="chat", max_new_tokens=9),
        "critic": RoleBinding(policy="small", prompt_format="compact", max_new_tokens=9),
    }
    return Router(generators, seats=seats, versions={"small": small, "large": LARGE})


def request(role: str, prompt: tuple[int, ...], seeds: tuple[int, ...]) -> RoleRequest:
    return RoleRequest(role=role, prompt_tokens=prompt, seeds_K=seeds)


def test_one_call_a_policy_and_answers_in_the_order_of_the_requests() -> None:
    generators = engines()
    asked = [
        request("tool", (1,), (5, 6)),
        request("plan", (2,), (7,)),
        request("critic", (3,), (8, 9)),
        request("plan", (4,), (1,)),
    ]
    answers = router(generators).generate(asked, temperature=1.0)
    texts = [[generators["small"].tokenizer.decode(c.tokens) for c in answer] for answer in answers]
    assert texts == [["sa5", "sa6"], ["lb7"], ["sc8", "sc9"], ["ld1"]]
    assert [[r.prompt_tokens for r in call] for call in generators["small"].calls] == [[(1,), (3,)]]
    assert [[r.max_new_tokens for r in call] for call in generators["small"].calls] == [[4, 9]]
    assert [[r.prompt_tokens for r in call] for call in generators["large"].calls] == [[(2,), (4,)]]


def test_prompts_follow_the_format_of_the_policy() -> None:
    seen = Observation(instructions="ab", state="cd")
    tokenizer = CharacterTokenizer("abcd")
    assert encode_observation(seen, tokenizer, "compact") == (3, 4)
    assert encode_observation(seen, tokenizer, "chat") == (1, 2, 3, 4)
    assert router(engines()).encode("tool", seen) == (3, 4)
    assert router(engines()).encode("plan", seen) == (1, 2, 3, 4)
    with pytest.raises(ConfigurationError, match="'é'"):
        encode_observation(Observation(instructions="", state="é"), tokenizer, "compact")


def test_an_engine_with_another_version_is_refused() -> None:
    with pytest.raises(StaleEngine):
        router(engines(), small=OLD).generate([request("tool", (1,), (5,))], temperature=1.0)


def test_an_engine_that_answers_from_another_version_is_refused() -> None:
    class Liar(RecordingGenerator):
        def generate(
            self, requests: Sequence[GenerationRequest], version: PolicyVersion
        ) -> list[tuple[Completion, ...]]:
            return [(Completion(tokens=(0,), logprobs=(-1.0,), finish_reason="stop", version=OLD),) for _ in requests]

    with pytest.raises(StaleEngine, match="answered from"):
        router({**engines(), "small": Liar()}).generate([request("tool", (1,), (5,))], temperature=1.0)


def test_a_seat_without_its_own_limit_holds_the_longest_action_and_its_end() -> None:
    config = parse_config(
        {
            "num_steps": 1,
            "environment": {"name": "plan_path"},
            "agents": {"tool": {"policy": "p", "max_new_tokens": 3}, "plan": {"policy": "q"}},
            "policies": {"p": {}, "q": {"prompt_format": "chat"}},
        }
    )
    assert bind_roles(config, max_action_characters=10) == {
        "tool": RoleBinding(policy="p", prompt_format="compact", max_new_tokens=3),
        "plan": RoleBinding(policy="q", prompt_format="chat", max_new_tokens=11),
    }


def test_answers_that_reason_first_may_be_longer_by_default() -> None:
    values = {
        "num_steps": 1,
        "environment": {"name": "plan_path", "answer_format": "free"},
        "agents": {"tool": {"policy": "p", "max_new_tokens": 3}, "plan": {"policy": "p"}},
        "policies": {"p": {}},
    }
    seats = bind_roles(parse_config(values), max_action_characters=10)
    assert {role: seat.max_new_tokens for role, seat in seats.items()} == {"tool": 3, "plan": 11 + REASONING_TOKENS}


def test_an_answer_begins_with_the_thinking_tag_that_its_prompt_ends_with() -> None:
    tokenizer = CharacterTokenizer("<think>/ab\n")
    generators = {"large": RecordingGenerator(LARGE)}
    generators["large"]._tokenizer = tokenizer
    seats = {
        "plan": RoleBinding(policy="large", prompt_format="chat", max_new_tokens=9),
        "tool": RoleBinding(policy="large", prompt_format="compact", max_new_tokens=9),
    }
    routed = Router(generators, seats=seats, versions={"large": LARGE})
    opened, closed, answer = map(tokenizer.encode, ("ab<think>\n", "<think>\n</think>\n", "a</think>b"))
    assert routed.decode("plan", answer, prompt_tokens=opened) == "<think>a</think>b"
    assert routed.decode("plan", answer, prompt_tokens=closed) == "a</think>b"
    assert routed.decode("tool", answer, prompt_tokens=opened) == "a</think>b"
    assert routed.decode("plan", answer) == "a</think>b"


def test_a_role_whose_policy_has_no_engine_is_an_error() -> None:
    with pytest.raises(AssertionError, match="plan is played by large"):
        router({"small": RecordingGenerator(SMALL)})


def test_each_role_is_asked_in_its_own_way() -> None:
    generators = engines()
    seats = {
        "tool": RoleBinding(policy="small", prompt_format="chat", max_new_tokens=4, prompt=PromptConfig(replace="dd")),
        "plan": RoleBinding(
            policy="small",
            prompt_format="chat",
            max_new_tokens=5,
            max_thinking_tokens=7,
            stop=("b",),
            temperature=0.7,
        ),
    }
    asking = Router(generators, seats=seats, versions={"small": SMALL})
    seen = Observation(instructions="ab", state="cd")
    tokenizer = generators["small"].tokenizer
    assert [tokenizer.decode(asking.encode(role, seen)) for role in seats] == ["ddcd", "abcd"]
    assert [asking.decode(role, tokenizer.encode("abc")) for role in seats] == ["abc", "a"]
    for temperature in (1.0, 0.0):
        asking.generate([request("tool", (1,), (5,)), request("plan", (2,), (6,))], temperature=temperature)
    found = [
        [(r.temperature, r.stop, r.max_new_tokens, r.max_thinking_tokens) for r in c] for c in generators["small"].calls
    ]
    assert found == [
        [(1.0, (), 4, None), (0.7, ("b",), 5, 7)],
        [(0.0, (), 4, None), (0.0, ("b",), 5, 7)],
    ]


def test_seats_hold_what_the_configuration_says() -> None:
    agent: dict[str, Any] = {"prompt": {"extend": "x"}, "temperature": 0.7, "max_thinking_tokens": 9, "stop": ["b"]}
    agent |= {"policy": "q", "max_new_tokens": None}
    config = parse_config(
        {
            "num_steps": 1,
            "environment": {"name": "plan_path", "answer_format": "strict"},
            "agents": {"plan": agent},
            "policies": {"q": {"prompt_format": "chat", "chat_template_arguments": {"enable_thinking": False}}},
        }
    )
    assert bind_roles(config, max_action_characters=10)["plan"] == RoleBinding(
        policy="q",
        prompt_format="chat",
        max_new_tokens=11,
        max_thinking_tokens=9,
        stop=("b",),
        temperature=0.7,
        prompt=PromptConfig(extend="x"),
        chat_template_arguments={"enable_thinking": False},
    )
