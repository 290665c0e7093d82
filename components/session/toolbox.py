"""The tools that answer an environment's calls: boxes and a retriever, kept open between stages.

Their answers are recorded with the rollouts that asked.
"""

import logging
import threading

from components.config import RunConfig, SandboxConfig
from components.environments.base import NO_TOOLS, RecordingTools, Retriever
from components.errors import ConfigurationError
from components.identity import fingerprint, seed_for
from components.machine.home import ensure_home
from components.machine.process_variables import read_variable
from components.sandbox.base import AgentBoxes, Sandbox
from components.schema import Limits, RolloutShard, ToolRecord
from components.session.scenario import Scenario
from components.tool_calls.journal import ToolJournal
from components.tool_calls.ledger import ExecutionLedger, ToolSources
from components.tool_calls.spot_check import spot_check

SPOT_CHECK_FRACTION = 0.05
"""The default when other hosts play the shards."""
_log = logging.getLogger("troupe.sandbox")


class Toolbox:
    """The tools of one scenario, opened on first use and kept until `close`."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._config = scenario.config
        self._limits = Limits(**scenario.config.execution.model_dump())
        self._sandbox: Sandbox | None = None
        self._retriever: Retriever | None = None
        self._one_at_a_time = threading.Lock()

    def open(self) -> None:
        """Open every tool that the environment uses. Raises ServiceMissing with the install command, SandboxUnavailable or
        RetrieverUnavailable."""
        if self.runs_programs:
            self.sandbox()
        self.retriever()

    def sandbox(self) -> Sandbox:
        """The sandbox for programs. Raises ServiceMissing with the install command."""
        with self._one_at_a_time:
            if self._sandbox is None:
                self._sandbox = new_sandbox(self._config.sandbox, self._limits)
            return self._sandbox

    def image_digest(self) -> str | None:
        """The digest of the image in which programs run; None for a run without programs. Raises ServiceMissing with
        the install command."""
        return self.sandbox().description.image_digest if self.runs_programs else None

    def retriever(self) -> Retriever | None:
        """The retriever; None for environments without search."""
        with self._one_at_a_time:
            if self._retriever is None:
                self._retriever = self._scenario.family.retriever(self._scenario.options)
            return self._retriever

    def tools(
        self,
        *,
        known: ToolRecord | None = None,
        journal: ToolJournal | None = None,
        deadline_seconds: float | None = None,
    ) -> RecordingTools:
        """A ledger in front of the tools, or NO_TOOLS for an environment without tools.

        Recorded answers in `known` are used first; new answers are written to `journal`.
        """
        if not self._scenario.family.uses_sandbox(self._scenario.options) and self.retriever() is None:
            return NO_TOOLS
        sources = ToolSources(sandbox=self.sandbox, retriever=self.retriever, limits=self._limits)
        return ExecutionLedger(sources, known=known, journal=journal, deadline_seconds=deadline_seconds)

    def check_record(self, shard: RolloutShard, used: RecordingTools) -> None:
        """Re-run a sample of the executions that `used` took from the record of `shard`.

        The sample is drawn from the configuration's seed and the record's content, so a retry checks the same executions
        and a changed record gets another sample. Raises RecordRefuted, or SandboxUnavailable.
        """
        fraction = spot_check_fraction(self._config)
        if fraction == 0.0 or not isinstance(used, ExecutionLedger):
            return
        title = f"shard {shard.shard} of step {shard.step}"
        recalled = used.recall_results()
        content = fingerprint({key: [result.status, result.stdout] for key, (_, result) in recalled.items()})
        done = spot_check(
            recalled,
            self.sandbox(),
            limits=self._limits,
            fraction=fraction,
            seed=seed_for(self._config.seed, "spot_check", shard.step, shard.shard, content),
            title=title,
        )
        if done.num_undecided:
            _log.warning("%s: %d of %s could not be decided", title, done.num_undecided, done)

    @property
    def runs_programs(self) -> bool:
        """Whether the environment runs programs."""
        return self._scenario.family.uses_sandbox(self._scenario.options)

    def close(self) -> None:
        """End the boxes. The next use opens new ones."""
        with self._one_at_a_time:
            sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            sandbox.close()


def new_sandbox(config: SandboxConfig, limits: Limits) -> Sandbox:
    """Open the sandbox that `config` selects. Raises ServiceMissing with the install command."""
    from components.sandbox.backends import open_sandbox

    return open_sandbox(
        config.backend,
        state_folder=ensure_home() / "sandbox",
        num_boxes=config.num_boxes,
        docker_host=read_variable("DOCKER_HOST"),
        limits=limits,
    )


def open_agent_boxes(config: SandboxConfig) -> AgentBoxes:
    """Boxes for agents. Raises ConfigurationError for a backend without, ServiceMissing with the install command."""
    if config.backend == "docker":
        raise ConfigurationError(
            "sandbox.backend docker: agents have boxes of bubblewrap alone; use auto or bubblewrap"
        )
    from components.sandbox.agent_box import BubblewrapAgents

    return BubblewrapAgents(ensure_home() / "sandbox")


def spot_check_fraction(config: RunConfig) -> float:
    """The configured fraction, or the default."""
    if config.sandbox.spot_check_fraction is not None:
        return config.sandbox.spot_check_fraction
    resources = config.resources
    names_cluster = resources.ray_address or (resources.runner == "ray" and read_variable("RAY_ADDRESS"))
    return SPOT_CHECK_FRACTION if names_cluster else 0.0
