"""What a model path names: a team, a session in which it plays, and agents that answer by it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from components.artifacts.format import check_format
from components.config import RunConfig, StoreConfig
from components.errors import ConfigurationError
from components.evaluation.held_out import Sampling, temperature_of
from components.evaluation.subjects import RunSubject, is_model_folder
from components.identity import seed_for
from components.machine.closeable import Closeable
from components.methods.open_subjects import OpenSubject, Player, Team, find_team, open_subject
from components.runs.lineages import list_indexed_runs
from components.runs.run import Run
from components.schema import Observation
from components.session.checkpoint_loading import check_model, model_settings
from components.session.stores import open_store
from flows.api.fields import AnyPath, check_arguments
from flows.api.petting.configs import OVERRIDES, merge_config, run_config
from flows.api.petting.multi_agent_env.base import Observed
from flows.own_files import with_environment_source
from flows.suites import as_own, overridden, pick_played_overrides, team_overrides

_MODEL = re.compile(r"model_([0-9]{1,9})")


@contextmanager
def open_team(
    model_path: str | Path, stated: Mapping[str, Any] | None, overrides: Sequence[str] = ()
) -> Iterator[tuple[OpenSubject, RunConfig]]:
    """The team of a model path in a session of its own, which ends with the block, and what it plays: the configuration
    `stated`, or what it was trained on (None).

    A path is `DIR/RUN`, `DIR/RUN/model_STEP`, and `DIR` or `DIR/model_STEP` for the run that `stated` names, or the only one
    there; DIR is the `checkpoint_dir` of a training. Else it is a model, or a folder of models by policy. Results are kept in
    the store of the run. `overrides` change what is played, and how the team answers. Raises ConfigurationError.
    """
    from flows.evaluate import find_stored_run, open_results_store  # imports Prefect, which takes seconds

    found, kept = _find_run(model_path, None if stated is None else str(stated["config_name"])), None
    if found is None:
        team, played = _build_model_team(model_path, stated)
    else:
        run, step = find_stored_run(*found)
        team = find_team(found[1], lambda _: (run, step), title=str(model_path))
        played, kept = build_played_config(stated, run), run.config.store
    played = overridden(played, pick_played_overrides(overrides))

    def adjust(config: RunConfig) -> RunConfig:
        return overridden(config, team_overrides(overrides))

    with open_results_store(kept) as store, open_subject(team, played, store=store, adjust=adjust) as opened_subject:
        yield opened_subject, played


def build_played_config(stated: Mapping[str, Any] | None, run: Run) -> RunConfig:
    """What a run's team plays: the stated configuration, read and computed as the team learned it; or the run's own.

    The run's own is meant by None, and by the bare name of the run or of its configuration.
    """
    own = run.config
    if stated is None or stated in ({"config_name": own.preset}, {"config_name": run.run_id}):
        return own
    return with_environment_source(as_own(run_config(stated), own, stated.get(OVERRIDES) or ()))


class LoadedTeam(Closeable):
    """The team of a checkpoint or a model, its weights loaded and verified; freed by `close` or a `with` block."""

    def __init__(self, model_path: str | Path, config_name: str | dict[str, Any] | None = None) -> None:
        """`model_path` and `config_name` are those of `evaluate`. Raises ConfigurationError."""
        stated = None if config_name is None else merge_config(config_name, {})
        with ExitStack() as opened:
            team, _ = opened.enter_context(open_team(model_path, stated))
            team.load()
            self._session, self._router = team.session, team.session.router(dict(team.versions))
            self._ends = opened.pop_all()

    def close(self) -> None:
        """Free engines and sandboxes."""
        self._ends.close()


class PolicyAgent(LoadedTeam):
    """Plays every role of a team by the policies of a checkpoint, or by a model.

    **Example** `with PolicyAgent("checkpoints/model_2000", "code_single_policy") as agent: agent.act(obs)`.
    """

    @check_arguments
    def __init__(
        self,
        model_path: AnyPath,
        config_name: str | dict[str, Any] | None = None,
        *,
        sampling: Sampling = "greedy",
        seed: int = 0,
    ) -> None:
        self._temperature = temperature_of(sampling)
        self._seed, self._num_answers = seed, 0
        super().__init__(model_path, config_name)

    def act(self, obs: Observed) -> str:
        """The answer of the policy that plays `obs["agent"]`. Sampled ones have a seed each."""
        seen = Observation(instructions=str(obs["instructions"]), state=str(obs["state"]))
        seed = seed_for(self._seed, "act", self._num_answers)
        self._num_answers += 1
        return self._router.answer(str(obs["agent"]), seen, temperature=self._temperature, seed=seed)


def _find_run(model_path: str | Path, run_id: str | None) -> tuple[StoreConfig, RunSubject] | None:
    """The folder of runs to which a path leads, and the run in it; None if it leads to none."""
    path = Path(model_path).expanduser().absolute()
    model = _MODEL.fullmatch(path.name)
    place, step = (path.parent, int(model[1])) if model else (path, None)
    for folder, name in ((place, None), (place.parent, place.name)):
        if (folder / "format.json").is_file():
            store = StoreConfig(kind="local", root=str(folder))
            check_format(open_store(store))
            return store, RunSubject(name or _find_only_run(store, run_id, path), step)
    has_folder = "/" in str(model_path) and path.parent.exists()
    if model or (has_folder and not path.exists()):  # no name on a hub
        raise ConfigurationError(
            f"model_path {str(model_path)!r}: there is no run in {place} and no such folder of a model"
        )
    return None


def _find_only_run(store: StoreConfig, run_id: str | None, path: Path) -> str:
    runs = list_indexed_runs(open_store(store))
    if run_id not in runs and len(runs) != 1:
        raise ConfigurationError(
            f"model_path {str(path)!r}: the folder has the runs {runs}; name one, as {store.root}/RUN/{path.name}"
        )
    return runs[0] if run_id not in runs else str(run_id)


def _build_model_team(model_path: str | Path, stated: Mapping[str, Any] | None) -> tuple[Team, RunConfig]:
    """The team whose policies are models, each in a folder of its name below the path, else all the path itself, and what it
    plays. Raises ConfigurationError if there are none."""
    if stated is None:
        raise ConfigurationError(f"config_name: name what the model {str(model_path)!r} plays, as code_single_policy")
    policies, path = run_config(stated).policies, Path(model_path).expanduser()
    models = {name: str(path / name if is_model_folder(path / name) else path) for name in policies}
    for model in models.values():
        check_model(model)
    bases = {policy: model_settings(model).base for policy, model in models.items()}
    played = with_environment_source(run_config({**stated, "base_model": bases}))
    players = {
        policy: Player(settings=settings.model_copy(update={"adapter": None}), weights=models[policy])
        for policy, settings in played.policies.items()
    }
    return Team(name=str(model_path), agents=played.agents, players=players), played
