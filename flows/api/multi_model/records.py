"""What the stored records of a run say of its members, in the documented form."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import CheckpointRef
from components.config import RunConfig
from components.methods.population.interactions import read_played_episodes
from components.metrics import mean
from components.placement.this_machine import find_training_gpu
from components.population.interaction_graph import PlayedEpisode
from components.runs.available_checkpoints import checkpoints_after
from components.runs.history import StepView, read_history
from components.runs.lineages import read_config
from components.runs.run import Run
from components.runs.steps import first_unfinished_step
from components.runs.stored_runs import read_run
from flows.api.multi_model.checkpoints import episodes_per_step, open_folder

Episodes = dict[int, list[PlayedEpisode | None]]
"""Of each step the episodes in the order of their numbers; None for one that failed."""


@dataclass
class ModelState:
    """What is known of one member, over the episodes that it played."""

    model_id: str
    model_type: str
    model_name: str
    total_reward: float = 0.0
    """The sum of its raw returns."""
    episode_count: int = 0
    win_count: int = 0
    """Episodes in which no other member earned more."""
    cooperation_score: float = 0.5
    """The average share of all actions that cooperated, with weight .1 on the newest step; .5 before the first."""
    update_count: int = 0
    gradient_norm: float = 0.0
    """Of its last update, before clipping."""
    gpu_id: int | None = None
    """The GPU that it shares; None on a CPU and behind an API."""


class RunRecords:
    """The finished steps of a run as they are stored now; none before it begins."""

    def __init__(self, folder: str | Path, run_id: str, config: RunConfig, known: Episodes) -> None:
        """`config` names the members. `known` keeps the episodes that have been read, for the next look."""
        self.config = config
        self._place: tuple[ArtifactStore, Run] | None = None
        self.steps: tuple[StepView, ...] = ()
        self._known = known
        self.first_seats: dict[str, str] = {}
        """Each member, and the name of its first seat in the episodes, as `model_0_tiny/player_2` if it plays several."""
        num_seats = Counter(agent.policy for agent in config.agents.values())
        for player, agent in config.agents.items():
            seat = agent.policy if num_seats[agent.policy] == 1 else f"{agent.policy}/{player}"
            self.first_seats.setdefault(agent.policy, seat)
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
        if step not in self._known:
            assert self._place is not None, "the run has a step"
            self._known[step] = read_played_episodes(*self._place, step)
        return self._known[step]

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

    def model_states(self) -> dict[str, ModelState]:
        """What is known of each member after the newest step."""
        states = {name: self._begin_state(name) for name in self.first_seats}
        for view, (name, seat) in product(self.steps, self.first_seats.items()):
            state, episodes = states[name], self.episodes(view.step)
            state.total_reward += sum(each.raw_returns[seat] for each in episodes)
            state.episode_count += len(episodes)
            state.win_count += sum(each.raw_returns[seat] >= max(each.raw_returns.values()) for each in episodes)
            if (cooperated := cooperation_rate(episodes, name)) is not None:
                state.cooperation_score = 0.9 * state.cooperation_score + 0.1 * cooperated
            if name in self.find_changed_members(view.step):
                state.update_count += 1
                state.gradient_norm = view.summary.metrics.get(f"train/{name}/grad_norm", 0.0)
        return states

    def _begin_state(self, name: str) -> ModelState:
        policy, kind = self.config.policies[name], name.split("_", 2)[2]
        if policy.api is not None:
            return ModelState(name, kind, policy.api.model)
        return ModelState(name, kind, policy.base, gpu_id=find_training_gpu(self.config, name))

    def _checkpoints(self, num_steps: int) -> Mapping[str, CheckpointRef]:
        return (checkpoints_after(*self._place, num_steps) if self._place else None) or {}


def cooperation_rate(episodes: Sequence[PlayedEpisode], member: str | None = None) -> float | None:
    """The share of a member's actions, or of all, that cooperated; None in games without cooperation."""
    actions = [
        action
        for each in episodes
        for step in each.actions_T
        for name, action in step.items()
        if member in (None, name.partition("/")[0])
    ]
    return sum(each == "cooperate" for each in actions) / len(actions) if actions else None
