"""The evaluation of a player of games: whole episodes from starts that training has not seen."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from components.config import RunConfig
from components.config.hybrid import LEARNER_POLICY, PLAYER, Crystal
from components.environments.base import Tools
from components.evaluation.held_out import EvalPlan, ReportHeader, Sampling
from components.evaluation.suite_play import SuitePlay
from components.evaluation.suites import Suite
from components.identity import fingerprint, seed_for
from components.machine.torch_state import computing_with
from components.methods.base import Evaluation, Seating, Versions, Weights
from components.methods.hybrid.learner_checkpoints import LearnerState, lesson_in, read_arrays
from components.methods.hybrid.play import find_llm_actor
from components.methods.hybrid.settings import games_opener, hybrid_config, hybrid_settings
from components.methods.open_subjects import StoredWeights
from components.metrics import mean
from components.rollout.play import ProblemProgress
from components.schema import Problem
from components.session.checkpoint_cache import CheckpointCache
from components.session.scenario import Scenario
from components.session.session import Session
from components.session.stores import open_store

if TYPE_CHECKING:
    from components.hybrid.recording_games import Played

_EFFECTIVE = (
    "method.game",
    "method.game.rom",
    "environment.max_turns",
    "environment.options.goal_badges",
    "evaluation.num_problems",
    "evaluation.problems_per_block",
)


class HeldOutGames(Evaluation):
    """The evaluation of a hybrid run: its own games. A problem is a start, whose number and the suite's seed decide it."""

    def list_effective(self, config: RunConfig) -> tuple[str, ...]:
        """Where a language model presses buttons, the engine too."""
        return (*_EFFECTIVE, "generation") if hybrid_config(config).mode.asks_for_buttons else _EFFECTIVE

    def dump_effective(self, config: RunConfig) -> dict[str, Any]:
        """Without the starts of training: held-out games begin at the start."""
        values = config.model_dump(mode="json", exclude={"tracking"})
        # What a choice of theirs sets in the engine is a default, and none of these is one.
        values["generation"] = config.generation.model_dump(mode="json", exclude_defaults=True)
        values["method"]["game"].pop("starts", None)
        return values

    def plan(
        self, scenario: Scenario, suite: Suite, *, sampling: Sampling, seed: int, num_samples: int = 1
    ) -> EvalPlan:
        """The starts of the suite's seed, each played once. Its blocks have a seed each, by the number of their first start."""
        name = scenario.config.environment.name
        numbers = range(suite.num_problems)
        return EvalPlan(
            split=suite.split,
            sampling=sampling,
            problems=tuple(
                Problem(problem_id=str(each), environment=name, payload={"start": each}) for each in numbers
            ),
            problems_per_block=suite.problems_per_block,
            turn_order=scenario.turn_order,
            max_turns=scenario.config.environment.max_turns,
            seed=suite.seed,
        )

    def name_players(
        self, session: Session, plan: EvalPlan, versions: Versions, weights: Weights, seating: Seating = None
    ) -> dict[str, Any]:
        """What decides each button: the learner with all that its arbitration has measured, the language model, the method."""
        learner = _stored_learner(weights).checkpoint
        return {
            "learner": [learner.weights_digest, learner.optimizer_digest],
            "models": {name: each.weights_digest for name, each in versions.items() if name in session.config.policies},
            "config": session.config.model_dump(
                mode="json", include={"seed", "agents", "policies", "method"}, exclude_defaults=True
            ),
        }

    def play(
        self,
        session: Session,
        plan: EvalPlan,
        versions: Versions,
        weights: Weights,
        *,
        seating: Seating,
        tools: Tools,
        progress: ProblemProgress,
    ) -> SuitePlay:
        """The episodes of a block, played at once; what training measures is used and not changed."""
        from components.hybrid.evaluation_games import play_held_out

        began_at_seconds = monotonic()
        num_episodes, first = len(plan.problems), int(plan.problems[0].payload["start"])
        state = _read_learner(session, _stored_learner(weights))
        with computing_with(1):
            played = play_held_out(
                hybrid_settings(session.scenario, lesson_in(state)),
                state,
                num_episodes=num_episodes,
                seed=seed_for(plan.seed, "game_boy", first),
                is_greedy=plan.sampling == "greedy",
                llm_actor=find_llm_actor(session, versions),
                open_games=games_opener(hybrid_config(session.config)),
            )
        progress(num_episodes, num_episodes)
        return _name_episodes(plan, played, seconds=monotonic() - began_at_seconds)

    def head(self, scenario: Scenario, plan: EvalPlan, *, agent: str, step: int) -> ReportHeader:
        """Of one digest are evaluations of equal starts, goal and length.

        **Example** `suite` "game_boy/homebrew", on the cartridge as on its rules in NumPy.
        """
        settings, game = hybrid_settings(scenario), hybrid_config(scenario.config).game
        rules = {
            "game": game.type,
            "starts": "held out",
            "goal": settings.goal_badges,
            "steps": settings.max_steps,
            "n": len(plan.problems),
            "block": plan.problems_per_block,
        }
        name = "crystal" if isinstance(game, Crystal) else "homebrew"
        return ReportHeader(
            agent=agent,
            suite=f"{scenario.config.environment.name}/{name}",
            suite_digest=fingerprint(rules)[:12],
            step=step,
            sampling=plan.sampling,
            seed=plan.seed,
        )

    def list_metrics(self, play: SuitePlay) -> dict[str, float]:
        """How far episodes came, how long they were, and the language model's share of the buttons."""
        lengths = [turns for turns_K in play.turns_P_K for turns in turns_K]
        solved = [each for solved_K in play.solved_P_K for each in solved_K]
        rewards = [reward for rewards_K in play.rewards_P_K for reward in rewards_K]
        measured = {name: [value for row in rows for value in row] for name, rows in play.measures_P_K.items()}
        to_goal = [length for length, is_solved in zip(lengths, solved, strict=True) if is_solved]
        return {
            "starter_rate": mean(measured["starter"]),
            f"{PLAYER}/payoff": mean(rewards),
            "llm_share": sum(measured["buttons_of_llm"]) / max(1, sum(lengths)),
            "episode_length": mean(lengths),
            **({"steps_to_goal": mean(to_goal)} if to_goal else {}),
        }


def _stored_learner(weights: Weights) -> StoredWeights:
    found = weights[LEARNER_POLICY].weights
    assert isinstance(found, StoredWeights), f"the learner is a checkpoint, not {found}"
    return found


def _read_learner(session: Session, learner: StoredWeights) -> LearnerState:
    """The learner's arrays, from the store of the run that trained it."""
    with _open_copies(session, learner) as copies:
        return read_arrays(copies, learner.checkpoint)


@contextmanager
def _open_copies(session: Session, learner: StoredWeights) -> Iterator[CheckpointCache]:
    if learner.run.config.store == session.config.store:
        yield session.copies
        return
    copies = CheckpointCache(open_store(learner.run.config.store), num_policies=1)
    try:
        yield copies
    finally:
        copies.close()


def _name_episodes(plan: EvalPlan, played: "Played", *, seconds: float) -> SuitePlay:
    """The episodes of a block as the play of its problems, one of each."""

    def column(values_N: Any) -> tuple[tuple[Any, ...], ...]:
        return tuple((value,) for value in values_N.tolist())

    return SuitePlay(
        problems_P=tuple(each.problem_id for each in plan.problems),
        solved_P_K=column(played.goal_N),
        rewards_P_K=column(played.rewards_N),
        turns_P_K=column(played.lengths_N),
        measures_P_K={
            "starter": column(played.starter_N.astype(float)),
            "buttons_of_llm": column(played.by_llm_N.astype(float)),
        },
        seconds=seconds,
    )
