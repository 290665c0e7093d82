"""Who decides in each of N games: one actor alone, a fixed share, or measured progress.

The games share what is known of the actors, so that sixteen games teach one arbiter; each game has a segment of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from components.hybrid.arbitration import (
    Actor,
    ArbiterState,
    Mode,
    credit_actor,
    end_episode,
    new_arbiter,
    next_actor,
)
from components.hybrid.segment_bandit import Tally
from components.hybrid.strategies import Strategy, llm_decides
from components.identity import seed_for


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRule:
    """How control is given: fixed for a run.

    In ADAPTIVE a `strategy` fixes the share of the language model; without one the share is an outcome.
    """

    mode: Mode = Mode.ADAPTIVE
    strategy: Strategy | None = None

    @property
    def asks_adviser(self) -> bool:
        """Whether the adviser may ever be asked for a button."""
        return self.mode not in (Mode.RL_ONLY, Mode.TEACHER)

    @property
    def asks_policy(self) -> bool:
        """Whether the policy may ever be asked."""
        return self.mode is not Mode.LLM_ONLY


class Control:
    """Who decides in each of `num_games` games. Equal seeds and equal play give equal choices."""

    def __init__(self, rule: ControlRule, num_games: int, *, seed: int) -> None:
        self.rule = rule
        self._seed = seed
        self._arbiters = [new_arbiter(seed) for _ in range(num_games)]
        self._tallies: tuple[Tally, ...] = ()
        self._num_segments = 0

    @property
    def num_llm_decisions(self) -> int:
        """Decisions that the language model had, in all games together."""
        return sum(arbiter.num_llm_decisions for arbiter in self._arbiters)

    def next_actors(self, phases: Sequence[str], stuck: Sequence[bool], *, explore: bool) -> list[Actor]:
        """Who has the next decision in each game, by its phase and whether it is stuck."""
        return [
            self._next_actor(game, phase, is_stuck, explore)
            for game, (phase, is_stuck) in enumerate(zip(phases, stuck, strict=True))
        ]

    def credit(self, game: int, progress: float) -> None:
        """The last decision of a game has made this progress."""
        if self._measures:
            self._arbiters[game] = credit_actor(self._arbiters[game], progress)

    def end_episode(self, game: int) -> None:
        """An episode of a game is over."""
        if self._measures:
            self._keep(game, end_episode(self._share_arbiter(game)))

    def learn_from(self, other: "Control") -> None:
        """Know what another control has measured, whatever the number of its games: its open segments are left out."""
        self._tallies, self._num_segments = other._tallies, other._num_segments

    def to_json(self) -> dict[str, Any]:
        """All that decides later choices, as values of JSON."""
        arbiters = [arbiter.to_json() for arbiter in self._arbiters]
        return {"arbiters": [each | {"bandit": each["bandit"] | {"tallies": []}} for each in arbiters]} | {
            "tallies": self._share_arbiter(0).to_json()["bandit"]["tallies"],
            "num_segments": self._num_segments,
        }

    def restore(self, value: dict[str, Any]) -> None:
        """Go on from what `to_json` of a control with the same rule and as many games returned."""
        self._arbiters = [ArbiterState.from_json(each) for each in value["arbiters"]]
        self._tallies = tuple(Tally(**tally) for tally in value["tallies"])
        self._num_segments = value["num_segments"]

    @property
    def _measures(self) -> bool:
        return self.rule.mode is Mode.ADAPTIVE and not self.rule.strategy

    def _next_actor(self, game: int, phase: str, is_stuck: bool, explore: bool) -> Actor:
        if self._measures:
            self._keep(game, next_actor(self._share_arbiter(game), phase, emergency=is_stuck, explore=explore))
        elif self.rule.strategy is not None:
            decision, seed = self._arbiters[game].num_decisions, seed_for(self._seed, "game", game)
            self._count(game, Actor.LLM if llm_decides(self.rule.strategy, decision, seed) else Actor.RL)
        else:
            self._count(game, Actor.LLM if self.rule.mode is Mode.LLM_ONLY else Actor.RL)
        return self._arbiters[game].actor

    def _share_arbiter(self, game: int) -> ArbiterState:
        """The arbiter of a game with what all games know."""
        arbiter = self._arbiters[game]
        bandit = replace(arbiter.bandit, tallies=self._tallies, num_segments=self._num_segments)
        return replace(arbiter, bandit=bandit)

    def _keep(self, game: int, arbiter: ArbiterState) -> None:
        self._arbiters[game] = arbiter
        self._tallies, self._num_segments = arbiter.bandit.tallies, arbiter.bandit.num_segments

    def _count(self, game: int, actor: Actor) -> None:
        """A decision of a game was given to this actor, and nothing is measured."""
        arbiter = self._arbiters[game]
        self._arbiters[game] = replace(
            arbiter,
            bandit=replace(arbiter.bandit, arm=actor.value),
            num_decisions=arbiter.num_decisions + 1,
            num_llm_decisions=arbiter.num_llm_decisions + (actor is Actor.LLM),
        )
