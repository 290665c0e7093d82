"""The execution ledger: every answer of a tool, recorded under the content of the call."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from time import monotonic

from components.environments.base import Retriever, ToolCall
from components.errors import DeadlineExceeded, ExecutionFailed
from components.identity import canonical_json
from components.sandbox.base import Sandbox
from components.schema import Execution, ExecutionResult, Limits, Passage, Query, ToolRecord
from components.tool_calls.journal import ToolJournal
from components.tool_calls.spot_check import Recalled

_CALLS_PER_RECORD = 256
"""Answers that a ledger with a journal writes at once: the most that a crash loses."""
_QUERIES_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSources:
    """The tools that answer calls without a record. `sandbox` and `retriever` are opened when first needed."""

    sandbox: Callable[[], Sandbox]
    retriever: Callable[[], Retriever | None]
    limits: Limits
    """Of the run: for executions without limits of their own, and around those of a problem."""


class ExecutionLedger:
    """`Tools` that make each different call once, and remember the answer.

    The key of a program covers its text, input, files, limits and the digest of the image that runs it; the key of a query
    covers its text, the number of passages and the digest of the index. Calls in `known` are never made again. A program at
    which the sandbox failed is not recorded, and not tried again by this ledger.

    **Example** 32 problems with 5 different candidates each, and 6 tests: `prepare` gets 960 calls and makes them, `run` finds
    all of their answers; another ledger with this one's record makes none.
    """

    def __init__(
        self,
        sources: ToolSources,
        *,
        known: ToolRecord | None = None,
        journal: ToolJournal | None = None,
        deadline_seconds: float | None = None,
    ) -> None:
        self._sources = sources
        self._journal = journal
        self._deadline_seconds = deadline_seconds
        self._started = monotonic()
        self._executions: dict[str, ExecutionResult] = dict(known.executions) if known else {}
        self._passages: dict[str, tuple[Passage, ...]] = dict(known.passages) if known else {}
        for record in journal.records() if journal else ():
            self._executions = {**record.executions, **self._executions}
            self._passages = {**record.passages, **self._passages}
        self._known = frozenset(known.executions if known else ())
        self._recalled: dict[str, Execution] = {}
        self._failed: dict[str, str] = {}
        self._used: set[str] = set()
        self.num_asked = 0
        """Calls that were made, because no record had their answers."""

    def run(self, execution: Execution) -> ExecutionResult:
        """The result of the program. Raises ExecutionFailed, SandboxUnavailable, DeadlineExceeded."""
        key = self._key(execution)
        if not self._is_answered(key):
            self._answer({key: execution})
        if key in self._failed:
            raise ExecutionFailed(self._failed[key])
        if key in self._known:
            self._recalled[key] = execution
        self._used.add(key)
        return self._executions[key]

    def retrieve(self, query: Query) -> tuple[Passage, ...]:
        """The best passages. Raises RetrieverUnavailable, DeadlineExceeded."""
        key = self._key(query)
        if not self._is_answered(key):
            self._answer({key: query})
        self._used.add(key)
        return self._passages[key]

    def prepare(self, calls: Sequence[ToolCall]) -> None:
        """Make those of `calls` that have no recorded answer, as many at once as the sandbox has boxes.

        Raises SandboxUnavailable, RetrieverUnavailable, DeadlineExceeded; answers so far stay recorded.
        """
        missing = {key: call for call in calls if not self._is_answered(key := self._key(call))}
        keys = list(missing)
        for first in range(0, len(keys), _CALLS_PER_RECORD):
            self._answer({key: missing[key] for key in keys[first : first + _CALLS_PER_RECORD]})

    def take_record(self) -> ToolRecord:
        """The answers that were used since the last call."""
        used, self._used = sorted(self._used), set()
        return ToolRecord(
            executions={key: self._executions[key] for key in used if key in self._executions},
            passages={key: self._passages[key] for key in used if key in self._passages},
        )

    def recall_results(self) -> Recalled:
        """The executions so far whose results were in `known`, with these results."""
        return {key: (execution, self._executions[key]) for key, execution in self._recalled.items()}

    def _is_answered(self, key: str) -> bool:
        return key in self._executions or key in self._passages or key in self._failed

    def _key(self, call: ToolCall) -> str:
        if isinstance(call, Query):
            return _digest(["query", self._retriever.digest, call.text, call.num_passages])
        limits = call.limits_within(self._sources.limits)
        numbers = [limits.wall_seconds, limits.cpu_seconds, limits.memory_mib, limits.output_kib]
        image = self._sources.sandbox().description.image_digest
        return _digest(["run", image, call.program, call.stdin, dict(call.files), list(call.outputs), numbers])

    @property
    def _retriever(self) -> Retriever:
        retriever = self._sources.retriever()
        assert retriever is not None, "an environment asks for passages, and its family names no retriever"
        return retriever

    def _answer(self, missing: Mapping[str, ToolCall]) -> None:
        """Make these calls, and record the answers so far even when it fails halfway."""
        executions: dict[str, ExecutionResult] = {}
        passages: dict[str, tuple[Passage, ...]] = {}
        try:
            for key, answer in self._ask(missing):
                if not isinstance(answer, ExecutionResult):
                    passages[key] = answer
                elif answer.status == "sandbox_error":
                    self._failed[key] = answer.detail or "the sandbox failed"
                else:
                    executions[key] = answer
        finally:
            self._executions |= executions
            self._passages |= passages
            self.num_asked += len(executions) + len(passages)
            if self._journal and (executions or passages):
                self._journal.append(ToolRecord(executions=executions, passages=passages))

    def _ask(self, missing: Mapping[str, ToolCall]) -> Iterator[tuple[str, ExecutionResult | tuple[Passage, ...]]]:
        """The answers as they come, each with its key."""
        if len(missing) == 1:
            for key, call in missing.items():
                self._check_deadline(1)
                yield key, self._ask_one(call)
            return
        crew = ThreadPoolExecutor(self._num_at_once(missing.values()), thread_name_prefix="ledger")
        try:
            pending = {crew.submit(self._ask_one, call): key for key, call in missing.items()}
            while pending:
                done, _ = wait(pending, timeout=self._seconds_left(), return_when=FIRST_COMPLETED)
                for future in done:
                    yield pending.pop(future), future.result()
                if pending:
                    self._check_deadline(len(pending))
        finally:
            crew.shutdown(wait=False, cancel_futures=True)

    def _ask_one(self, call: ToolCall) -> ExecutionResult | tuple[Passage, ...]:
        if isinstance(call, Query):
            return self._retriever.search(call)
        return self._sources.sandbox().run(
            call.program,
            stdin=call.stdin,
            files=call.files,
            outputs=call.outputs,
            limits=call.limits_within(self._sources.limits),
        )

    def _num_at_once(self, calls: Iterable[ToolCall]) -> int:
        runs_programs = any(isinstance(call, Execution) for call in calls)
        return self._sources.sandbox().description.num_boxes if runs_programs else _QUERIES_AT_ONCE

    def _seconds_left(self) -> float | None:
        if self._deadline_seconds is None:
            return None
        return max(0.0, self._started + self._deadline_seconds - monotonic())

    def _check_deadline(self, num_pending: int) -> None:
        if self._seconds_left() == 0.0:
            raise DeadlineExceeded(
                f"{num_pending} calls are not answered after {self._deadline_seconds:g} s; the answers so far are recorded, "
                "so a retry continues from there. Raise rewards.deadline_seconds or sandbox.num_boxes if it happens again"
            )


def _digest(parts: Sequence[object]) -> str:
    """128 bits of the parts' SHA-256, in hex."""
    return hashlib.sha256(canonical_json(list(parts))).hexdigest()[:32]
