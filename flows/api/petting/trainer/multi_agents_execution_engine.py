"""The rollout engine as a class: episodes of a checkpoint's team, without training."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from components.errors import ConfigurationError
from components.freed import Freed
from components.rollout.play import play
from components.rollout.rules import Start, rollout_rules
from components.schema import Episode
from flows.api.petting.model_paths import loaded_team

_MODES = ("tree", "no_tree")


class MultiAgentsExecutionEngine(Freed):
    """Plays training problems with the team of a checkpoint or a model, as a training step does. Freed by `close` or a `with`
    block.

    **Example**

        with MultiAgentsExecutionEngine("checkpoints/model_2000", "code_single_policy") as engine:
            episode = engine.generate_env_idx_rollout(0)
            [candidate.reward for candidate in episode.nodes[0].candidates]  # train_sample_num numbers
    """

    def __init__(self, model_path: str | Path, config_name: str | dict[str, Any] | None = None) -> None:
        """`model_path` and `config_name` are those of `evaluate`. Raises ConfigurationError."""
        self._ends = ExitStack()
        self._team = self._ends.enter_context(loaded_team(model_path, config_name))

    def generate_single_rollout(self, rollout_idx: int) -> Episode:
        """Training problem `rollout_idx`, with one candidate at each node."""
        return self.generate_multiple_rollouts_concurrent([rollout_idx], rollout_mode="no_tree")[rollout_idx]

    def generate_env_idx_rollout(self, env_idx: int) -> Episode:
        """Training problem `env_idx` as the configuration samples it: in mode tree, `train_sample_num` candidates at each node,
        compared in one state, and play goes on from the best."""
        return self.generate_multiple_rollouts_concurrent([env_idx])[env_idx]

    def generate_multiple_rollouts_concurrent(
        self, env_idx_list: Sequence[int], rollout_mode: Literal["tree", "no_tree"] = "tree"
    ) -> Mapping[int, Episode]:
        """Several training problems in lock-step, by number. A failed episode has an `error`."""
        if rollout_mode not in _MODES:
            raise ConfigurationError(f"rollout_mode {rollout_mode!r}: use {' or '.join(_MODES)}")
        session = self._team.session
        scenario, config = session.scenario, session.config
        single = {"mode": "independent", "random_handoff_probability": 0.0}
        settings = config.rollout if rollout_mode == "tree" else config.rollout.model_copy(update=single)
        rules = rollout_rules(
            settings,
            turn_order=scenario.turn_order,
            max_turns=config.environment.max_turns,
            seed=config.seed,
            step=0,
            team_credit=config.rewards.team_credit if rollout_mode == "tree" else "node",
        )
        numbers = list(dict.fromkeys(env_idx_list))
        problems = [
            scenario.family.problem(scenario.options, split="train", index=number, seed=config.seed)
            for number in numbers
        ]
        episodes = play(
            [Start(problem=problem, episode=number) for number, problem in zip(numbers, problems, strict=True)],
            rules,
            family=scenario.family,
            router=session.router(dict(self._team.versions)),
            rubric=scenario.training_rubric,
            tools=session.toolbox.tools(),
        )
        return dict(zip(numbers, episodes, strict=True))

    def close(self) -> None:
        """Free engines and sandboxes."""
        self._ends.close()
