"""Play of a block: batching, failures, and what passes their border."""

from dataclasses import replace
from typing import Any

import pytest

from components.environments.base import Step, Tools
from components.errors import ConfigurationError, StoreUnavailable
from components.rewards.base import Rubric
from components.rollout.play import play
from components.rollout.router import RoleBinding, Router
from components.rollout.rules import Start
from tests.components.generation.scripted import CharacterTokenizer, ScriptedGenerator
from tests.components.rollout.toy_team import (
    ALPHABET,
    RUBRIC,
    VERSION,
    RecordingGenerator,
    Toy,
    ToyFamily,
    ToyState,
    team_rules,
    toy_problems,
    toy_router,
)


def test_one_engine_call_serves_all_live_episodes_and_candidates_of_a_node() -> None:
    family, engine = ToyFamily(2), RecordingGenerator()
    starts = [Start(problem=each.problem, episode=0) for each in toy_problems(family, 6, done_rate=0.0)]
    rules = team_rules(0.0, group_size=5)
    rules = replace(rules, turn_order=family.roles, max_turns=3)
    play(starts, rules, family=family, router=toy_router(family, engine), rubric=RUBRIC)
    assert [[len(request.seeds_K) for request in call] for call in engine.calls] == [[5] * 6] * 6


def test_sampling_a_block_at_once_equals_sampling_one_problem_at_a_time() -> None:
    family = ToyFamily(3)
    starts = [Start(problem=e.problem, episode=0) for e in toy_problems(family, 12, failure_rate=0.02)]
    rules = replace(team_rules(0.5), turn_order=family.roles, max_turns=4)
    together = play(starts, rules, family=family, router=toy_router(family), rubric=RUBRIC)
    alone = [play([s], rules, family=family, router=toy_router(family), rubric=RUBRIC)[0] for s in starts]
    assert together == tuple(alone)
    assert {e.error is None for e in together} == {True, False}


def test_a_failure_ends_one_episode_keeps_its_turns_and_says_where() -> None:
    family = ToyFamily(2)
    sound, broken = toy_problems(family, 2, done_rate=0.0)
    late = replace(broken.problem, payload={**broken.problem.payload, "fails_at": 4})
    unbuildable = replace(broken.problem, payload={**broken.problem.payload, "unbuildable": True})
    starts = [Start(problem=problem, episode=0) for problem in (sound.problem, late, unbuildable)]
    rules = replace(team_rules(0.0, group_size=2), turn_order=family.roles, max_turns=5)
    good, bad, never = play(starts, rules, family=family, router=toy_router(family), rubric=RUBRIC)
    assert good.error is None
    assert len(good.nodes) == 10
    assert bad.error is not None
    assert [str(node.group)[-9:] for node in bad.nodes] == ["t0/agent0", "t0/agent1", "t1/agent0"]
    assert bad.error.startswith("turn 1, agent1 acts: RuntimeError: broke on ")
    assert not bad.success
    assert never.error == "build: OSError: no such toy"
    assert never.nodes == ()


def test_what_concerns_the_whole_stage_passes_the_border_of_the_episode() -> None:
    family = ToyFamily(1)
    rules = replace(team_rules(0.0), turn_order=family.roles)
    start = Start(problem=toy_problems(family, 1)[0].problem, episode=0)
    illiterate = ScriptedGenerator(lambda prompt, seed: "a", CharacterTokenizer("a"), VERSION)
    with pytest.raises(ConfigurationError, match="is not in the alphabet"):
        play([start], rules, family=family, router=toy_router(family, illiterate), rubric=RUBRIC)

    class Unreachable(Toy):
        def start(self, problem: Any) -> ToyState:
            raise StoreUnavailable("sandbox image")

    with pytest.raises(StoreUnavailable):
        play([start], rules, family=ToyFamily(1, Unreachable), router=toy_router(family), rubric=RUBRIC)
    nameless = Rubric(team_weight=1.0, weights={})
    with pytest.raises(AssertionError, match="rubric has no weight"):
        play([start], rules, family=family, router=toy_router(family), rubric=nameless)


def test_an_undecodable_answer_fails_its_episode() -> None:
    class Torn(CharacterTokenizer):
        def decode(self, tokens: Any) -> str:
            if len(tokens) < 8:
                raise UnicodeDecodeError("utf-8", b"", 0, 1, "torn")
            return super().decode(tokens)

    family = ToyFamily(1)
    rules = replace(team_rules(0.0), turn_order=family.roles)
    start = Start(problem=toy_problems(family, 1)[0].problem, episode=0)
    engine = ScriptedGenerator(lambda prompt, seed: "a", Torn(ALPHABET), VERSION)
    (episode,) = play([start], rules, family=family, router=toy_router(family, engine), rubric=RUBRIC)
    assert episode.error is not None
    assert "UnicodeDecodeError" in episode.error


def test_an_answer_cut_at_its_limit_is_judged_as_the_text_it_is() -> None:
    family = ToyFamily(1)
    rules = replace(team_rules(0.0), turn_order=family.roles, max_turns=1)
    start = Start(problem=toy_problems(family, 1)[0].problem, episode=0)
    engine = ScriptedGenerator(lambda prompt, seed: "abcdef", CharacterTokenizer(ALPHABET), VERSION)
    router = toy_router(family, engine, max_new_tokens=3)
    (episode,) = play([start], rules, family=family, router=router, rubric=RUBRIC)
    assert {(c.text, c.finish_reason, len(c.tokens)) for c in episode.nodes[0].candidates} == {("abc", "length", 3)}


def test_a_failed_episode_is_no_success_even_where_the_state_says_so() -> None:
    class Lucky(Toy):
        def step(self, state: ToyState, agent: str, answer: str, tools: Tools) -> Step:
            return replace(super().step(state, agent, answer, tools), success=True)

    family = ToyFamily(1, Lucky)
    problem = toy_problems(family, 1, done_rate=0.0)[0].problem
    broken = replace(problem, payload={**problem.payload, "fails_at": 2})
    rules = replace(team_rules(0.0), turn_order=family.roles)
    starts = [Start(problem=problem, episode=0), Start(problem=broken, episode=0)]
    episodes = play(starts, rules, family=family, router=toy_router(family), rubric=RUBRIC)
    assert [(episode.success, episode.error is None) for episode in episodes] == [(True, True), (False, False)]


def test_a_node_says_at_which_temperature_of_its_agents_own_it_was_drawn() -> None:
    family = ToyFamily(2)
    (problem,) = toy_problems(family, 1, done_rate=0.0)
    seat = RoleBinding(policy="p", prompt_format="compact", max_new_tokens=8)
    for play_at, own in ((1.0, 0.7), (0.0, None)):
        seats = {"agent0": seat, "agent1": replace(seat, temperature=0.7)}
        router = Router({"p": RecordingGenerator()}, seats=seats, versions={"p": VERSION})
        rules = replace(team_rules(0.0, group_size=2), temperature=play_at)
        (episode,) = play(
            [Start(problem=problem.problem, episode=0)], rules, family=family, router=router, rubric=RUBRIC
        )
        assert [node.temperature for node in episode.nodes] == [None, own] * 2


def test_the_environment_reads_an_answer_up_to_its_stop_string_and_all_tokens_are_kept() -> None:
    family = ToyFamily(2)
    (problem,) = toy_problems(family, 1, done_rate=0.0)
    engine = ScriptedGenerator(lambda prompt, seed: "ab|c", CharacterTokenizer(ALPHABET), VERSION)
    seat = RoleBinding(policy="p", prompt_format="compact", max_new_tokens=8, stop=("|",))
    router = Router({"p": engine}, seats=dict.fromkeys(family.roles, seat), versions={"p": VERSION})
    start = Start(problem=problem.problem, episode=0)
    (episode,) = play([start], team_rules(0.0, group_size=2), family=family, router=router, rubric=RUBRIC)
    assert {c.text for node in episode.nodes for c in node.candidates} == {"ab"}
    assert {len(c.tokens) for node in episode.nodes for c in node.candidates} == {5}
