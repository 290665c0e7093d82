"""The evaluation of a hybrid run: whole games by its player, with starts that training has not seen.

What its training has evaluated is read, and what was played before: each evaluation is paid once.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pydantic import TypeAdapter

from components.artifacts.base import ArtifactStore
from components.config import RunConfig, parse_config
from components.config.hybrid import REFLEXES
from components.errors import ConfigurationError
from components.evaluation.held_out import Sampling
from components.evaluation.suites import Suite
from components.methods.contenders import ResultsStore, check_reached_step
from components.methods.hybrid.play import evaluated, suite_digest
from components.methods.hybrid.settings import hybrid_config
from components.runs.history import read_history
from components.runs.pipeline import Stage
from components.runs.run import Run, stage_key
from components.runs.shared_results import adopt_result
from components.runs.stage_protocol import run_stage
from components.runs.steps import checkpoints_before
from components.schema import EvalReport
from components.session.scenario import SUITE_SEED
from components.session.session import Session
from components.session.stores import open_store
from flows.evaluations import model_versions
from flows.presets import with_overrides
from tasks.refresh_weights import ensure_loaded

PLAY_GAMES = Stage(
    name="play_games",
    version=3,
    reads=(
        "seed",
        "environment",
        "agents",
        "policies",
        "generation",
        "method",
        "evaluation.num_problems",
        "evaluation.problems_per_block",
    ),
    scope="shared",
    retries=0,
    delay_seconds=0,
    timeout_seconds=4 * 3600,
)
_EFFECTIVE = (
    "method.game",
    "method.game.rom",
    "environment.max_turns",
    "environment.options.goal_badges",
    "evaluation.num_problems",
    "evaluation.problems_per_block",
)
_REPORT = TypeAdapter(EvalReport)


def games_report(
    run: Run,
    step: int | None,
    *,
    suite: str | Suite | None,
    sampling: Sampling,
    num_samples: int,
    seed: int,
    num_problems: int | None,
    overrides: Sequence[str],
    results: ResultsStore,
    progress: Callable[[int, int], None],
) -> EvalReport:
    """The report of the run's player after `step` updates (None: all that are finished); `seed` chooses the starts.

    Raises ConfigurationError for what has no effect on held-out games.
    """
    if suite is not None:
        named = suite if isinstance(suite, str) else suite.title
        raise ConfigurationError(
            f"--suite {named!r}: run {run.run_id} plays the held-out games of its own configuration; leave it out, or change "
            "these, as --set method.game=homebrew"
        )
    if num_samples != 1:
        raise ConfigurationError(
            f"--samples {num_samples}: run {run.run_id} plays each start once; leave it out, or ask for more starts, as "
            "--problems 200"
        )
    at = check_reached_step(run, step)
    played = run.model_copy(update={"config": _games_config(run, overrides, num_problems)})
    return player_report(played, at, sampling, trained=run, seed=seed, results=results, progress=progress)


def player_report(
    run: Run,
    at: int,
    sampling: Sampling,
    *,
    trained: Run,
    seed: int = SUITE_SEED,
    results: ResultsStore,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> EvalReport:
    """The report of `trained` after `at` updates in the games of `run`, which differs from it in its configuration at most."""
    store = open_store(run.config.store)
    with Session(run) as session:
        wanted = (f"{run.run_id}@{at}", suite_digest(session), sampling, seed)
        for known in own_reports(store, trained, at) if run.config.generation == trained.config.generation else ():
            if (known.agent, known.suite_digest, known.sampling, known.seed) == wanted:
                return known
        checkpoints = checkpoints_before(store, trained, at)
        versions = model_versions(session, checkpoints)
        learner = checkpoints[REFLEXES]
        weights = {name: each.weights_digest for name, each in versions.items()}
        decided_by = {"learner": [learner.weights_digest, learner.optimizer_digest], "models": weights, "seed": seed}
        kept, key = open_store(results.config), stage_key(PLAY_GAMES, run, {"part": sampling, **decided_by})
        if results.earlier is not None:
            adopt_result(kept, key, earlier=open_store(results.earlier))

        def play() -> EvalReport:
            ensure_loaded(session, versions)
            return evaluated(session, at, sampling, learner, versions, seed=seed, progress=progress)

        found = run_stage(kept, key, play, EvalReport).output
    return replace(found, agent=f"{run.run_id}@{at}", step=at)


def own_reports(store: ArtifactStore, run: Run, at: int) -> list[EvalReport]:
    """What the run's training has reported up to `at` updates."""
    return [_REPORT.validate_python(each) for each in read_history(store, run, at).evaluations]


def own_sampling(run: Run) -> Sampling:
    """How a run's player is shown best: sampled, if its own evaluations are; a greedy one walks against walls."""
    samplings = run.config.evaluation.sampling
    return "sample" if "sample" in samplings else samplings[0]


def _games_config(run: Run, overrides: Sequence[str], num_problems: int | None) -> RunConfig:
    """The configuration of the run with other games. Raises ConfigurationError."""
    asks_model = hybrid_config(run.config).mode.asks_for_buttons
    for each in overrides:
        name = each.partition("=")[0]
        if name not in _EFFECTIVE and not (asks_model and name.startswith("generation.")):
            effective = (*_EFFECTIVE, "generation") if asks_model else _EFFECTIVE
            raise ConfigurationError(
                f"--set {each!r}: changes no held-out game of run {run.run_id}; set one of {', '.join(effective)}, or leave it "
                "out"
            )
    if num_problems is not None:
        overrides = [*overrides, f"evaluation.num_problems={num_problems}"]
    if not overrides:
        return run.config
    values = run.config.model_dump(mode="json", exclude={"tracking"})
    # What a choice of theirs sets in the engine is a default, and none of these is one.
    values["generation"] = run.config.generation.model_dump(mode="json", exclude_defaults=True)
    values["method"]["game"].pop("starts", None)  # held-out games begin at the start
    return parse_config(with_overrides(values, overrides))
