"""From the documented parts to a run of the hybrid method, and back: the one place that knows configuration, flow and store."""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any, Protocol

from components.artifacts.payloads import get
from components.config import HybridMethod, RunConfig, parse_config
from components.config.hybrid import REFLEXES, Adaptive
from components.errors import ArtifactMissing, ConfigurationError
from components.evaluation.held_out import Sampling
from components.hybrid.game_facts import STATE_VARIABLES
from components.hybrid.goals import GOALS
from components.hybrid.recorded_episodes import PlayedEpisode, read_recorded_episodes
from components.hybrid.rewards import RewardWeights
from components.hybrid.strategies import Strategy
from components.identity import fingerprint
from components.methods.base import method_for
from components.runs.history import read_history
from components.runs.lineages import read_config
from components.runs.run import CollectedStep, Run
from components.runs.step_records import step_manifests
from components.runs.steps import checkpoints_before, first_unfinished_step
from components.runs.stored_runs import read_run
from components.schema import IterationReport
from components.session.stores import open_store
from components.session.user_sources import with_sources
from flows.api.hybrid.core.curriculum import read_curriculum
from flows.api.hybrid.core.exceptions import CheckpointError
from flows.api.hybrid.core.hybrid_agent import HybridAgent
from flows.api.hybrid.trainer.llm_manager import BaseLLMManager, LLMManager

if TYPE_CHECKING:
    from flows.api.hybrid.core.enhanced_pyboy_env import EnhancedPyBoyPokemonCrystalEnv

SAMPLING: Sampling = "sample"
BEST = "best_model"
"""The file in the folder of a trainer that names its best checkpoint."""
LONGEST_QUESTION = 1024
"""Tokens of a question with its answer, also where each letter is one."""
NUM_EVALUATED = 5
"""Episodes of an evaluation."""


class Parts(Protocol):
    """What of a trainer decides its run."""

    env: "EnhancedPyBoyPokemonCrystalEnv"
    agent: HybridAgent
    llm_manager: BaseLLMManager | None
    save_dir: Path
    num_games: int
    first_strategy: Strategy


def build_config(
    trainer: Parts, *, num_steps: int, max_steps: int, save_every: int, eval_every: int, patience: int
) -> RunConfig:
    """The configuration of a run of the trainer's game, agent and model, with episodes of at most `max_steps` buttons.

    `save_every` and `eval_every` are in steps of the run, `patience` is in episodes. Raises ConfigurationError.
    """
    env, agent = trainer.env, trainer.agent
    max_steps = min(max_steps, env.max_steps or max_steps)
    mode: dict[str, Any] = {"type": agent.mode.value}
    method: dict[str, Any] = {
        "type": "hybrid",
        "mode": mode,
        "num_games": trainer.num_games,
        "learner": {"steps": max_steps, **_learner_values(agent)},
        "weights": {
            name: value for name, value in asdict(env.weights).items() if value != getattr(RewardWeights(), name)
        },
        "keeps_decisions": True,
        "game": {"type": env.rom_path}
        if env.rom_path in ("twin", "homebrew")
        else {"type": "crystal", "rom": str(Path(env.rom_path).absolute())},
    }
    if agent.mode == "adaptive":
        rule = read_curriculum(agent.curriculum_config)
        begin = replace(rule.stages[0], strategy=trainer.first_strategy)
        stages = [{**asdict(each), "strategy": each.strategy.value} for each in (begin, *rule.stages[1:])]
        mode["curriculum"] = {"stages": stages, "patience": patience, "decay": rule.decay}
    return parse_config(
        {
            "preset": "hybrid-trainer",
            "seed": agent.seed,
            "num_steps": num_steps,
            "environment": {"name": "game_boy", "options": {"goal_badges": env.goal_badges}, "max_turns": max_steps},
            "method": method,
            **_model_values(trainer),
            "evaluation": {
                "every": eval_every,
                "num_problems": NUM_EVALUATED,
                "problems_per_block": NUM_EVALUATED,
                "sampling": [SAMPLING],
            },
            "retention": {"every": save_every, "evaluated": "best"},
            "store": {"kind": "local", "root": str(trainer.save_dir.absolute())},
            "tracking": {"kind": "none"},
        }
    )


def _learner_values(agent: HybridAgent) -> dict[str, Any]:
    if agent.learner is None:
        return {}
    rule = agent.learner.rule
    kept = {each.name for each in fields(rule)} - {
        "steps",
        "num_states",
        "num_actions",
        "state_gains",
        "network",
        "width",
    }
    network: dict[str, Any] = {"type": rule.network, "width": rule.width}
    gains = {name: gain for name, gain in zip(STATE_VARIABLES, rule.state_gains, strict=False) if gain != 1.0}
    if gains:
        network["state_gains"] = gains
    return {name: getattr(rule, name) for name in kept} | {"network": network}


def _model_values(trainer: Parts) -> dict[str, Any]:
    """The sections of the language model that is asked for buttons, as it is; none in a mode that asks nobody."""
    from components.session.checkpoint_loading import model_settings

    manager = trainer.llm_manager
    if trainer.agent.mode == "rl_only":
        return {"agents": {}, "policies": {}}
    if not isinstance(manager, LLMManager) or type(manager).get_action is not LLMManager.get_action:
        raise ConfigurationError(
            f"llm_manager {type(manager).__name__}: a run asks a model by its name, and cannot call a manager of your own; use "
            "LLMManager, or play and learn step by step with agent.get_action and agent.update"
        )
    if manager.max_context_length < LONGEST_QUESTION:
        raise ConfigurationError(
            f"max_context_length {manager.max_context_length}: a run asks each question alone, which may have "
            f"{LONGEST_QUESTION} tokens; use as many or more, or play step by step"
        )
    policy: dict[str, Any] = {"base": manager.model, "trained": False}
    if manager.model == "tiny":
        policy["tiny"] = {"max_position_embeddings": LONGEST_QUESTION}  # it reads letter by letter
    else:
        policy["prompt_format"] = model_settings(manager.model).prompt_format
    return {
        "agents": {"player": {"policy": "model"}},
        "policies": {"model": policy},
        "warm_start": {"max_steps": 0},
        "generation": {"device": manager.device},
    }


def name_run(config: RunConfig) -> str:
    """The name of the run: that of a configuration without its length. **Example** "hybrid-1f2e3d4c"."""
    settings = config.result_fields()
    settings.pop("num_steps", None)
    return f"hybrid-{fingerprint(settings)[:8]}"


def train_run(config: RunConfig, run_id: str, *, on_step: Callable[[IterationReport], None]) -> dict[str, Any]:
    """Train the run to `config.num_steps`; the flow's summary. A run of the name is continued. Raises what the flow raises."""
    from components.runs.resume_checks import validate_start
    from flows.prefect_runtime.settings import patient_with_temporary_server
    from flows.steps import steps_for
    from flows.train import flow_for, open_checked_session, using

    settled = with_sources(config)
    with open_checked_session(Run(run_id=run_id, config=settled)) as session:
        session.on_step = on_step
        validate_start(session.store, run_id, settled, steps_for(settled).pipeline)
        with using(session), patient_with_temporary_server(settled.resources.prefect_patience_seconds):
            return flow_for(settled)(settled, run_id)


def find_run(config: RunConfig, run_id: str) -> Run:
    """The run of this name and configuration, as it is stored, or new."""
    store = open_store(config.store)
    stored = Run(run_id=run_id, config=config) if read_config(store, run_id) is None else read_run(store, run_id)
    return stored.model_copy(update={"config": config})


def find_checkpoint(name: str, save_dir: Path, run_id: str | None) -> tuple[Run, int]:
    """The run and step of "latest" (of `run_id`, or of the newest run), "best", or RUN@STEP. Raises CheckpointError."""
    from flows.api.multi_model.checkpoints import find_checkpoint as find
    from flows.api.multi_model.checkpoints import list_available_checkpoints
    from flows.api.multi_model.errors import CheckpointNotFound

    if not isinstance(name, str | Path):
        raise CheckpointError(f"checkpoint_path {name!r}: give RUN@STEP, latest or best")
    named = Path(name).name
    if named == "best":
        best = save_dir / BEST
        named = best.read_text(encoding="utf-8") if best.is_file() else ""
    elif named == "latest":
        found = list_available_checkpoints(save_dir)
        named = next((each for each in found if run_id is None or each.startswith(f"{run_id}@")), "")
    try:
        _, run, step = find(named, save_dir)
    except CheckpointNotFound as error:
        raise CheckpointError(f"{error}; train first") from error
    return run, step


def check_parts(trainer: Parts) -> None:
    """Raise ConfigurationError where the trainer's parts have what no run can have, and so would have no effect."""
    from flows.api.hybrid.core.enhanced_pyboy_env import EnhancedPyBoyPokemonCrystalEnv as Env

    step_by_step = "or play and learn step by step with agent.get_action and agent.update"
    if type(trainer.env)._calculate_reward is not Env._calculate_reward:
        raise ConfigurationError(
            f"env {type(trainer.env).__name__}: a run cannot call its _calculate_reward; give the environment weights="
            f"RewardWeights(...), {step_by_step}"
        )
    if not trainer.env.headless:
        raise ConfigurationError(f"headless False: a run plays without a window; leave it out, {step_by_step}")
    if trainer.agent.num_updates:
        raise ConfigurationError(
            f"agent: has learned {trainer.agent.num_updates} times step by step, which a run does not begin with; make another"
        )
    planner = trainer.agent.adaptive_strategy.goal_planner
    if planner is not None and planner.goals != {goal.name: goal for goal in GOALS}:
        raise ConfigurationError(f"goal_planner: a run knows no goals of one's own; leave them out, {step_by_step}")


def first_strategy(run: Run) -> Strategy | None:
    """The strategy of a run's first stage; None where it has none. Raises CheckpointError for another method."""
    method = run.config.method
    if not isinstance(method, HybridMethod):
        raise CheckpointError(f"{run.run_id}: is no run of a hybrid player")
    curriculum = method.mode.curriculum if isinstance(method.mode, Adaptive) else None
    return Strategy(curriculum.stages[0].strategy) if curriculum is not None and curriculum.stages else None


def read_finished(
    run: Run, first: int, limit: int | None
) -> tuple[list[PlayedEpisode], list[Mapping[str, float]], float]:
    """Of the finished steps from `first` on, below `limit`: the episodes, except those that `troupe gc` has removed, and each
    step's metrics; and the highest mean reward of an evaluation up to there."""
    store = open_store(run.config.store)
    last = min(first_unfinished_step(store, run), limit if limit is not None else sys.maxsize)
    history, episodes = read_history(store, run, last), list[PlayedEpisode]()
    for step in range(first, last):
        with suppress(ArtifactMissing):
            episodes += [replace(each, decisions=()) for each in read_episodes(run, step)]
    best = max((each["mean_reward"] for each in history.evaluations), default=float("-inf"))
    return episodes, [each.summary.metrics for each in history.steps[first:]], best


def read_episodes(run: Run, step: int) -> list[PlayedEpisode]:
    """The episodes that ended in a finished step, in their order. Raises ArtifactMissing where they were removed."""
    store = open_store(run.config.store)
    from components.hybrid.experience import Experience
    from components.methods.hybrid.decision_histories import COLLECT

    [collected] = [each.output for each in step_manifests(store, run, step) if each.stage == COLLECT]
    experience = get(store, CollectedStep.model_validate(collected).experience, Experience)
    return read_recorded_episodes(experience.decisions, experience.goals_from_start)


def play_evaluation(run: Run, step: int) -> dict[str, float]:
    """The documented means of the run's evaluation after so many steps, of its episodes: its report has no deviation."""
    from components.session.session import Session
    from tasks.evaluate_policy import play_own_suite

    with Session(run) as session:
        play = play_own_suite(session, SAMPLING, checkpoints_before(session.store, run, step))
        metrics = method_for(run.config).evaluation.list_metrics(play)
    rewards = [reward for rewards_K in play.rewards_P_K for reward in rewards_K]
    return {
        "avg_reward": fmean(rewards),
        "std_reward": pstdev(rewards),
        "avg_length": metrics["episode_length"],
        "avg_llm_usage": metrics["llm_share"],
    }


def read_weights(run: Run, step: int) -> dict[str, Any]:
    """The learner's arrays after so many steps of a run. Raises ArtifactCorrupt and ArtifactMissing."""
    from components.methods.hybrid.learner_checkpoints import read_learner
    from components.session.session import Session

    with Session(run) as session:
        return read_learner(session, checkpoints_before(session.store, run, step)[REFLEXES])
