"""`troupe evaluate`: how good a run, a model or a scripted team is on a suite."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

from components.artifacts.refs import Frozen
from components.config import RunConfig, parse_config
from components.environments.base import EnvironmentFamily, MultiAgentEnv
from components.errors import ConfigurationError
from components.evaluation.runner import EvalPlan, evaluate
from components.evaluation.scripted_team import Answer, play_scripted
from components.evaluation.statistics import wilson_interval
from components.evaluation.suites import suite_problems
from components.identity import seed_for
from components.metrics import mean
from components.rollout.rules import playing_roles
from components.schema import PolicyVersion, Problem
from components.scratch import scratch_folder
from flows.presets import with_overrides
from flows.reading import read_run
from flows.suite_choice import suite_config
from tasks import wiring, world
from tasks.run import Run

SCRIPTED = ("expert", "random", "noop")
Sampling = Literal["sample", "greedy"]
Progress = Callable[[int, int], None]
_PROBLEMS_AT_ONCE = 50


class EvaluationReport(Frozen):
    """Success on a suite, with its 95% Wilson interval. `mean_reward` is over the final actions."""

    suite: str
    agent: str
    sampling: str
    success_rate: float
    n: int
    interval: tuple[float, float]
    mean_reward: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationOrder:
    """What the command was asked for, unchecked. `suite` None is a run's own held-out suite."""

    who: str
    suite: str | None
    num_problems: int
    seed: int
    step: int | None
    sampling: str
    overrides: tuple[str, ...]
    store_uri: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteOrder:
    """What is played: `config` names the environment and its tools, `name` the stretch of problems."""

    config: RunConfig
    name: str
    num_problems: int
    seed: int

    @property
    def title(self) -> str:
        return f"{self.config.environment.name}/{self.name}"

    def problems(self) -> tuple[Problem, ...]:
        """Different problems, the same for whoever is evaluated under this seed."""
        environment, options = wiring.environment(self.config)
        return suite_problems(self.name, environment, options, num_problems=self.num_problems, seed=self.seed)


def evaluate_anybody(order: EvaluationOrder, progress: Progress) -> EvaluationReport:
    """The report of whoever `order.who` names. Raises ConfigurationError naming the argument and the remedy."""
    if order.sampling not in ("sample", "greedy"):
        raise ConfigurationError(f"--sampling {order.sampling!r}: use sample or greedy")
    sampling: Sampling = "sample" if order.sampling == "sample" else "greedy"
    is_run = order.who not in SCRIPTED and not _is_model(order.who)
    if order.step is not None and not is_run:
        raise ConfigurationError(f"--step {order.step}: only a run has steps, and {order.who!r} is none")
    if order.suite is None and not is_run:
        raise ConfigurationError(f"--suite: name an environment or a preset for {order.who!r}, as --suite plan_path")
    try:
        if is_run:
            return _run_report(order, sampling, progress)
        config, name = suite_config(str(order.suite), order.overrides)
        ordered = SuiteOrder(config=config, name=name, num_problems=order.num_problems, seed=order.seed)
        if order.who in SCRIPTED:
            return evaluate_scripted(ordered, order.who, progress)
        return evaluate_model(ordered, order.who, sampling, progress)
    finally:
        world.close_sandboxes()


def _run_report(order: EvaluationOrder, sampling: Sampling, progress: Progress) -> EvaluationReport:
    from flows.stores import chosen_store, opened_store
    from tasks.sessions import standing_run

    store = opened_store(order.store_uri)
    run = standing_run(store, read_run(store, order.who)).kept_in(chosen_store(order.store_uri))
    config, name = run.config, "test"
    if order.suite is not None:
        config, name = suite_config(order.suite, order.overrides)
    elif order.overrides:
        config = parse_config(with_overrides(config.model_dump(mode="json"), order.overrides))
    ordered = SuiteOrder(config=config, name=name, num_problems=order.num_problems, seed=order.seed)
    return evaluate_run(ordered, run, order.step, sampling, progress)


def _is_model(who: str) -> bool:
    """Whether `who` names weights: run names hold no slash."""
    return who == "smollm2-135m" or "/" in who or Path(who).is_dir()


def evaluate_scripted(order: SuiteOrder, agent: str, progress: Progress) -> EvaluationReport:
    """An expert, random or idle team on a suite."""
    environment, _ = wiring.environment(order.config)
    problems, tools = order.problems(), world.tools(order.config)
    episodes = []
    for first in range(0, len(problems), _PROBLEMS_AT_ONCE):
        block = problems[first : first + _PROBLEMS_AT_ONCE]
        episodes += play_scripted(
            block,
            [scripted_answer(agent, environment, seed_for(order.seed, "play", first + i)) for i in range(len(block))],
            family=environment,
            tools=tools,
            rubric=wiring.rubric(order.config),
            max_turns=order.config.environment.max_turns,
        )
        progress(len(episodes), len(problems))
    num_successes = sum(episode.success for episode in episodes)
    return EvaluationReport(
        suite=order.title,
        agent=agent,
        sampling="scripted",
        success_rate=num_successes / len(episodes),
        n=len(episodes),
        interval=wilson_interval(num_successes, len(episodes)),
        mean_reward=mean(episode.reward for episode in episodes),
    )


def scripted_answer(agent: str, environment: EnvironmentFamily, seed: int) -> Answer:
    """How the expert, the random or the idle team answers."""
    rng = Random(seed)

    def random_action(env: MultiAgentEnv, role: str) -> str:
        return environment.random_action(env, role, rng)

    known: dict[str, Answer] = {
        "expert": environment.expert_action,
        "random": random_action,
        "noop": lambda env, role: "",
    }
    return known[agent]


def evaluate_model(order: SuiteOrder, base: str, sampling: Sampling, progress: Progress) -> EvaluationReport:
    """One model in every role, as it is: a model folder, a hub name, or "smollm2-135m"."""
    from components.training.checkpoint import read_manifest, write_initial_checkpoint
    from components.training.models import prepare_model_folder

    policies = {"team": {"base": base, "prompt_format": "chat"}}
    agents = {role: {"policy": "team"} for role in wiring.environment(order.config)[0].roles}
    values = order.config.model_dump(mode="json") | {"policies": policies, "agents": agents}
    config = parse_config(values)
    with tempfile.TemporaryDirectory(prefix="evaluate-", dir=scratch_folder()) as name:
        folder, output = Path(name) / "model", Path(name) / "checkpoint"
        if prepare_model_folder(config.policies["team"], alphabet="", seed=0, into=folder):
            raise ConfigurationError(f"{base!r}: a tiny model knows nothing before a run has trained it; name a run")
        write_initial_checkpoint(folder, output, "team")
        version = PolicyVersion(policy="team", step=0, weights_digest=read_manifest(output).weights_digest)
        wiring.generator(config, "team").load(folder, version)
        return _played(order, config, {"team": version}, agent=base, sampling=sampling, progress=progress)


def evaluate_run(
    order: SuiteOrder, run: Run, step: int | None, sampling: Sampling, progress: Progress
) -> EvaluationReport:
    """The team of a run after `step` updates (None: the newest), on a suite with the run's own roles.

    Everything is read from the store of `run.config`.
    """
    from tasks.evaluate_policy import named_versions
    from tasks.refresh_weights import refresh_weights
    from tasks.steps import finished_step, first_unfinished_step
    from tasks.warm_start import committed_warm_start

    store = wiring.store(run.config)
    num_finished = first_unfinished_step(store, run)
    if step is not None and not 0 <= step <= num_finished:
        raise ConfigurationError(
            f"--step {step}: run {run.run_id} has finished {num_finished} updates; use 0 to {num_finished}"
        )
    at = num_finished if step is None else step
    checkpoints = finished_step(store, run, at - 1) if at else committed_warm_start(run)
    assert checkpoints is not None, f"step {at - 1} of {run.run_id} is finished and has no checkpoints"
    refresh_weights.fn(run, at, checkpoints)
    return _played(
        order,
        run.config,
        named_versions(run.config, checkpoints),
        agent=f"{run.run_id}@{at}",
        sampling=sampling,
        progress=progress,
    )


def _played(
    order: SuiteOrder,
    team: RunConfig,
    versions: dict[str, PolicyVersion],
    *,
    agent: str,
    sampling: Sampling,
    progress: Progress,
) -> EvaluationReport:
    """`team`'s policies on the order's problems."""
    environment, _ = wiring.environment(order.config)
    missing = set(playing_roles(team.rollout.mode, environment.roles)) - set(team.agents)
    if missing:
        raise ConfigurationError(
            f"--suite {order.title}: its roles {sorted(missing)} are played by nobody in {agent}, whose roles are "
            f"{sorted(team.agents)}"
        )
    plan = EvalPlan(
        suite=order.name,
        step=0,
        sampling=sampling,
        problems=order.problems(),
        problems_per_block=_PROBLEMS_AT_ONCE,
        roles=playing_roles(team.rollout.mode, environment.roles),
        max_turns=order.config.environment.max_turns,
        seed=order.seed,
    )
    report = evaluate(
        plan,
        family=environment,
        router=wiring.router(team, versions),
        rubric=wiring.rubric(order.config),
        tools=world.tools(order.config),
        progress=progress,
    )
    return EvaluationReport(
        suite=order.title,
        agent=agent,
        sampling=sampling,
        success_rate=report.success_rate,
        n=report.n,
        interval=report.interval,
        mean_reward=report.mean_reward,
    )
