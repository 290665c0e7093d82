"""What tests look at beside a playthrough's own members: rewards of its newest outcomes, and whether its state is solved."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from components.environments.play import Playthrough, Position
from components.environments.stateful.environment import Scene
from components.rewards.base import Rubric
from components.schema import ActionOutcome

_apply = Playthrough.apply


def is_solved(env: Playthrough) -> bool:
    """Whether the state of a puzzle or a tool world is at distance 0 by its rules; the playthrough must say the same."""
    state = env.position.state
    rules = state.world if isinstance(state, Scene) else state.game
    solved = bool(rules.distance(state.state) == 0)
    assert env.success == solved, f"success is {env.success} at distance {rules.distance(state.state)}"
    return solved


@dataclass(frozen=True, slots=True, kw_only=True)
class _PaidPosition(Position):
    """A position with the outcomes that led to it: of each agent the newest, and of all under the empty name."""

    newest: Mapping[str, ActionOutcome] = field(default_factory=dict)


def keep_newest_rewards() -> None:
    """Give each playthrough `team_reward` and `local_reward(agent)` under the default weights: 0 before an action, and part of
    a position, also of one that another playthrough reached."""
    patched: Any = Playthrough
    patched.apply = _apply_and_keep
    patched.team_reward = property(lambda env: _reward(env, "", Rubric.team))
    patched.local_reward = lambda env, agent: _reward(env, agent, Rubric.local)


def _newest(position: Position) -> Mapping[str, ActionOutcome]:
    return position.newest if isinstance(position, _PaidPosition) else {}


def _apply_and_keep(env: Playthrough, agent: str, action: str) -> ActionOutcome:
    newest = _newest(env.position)
    outcome = _apply(env, agent, action)
    env.position = _PaidPosition(
        state=env.position.state,
        is_done=env.position.is_done,
        is_solved=env.position.is_solved,
        newest={**newest, "": outcome, agent: outcome},
    )
    return outcome


def _reward(env: Playthrough, newest_of: str, part: Any) -> float:
    outcome = _newest(env.position).get(newest_of)
    return 0.0 if outcome is None else part(Rubric(team_weight=1.0, weights=env.referee.rules.weights), outcome)
