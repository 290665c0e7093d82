"""What tests look at beside a playthrough's own members: the rewards of its newest outcomes under its default weights."""

from typing import Any

from components.environments.play import Playthrough
from components.rewards.base import Rubric
from components.schema import ActionOutcome

_apply = Playthrough.apply


def keep_newest_rewards() -> None:
    """Give each playthrough `team_reward` and `local_reward(agent)`, which are 0 before an action and belong to a position."""
    patched: Any = Playthrough
    patched.apply = _kept_apply
    patched.team_reward = property(lambda env: _reward(env, "", Rubric.team))
    patched.local_reward = lambda env, agent: _reward(env, agent, Rubric.local)


def _newest(env: Any) -> dict[str, ActionOutcome]:
    """The outcomes that led to the position."""
    kept = env.__dict__.setdefault("kept", {})
    _, newest = kept.get(id(env.position), (None, {}))
    return dict(newest)


def _kept_apply(env: Any, agent: str, action: str) -> ActionOutcome:
    newest = _newest(env)
    outcome = _apply(env, agent, action)
    env.kept[id(env.position)] = env.position, {**newest, "": outcome, agent: outcome}
    return outcome


def _reward(env: Any, newest_of: str, part: Any) -> float:
    outcome = _newest(env).get(newest_of)
    weights = env.referee.rules.weights
    return 0.0 if outcome is None else part(Rubric(team_weight=1.0, weights=weights), outcome)
