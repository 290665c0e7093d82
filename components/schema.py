"""The values that travel through one iteration. All are frozen; none knows how it is stored.

Axes in names: E episodes, N nodes of an episode (turn by turn, agent by agent), K candidates of a group, T tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from components.identity import GroupKey

FinishReason = Literal["stop", "length"]
ExecutionStatus = Literal[
    "ok",
    "nonzero_exit",
    "wall_timeout",
    "cpu_timeout",
    "memory",
    "output_limit",
    "process_limit",
    "sandbox_error",
]
"""How a program ended. Only `sandbox_error` says nothing about the program: the sandbox itself failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One puzzle or question. `payload` is all that the environment needs to build it, as plain JSON.

    `problem_id` is derived from the payload, so equal problems have equal ids and a split can be checked by id.
    """

    problem_id: str
    environment: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyVersion:
    """Which weights: a policy's name, the step that produced them, and the digest of their tensors."""

    policy: str
    step: int
    weights_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one agent sees. `state` is the current state and nothing else; `instructions` say who the agent is and the
    grammar of its answer, for policies that read prose."""

    instructions: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one program may use. A program over a limit is ended and its result says which limit it was."""

    wall_seconds: float = 10.0
    cpu_seconds: float = 4.0
    memory_mib: int = 256
    output_kib: int = 64
    """Of standard output and of standard error, each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One program to run in the sandbox. Equal executions have equal results, so they are run once.

    `files` are written into the working directory beforehand, `outputs` names files there that are read back afterwards.
    `limits` None takes the limits of the run.
    """

    program: str
    """Python source."""
    stdin: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    limits: Limits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionResult:
    """How a program ended, and what it wrote. `exit_code` is negative for a signal, None when it was not observed.

    `files` holds those of `outputs` that are regular files within the size limit; `detail` says what ended the program, or
    what failed in the sandbox, in one line.
    """

    status: ExecutionStatus
    stdout: str
    stderr: str
    exit_code: int | None
    wall_seconds: float
    cpu_seconds: float
    files: Mapping[str, str] = field(default_factory=dict)
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One question to the retriever."""

    text: str
    num_passages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One passage that a retriever found. Larger scores match better."""

    title: str
    text: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord:
    """What the tools answered, by the content of the call: the reason why a replay meets the same world."""

    executions: Mapping[str, ExecutionResult] = field(default_factory=dict)
    passages: Mapping[str, tuple[Passage, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOutcome:
    """What one action did, as facts. Rewards are computed from these and from nothing else.

    `team` and `local` are named components (for example `{"solved": 1.0, "progress": 0.4}`), `solves` says whether the
    state after the action (simulated, for an agent that only proposes) is solved, `error` names a malformed answer.
    `unscorable` says why nobody knows what the action did: the sandbox failed, not the agent. Such an outcome has no
    components, changes no state and takes no part in its group.
    """

    team: Mapping[str, float]
    local: Mapping[str, float]
    solves: bool
    done: bool
    error: str | None = None
    unscorable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One sampled action of a group: tokens as sampled, never re-tokenised, and what they did.

    `sampler_logprobs[t]` is the log-probability of `tokens[t]` under the distribution it was drawn from. `reward` is the
    reward by which the sampler chose; the reward stage is the authority.
    """

    tokens: tuple[int, ...]
    sampler_logprobs: tuple[float, ...]
    finish_reason: FinishReason
    text: str
    outcome: ActionOutcome
    reward: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node: one agent acting once, with the candidates that were compared and the one handed on.

    `explored` is true where the one handed on was drawn at random instead of being the best. `lane` counts the agents before
    it in a phase of agents that act side by side; 0 for the first of them and for one that acts alone.
    """

    group: GroupKey
    policy: str
    prompt_tokens: tuple[int, ...]
    candidates: tuple[Candidate, ...]
    chosen: int
    explored: bool = False
    lane: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One team on one problem. A failed episode is data: `error` says why, and its nodes are what was finished."""

    problem: Problem
    episode: int
    nodes: tuple[Node, ...]
    success: bool
    error: str | None = None

    @property
    def final(self) -> int | None:
        """The place in `nodes` of the final answer: the one that ended the episode, or else the last. None without a node.

        The nodes after it acted side by side with it. They were scored in the state that it met, and changed nothing.
        """
        ends = (n for n, node in enumerate(self.nodes) if node.candidates[node.chosen].outcome.done)
        return next(ends, len(self.nodes) - 1) if self.nodes else None

    @property
    def num_generated_tokens(self) -> int:
        """All tokens that were sampled for this episode, chosen or not."""
        return sum(len(c.tokens) for node in self.nodes for c in node.candidates)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiUsage:
    """What requests to an API used: a count of each kind.

    Tokens are the provider's own, hidden reasoning included. `cost` prices cached prompt tokens like all others, and charges
    each request of `num_unmetered_requests` with the most that it may have cost.
    """

    num_requests: int = 0
    """All that were sent and ended, with or without an answer. A retry is no new request."""
    num_failed_requests: int = 0
    num_retries: int = 0
    num_unmetered_requests: int = 0
    """Those whose use nobody told: no usage in the answer, or no answer to what may have been worked on."""
    num_answers: int = 0
    num_refusals: int = 0
    """Answers that the provider cut off or withheld."""
    num_prompt_tokens: int = 0
    num_answer_tokens: int = 0
    cost: float = 0.0
    """In the unit of the prices."""

    def __add__(self, other: "ApiUsage") -> "ApiUsage":
        return ApiUsage(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def __sub__(self, other: "ApiUsage") -> "ApiUsage":
        return ApiUsage(**{f.name: getattr(self, f.name) - getattr(other, f.name) for f in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Refills:
    """What dynamic sampling cost a shard: the episodes that were played and then replaced, and what stayed silent.

    `num_problems` counts replaced problems, one for each time; `num_silent` those that still carry no signal at the end.
    """

    num_problems: int = 0
    num_silent: int = 0
    num_episodes: int = 0
    num_failed_episodes: int = 0
    num_successes: int = 0
    num_candidates: int = 0
    num_generated_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutShard:
    """The finished episodes of one shard of one step, with the policy versions that played them, what tools told them, and
    what policies behind an API used.

    `refills` is None where the sampler replaced no problems because it was not asked to.
    """

    step: int
    shard: int
    policy_versions: Mapping[str, PolicyVersion]
    episodes: tuple[Episode, ...]
    tools: ToolRecord = field(default_factory=ToolRecord)
    api_usage: Mapping[str, ApiUsage] = field(default_factory=dict)
    refills: Refills | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredShard:
    """The authoritative rewards of a rollout shard, in its order. None marks a candidate that could not be scored.

    `num_overlong` counts candidates whose length was punished; None where none could be. `own_E_N_K` is what the run's own
    reward functions returned, by component; None without any.
    """

    step: int
    shard: int
    rewards_E_N_K: tuple[tuple[tuple[float | None, ...], ...], ...]
    num_overlong: int | None = None
    own_E_N_K: Mapping[str, tuple[tuple[tuple[float, ...], ...], ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainGroup:
    """One group as training rows: one prompt, K completions, one advantage each.

    `truncated_K` marks completions that ended for their length; empty means none.
    """

    group: GroupKey
    prompt_tokens: tuple[int, ...]
    completions_K_T: tuple[tuple[int, ...], ...]
    sampler_logprobs_K_T: tuple[tuple[float, ...], ...]
    advantages_K: tuple[float, ...]
    truncated_K: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainBatch:
    """All that one policy learns from in one step. Groups without a learning signal are left out and counted.

    `version` is the one that sampled: under overlap the weights of the step before. None if unknown.
    """

    policy: str
    step: int
    groups: tuple[TrainGroup, ...]
    num_groups_without_signal: int
    lengths_without_signal: tuple[int, ...] = ()
    """Tokens of each answer of the groups that were left out."""
    truncated_without_signal: tuple[bool, ...] = ()
    """Whether the same answers ended for their length."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    version: PolicyVersion | None = None

    @property
    def num_tokens(self) -> int:
        """Completion tokens that are trained on."""
        return sum(len(tokens) for group in self.groups for tokens in group.completions_K_T)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalReport:
    """Held-out play without the tree: one candidate a node. `interval` is the 95% Wilson interval of `success_rate`.

    `keep_rate` is how often the last agent keeps a proposal that solves, `repair_rate` how often it mends one that does
    not; None where the case did not occur.
    """

    suite: str
    step: int
    sampling: Literal["sample", "greedy"]
    n: int
    num_successes: int
    success_rate: float
    interval: tuple[float, float]
    mean_reward: float
    keep_rate: float | None
    repair_rate: float | None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationReport:
    """What one step did: metrics, seconds by stage, and the digests of the checkpoints that it left."""

    run_id: str
    step: int
    metrics: Mapping[str, float]
    timings: Mapping[str, float]
    checkpoint_digest: Mapping[str, str]
    optimizer_digest: Mapping[str, str]
