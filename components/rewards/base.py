"""The rubric, which turns the facts of an outcome into one number."""

from collections.abc import Mapping
from dataclasses import dataclass

from components.schema import ActionOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """Named weights. `reward = team_weight * sum(w * team components) + sum(w * local components)`.

    `weights` holds `team.<component>` and `local.<component>`; a component without a weight is an error, so that a typo
    cannot silence a signal. `own.<component>` weights are applied to whole episodes (`own_rewards`). With `from_start` the team
    components count from the episode's start, so that the reward of the last action is the return of its episode.

    **Example** weights {"team.solved": 1, "team.progress": .2, "local.clean": .1}, team_weight 1, an outcome that solves
    (progress 1) with a clean list: 1 * (1 + .2) + .1 = 1.3.
    """

    team_weight: float
    weights: Mapping[str, float]
    from_start: bool = False

    def team(self, outcome: ActionOutcome) -> float:
        """The weighted sum of the team components, before `team_weight`."""
        components = outcome.team_of_episode if self.from_start else outcome.team
        return sum(self._weight("team", name) * value for name, value in components.items())

    def local(self, outcome: ActionOutcome) -> float:
        """The weighted sum of the local components."""
        return sum(self._weight("local", name) * value for name, value in outcome.local.items())

    def reward(self, outcome: ActionOutcome) -> float:
        """The reward of the candidate."""
        return self.team_weight * self.team(outcome) + self.local(outcome)

    def _weight(self, side: str, name: str) -> float:
        key = f"{side}.{name}"
        assert key in self.weights, f"rubric has no weight for {key}; it has {sorted(self.weights)}"
        return self.weights[key]
