"""The rollout engine as a class: episodes of a checkpoint's team, without training."""

from collections.abc import Mapping, Sequence

from components.rollout.play import play
from components.rollout.rules import Start, rollout_rules
from components.schema import Episode
from flows.api.fields import check_arguments
from flows.api.petting.agents import LoadedTeam


class MultiAgentsExecutionEngine(LoadedTeam):
    """Plays training problems with the team of a checkpoint or a model, as a training step does.

    **Example**

        with MultiAgentsExecutionEngine("checkpoints/model_2000", "code_single_policy") as engine:
            episode = engine.generate_env_idx_rollout(0)
            [candidate.reward for candidate in episode.nodes[0].candidates]  # train_sample_num numbers
    """

    def generate_env_idx_rollout(self, env_idx: int) -> Episode:
        """Training problem `env_idx` as the configuration samples it: in mode tree, `train_sample_num` candidates at each node,
        compared in one state, and play goes on from the best."""
        return self.generate_multiple_rollouts_concurrent([env_idx])[env_idx]

    @check_arguments
    def generate_multiple_rollouts_concurrent(self, env_idx_list: Sequence[int]) -> Mapping[int, Episode]:
        """Several training problems in lock-step, by number. A failed episode has an `error`."""
        scenario, config = self._session.scenario, self._session.config
        rules = rollout_rules(
            config.rollout,
            turn_order=scenario.turn_order,
            max_turns=config.environment.max_turns,
            seed=config.seed,
            step=0,
            team_credit=config.rewards.team_credit,
        )
        family, options, numbers = scenario.family, scenario.options, list(dict.fromkeys(env_idx_list))
        problems = [family.problem(options, split="train", index=number, seed=config.seed) for number in numbers]
        starts = [Start(problem=problem, episode=number) for number, problem in zip(numbers, problems, strict=True)]
        rubric, tools = scenario.training_rubric, self._session.toolbox.tools()
        episodes = play(starts, rules, family=family, router=self._router, rubric=rubric, tools=tools)
        return dict(zip(numbers, episodes, strict=True))
