"""Checks before anything expensive starts."""

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from components.algorithms.registry import find_estimator
from components.artifacts.base import ArtifactStore
from components.config import RunConfig, StoreConfig
from components.config.hybrid import GAME_BOY
from components.errors import ConfigurationError, ServiceMissing, StoreRefused, StoreUnavailable, TrackingUnavailable
from components.generation.vllm.addresses import serves_on_cluster, vllm_generation
from components.methods.base import method_for
from components.methods.first_checkpoints import check_bases
from components.methods.hybrid.settings import check_cartridge
from components.rollout.rules import branching_factors
from components.session.engines import Engines
from components.session.scenario import Scenario
from components.session.session import Session
from components.session.stores import open_store, s3_endpoint
from components.session.trackers import tracking_url
from components.tracking.base import Tracker
from components.turn_order import BRANCHING, agents_of
from components.user_code import is_custom
from flows.preflight.contract import check_contract
from flows.preflight.memory import check_memory
from flows.preflight.problem_counts import check_problem_counts
from flows.preflight.prompts import check_prompts, warnings_of_instructions
from flows.runners import check_ray, task_runner

_log = logging.getLogger(__name__)
LEAST_FREE_BYTES = 500 * 2**20
PROCESSOR_FACTS = Path("/proc/cpuinfo")
_BFLOAT16_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")


def preflight(session: Session) -> None:
    """Check that the session's run can start. Errors name the field, the value and the remedy."""
    check_configuration(session.scenario)
    check_services(session)


def check_configuration(scenario: Scenario) -> None:
    """Check the configuration and everything it names, except local services."""
    config = scenario.config
    method_for(config).check(scenario)
    if config.method.writes_answers:
        check_environment(scenario)
        if config.environment.name == GAME_BOY:
            check_cartridge(
                str(scenario.options.game),  # type: ignore[attr-defined]
                scenario.options.rom,  # type: ignore[attr-defined]
                field="environment.options.game",
            )
        check_own_code(scenario)
        check_contract(scenario)
        check_problem_counts(scenario)
        check_prompts(scenario)
        warn_of_instructions(scenario)
    check_devices(config)
    check_ray(config.resources)
    check_space(config)
    with closing(Engines(config)) as engines:
        engines.check_apis()
        if config.generation.server_urls:
            engines.check_servers()
    if config.store.kind == "local":
        check_store(scenario)


def check_before_trying(scenario: Scenario) -> None:
    """Check what play in this process needs of the configuration: no services, and nothing of training but its own code."""
    check_environment(scenario)
    check_own_code(scenario)
    check_contract(scenario)
    check_prompts(scenario)
    check_devices(scenario.config)
    check_base_names(scenario.config)


def check_services(session: Session, *, expects_tracking: bool = True) -> None:
    """Check packages, boxes, engines, the store, MLflow and memory. `expects_tracking`: warn where no MLflow is named."""
    config = session.config
    task_runner(config)
    session.toolbox.open()
    check_agent_boxes(session)
    check_contract(session.scenario, session.toolbox)
    if serves_on_cluster(config, os.environ):  # its servers start with the run
        if vllm_generation(config).vllm.merge_adapters:
            raise ConfigurationError(
                "generation.vllm.merge_adapters true: servers of a cluster fetch what is stored, and merged weights are not; "
                "set it to false"
            )
    elif config.generation.has_servers and not config.generation.server_urls:
        session.engines.check_servers()
    if config.store.kind != "local":
        check_store(session.scenario)
    if expects_tracking or tracking_url(session.config.tracking) is not None:
        check_tracking(session.tracker)
    check_memory(session.scenario)  # last: a base on the hub has its config.json here once it is known to exist


def check_agent_boxes(session: Session) -> None:
    """Start a box if the agents of the first problem run in one. Raises ServiceMissing with the remedy, SandboxUnavailable or
    ConfigurationError. Hosts of a cluster are asked when it is connected."""
    if session.config.resources.runner == "ray":
        return
    scenario = session.scenario
    program = scenario.family.first_program(scenario.options, seed=scenario.config.seed)
    if program is not None:
        session.programs.check_box(program)


def check_store(scenario: Scenario) -> None:
    """Check that the store works, and that it holds the policies before training or these can be made."""
    from tasks.warm_start import warm_start  # stages import Prefect, which takes seconds

    check_bases(probe_store(scenario.config.store), scenario, warm_start.stage)


def check_base_names(config: RunConfig) -> None:
    """Check that every base exists, without a store that may already hold the policies."""
    from components.models.base_checks import check_base

    for policy, settings in config.policies.items():
        check_base(policy, settings)


def check_tracking(tracker: Tracker) -> None:
    """Warn if the tracking server is away: reports wait for it. Raises ConfigurationError for a wrong address."""
    try:
        tracker.check()
    except TrackingUnavailable as error:
        _log.warning("training starts without MLflow, reports wait in the store: %s", error)


def check_environment(scenario: Scenario) -> None:
    """Check the environment's name and options, the roles, its solver if one is needed, and the components of the rubric."""
    config, roles = scenario.config, scenario.family.roles
    playing = agents_of(scenario.turn_order, roles)
    missing, unknown = set(playing) - set(config.agents), set(config.agents) - set(roles)
    if missing or unknown:
        raise ConfigurationError(
            f"agents: {sorted(config.agents)} given, but {config.environment.name} in rollout.mode {config.rollout.mode} "
            f"is played by {sorted(playing)}; name these"
        )
    if config.algorithm.reads_solver and not scenario.family.has_solver_value:
        raise ConfigurationError(
            f"algorithm.advantage solver_value: environment {config.environment.name} has no exact solver; use another "
            "advantage, or an environment with one, such as plan_path, sokoban or blocksworld"
        )
    _ = scenario.rubric, scenario.overlong  # each raises if it is invalid
    check_credit(scenario)
    check_programs(scenario)


def check_programs(scenario: Scenario) -> None:
    """Check that agents that are programs ask policies of one's own, and that what is compared of them is judged."""
    config, family = scenario.config, scenario.family
    if family.first_program(scenario.options, seed=config.seed) is None:
        return
    decides = f"the agents of {family.name} are a program, which decides who acts next"
    if config.environment.turn_order is not None:
        raise ConfigurationError(f"environment.turn_order: {decides}; leave turn_order out")
    if config.rewards.team_credit == "turn_end":
        raise ConfigurationError(
            f"rewards.team_credit turn_end: {decides}, so that no turn has an end; use episode_end"
        )
    if config.rollout.mode == "tree" and config.rewards.team_credit == "node" and family.judges_ends:
        raise ConfigurationError(
            f"rewards.team_credit node with rollout.mode tree: the program of {family.name} is judged at its end (finish), so "
            "that an answer alone earns nothing; use episode_end, or rollout.mode nested with algorithm.advantage c3"
        )
    for role, agent in config.agents.items():
        if config.policies[agent.policy].api is not None:
            raise ConfigurationError(
                f"agents.{role}.policy {agent.policy}: it is behind an API, and a program's answers are sampled from policies "
                "of one's own; let the program ask the API itself"
            )


def check_credit(scenario: Scenario) -> None:
    """Check that the turn order allows the expanded turn and the team credit."""
    config = scenario.config
    if config.rollout.mode == "nested":
        branching_factors(config.rollout, scenario.turn_order)
    if config.rewards.team_credit == "turn_end" and scenario.turn_order == BRANCHING:
        raise ConfigurationError(
            f"rewards.team_credit turn_end: {config.environment.name} decides who acts next, and each answer is a turn, which "
            "leaves nothing to continue; use episode_end"
        )
    if scenario.family.has_joint_step:
        for field, value in (
            ("rollout.mode", config.rollout.mode),
            ("rewards.team_credit", config.rewards.team_credit),
        ):
            if value in ("nested", "turn_end", "episode_end"):
                raise ConfigurationError(
                    f"{field} {value}: agents of {config.environment.name} act at once (step_together), so that no answer "
                    "has continuations of its own; use rollout.mode tree or independent, and rewards.team_credit node"
                )


def check_own_code(scenario: Scenario) -> None:
    """Check the user's own reward functions, advantage and loss. Errors name the field, the file and the line. A warning names
    each reward function without a weight."""
    config = scenario.config
    _ = scenario.own_rewards
    for component, function in config.rewards.own_components.items():
        if component not in config.rewards.weights:
            _log.warning(
                "rewards.functions %s: no weight is set for its component %s, so it has weight 1, as much as a solved problem; "
                "set rewards.weights.%s",
                function,
                component,
                component,
            )
    find_estimator(config.algorithm.advantage, source=config.algorithm.source)
    if is_custom(config.loss.policy_loss):
        from components.algorithms.loss_registry import policy_loss  # imports torch, as every loss does

        policy_loss(config.loss)


def warn_of_instructions(scenario: Scenario) -> None:
    """Warn if chat models are told nothing of what is wanted."""
    for line in warnings_of_instructions(scenario):
        _log.warning("%s", line)


def check_devices(config: RunConfig) -> None:
    """Check that the configured devices exist. Warn of bfloat16 on a processor without instructions for it."""
    if config.resources.placement.share == "turns":
        raise ConfigurationError(
            "resources.placement.share turns: not offered, as no GPU has shown yet that adapters outlive an engine's sleep; "
            "use beside or apart"
        )
    warn_of_slow_bfloat16(config)
    for field, device in (("generation", config.generation.device), ("training", config.training.device)):
        if device != "cuda":
            continue
        if config.resources.runner == "ray" and (field == "training" or config.generation.has_servers):
            continue  # on hosts of the cluster, which are asked when it is connected
        import torch

        if not torch.cuda.is_available():
            raise ServiceMissing(f"{field}.device is cuda, but torch sees no CUDA device here; set {field}.device=cpu")


def imitates_bfloat16() -> bool:
    """Whether this processor has no instructions for bfloat16; False where that is not known."""
    return PROCESSOR_FACTS.is_file() and set(PROCESSOR_FACTS.read_text(encoding="utf-8").split()).isdisjoint(
        _BFLOAT16_FLAGS
    )


def warn_of_slow_bfloat16(config: RunConfig) -> None:
    """Warn if bfloat16 is computed here by a processor that has to imitate it."""
    generation, training = config.generation, config.training
    computed = {"generation": (generation.device, generation.dtype), "training": (training.device, training.dtype)}
    lossy = [name for name, each in computed.items() if each == ("cpu", "bfloat16")]
    if lossy and imitates_bfloat16():
        fields = " and ".join(f"{name}.dtype" for name in lossy)
        _log.warning("%s bfloat16: this processor has neither AVX-512 BF16 nor AMX; float32 is faster here", fields)


def check_space(config: RunConfig) -> None:
    """Check the free space of a local store and of the folder for temporary files."""
    if config.store.kind == "local":
        check_free(Path(str(config.store.root)).absolute(), field="store.root", remedy="free some space")
    remedy = "free some space, or let TMPDIR name another folder"
    check_free(Path(tempfile.gettempdir()), field="TMPDIR", remedy=remedy)


def check_free(folder: Path, *, field: str, remedy: str) -> None:
    """Raise ServiceMissing if the disk of `folder`, which need not exist yet, is nearly full."""
    existing = next(place for place in (folder, *folder.parents) if os.path.exists(place))
    total, _, free = shutil.disk_usage(existing)
    if total and free < LEAST_FREE_BYTES:  # a total of 0 is not a disk
        raise ServiceMissing(
            f"{field} {folder}: {free / 2**20:.0f} MiB are free, a run needs {LEAST_FREE_BYTES // 2**20}; {remedy}"
        )


def probe_store(config: StoreConfig) -> ArtifactStore:
    """Open the store and check that it works."""
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
    """Add to store errors how to get a local S3 server, if none was named."""
    try:
        yield
    except (StoreRefused, StoreUnavailable) as error:
        if config.kind == "s3" and config.endpoint_url is None and s3_endpoint() is None:
            raise type(error)(f"{error}; for a local S3 server run `troupe up`") from error
        raise
