"""Values by continuation in a game with exact counterfactuals, and advantages of candidates in rollouts of every kind."""

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks import credit
from benchmarks.counterfactual import Rest, Valued, value_candidates
from benchmarks.credit_study import Study, Team, decisions_of, play_shard
from benchmarks.fidelity import Ranked, noise_ceiling, pool_correlations
from benchmarks.own_rollouts import Sampled, advantages, sample_rollouts
from components.environments.base import NO_TOOLS
from components.rewards.rubric import rubric_for
from components.schema import Episode
from components.session.scenario import scenario_of
from tests.benchmarks.lottery import MAX_TURNS, VERSION, drawing_engine, lottery_config, worth

NUM_DECISIONS = 30
NUM_CONTINUATIONS = 32
KINDS: dict[str, dict[str, Any]] = {
    "node": {},
    "turn_end": {"rewards": {"team_credit": "turn_end"}},
    "episode_end": {"rewards": {"team_credit": "episode_end"}},
    "c3": {"rollout": {"mode": "nested"}, "algorithm": {"advantage": "c3"}},
    "grpo": {"rollout": {"mode": "independent"}, "algorithm": {"advantage": "grpo"}},
    "dr_mas": {"rollout": {"mode": "independent"}, "algorithm": {"advantage": "dr_mas"}},
    "rloo": {"rollout": {"mode": "independent"}, "algorithm": {"advantage": "rloo"}},
    "gigpo": {"rollout": {"mode": "independent"}, "algorithm": {"advantage": "gigpo"}},
}


@pytest.fixture(scope="module")
def team() -> Team:
    return Team(
        scenario=scenario_of(lottery_config()), generators={"team": drawing_engine()}, versions={"team": VERSION},
        tools=NO_TOOLS, start={"team": "1234567890"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def decisions(team: Team) -> list[Episode]:
    drawn = play_shard(lottery_config(), team, num_problems=40)
    return decisions_of(drawn.episodes, NUM_DECISIONS, roles=team.scenario.turn_order, seed=0)


@pytest.fixture(scope="module")
def values(team: Team, decisions: list[Episode]) -> list[Valued]:
    return value_candidates(
        decisions,
        Rest(
            turn_order=team.scenario.turn_order, max_turns=MAX_TURNS, temperature=1.0,
            num_continuations=NUM_CONTINUATIONS, seed=0,
        ),
        family=team.scenario.family,
        router=team.router(),
        rubric=rubric_for(team.scenario.family, lottery_config().rewards, from_start=True),
    )  # fmt: skip


@pytest.fixture(scope="module")
def rollouts(team: Team, decisions: list[Episode]) -> Callable[[str], Sampled]:
    """The rollouts of a kind, which estimators over the same ones share."""

    @cache
    def of_sampling(kind: str) -> Sampled:
        return sample_rollouts(decisions, lottery_config(**KINDS[kind]), team.generators, team.versions)

    return lambda kind: of_sampling("grpo" if KINDS[kind].get("rollout") == {"mode": "independent"} else kind)


def means(values: Sequence[Valued]) -> list[tuple[float, ...]]:
    return [tuple(statistics.fmean(returns_C) for returns_C in each.returns_K_C) for each in values]


def test_decisions_are_of_different_problems_half_of_each_role_and_have_a_choice(decisions: list[Episode]) -> None:
    assert len({decision.problem.problem_id for decision in decisions}) == len(decisions) == NUM_DECISIONS
    roles = [decision.nodes[-1].group.agent for decision in decisions]
    assert (roles.count("caller"), roles.count("closer")) == (NUM_DECISIONS / 2,) * 2
    assert {decision.nodes[-1].group.turn for decision in decisions} == {0, 1}
    assert all(len({candidate.text for candidate in decision.nodes[-1].candidates}) > 1 for decision in decisions)


def test_values_by_continuation_are_the_exact_counterfactuals_up_to_their_noise(
    decisions: list[Episode], values: list[Valued]
) -> None:
    errors = []
    for decision, found_K, wanted_K in zip(decisions, means(values), map(worth, decisions), strict=True):
        for candidate, found, wanted in zip(decision.nodes[-1].candidates, found_K, wanted_K, strict=True):
            spread = math.sqrt(wanted * (1 - wanted) / NUM_CONTINUATIONS)
            if spread == 0:
                assert found == wanted, f"{decision.nodes[-1].group}: {candidate.text}"
            else:
                errors.append((found - wanted) / spread)
    assert len(errors) > 80
    assert abs(statistics.fmean(errors)) < 5 / math.sqrt(len(errors) / 8)  # equal texts share their continuations
    assert 0.8 < statistics.pstdev(errors) < 1.2


def test_equal_answers_are_played_once_and_one_that_ends_the_episode_not_at_all(
    decisions: list[Episode], values: list[Valued]
) -> None:
    for decision, found in zip(decisions, values, strict=True):
        last = decision.nodes[-1]
        by_text: dict[str, set[tuple[float, ...]]] = {}
        for candidate, returns_C in zip(last.candidates, found.returns_K_C, strict=True):
            by_text.setdefault(candidate.text, set()).add(returns_C)
        assert all(len(each) == 1 for each in by_text.values())
        if last.group.turn == 1 and last.group.agent == "closer":
            assert found.num_tokens == 0
        if last.group.turn == 1 and last.group.agent == "caller":
            assert found.num_tokens == 2 * NUM_CONTINUATIONS * len(by_text)  # a digit and the end token


def test_the_true_values_score_one_up_to_the_noise_shuffled_ones_nothing_and_constant_ones_are_undefined(
    decisions: list[Episode], values: list[Valued]
) -> None:
    exact = [Ranked(advantages_K=worth(d), values_K=worth(d)) for d in decisions]
    noisy = [Ranked(advantages_K=worth(d), values_K=v) for d, v in zip(decisions, means(values), strict=True)]
    rng = random.Random(3)
    shuffled = [
        Ranked(advantages_K=tuple(rng.sample(n.advantages_K, len(n.advantages_K))), values_K=n.values_K) for n in noisy
    ]
    found = [pool_correlations(each) for each in (exact, noisy, shuffled)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[2] is not None
    assert found[0].value == pytest.approx(1.0)
    halves = [
        tuple([statistics.fmean(returns_C[at::2]) for returns_C in v.returns_K_C] for at in (0, 1)) for v in values
    ]
    ceiling = noise_ceiling([(one, other) for one, other in halves])
    assert ceiling is not None
    assert found[1].value == pytest.approx(ceiling, abs=0.1)
    assert found[1].value > 0.7
    assert found[2].low < 0 < found[2].high
    constant = [Ranked(advantages_K=(0.0,) * 8, values_K=node.values_K) for node in noisy]
    assert pool_correlations(constant) is None


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_of_rollout_holds_every_candidate_in_its_state_and_gives_it_an_advantage(
    kind: str, decisions: list[Episode], rollouts: Callable[[str], Sampled]
) -> None:
    given = advantages(decisions, rollouts(kind), lottery_config(**KINDS[kind]))  # asserts states and tokens
    assert [len(each) for each in given] == [8] * len(decisions)
    assert None not in {advantage for each in given for advantage in each}
    correlation = pool_correlations(
        [Ranked(advantages_K=a, values_K=worth(d)) for d, a in zip(decisions, given, strict=True)]
    )
    assert correlation is not None
    assert correlation.value > 0.2


def test_a_problem_drawn_again_gives_no_decision(team: Team) -> None:
    (first, *_) = play_shard(lottery_config(), team, num_problems=2).episodes
    nodes = tuple(replace(node, candidates=(node.candidates[0],) * 8) for node in first.nodes)
    episodes = [replace(first, nodes=nodes), first]
    assert decisions_of(episodes, 2, roles=team.scenario.turn_order, seed=0) == []


def test_the_record_gives_the_ranks_that_the_page_of_results_speaks_of() -> None:
    root = Path(__file__).resolve().parents[2]
    home = root / "benchmarks" / "measured" / "credit"
    studies = [
        Study(game=game, seed=seed, num_steps=20, num_decisions=200, num_continuations=64, home=home)
        for game in credit.GAMES
        for seed in range(3)
    ]
    lines = credit.summary(studies).splitlines()
    assert lines[0] == "| estimator | plan-path, 3 seeds | sokoban, 3 seeds | math-tiny, 3 seeds |"
    assert "| at_grpo, team_credit node | 0.68 (0.65 to 0.71) | 0.70 (0.66 to 0.73) | 0.99 (0.99 to 1.00) |" in lines
    assert (
        "| at_grpo, team_credit episode_end | 0.43 (0.40 to 0.47) | 0.57 (0.54 to 0.61) | 0.96 (0.95 to 0.97) |"
        in lines
    )
    assert "| solver_value | 0.72 (0.69 to 0.74) | 0.73 (0.70 to 0.76) |  |" in lines
