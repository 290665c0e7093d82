"""From the documented parts to a run of the hybrid method, and back: the one place that knows configuration, flow and store."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from components.config import HybridMethod, RunConfig, parse_config
from components.config.hybrid import Adaptive
from components.errors import ConfigurationError
from components.hybrid.curriculum import list_stages
from components.hybrid.goals import GOALS
from components.hybrid.rewards import RewardWeights
from components.hybrid.strategies import Strategy
from components.identity import fingerprint
from components.runs.lineages import read_lineages
from components.runs.run import Run
from components.session.checkpoint_loading import model_settings
from components.session.stores import open_store
from flows.api.hybrid.configs import read_curriculum
from flows.api.hybrid.core.exceptions import CheckpointError
from flows.api.hybrid.core.hybrid_agent import HybridAgent
from flows.api.hybrid.trainer.llm_manager import BaseLLMManager, LLMManager

if TYPE_CHECKING:
    from flows.api.hybrid.core.enhanced_pyboy_env import EnhancedPyBoyPokemonCrystalEnv

SAMPLING: Literal["sample"] = "sample"
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
    first_strategy: Strategy


def build_config(
    trainer: Parts, *, num_steps: int, max_steps: int, save_every: int, eval_every: int, patience: int
) -> RunConfig:
    """The configuration of a run of the trainer's game, agent and model, with episodes of at most `max_steps` buttons.

    `save_every` and `eval_every` are in steps of the run, `patience` is in episodes. Raises ConfigurationError.
    """
    env, agent = trainer.env, trainer.agent
    max_steps, plain = min(max_steps, env.max_steps or max_steps), asdict(RewardWeights())
    mode: dict[str, Any] = {"type": agent.mode.value}
    network = {} if agent.learner is None else {"network": {"type": agent.learner.rule.network}}
    is_crystal = env.rom_path not in ("twin", "homebrew")
    method: dict[str, Any] = {
        "type": "hybrid",
        "mode": mode,
        "num_games": 1,
        "learner": {"steps": max_steps, **network},
        "weights": {name: value for name, value in asdict(env.weights).items() if value != plain[name]},
        "keeps_decisions": True,
        "game": {"type": "crystal", "rom": str(Path(env.rom_path).absolute())}
        if is_crystal
        else {"type": env.rom_path},
    }
    if agent.mode == "adaptive":
        rule = read_curriculum(agent.curriculum_config)
        stages = [each.model_dump() for each in list_stages(rule)]
        stages[0]["strategy"] = trainer.first_strategy.value
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


def _model_values(trainer: Parts) -> dict[str, Any]:
    """The sections of the language model that is asked for buttons, as it is; none in a mode that asks nobody."""
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


def find_run(config: RunConfig) -> Run:
    """The run of this configuration, as it is stored, or new. Its name is that of all but its length.

    **Example** "hybrid-1f2e3d4c".
    """
    settings = config.result_fields()
    settings.pop("num_steps", None)
    run_id = f"hybrid-{fingerprint(settings)[:8]}"
    return Run(run_id=run_id, config=config, lineages=tuple(read_lineages(open_store(config.store), run_id)))


def find_checkpoint(name: str, save_dir: Path, run_id: str | None) -> tuple[Run, int]:
    """The run and step of "latest" (of `run_id`, or of the newest run), "best", or RUN@STEP. Raises CheckpointNotFound."""
    from flows.api.multi_model import checkpoints

    named, best = Path(name).name, save_dir / BEST
    if named == "best" and best.is_file():
        named = best.read_text(encoding="utf-8")
    elif named == "latest":
        found = checkpoints.list_available_checkpoints(save_dir)
        named = next((each for each in found if run_id is None or each.startswith(f"{run_id}@")), named)
    return checkpoints.find_checkpoint(named, save_dir)[1:]


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
