"""What became of problems that were played once or several times each, without the tree. Plays of parts add up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from components.rollout.statistics import keep_and_repair, total_usage
from components.schema import ApiUsage, Episode

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCounts:
    """The answers of one agent."""

    num_answers: int = 0
    num_solving: int = 0
    num_malformed: int = 0
    num_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SuitePlay:
    """The episodes of P problems, K of each. A failed episode is no success.

    `seconds` is how long they took, wherever they were played; it is the only field that another play may not repeat.
    """

    problems_P: tuple[str, ...]
    """The problems' ids."""
    solved_P_K: tuple[tuple[bool, ...], ...]
    rewards_P_K: tuple[tuple[float, ...], ...]
    """Of the final action; 0 without one."""
    turns_P_K: tuple[tuple[int, ...], ...]
    """Turns that were played."""
    num_failed: int = 0
    num_nodes: int = 0
    num_tokens: int = 0
    num_kept: int = 0
    """Answers of the last agent that solve, after a proposal that does."""
    num_solving: int = 0
    """Its answers after a proposal that solves."""
    num_repaired: int = 0
    """Its answers that solve, after a proposal that does not."""
    num_not_solving: int = 0
    agents: dict[str, AnswerCounts] = field(default_factory=dict)
    payoffs_P_K: dict[str, tuple[tuple[float, ...], ...]] = field(default_factory=dict)
    """What each agent earned, in a game in which each has a return of its own."""
    measures_P_K: dict[str, tuple[tuple[float, ...], ...]] = field(default_factory=dict)
    """What else is measured of each episode, by name."""
    usage: dict[str, ApiUsage] = field(default_factory=dict)
    """Of each policy behind an API."""
    seconds: float = 0.0


def suite_play(
    episodes: Sequence[Episode],
    *,
    num_samples: int,
    last_agent: str | None,
    usage: dict[str, ApiUsage],
    seconds: float,
) -> SuitePlay:
    """The play of problems whose episodes stand side by side, `num_samples` of each.

    **Example** episodes a0 a1 b0 b1 with 2 samples, of which a1 succeeds: `solved_P_K` is ((False, True), (False, False)).
    """
    handed = keep_and_repair(episodes, last_agent=last_agent)
    return SuitePlay(
        problems_P=tuple(episode.problem.problem_id for episode in episodes[::num_samples]),
        solved_P_K=_by_problem([episode.success for episode in episodes], num_samples),
        rewards_P_K=_by_problem([final_reward(episode) for episode in episodes], num_samples),
        turns_P_K=_by_problem([_num_turns(episode) for episode in episodes], num_samples),
        num_failed=sum(episode.error is not None for episode in episodes),
        num_nodes=sum(len(episode.path) for episode in episodes),
        num_tokens=sum(episode.num_generated_tokens for episode in episodes),
        num_kept=handed.num_kept,
        num_solving=handed.num_solving,
        num_repaired=handed.num_repaired,
        num_not_solving=handed.num_not_solving,
        agents=_answer_counts(episodes),
        payoffs_P_K=group_payoffs([_sum_earnings(episode) for episode in episodes], num_samples),
        usage=usage,
        seconds=seconds,
    )


def join_plays(plays: Sequence[SuitePlay]) -> SuitePlay:
    """The plays of parts of a suite as one: columns one after the other, counts added up."""
    assert plays, "no part of the suite was played"
    agents = dict.fromkeys(agent for play in plays for agent in play.agents)
    whole: dict[str, Any] = {}
    for each in fields(SuitePlay):
        values = [getattr(play, each.name) for play in plays]
        if each.name == "agents":
            whole["agents"] = {agent: _add_counts([play.agents.get(agent) for play in plays]) for agent in agents}
        elif each.name in ("payoffs_P_K", "measures_P_K"):
            whole[each.name] = _join_columns(plays, each.name)
        elif each.name == "usage":
            whole["usage"] = total_usage(values)
        else:
            whole[each.name] = sum(values, start=() if isinstance(values[0], tuple) else 0)
    return SuitePlay(**whole)


def final_reward(episode: Episode) -> float:
    """The reward of the final action; 0 without one."""
    return 0.0 if episode.final is None else episode.nodes[episode.final].candidates[0].reward


def group_payoffs(
    earned_E: Sequence[Mapping[str, float]], num_samples: int
) -> dict[str, tuple[tuple[float, ...], ...]]:
    """What each agent earned in each episode, by agent, problem and sample; empty where no answer pays."""
    agents = sorted({agent for earned in earned_E for agent in earned})
    return {agent: _by_problem([earned.get(agent, 0.0) for earned in earned_E], num_samples) for agent in agents}


def _sum_earnings(episode: Episode) -> dict[str, float]:
    """What each agent earned in an episode. The payoffs of a joint step are told by each of its nodes, and count once."""
    earned: dict[str, float] = {}
    told = None
    for node in episode.path:
        payoffs = node.candidates[0].outcome.payoffs
        if payoffs is None or (node.parallel_index > 0 and payoffs == told):
            continue
        told = payoffs
        for agent, payoff in payoffs.items():
            earned[agent] = earned.get(agent, 0.0) + payoff
    return earned


def _join_columns(plays: Sequence[SuitePlay], field_name: str) -> dict[str, tuple[tuple[float, ...], ...]]:
    """The columns of all parts by their names; an agent whom no answer of a part pays has earned 0 there."""
    columns = [getattr(play, field_name) for play in plays]
    return {
        name: tuple(
            row
            for play, found in zip(plays, columns, strict=True)
            for row in found.get(name, tuple((0.0,) * len(each) for each in play.solved_P_K))
        )
        for name in sorted({name for found in columns for name in found})
    }


def _by_problem(values: Sequence[T], num_samples: int) -> tuple[tuple[T, ...], ...]:
    return tuple(tuple(values[at : at + num_samples]) for at in range(0, len(values), num_samples))


def _num_turns(episode: Episode) -> int:
    return len({node.group.turn for node in episode.path})


def _answer_counts(episodes: Sequence[Episode]) -> dict[str, AnswerCounts]:
    made: dict[str, list[AnswerCounts]] = {}
    for episode in episodes:
        for node in episode.path:
            if node.is_beside:
                continue
            answer = node.candidates[0]
            counted = AnswerCounts(
                num_answers=1,
                num_solving=int(answer.outcome.solves),
                num_malformed=int(answer.outcome.error is not None),
                num_tokens=len(answer.tokens),
            )
            made.setdefault(node.group.agent, []).append(counted)
    return {agent: _add_counts(counts) for agent, counts in made.items()}


def _add_counts(counts: Sequence[AnswerCounts | None]) -> AnswerCounts:
    known = [each for each in counts if each is not None]
    return AnswerCounts(**{f.name: sum(getattr(each, f.name) for each in known) for f in fields(AnswerCounts)})
