"""Everything that can be found wrong before anything expensive starts."""

import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from components.algorithms.registry import estimator
from components.artifacts.base import ArtifactStore
from components.config import RunConfig, StoreConfig
from components.errors import ConfigurationError, ServiceMissing, StoreRefused, StoreUnavailable, TrackingUnavailable
from components.own_code import is_own
from components.tracking.base import Tracker
from components.turn_order import agents_of
from flows.problem_counts import check_problem_counts
from flows.runners import check_ray, task_runner
from tasks.engines import Engines
from tasks.first_checkpoints import check_bases
from tasks.scenario import scenario_of
from tasks.session import Session
from tasks.stores import open_store, s3_endpoint

_log = logging.getLogger(__name__)
LEAST_FREE_BYTES = 500 * 2**20


def preflight(session: Session) -> None:
    """Return when the session's run can start; otherwise raise one error that names the field, the value and the remedy.

    Raises ConfigurationError, ServiceMissing, EngineUnavailable, StaleEngine, StoreRefused or StoreUnavailable.
    """
    check_configuration(session.config)
    check_services(session)


def check_configuration(config: RunConfig) -> None:
    """What is wrong in the configuration itself or with what it names, whatever services run here."""
    check_environment(config)
    check_own_code(config)
    check_problem_counts(config)
    check_devices(config)
    check_ray(config.resources)
    check_space(config)
    with closing(Engines(config)) as engines:
        engines.check_apis()
        if config.generation.vllm.urls:
            check_engines(config, engines)
    if config.store.kind == "local":
        check_store(config)


def check_services(session: Session) -> None:
    """What a run needs beside its configuration: packages, boxes, engines, the store, MLflow."""
    config = session.config
    task_runner(config.resources)
    session.toolbox.open()
    if not config.generation.vllm.urls:
        check_engines(config, session.engines)
    if config.store.kind != "local":
        check_store(config)
    check_tracking(session.tracker)


def check_engines(config: RunConfig, engines: Engines) -> None:
    """The vLLM servers answer, where some are asked for."""
    if config.generation.engine == "vllm":
        engines.check_servers()


def check_store(config: RunConfig) -> None:
    """The store can be used, and holds the policies before training, or these can be made."""
    check_bases(probe_store(config.store), config)


def check_base_names(config: RunConfig) -> None:
    """Every base is there. For where no store can be asked whether the policies have been made already."""
    from components.training.bases import check_base

    for policy, settings in config.policies.items():
        check_base(policy, settings)


def check_tracking(tracker: Tracker) -> None:
    """Warn where the tracking server is away: reports wait for it. Raises ConfigurationError for a wrong address."""
    try:
        tracker.check()
    except TrackingUnavailable as error:
        _log.warning("training starts without MLflow, reports wait in the store: %s", error)


def check_environment(config: RunConfig) -> None:
    """The environment exists, its options hold, its roles are played, and the rubric names real components."""
    scenario = scenario_of(config)
    roles = scenario.family.roles
    playing = agents_of(scenario.turn_order, roles)
    missing, unknown = set(playing) - set(config.agents), set(config.agents) - set(roles)
    if missing or unknown:
        raise ConfigurationError(
            f"agents: {sorted(config.agents)} given, but {config.environment.name} in rollout.mode {config.rollout.mode} "
            f"is played by {sorted(playing)}; name these"
        )
    _ = scenario.rubric, scenario.overlong  # each raises what is wrong with it


def check_own_code(config: RunConfig) -> None:
    """The reward functions, the advantage and the loss that are the user's own can be called.

    Raises ConfigurationError with the field, the file and the line.
    """
    _ = scenario_of(config).own_rewards
    estimator(config.algorithm.advantage, source=config.algorithm.source)
    if is_own(config.loss.policy_loss):
        from components.algorithms.loss_registry import policy_loss  # imports torch, as every loss does

        policy_loss(config.loss)


def check_devices(config: RunConfig) -> None:
    """The devices that the configuration names are there."""
    for field, device in (("generation", config.generation.device), ("training", config.training.device)):
        if device == "cuda" and not cuda_is_available():
            raise ServiceMissing(f"{field}.device is cuda, but torch sees no CUDA device here; set {field}.device=cpu")


def cuda_is_available() -> bool:
    """Whether torch sees a CUDA device."""
    import torch

    return torch.cuda.is_available()


def check_space(config: RunConfig) -> None:
    """A local store has room to start with, and so has the folder for temporary files."""
    if config.store.kind == "local":
        check_free(Path(str(config.store.root)).absolute(), field="store.root", remedy="free some space")
    remedy = "free some space, or let TMPDIR name another folder"
    check_free(Path(tempfile.gettempdir()), field="TMPDIR", remedy=remedy)


def check_free(folder: Path, *, field: str, remedy: str) -> None:
    """Raise ServiceMissing when the disk of `folder`, which need not exist yet, is nearly full."""
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    total, _, free = shutil.disk_usage(existing)
    if (
        total and free < LEAST_FREE_BYTES
    ):  # a total of 0 is no disk; that nothing can be written there is told elsewhere
        raise ServiceMissing(
            f"{field} {folder}: {free / 2**20:.0f} MiB are free, a run needs {LEAST_FREE_BYTES // 2**20}; {remedy}"
        )


def probe_store(config: StoreConfig) -> ArtifactStore:
    """The store, once it has proved that it can be used."""
    store = open_store(config)
    try:
        with naming_local_server(config):
            store.probe()
    except (StoreRefused, StoreUnavailable) as error:
        if config.kind != "local":
            raise
        raise type(error)(f"store.root {config.root}: {error}; name a folder that this user may write") from error
    return store


@contextmanager
def naming_local_server(config: StoreConfig) -> Iterator[None]:
    """Where no S3 server was named and AWS does not serve, say how to get a local one."""
    try:
        yield
    except (StoreRefused, StoreUnavailable) as error:
        if config.kind == "s3" and config.endpoint_url is None and s3_endpoint() is None:
            raise type(error)(f"{error}; for a local S3 server run `troupe up`") from error
        raise
