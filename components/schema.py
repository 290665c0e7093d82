"""The values of an iteration. All are frozen and independent of storage.

Axes in names: E episodes, N nodes of an episode (turn by turn, agent by agent), K candidates of a group, T tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from components.identity import GroupKey
from components.reporting.readable import ReadableEpisode, ReadableReport
from components.text.choice_tokens import Choices

FinishReason = Literal["stop", "length"]
TeamCredit = Literal["node", "turn_end", "episode_end"]
"""The outcome that gives a candidate its team term: its own, or the last one of the turn or episode that continues it."""
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
"""How a program ended. `sandbox_error` says nothing about the program: the sandbox failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One puzzle or question. `payload` is everything that the environment needs, as plain JSON.

    `problem_id` is derived from the payload, so equal problems have equal ids and splits can be checked by id.
    """

    problem_id: str
    environment: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyVersion:
    """A version of a policy's weights: the step that produced them and the digest of their tensors."""

    policy: str
    step: int
    weights_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The input of an agent. `state` is only the current state; `instructions` describe the role and the grammar of its answer,
    for policies that read prose."""

    instructions: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one program. A program over a limit is killed, and its status names the limit."""

    wall_seconds: float = 10.0
    cpu_seconds: float = 4.0
    memory_mib: int = 256
    output_kib: int = 64
    """Of standard output and of standard error, each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemLimits:
    """What a problem says of its programs' limits; None: what the run says."""

    cpu_seconds: float | None = None
    """In place of the run's; twice as much wall time is allowed where that is more than the run's."""
    memory_mib: int | None = None
    """At most the run's, which is that of a box."""
    output_kib: int | None = None
    """At least the run's."""

    def within(self, run: Limits) -> Limits:
        """The limits in a run."""
        cpu_seconds = run.cpu_seconds if self.cpu_seconds is None else self.cpu_seconds
        return Limits(
            wall_seconds=run.wall_seconds if self.cpu_seconds is None else max(run.wall_seconds, 2 * cpu_seconds),
            cpu_seconds=cpu_seconds,
            memory_mib=run.memory_mib if self.memory_mib is None else min(run.memory_mib, self.memory_mib),
            output_kib=run.output_kib if self.output_kib is None else max(run.output_kib, self.output_kib),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One program for the sandbox. Equal executions have equal results, so they run once.

    `files` are written into the working directory first, and the files `outputs` are read back afterwards. `limits` None
    means those of the run.
    """

    program: str
    """Python source."""
    stdin: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    limits: Limits | ProblemLimits | None = None

    def limits_within(self, run: Limits) -> Limits:
        """Its limits in a run whose programs have the limits `run`."""
        return self.limits.within(run) if isinstance(self.limits, ProblemLimits) else self.limits or run


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionResult:
    """The status and output of a program. `exit_code` is negative for a signal, None if it was not observed.

    `files` holds those of `outputs` that are regular files within the size limit; `detail` is one line about what ended the
    program or failed in the sandbox.
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
    """One passage from a retriever. A larger score is a better match."""

    title: str
    text: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord:
    """The results of tools, by the content of the call, so that a replay gets the same results."""

    executions: Mapping[str, ExecutionResult] = field(default_factory=dict)
    passages: Mapping[str, tuple[Passage, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOutcome:
    """The facts about one action. Rewards are computed only from these.

    `team` and `local` are named components (for example `{"solved": 1.0, "progress": 0.4}`), `solves` says whether the state
    after the action (simulated, for an agent that only proposes) is solved, `error` describes a malformed answer.
    `unscorable` is the reason if the sandbox, not the agent, failed. Such an outcome has no components, changes no state and
    is excluded from its group.

    `team_from_start` holds the team components that differ when counted from the episode's start instead of the state before
    the action; None if none does. `value_gain` is V(s') - V(s) of an exact solver, a privileged signal; None if not measured.

    **Example** progress from distance 8 to 6 in a first turn and to 3 in a second one: the second outcome has team progress .5
    and progress from the start .625.
    """

    team: Mapping[str, float]
    local: Mapping[str, float]
    solves: bool
    done: bool
    error: str | None = None
    unscorable: str | None = None
    team_from_start: Mapping[str, float] | None = None
    value_gain: float | None = None
    payoffs: Mapping[str, float] | None = None
    """What agents earned by the action, in a game in which each has a return of its own; None in others."""

    @property
    def team_of_episode(self) -> Mapping[str, float]:
        """The team components counted from the episode's start."""
        return self.team if self.team_from_start is None else {**self.team, **self.team_from_start}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One sampled action of a group: the tokens as sampled, never re-tokenised, and the outcome.

    `sampler_logprobs[t]` is the log-probability of `tokens[t]` under the distribution it was drawn from. `reward` is the
    sampler's, by which it selected; the reward stage computes the authoritative one.
    """

    tokens: tuple[int, ...]
    sampler_logprobs: tuple[float, ...]
    finish_reason: FinishReason
    text: str
    outcome: ActionOutcome
    reward: float


ROOT = (-1, 0)
"""The parent of a node off the selected branch before which no answer was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One agent acting once: the compared candidates, and the index of the chosen one.

    `chosen_randomly` is true if the chosen one was drawn at random instead of being the best. `parallel_index` is the index
    among agents that act in parallel; 0 for one that acts alone. `temperature` is the agent's own, at which the candidates were
    drawn; None: that of all agents without one.

    `parent` is (index of a node of the episode, index of its candidate) below which this node hangs, or ROOT; None on the
    selected branch. `is_trained_on` is False for an answer that only shows where other candidates lead: it has no reward and is
    never trained on, but its tokens count. With a parent it is a continuation. `is_beside`: it is no action, but what a program
    asked beside its work.
    """

    group: GroupKey
    policy: str
    prompt_tokens: tuple[int, ...]
    candidates: tuple[Candidate, ...]
    chosen: int
    chosen_randomly: bool = False
    parallel_index: int = 0
    temperature: float | None = None
    parent: tuple[int, int] | None = None
    is_trained_on: bool = True
    is_beside: bool = False
    choices: Choices = ()
    """The answers among which the candidates were drawn, as tokens; none: any text."""

    @property
    def is_continuation(self) -> bool:
        """Whether it is off the selected branch and not trained on."""
        return self.parent is not None and not self.is_trained_on


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedBranch:
    """A branch off the selected branch that failed below `parent`, a candidate (node, candidate) or ROOT, and why."""

    parent: tuple[int, int]
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEnd:
    """How the program of an episode's agents ended: its exit code, None if it was ended, the end of what it printed or
    returned, and the files that it was asked to leave."""

    exit_code: int | None
    output: str
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedEnd:
    """The end of a program in a line off the selected branch, whose last answer is `candidate`, a (node, candidate)."""

    candidate: tuple[int, int]
    end: ProgramEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode(ReadableEpisode):
    """One team on one problem. A failed episode is data: it has an `error` and the finished nodes.

    `nodes` is a tree in a flat order, in which a node comes after its parent. The nodes without a parent are the selected
    branch, to which `success` and `error` belong. `cuts` are the failures of other lines; None without one. `ended` is the end
    of a program that played it, None if none did, and `ends` those of its runs in other lines.
    """

    problem: Problem
    episode: int
    nodes: tuple[Node, ...]
    success: bool
    error: str | None = None
    cuts: tuple[FailedBranch, ...] | None = None
    ended: ProgramEnd | None = None
    ends: tuple[ReachedEnd, ...] | None = None

    @property
    def path(self) -> tuple[Node, ...]:
        """The selected branch, in the order of play."""
        return tuple(node for node in self.nodes if node.parent is None)

    @property
    def final(self) -> int | None:
        """The index of the node with the final answer of the selected branch: the one that ended the episode, else the last.
        None without nodes.

        The nodes after it acted in parallel with it. They were scored in its state and changed nothing.
        """
        path = [n for n, node in enumerate(self.nodes) if node.parent is None and not node.is_beside]
        ends = (n for n in path if self.nodes[n].candidates[self.nodes[n].chosen].outcome.done)
        return next(ends, path[-1]) if path else None

    @property
    def program_ends(self) -> dict[tuple[int, int], ProgramEnd]:
        """The ends of a program, by the last candidate before each, a (node, candidate)."""
        ends = {each.candidate: each.end for each in self.ends or ()}
        worked = [n for n, node in enumerate(self.nodes) if node.parent is None and not node.is_beside]
        if self.ended is not None and worked:
            ends[worked[-1], self.nodes[worked[-1]].chosen] = self.ended
        return ends

    @property
    def num_generated_tokens(self) -> int:
        """All tokens sampled for this episode, chosen or not, continuations included."""
        return sum(len(c.tokens) for node in self.nodes for c in node.candidates)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiUsage:
    """The use of an API.

    Tokens are as counted by the provider, including hidden reasoning. `cost` prices cached prompt tokens like others, and each
    unmetered request at its maximal cost.
    """

    num_requests: int = 0
    """Requests that were sent and ended, with or without a response. Retries are not counted."""
    num_failed_requests: int = 0
    num_retries: int = 0
    num_unmetered_requests: int = 0
    """Requests of unknown use: no usage in the response, or no response to a request that may have been processed."""
    num_answers: int = 0
    num_refusals: int = 0
    """Answers that the provider truncated or withheld."""
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
    """The replaced episodes of dynamic sampling in a shard.

    `num_problems` counts replaced problems, each time; `num_silent` those still without a learning signal at the end.
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
    """The finished episodes of one shard of one step, with their policy versions, tool results and use of APIs.

    `refills` is None without dynamic sampling.
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
    """The authoritative rewards of a rollout shard, in its order; None for a candidate that could not be scored.

    `num_overlong` counts candidates with a length penalty; None if it is off. `own_E_N_K` are the results of the user's own
    reward functions, by component; None without any.
    """

    step: int
    shard: int
    rewards_E_N_K: tuple[tuple[tuple[float | None, ...], ...], ...]
    num_overlong: int | None = None
    own_E_N_K: Mapping[str, tuple[tuple[tuple[float, ...], ...], ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainGroup:
    """One group as training rows. `truncated_K` marks truncated completions; empty means none.

    `temperature` is that of its node: the rows are trained at it; None: at that of the update.
    """

    group: GroupKey
    prompt_tokens: tuple[int, ...]
    completions_K_T: tuple[tuple[int, ...], ...]
    sampler_logprobs_K_T: tuple[tuple[float, ...], ...]
    advantages_K: tuple[float, ...]
    truncated_K: tuple[bool, ...] = ()
    temperature: float | None = None
    choices: Choices = ()
    """The answers among which the completions were drawn, as tokens; none: any text."""
    moves_K: tuple[tuple[int, int], ...] = ()
    """For a critic, the episode of each row, counted within the step, and its move in it; none: there is no critic."""
    episodes_K: tuple[int, ...] | None = None
    """The episode of each row, counted within the step, where episodes are averaged over; None: they are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainBatch:
    """The training data of one policy in one step, and the agents that it plays.

    Groups without a learning signal are counted. They are among `groups` if a term of the loss covers them; else the fields
    `without_signal` hold what the denominators need of them. `version` is the sampler's: with overlap, the weights of the step
    before. None if unknown.
    """

    policy: str
    step: int
    groups: tuple[TrainGroup, ...]
    num_groups_without_signal: int
    lengths_without_signal: tuple[int, ...] = ()
    """Tokens of each answer in groups without a learning signal that are not in `groups`."""
    truncated_without_signal: tuple[bool, ...] = ()
    """Whether each of these answers was truncated."""
    episodes_without_signal: tuple[int, ...] | None = None
    """The episode of each of these answers, where episodes are averaged over; None: they are not."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    version: PolicyVersion | None = None
    agents: tuple[str, ...] = ()

    @property
    def num_tokens(self) -> int:
        """The number of completion tokens to train on."""
        return sum(len(tokens) for group in self.groups for tokens in group.completions_K_T)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalReport(ReadableReport):
    """The evaluation of a subject on a suite, without the tree: in training, of a run's checkpoint after `step` updates.

    `n` problems were played `num_samples` times each; `success_rate` is the share of all episodes that succeed, and `interval`
    its 95% interval: Wilson's with one sample, else over problems. `keep_rate` is how often the last agent keeps a proposal
    that solves, `repair_rate` how often it repairs one that does not; None if there was no such case. `temperatures` are those
    of agents with their own, under sample; None without any: then sample is temperature 1. `num_solved_P` is how many episodes
    of each problem succeed, by which two evaluations of one `suite_digest`, `seed` and `num_samples` are compared in pairs.
    """

    agent: str
    """The subject: RUN@STEP, a model, expert, random, noop, or role=subject,..."""
    suite: str
    """**Example** "plan_path/test"."""
    suite_digest: str
    """Of the problems and the rules of play."""
    step: int
    sampling: Literal["sample", "greedy", "scripted"]
    seed: int
    """Of the draws of answers."""
    num_samples: int
    n: int
    num_successes: int
    success_rate: float
    interval: tuple[float, float]
    mean_reward: float
    keep_rate: float | None
    repair_rate: float | None
    metrics: Mapping[str, float] = field(default_factory=dict)
    temperatures: Mapping[str, float] | None = None
    num_solved_P: tuple[int, ...]
    payoffs_P: Mapping[str, tuple[float, ...]] | None = None
    """What each agent earned an episode, by problem, in a game in which each has a return of its own; None in others."""

    @property
    def rates_P(self) -> tuple[float, ...]:
        """The success rate of each problem."""
        return tuple(solved / self.num_samples for solved in self.num_solved_P)


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationReport:
    """The report of a step: metrics, seconds by stage, and the digests of its checkpoints."""

    run_id: str
    step: int
    metrics: Mapping[str, float]
    timings: Mapping[str, float]
    checkpoint_digest: Mapping[str, str]
    optimizer_digest: Mapping[str, str]
