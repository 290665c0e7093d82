"""What answers an environment's calls: the sandbox and the retriever behind a configuration, and the ledger before them.

A sandbox stays open between stages (warm boxes); what it answered is recorded with the work that asked.
"""

import logging
import os
from functools import cache, partial

from components.artifacts.refs import Frozen
from components.config import RunConfig, SandboxConfig
from components.environments.base import NO_TOOLS, RecordingTools, Retriever
from components.environments.registry import family
from components.identity import fingerprint, seed_for
from components.sandbox.base import Sandbox
from components.sandbox.ledger import ExecutionLedger, World
from components.sandbox.spot_check import spot_check
from components.sandbox.tool_journal import ToolJournal
from components.schema import Limits, RolloutShard, ToolRecord
from tasks import wiring
from tasks.home import made_home

SPOT_CHECK_FRACTION = 0.05
"""Where other hosts play the shards, unless the configuration says otherwise."""
_log = logging.getLogger("troupe.sandbox")
_sandboxes: dict[tuple[SandboxConfig, Limits], Sandbox] = {}


def sandbox(config: RunConfig) -> Sandbox:
    """The open sandbox of a configuration. Raises ServiceMissing with the install command where there is none."""
    key = (config.sandbox, limits(config))
    if key not in _sandboxes:
        from components.sandbox.opening import open_sandbox

        _sandboxes[key] = open_sandbox(
            config.sandbox.backend,
            state_folder=made_home() / "sandbox",
            num_boxes=config.sandbox.num_boxes,
            docker_host=os.environ.get("DOCKER_HOST"),
            limits=limits(config),
        )
    return _sandboxes[key]


def close_sandboxes() -> None:
    """End every box that this process started."""
    while _sandboxes:
        _, opened = _sandboxes.popitem()
        opened.close()


def retriever(config: RunConfig) -> Retriever | None:
    """What answers the queries of a configuration's environment; None where none is asked."""
    return _retriever(config.environment.name, wiring.environment(config)[1])


@cache
def _retriever(environment: str, options: Frozen) -> Retriever | None:
    return family(environment).retriever(options)


def uses_tools(config: RunConfig) -> bool:
    """Whether the environment asks for anything outside itself."""
    environment, options = wiring.environment(config)
    return environment.uses_sandbox(options) or retriever(config) is not None


def limits(config: RunConfig) -> Limits:
    """What one program may use."""
    return Limits(**config.execution.model_dump())


def tools(
    config: RunConfig,
    *,
    known: ToolRecord | None = None,
    journal: str | None = None,
    deadline_seconds: float | None = None,
) -> RecordingTools:
    """A ledger over the configuration's world, or NO_TOOLS for an environment that asks for nothing.

    `known` answers first; `journal` is the key prefix under which answers are written down as they come.
    """
    if not uses_tools(config):
        return NO_TOOLS
    world = World(sandbox=partial(sandbox, config), retriever=partial(retriever, config), limits=limits(config))
    kept = ToolJournal(wiring.store(config), journal) if journal else None
    return ExecutionLedger(world, known=known, journal=kept, deadline_seconds=deadline_seconds)


def check_record(config: RunConfig, shard: RolloutShard, used: RecordingTools) -> None:
    """Run some of the executions again that `used` took from the record of `shard`.

    The sample depends on the configuration's seed and on all that the record holds, so another attempt checks the same, and a
    record that is changed is checked elsewhere. Raises RecordRefuted, or SandboxUnavailable.
    """
    fraction = spot_check_fraction(config)
    if fraction == 0.0 or not isinstance(used, ExecutionLedger):
        return
    title = f"shard {shard.shard} of step {shard.step}"
    recalled = used.recalled()
    content = fingerprint({key: [result.status, result.stdout] for key, (_, result) in recalled.items()})
    done = spot_check(
        recalled,
        sandbox(config),
        limits=limits(config),
        fraction=fraction,
        seed=seed_for(config.seed, "spot_check", shard.step, shard.shard, content),
        title=title,
    )
    if done.num_undecided:
        _log.warning("%s: %d of %s could not be decided", title, done.num_undecided, done)


def spot_check_fraction(config: RunConfig) -> float:
    """The configured share, or what `None` means for it."""
    if config.sandbox.spot_check_fraction is not None:
        return config.sandbox.spot_check_fraction
    return SPOT_CHECK_FRACTION if config.resources.ray_address is not None else 0.0
