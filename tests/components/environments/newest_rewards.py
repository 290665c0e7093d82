"""What tests look at beside an environment's own members: the rewards of its newest outcomes under its default weights."""

from typing import Any

from components.environments.base import MultiAgentEnv
from components.rewards.base import Rubric
from components.schema import ActionOutcome

_apply, _snapshot, _restore = MultiAgentEnv.apply, MultiAgentEnv.snapshot, MultiAgentEnv.restore


def keep_newest_rewards() -> None:
    """Give each environment `team_reward` and `local_reward(agent)`, which are 0 before an action and part of snapshots."""
    patched: Any = MultiAgentEnv
    patched.apply, patched.snapshot, patched.restore = _kept_apply, _kept_snapshot, _kept_restore
    patched.team_reward = property(lambda env: _reward(env, "", Rubric.team))
    patched.local_reward = lambda env, agent: _reward(env, agent, Rubric.local)


def _kept_apply(env: Any, agent: str, action: str) -> ActionOutcome:
    outcome = _apply(env, agent, action)
    env.newest = {**getattr(env, "newest", {}), "": outcome, agent: outcome}
    return outcome


def _kept_snapshot(env: Any) -> Any:
    return _snapshot(env), getattr(env, "newest", {})


def _kept_restore(env: Any, snapshot: Any) -> None:
    state, env.newest = snapshot
    _restore(env, state)


def _reward(env: Any, newest_of: str, part: Any) -> float:
    outcome = getattr(env, "newest", {}).get(newest_of)
    return 0.0 if outcome is None else part(Rubric(team_weight=1.0, weights=env.weights), outcome)
