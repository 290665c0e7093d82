"""What the stored records of a run say of its members, in the documented form."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import CheckpointRef
from components.config import RunConfig
from components.methods.population.interactions import read_played_episodes
from components.metrics import agent_return, mean
from components.population.interaction_graph import PlayedEpisode
from components.runs.available_checkpoints import checkpoints_after
from components.runs.history import StepView, read_history
from components.runs.lineages import read_config
from components.runs.run import Run
from components.runs.steps import first_unfinished_step
from components.runs.stored_runs import read_run
from flows.api.multi_model.checkpoints import episodes_per_step, open_folder


class RunRecords:
    """The finished steps of a run as they are stored now; none before it begins."""

    def __init__(self, folder: str | Path, run_id: str, config: RunConfig) -> None:
        """`config` names the members."""
        self.config = config
        self._place: tuple[ArtifactStore, Run] | None = None
        self.steps: tuple[StepView, ...] = ()
        self.players: dict[str, str] = {}
        """Each member, and the first agent that it plays."""
        for player, agent in config.agents.items():
            self.players.setdefault(agent.policy, player)
        store = open_folder(folder)
        if store is not None and read_config(store, run_id) is not None:
            self._place = store, read_run(store, run_id)
            self.steps = read_history(*self._place, first_unfinished_step(*self._place)).steps

    @property
    def num_episodes(self) -> int:
        """The episodes of all finished steps."""
        return len(self.steps) * episodes_per_step(self.config)

    def read_episodes(self, step: int) -> list[PlayedEpisode | None]:
        """The episodes of a step that has its rollouts, by number: each member's raw return, and what it did in games of
        cooperation; None for one that failed. Empty if `troupe gc` has removed them."""
        assert self._place is not None, "the run has a step"
        return read_played_episodes(*self._place, step)

    def episodes(self, step: int) -> list[PlayedEpisode]:
        """Those that did not fail."""
        return [each for each in self.read_episodes(step) if each is not None]

    def find_changed_members(self, step: int) -> list[str]:
        """The members whose weights the step has changed."""
        before = self._checkpoints(0) if step == 0 else self.steps[step - 1].checkpoints
        digests = {name: each.weights_digest for name, each in before.items()}
        return [name for name, each in self.steps[step].checkpoints.items() if digests.get(name) != each.weights_digest]

    def curves(self) -> dict[str, Any]:
        """What the steps were, by the documented names; rewards are raw returns, summed over members."""
        played = [self.episodes(view.step) for view in self.steps]
        return {
            "episodes": [(view.step + 1) * episodes_per_step(self.config) for view in self.steps],
            "total_rewards": [mean(sum(each.raw_returns.values()) for each in episodes) for episodes in played],
            "cooperation_ratios": [cooperation_rate(episodes) for episodes in played],
            "weight_update_counts": [len(self.find_changed_members(view.step)) for view in self.steps],
            "model_performances": [
                {name: value for name, value in view.summary.metrics.items() if name.startswith("population/")}
                for view in self.steps
            ],
        }

    def describe_models(self) -> dict[str, dict[str, Any]]:
        """Of each model what it is and how it did: average raw return of an episode, updates, and the newest step's metrics."""
        changed = [self.find_changed_members(view.step) for view in self.steps]
        metrics = [view.summary.metrics for view in self.steps]
        found = {}
        for name, player in self.players.items():
            policy, earned = self.config.policies[name], agent_return(player)
            newest = metrics[-1].items() if metrics else ()
            found[name] = {
                "model_type": name.split("_", 2)[2],
                "model_name": policy.base if policy.api is None else policy.api.model,
                "avg_reward": mean(each[earned] for each in metrics if earned in each),
                "total_episodes": self.num_episodes,
                "update_count": sum(name in each for each in changed),
                "metrics": {key: value for key, value in newest if key.startswith(f"train/{name}/")},
            }
        return found

    def _checkpoints(self, num_steps: int) -> Mapping[str, CheckpointRef]:
        return (checkpoints_after(*self._place, num_steps) if self._place else None) or {}


def cooperation_rate(episodes: Sequence[PlayedEpisode]) -> float | None:
    """The share of all actions that cooperated; None in games without cooperation."""
    actions = [action for each in episodes for step in each.actions_T for action in step.values()]
    return sum(each == "cooperate" for each in actions) / len(actions) if actions else None
