"""What a model path names, a run's checkpoint or model folders, and its weights loaded into engines."""

import re
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from components.artifacts.base import ArtifactStore
from components.artifacts.format import check_format
from components.config import RunConfig, StoreConfig
from components.errors import ConfigurationError
from components.evaluation.held_out import Sampling
from components.rollout.router import Router
from components.runs.lineages import indexed_runs, read_config, read_lineages
from components.runs.run import Run
from components.runs.session_records import effective_run
from components.runs.steps import checkpoints_before, first_unfinished_step
from components.schema import PolicyVersion
from components.scratch import scratch_folder
from components.session.contenders import Player, Team
from components.session.session import Session
from components.session.stores import open_store
from components.suggestions import suggest
from flows.api.petting.run_configs import run_config, stated_config

_MODEL = re.compile(r"model_([0-9]{1,9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run in a folder, and the number of its updates; None for all that it has finished."""

    run: Run
    step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTeam:
    """Policies in engines of their own, freed by `close` or a `with` block. `name` is "RUN@STEP" or the model's path."""

    name: str
    session: Session
    router: Router
    ends: ExitStack = field(repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def config(self) -> RunConfig:
        """The configuration of the run, or of the models."""
        return self.session.config

    def close(self) -> None:
        """Free the engines. The team cannot be used afterwards."""
        self.ends.close()


def stored_run(model_path: str | Path, *, run_id: str | None = None) -> StoredRun | None:
    """The run that a path names; None if it leads to no folder of runs.

    A path is `DIR/RUN`, `DIR/RUN/model_STEP`, and `DIR` or `DIR/model_STEP` for the run `run_id`, or the only one there; DIR is
    the `checkpoint_dir` of a training. Raises ConfigurationError if the folder has no such run.
    """
    path = Path(model_path).expanduser().absolute()
    model = _MODEL.fullmatch(path.name)
    place, step = (path.parent, int(model[1])) if model else (path, None)
    if _is_store(place):
        return StoredRun(run=_read_run(place, _only_run(place, run_id, path)), step=step)
    if _is_store(place.parent):
        return StoredRun(run=_read_run(place.parent, place.name), step=step)
    has_folder = "/" in str(model_path) and path.parent.exists()
    if model or (has_folder and not path.exists()):  # no name on a hub
        raise ConfigurationError(
            f"model_path {str(model_path)!r}: there is no run in {place} and no such folder of a model"
        )
    return None


def load_team(model_path: str | Path, config_name: str | dict[str, Any] | None = None) -> StoredTeam:
    """The team of a checkpoint or a model, its weights loaded. Raises ConfigurationError."""
    stated = None if config_name is None else stated_config(config_name, None, {})
    stored = stored_run(model_path, run_id=str(stated["config_name"]) if stated else None)
    if stored is not None:
        return load_run(stored)
    if stated is None:
        raise ConfigurationError(f"config_name: name the team that {str(model_path)!r} plays in, as code_single_policy")
    return load_models(model_path, stated)


def load_run(stored: StoredRun) -> StoredTeam:
    """The team of a run after its updates, its weights verified by digest. Raises ConfigurationError for a step it has not."""
    from tasks.refresh_weights import refresh_weights  # imports Prefect, which takes seconds

    run = stored.run
    with ExitStack() as unless_loaded:
        session = unless_loaded.enter_context(Session(run))
        num_finished = first_unfinished_step(session.store, run)
        step = num_finished if stored.step is None else stored.step
        if step > num_finished:
            raise ConfigurationError(
                f"model_{step}: run {run.run_id} has finished {num_finished} updates; use model_0 to model_{num_finished}"
            )
        versions = refresh_weights.fn(session, step, checkpoints_before(session.store, run, step))
        router = session.router(versions)
        return StoredTeam(name=f"{run.run_id}@{step}", session=session, router=router, ends=unless_loaded.pop_all())


def load_models(model_path: str | Path, stated: Mapping[str, Any]) -> StoredTeam:
    """The team of a configuration whose policies are untrained models: a folder, a folder of them by policy, or a hub name.

    Raises ConfigurationError if there is no such model.
    """
    config = _models_config(model_path, stated)
    whole = config.policies
    with ExitStack() as unless_loaded:
        work = unless_loaded.enter_context(tempfile.TemporaryDirectory(prefix="models-", dir=scratch_folder()))
        session = unless_loaded.enter_context(Session(Run(run_id="evaluation", config=config)))
        versions = {name: _load_model(session, name, Path(work) / name) for name in whole}
        router = session.router(versions)
        return StoredTeam(name=str(model_path), session=session, router=router, ends=unless_loaded.pop_all())


def model_team(model_path: str | Path, stated: Mapping[str, Any]) -> Team:
    """The same team for an evaluation: nothing is loaded yet. Raises ConfigurationError if there is no such model."""
    config = _models_config(model_path, stated)
    players = {name: Player(settings=policy, weights=policy.base) for name, policy in config.policies.items()}
    return Team(name=str(model_path), agents=config.agents, players=players, learned=config)


def _models_config(model_path: str | Path, stated: Mapping[str, Any]) -> RunConfig:
    """The stated configuration with whole models as its policies, each of which is there."""
    from components.models.base_checks import check_base

    bases = _bases(str(model_path), run_config(stated))
    config = run_config({**stated, "base_model": bases})
    whole = {name: policy.model_copy(update={"adapter": None}) for name, policy in config.policies.items()}
    for name, policy in whole.items():
        check_base(name, policy)
    return config.model_copy(update={"policies": whole})


def checked_sampling(text: str) -> Sampling:
    """`sampling`, checked. Raises ConfigurationError."""
    if text not in ("greedy", "sample"):
        raise ConfigurationError(f"sampling {text!r}: use greedy or sample")
    return "greedy" if text == "greedy" else "sample"


def _load_model(session: Session, policy: str, work: Path) -> PolicyVersion:
    from components.models.loading import prepare_model_folder
    from components.training.checkpoint import write_initial_checkpoint

    settings = session.config.policies[policy]
    if prepare_model_folder(settings, alphabet="", seed=0, into=work / "model"):
        raise ConfigurationError(
            "model_path 'tiny': such a model knows nothing before a run has trained it; name a run"
        )
    manifest = write_initial_checkpoint(work / "model", work / "checkpoint", policy)
    version = PolicyVersion(policy=policy, step=0, weights_digest=manifest.weights_digest)
    session.engines.of(policy).load(work / "model", version)
    return version


def _bases(model_path: str, config: RunConfig) -> dict[str, str]:
    """The base of each policy: a folder of its own below the path, else the path itself."""
    path = Path(model_path).expanduser()
    if not path.is_dir():
        return dict.fromkeys(config.policies, model_path)
    for folder in (path, *(path / name for name in config.policies)):
        if (folder / "adapter_config.json").is_file():
            raise ConfigurationError(
                f"model_path {model_path!r}: {folder} is an adapter without its base; export it with "
                "`troupe export RUN@STEP DIR --merged`, or name the run's folder"
            )
    own = {name: str(path / name) for name in config.policies if (path / name / "config.json").is_file()}
    if own and len(own) < len(config.policies):
        raise ConfigurationError(
            f"model_path {model_path!r}: has models of {sorted(own)}, but the policies are {sorted(config.policies)}; name a "
            "configuration with these policies, or one model's folder"
        )
    return own or dict.fromkeys(config.policies, str(path))


def _is_store(folder: Path) -> bool:
    return (folder / "format.json").is_file()


def _opened(folder: Path) -> ArtifactStore:
    store = open_store(StoreConfig(kind="local", root=str(folder)))
    check_format(store)
    return store


def _only_run(folder: Path, run_id: str | None, path: Path) -> str:
    runs = indexed_runs(_opened(folder))
    if run_id in runs:
        return str(run_id)
    if len(runs) != 1:
        raise ConfigurationError(
            f"model_path {str(path)!r}: the folder has the runs {runs}; name one, as {folder / 'RUN' / path.name}"
        )
    return runs[0]


def _read_run(folder: Path, run_id: str) -> Run:
    """The run as its results show it, in the store where it was found."""
    store = _opened(folder)
    config = read_config(store, run_id)
    if config is None:
        runs = indexed_runs(store)
        raise ConfigurationError(f"model_path {str(folder / run_id)!r}: there is no such run; {suggest(run_id, runs)}")
    lineages = tuple(read_lineages(store, run_id))
    run = Run(run_id=run_id, config=lineages[-1].config if lineages else config, lineages=lineages)
    return effective_run(store, run).kept_in(StoreConfig(kind="local", root=str(folder)))
