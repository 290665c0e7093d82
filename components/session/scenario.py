"""A configuration's environment, agents and rewards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from components.algorithms.learning_signal import has_signal
from components.config import RunConfig
from components.environments.episode_length import EpisodeLengthAware
from components.environments.family import Family
from components.environments.registry import (
    digest_data,
    family,
    family_options,
    source_of,
)
from components.environments.turn_orders import turn_order_of
from components.errors import ConfigurationError
from components.evaluation.held_out import EvalPlan, Sampling
from components.evaluation.suites import Suite, SuiteSplit, suite_digest
from components.frozen import Frozen
from components.population.seating import member_and_step
from components.rewards.base import Rubric
from components.rewards.credit import credit_rewards, credit_rule, read_recorded_outcomes
from components.rewards.overlong import Overlong, overlong_for
from components.rewards.own_rewards import CustomReward, own_rewards
from components.rewards.rubric import rubric_for
from components.rollout.dynamic_sampling import Refilling, fresh_problems
from components.rollout.router import RoleBinding, bind_roles
from components.rollout.rules import playing_order
from components.rollout.sampler import ShardPlan
from components.rollout.shards import shard_problems
from components.schema import Episode
from components.turn_order import TurnOrder
from components.user_code import check_source

SUITE_SEED = 0
SOLVER_VALUE = "solver_value"
"""The advantage that reads `ActionOutcome.value_gain`."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """An environment family with its validated options and configuration."""

    config: RunConfig
    family: Family
    options: Frozen

    @property
    def turn_order(self) -> TurnOrder:
        """Which roles act in a turn under the rollout mode. Raises ConfigurationError."""
        order = turn_order_of(self.family, self.config.environment.turn_order)
        return playing_order(self.config.rollout.mode, order, roles=self.family.roles)

    @property
    def rubric(self) -> Rubric:
        """How outcomes become rewards, in evaluations of every run alike."""
        return rubric_for(self.family, self.config.rewards)

    @property
    def training_rubric(self) -> Rubric:
        """How the outcomes of training become rewards: where whole episodes are compared, progress counts from their start."""
        whole = self.config.rollout.mode in ("independent", "single")
        return rubric_for(self.family, self.config.rewards, from_start=whole)

    @property
    def measures_value(self) -> bool:
        """Whether outcomes hold a solver's value."""
        return self.config.algorithm.reads_solver

    @property
    def seats(self) -> Mapping[str, RoleBinding]:
        """Which policy plays each role."""
        return bind_roles(self.config, max_action_characters=self.family.max_action_characters(self.options))

    def fill_seats(self, seating: Mapping[str, str]) -> Mapping[str, RoleBinding]:
        """The seats with other players: members, or their past selves, asked as the member is."""
        policies = self.config.policies
        return {
            role: replace(
                seat,
                policy=seating[role],
                prompt_format=policies[member_and_step(seating[role])[0]].prompt_format,
                chat_template_arguments=policies[member_and_step(seating[role])[0]].chat_template_arguments,
            )
            for role, seat in self.seats.items()
        }

    @property
    def own_rewards(self) -> tuple[CustomReward, ...]:
        """The user's own reward components."""
        return own_rewards(self.config.rewards, self.rubric)

    @property
    def overlong(self) -> Overlong | None:
        """The penalty on answer length, given the agents' token limits."""
        limits = {role: seat.max_new_tokens for role, seat in self.seats.items()}
        return overlong_for(self.config.rewards, limits)

    def shard_plan(self, *, step: int, shard: int) -> ShardPlan:
        """The problems and settings of one shard."""
        return ShardPlan(
            step=step,
            shard=shard,
            seed=self.config.seed,
            max_turns=self.config.environment.max_turns,
            settings=self.config.rollout,
            problems=shard_problems(self.config, self.family, self.options, step=step, shard=shard),
            turn_order=self.turn_order,
            team_credit=self.config.rewards.team_credit,
            measures_value=self.measures_value,
            max_unscorable_fraction=self.config.rewards.max_failed_fraction,
        )

    def refilling(self, *, step: int, shard: int) -> Refilling:
        """Where a shard's replacement problems come from, and which problems are replaced."""
        return Refilling(
            fresh=fresh_problems(self.config, self.family, self.options, step=step, shard=shard),
            has_signal=self._has_signal,
        )

    def _has_signal(self, episodes: Sequence[Episode]) -> bool:
        rubric, rule = self.training_rubric, credit_rule(self.config)
        rewards_E_N_K = [credit_rewards(each, read_recorded_outcomes(each), rubric, rule) for each in episodes]
        return has_signal(episodes, self.config.algorithm, rewards_E_N_K=rewards_E_N_K)

    @property
    def suite(self) -> Suite:
        """What the run's own evaluations play: the same problems for every run and seed."""
        return self._suite("test", self.config.evaluation.num_problems)

    @property
    def warm_start_suite(self) -> Suite:
        """What gates the warm start: problems outside the training range."""
        return self._suite("train_check", self.config.warm_start.num_check_problems)

    def _suite(self, split: SuiteSplit, num_problems: int) -> Suite:
        return Suite(
            environment=self.config.environment,
            split=split,
            num_problems=num_problems,
            seed=SUITE_SEED,
            problems_per_block=self.config.evaluation.problems_per_block,
        )

    def eval_plan(self, suite: Suite, *, sampling: Sampling, seed: int, num_samples: int = 1) -> EvalPlan:
        """How the team plays a suite of its environment; `seed` decides the draws of answers.

        Raises ConfigurationError for data that are not those of the run.
        """
        self.check_data()
        return EvalPlan(
            split=suite.split,
            sampling=sampling,
            problems=suite.problems(self.family, self.options),
            problems_per_block=suite.problems_per_block,
            turn_order=self.turn_order,
            max_turns=self.config.environment.max_turns,
            seed=seed,
            num_samples=num_samples,
            max_failed_fraction=self.config.rollout.max_failed_fraction,
        )

    def check_data(self) -> None:
        """Raise ConfigurationError for data that are not those of the run: problems are drawn from them."""
        settings = self.config.environment
        found = None if settings.data is None else digest_data(settings.name, settings.options)
        if found != settings.data:
            raise ConfigurationError(
                f"environment.options: the data here are {found}, and the run works with {settings.data}; bring the same files "
                "to every host, or start the run again"
            )

    def own_temperatures(self, sampling: Sampling) -> dict[str, float] | None:
        """Role -> its own temperature under "sample", for the roles that have one; None if there is none."""
        own = {role: seat.temperature for role, seat in self.seats.items() if seat.temperature is not None}
        return own if own and sampling == "sample" else None

    def suite_digest(self, plan: EvalPlan) -> str:
        """The digest of the suite that `plan` plays: see `components.evaluation.suites.suite_digest`."""
        settings = self.config.environment
        options = family_options(settings.name, settings.options)
        return suite_digest(settings, options, plan.split, plan.problems)


def scenario_of(config: RunConfig) -> Scenario:
    """The scenario of a configuration. Raises ConfigurationError for unknown names or options, and for own code that
    differs from the digests in the configuration."""
    settings = config.environment
    name, source = settings.name, settings.source
    if source is not None:
        check_source("environment.name", name, wanted=source, found=source_of(name, settings.options))
    digest_data(name, settings.options)  # before rows are read: the files may change later
    options = family_options(name, settings.options)
    if isinstance(options, EpisodeLengthAware):
        options = options.ending_after(settings.max_turns, settings.turn_order)
    return Scenario(config, family(name, settings.answer_format).under(options), options)
