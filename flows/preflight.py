"""Everything that can be found wrong before anything expensive starts."""

import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from components.algorithms.registry import estimator
from components.artifacts.base import ArtifactStore
from components.config import RunConfig, StoreConfig
from components.environments.registry import family, family_options
from components.errors import ConfigurationError, ServiceMissing, StoreRefused, StoreUnavailable, TrackingUnavailable
from components.own_code import is_own
from components.rewards.rubric import rubric_for
from components.turn_order import agents_of
from flows.problem_counts import check_problem_counts
from flows.runners import check_ray, task_runner
from tasks import wiring, world

_log = logging.getLogger(__name__)
LEAST_FREE_BYTES = 500 * 2**20


def preflight(config: RunConfig) -> None:
    """Return when a run of `config` can start; otherwise raise one error that names the field, the value and the remedy.

    Raises ConfigurationError, ServiceMissing, EngineUnavailable, StaleEngine, StoreRefused or StoreUnavailable.
    """
    check_configuration(config)
    check_services(config)


def check_configuration(config: RunConfig) -> None:
    """What is wrong in the configuration itself or with what it names, whatever services run here."""
    check_environment(config)
    check_own_code(config)
    check_problem_counts(config)
    check_devices(config)
    check_ray(config.resources)
    check_space(config)
    wiring.check_apis(config)
    if config.generation.vllm.urls:
        check_engines(config)
    if config.store.kind == "local":
        check_store(config)


def check_services(config: RunConfig) -> None:
    """What a run needs beside its configuration: packages, boxes, engines, the store, MLflow."""
    task_runner(config.resources)
    check_tools(config)
    if not config.generation.vllm.urls:
        check_engines(config)
    if config.store.kind != "local":
        check_store(config)
    check_tracking(config)


def check_engines(config: RunConfig) -> None:
    """The vLLM servers answer, where some are asked for."""
    if config.generation.engine == "vllm":
        wiring.check_servers(config)


def check_store(config: RunConfig) -> None:
    """The store can be used, and holds the policies before training, or these can be made."""
    probe_store(config.store)
    from tasks.warm_start import check_bases

    check_bases(config)


def check_base_names(config: RunConfig) -> None:
    """Every base is there. For where no store can be asked whether the policies have been made already."""
    from components.training.bases import check_base

    for policy, settings in config.policies.items():
        check_base(policy, settings)


def check_tracking(config: RunConfig) -> None:
    """Warn where the tracking server is away: reports wait for it. Raises ConfigurationError for a wrong address."""
    try:
        wiring.tracker(config).check()
    except TrackingUnavailable as error:
        _log.warning("training starts without MLflow, reports wait in the store: %s", error)


def check_environment(config: RunConfig) -> None:
    """The environment exists, its options hold, its roles are played, and the rubric names real components."""
    environment = family(config.environment.name)
    family_options(config.environment.name, config.environment.options)
    playing = agents_of(wiring.turn_order(config), environment.roles)
    missing, unknown = set(playing) - set(config.agents), set(config.agents) - set(environment.roles)
    if missing or unknown:
        raise ConfigurationError(
            f"agents: {sorted(config.agents)} given, but {config.environment.name} in rollout.mode {config.rollout.mode} "
            f"is played by {sorted(playing)}; name these"
        )
    rubric_for(environment, config.rewards)
    wiring.overlong(config)


def check_own_code(config: RunConfig) -> None:
    """The reward functions, the advantage and the loss that are the user's own can be called.

    Raises ConfigurationError with the field, the file and the line.
    """
    wiring.own(config)
    estimator(config.algorithm.advantage, source=config.algorithm.source)
    if is_own(config.loss.policy_loss):
        from components.algorithms.loss_registry import policy_loss  # imports torch, as every loss does

        policy_loss(config.loss)


def check_tools(config: RunConfig) -> None:
    """What the environment will ask for answers: boxes start, and the retriever's corpus is there.

    Raises ServiceMissing with the install command, SandboxUnavailable or RetrieverUnavailable.
    """
    environment, options = wiring.environment(config)
    if environment.uses_sandbox(options):
        world.sandbox(config)
    world.retriever(config)


def check_devices(config: RunConfig) -> None:
    """The devices that the configuration names are there."""
    for field, device in (("generation", config.generation.device), ("training", config.training.device)):
        if device == "cuda" and not wiring.cuda_is_available():
            raise ServiceMissing(f"{field}.device is cuda, but torch sees no CUDA device here; set {field}.device=cpu")


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
    store = wiring.open_store(config)
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
        if config.kind == "s3" and config.endpoint_url is None and wiring.s3_endpoint() is None:
            raise type(error)(f"{error}; for a local S3 server run `troupe up`") from error
        raise
