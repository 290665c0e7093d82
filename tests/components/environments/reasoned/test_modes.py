"""Both ways of reading answers in every environment: what reaches a step, what agents are told, and scripted play."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.environments.registry import family, family_options
from components.environments.shared.answer_extraction import REASON_FIRST
from components.errors import ConfigurationError, MalformedAction
from components.text.think_tags import without_thinking
from tests.components.environments.reasoned.guessing import Guess, Marked
from tests.components.environments.reasoned.test_readings import TABLES, build, build_own, heard
from tests.components.environments.social.games import ALONE
from tests.components.environments.test_parser_bounds import AnyTools
from troupe.testing import check_environment

PIECES = st.sampled_from(
    (
        *("U", "[U, R]", "12", "\n", " ", "```", "```python\n", "print(1)", '{"tool":"pay"}', "? a", "= b", "1 => 2"),
        *("think>", "<thinking>", "</thinking>", "< think>", "\\boxed{4}", "Answer: 4", "pay;", '"', "'", "`", "é"),
        *("<", "/"),
    )
)
TEXTS = st.lists(PIECES, max_size=12).map("".join).filter(lambda text: "<think>" not in text and "</think>" not in text)


SEATS = [
    *((name, {}, role) for name in ALONE for role in family(name).roles),
    ("plan_path", {"tool": "python"}, "tool_agent"),
    ("math", {"prose": True}, "reasoner"),
]


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_a_text_without_the_tags_is_left_as_it_is(text: str) -> None:
    assert without_thinking(text) == text


@pytest.mark.parametrize("name", TABLES)
def test_compact_answers_reach_a_step_unchanged(name: str) -> None:
    options, _, rows = TABLES[name]
    env = build(name, options, "strict")
    for row in rows:
        if "think>" not in row.text:
            assert heard(env, row.role, row.text) == [row.text]


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_any_compact_text_reaches_a_step_unchanged(text: str) -> None:
    env = build("plan_path", {}, "strict")
    assert heard(env, "plan_agent", text) == [text]


THOUGHTS = {
    "<think>a</think> b": "b",
    "a</think>\n\nb": "b",
    "<think>a</think><think>b</think>c": "c",
    "a <think>b</think> c": "a  c",
    "b <think>c</think>": "b",
    '<think>I write "</think>" first.</think> b': "b",
    "<think>it's</think>it's": "it's",
    '<think>It is 5" wide.</think> {"b": 1}': '{"b": 1}',
    "<think>'tis so</think> 'b'": "'b'",
    '<think>I say "b"</think>"b"': '"b"',
    '<think>5" by "</think>" x</think>b': "b",
    "<think>a ` b</think> `b`": "`b`",
    '<think>5" wide</think> "b\n<think>6" high</think> "c': '"b\n "c',
    '<think>The format is "<think>...</think> answer".</think> {"b": 1}': '{"b": 1}',
    "<think>Format: `<think>..</think> [U]`. Fine.</think> It is `b`": "It is `b`",
    '<think>I must write "a </think> b" then.</think>{"b": 1}': '{"b": 1}',
    'print("<think>")': 'print("<think>")',
    "split('</think>')": "split('</think>')",
    "Use `<think>` tags.": "Use `<think>` tags.",
    "```python\n# ends at </think> here\n```": "```python\n# ends at </think> here\n```",
    "```\nopen code\n</think>\nb": "b",
    "<thinking>a</thinking>": "<thinking>a</thinking>",
}


@pytest.mark.parametrize("text", THOUGHTS)
def test_thinking_is_left_out(text: str) -> None:
    assert without_thinking(text) == THOUGHTS[text]


@pytest.mark.parametrize(
    "text",
    ["<think>", "<think>[U]", "a <think> b", "<think>a</think> <think>b", '<think>"</think>"', "```\n1\n```\n<think>"],
)
def test_thinking_that_never_ends_is_malformed(text: str) -> None:
    with pytest.raises(MalformedAction, match="never ends"):
        without_thinking(text)


@pytest.mark.parametrize("text", ["<think>a</think>", "a</think> \n", "<think></think>\n<think>b</think>"])
def test_thinking_without_an_answer_is_malformed(text: str) -> None:
    with pytest.raises(MalformedAction, match="no answer follows"):
        without_thinking(text)


@pytest.mark.parametrize("answers", ["strict", "free"])
@pytest.mark.parametrize(("name", "options", "role"), SEATS)
def test_thinking_is_no_answer_in_any_environment(
    name: str, options: Mapping[str, Any], role: str, answers: Any
) -> None:
    env = build(name, options, answers)
    for text in ("<think>[U] \\boxed{5} print(1)", "<think>1 => 1\n= ann\n? ann\npay</think>"):
        env = build(name, options, answers)
        assert env.referee.calls(env.position, role, text) == ()
        outcome = env.apply(role, text)
        assert "thinking" in str(outcome.error)
        assert outcome.local["malformed"] == 1.0


def test_a_box_in_thinking_is_not_the_answer() -> None:
    for answers in ("strict", "free"):
        env: Any = build("math", {"prose": True}, answers)
        env.apply("reasoner", "<think>\\boxed{5}</think> the answer is \\boxed{4}")
        assert env.position.state.progress.answer == "4"


@pytest.mark.parametrize(("name", "options", "role"), SEATS)
def test_instructions_say_that_one_may_reason_and_how_the_answer_ends(
    name: str, options: Mapping[str, Any], role: str
) -> None:
    compact, reasoned = (build(name, options, answers).observe(role) for answers in ("strict", "free"))
    assert compact.state == reasoned.state
    assert REASON_FIRST not in compact.instructions
    told, _, ending = reasoned.instructions.rpartition(REASON_FIRST)
    assert ending.strip().endswith(".")
    assert not any(alone in told for alone in (" and nothing else", "nothing but"))
    assert compact.instructions.startswith(told[:40])


@pytest.mark.parametrize(("name", "options", "role"), SEATS)
def test_scripted_answers_mean_the_same_in_both_modes(name: str, options: Mapping[str, Any], role: str) -> None:
    checked: Any = family_options(name, options)
    chosen: Any = family(name, "free")
    rng = Random(5)
    for index in range(3):
        problem = chosen.problem(checked, split="train", index=index, seed=3)
        reasoned, compact = chosen.build(problem, AnyTools()), family(name).build(problem, AnyTools())
        if index == 1:
            reasoned.position = chosen.scramble(reasoned.position, rng, reasoned.referee.tools)
            compact.position = reasoned.position
        before = reasoned.position
        noisy = [chosen.noisy_expert_action(reasoned.position, role, noise=noise, rng=rng) for noise in (0.3, 0.9)]
        for answer in (
            chosen.expert_action(reasoned.position, role),
            *noisy,
            chosen.random_action(reasoned.position, role, rng),
        ):
            for env in (reasoned, compact):
                env.position = before
            announced = [env.referee.calls(env.position, role, answer) for env in (reasoned, compact)]
            assert announced[0] == announced[1]
            assert reasoned.apply(role, answer) == compact.apply(role, answer)
            assert reasoned.observe(role).state == compact.observe(role).state


def test_a_family_reads_as_it_was_made() -> None:
    assert build("plan_path", {}, "free").referee.rules.answer_format == "free"
    assert family("plan_path") is not family("plan_path", "free")
    assert build("plan_path", {}, "strict").referee.rules.answer_format == "strict"


def test_an_own_environment_reads_its_own_endings() -> None:
    env = build_own(Marked())
    assert heard(env, "guesser", "Hm! I say !12! now") == ["12"]
    told = env.observe("guesser").instructions
    assert told == f"Answer with a whole number.\n{REASON_FIRST} {Marked.answer_ending}"


class Silent(Marked):
    def final_answer(self, state: Any, agent: str, text: str) -> Any:
        return None


class Cutting(Guess):
    def final_answer(self, state: Any, agent: str, text: str) -> str:
        return text[:-1]


def test_an_ending_that_is_no_text_names_the_method() -> None:
    env = build_own(Silent())
    with pytest.raises(ConfigurationError, match=r"final_answer\(\) returned NoneType, not text, for 'guesser'"):
        env.apply("guesser", "12")


def test_the_contract_of_an_own_environment_covers_reasoned_answers() -> None:
    check_environment(Guess, num_problems=4, answer_format="free")
    check_environment(Cutting, num_problems=4)
    with pytest.raises(AssertionError, match=r"let final_answer\(\) return such answers as they are"):
        check_environment(Cutting, num_problems=4, answer_format="free")
