"""One attempt of an agent: what it has asked so far, which request repeats which, and what it may still use."""

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any, Protocol

from components.gateway.base import AgentRequest, Message, RequestRefused, Tool
from components.gateway.calls import AgentCall, CallJournal, begin_history, continue_history
from components.gateway.conversation import make_canonical
from components.gateway.dialects.fields import KnownItems

IsOpen = Callable[[], bool]
"""Whether the connection of a request still stands."""


@dataclass(slots=True)
class Asking:
    """One of several equal requests: its number, and whether its answer was delivered."""

    repeat: int
    is_open: IsOpen
    is_delivered: bool = False


@dataclass(slots=True)
class Turn:
    """A call that is being answered, by whoever holds `lock`; equal requests that wait for it get its answer."""

    number: int = 0
    """How many calls had been answered when it was first asked, in whichever life."""
    is_answered: bool = False
    """Whether its answer is there, if not recorded."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    call: AgentCall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a session may use at most; None: no limit."""

    num_calls: int | None = None
    num_tokens: int | None = None
    """Sampled ones."""


class Siblings(Protocol):
    """How many answers the next call of a session gets, and which of them is delivered."""

    def count(self, before: Sequence[AgentCall]) -> int:
        """How many answers are sampled to the call after these."""
        ...

    def choose(self, before: Sequence[AgentCall], call: AgentCall) -> int:
        """Which of the candidates of `call`, the one after these, goes on."""
        ...


@dataclass(slots=True)
class AgentSession:
    """The requests of one attempt. Only the journal outlives it.

    `branch` names a fork among the sessions of one name: it is part of its seeds. `siblings` None: each call gets one answer.
    `volatile` are patterns of text that may differ between two lives of an agent: they are left out where requests are
    compared, and stay in what the model reads.
    """

    name: str
    journal: CallJournal
    budget: Budget = field(default_factory=Budget)
    branch: str = ""
    siblings: Siblings | None = None
    volatile: tuple[re.Pattern[str], ...] = ()
    most_kept: int | None = None
    """The oldest calls beyond this many are forgotten; None: none is."""
    failure: Exception | None = None
    """The first error of an engine or of a journal that it met."""
    kept: dict[str, AgentCall] = field(default_factory=dict)
    """By key, in the order in which they were answered first."""
    turns: dict[str, Turn] = field(default_factory=dict)
    """Calls that are not answered yet, by key."""
    known: defaultdict[str, KnownItems] = field(default_factory=partial(defaultdict, KnownItems))
    """Of what its agent sent in each dialect; for the one thread that reads requests."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held by who reads or changes the rest."""
    in_turn: threading.Lock = field(default_factory=threading.Lock)
    """Held while an answer with siblings is sampled: which goes on, and how many the next call gets, is known after it."""
    _by_history: dict[tuple[str, str], AgentCall] = field(default_factory=dict)
    _askings: dict[str, list[Asking]] = field(default_factory=dict)
    _tools: tuple[tuple[Tool, ...], str] | None = None
    """The last ones, and the digest with which their conversations begin."""
    _last: tuple[tuple[Message, ...], list[str]] = ((), [])
    """The messages of the last request, and the digests of its beginnings."""
    _waited: dict[str, int] = field(default_factory=dict)
    """The numbers of calls that waited while another was recorded."""
    _recorded: dict[str, AgentCall] | None = None
    """What the journal held when this life first drew an answer with siblings."""

    def digest_beginnings(self, request: AgentRequest) -> list[str]:
        """The digest of each beginning of the conversation, with the tools, the whole last. Each is made from the one before;
        those of messages that the last request began with are not made again."""
        if self._tools is None or self._tools[0] != request.tools:
            self._tools, self._last = (request.tools, begin_history(request.tools)), ((), [])
        same = takewhile(lambda pair: pair[0] is pair[1], zip(request.messages, self._last[0], strict=False))
        digests = self._last[1][: sum(1 for _ in same)]
        for message in request.messages[len(digests) :]:
            digests.append(self.continue_history(digests[-1] if digests else self._tools[1], message))
        self._last = (request.messages, digests)
        return digests

    def continue_history(self, before: str, message: Message) -> str:
        """The digest of a conversation with one more message, as two lives of the agent send it alike."""
        return continue_history(before, self._drop_volatile(make_canonical(message)))

    def find_extended(self, beginnings: Sequence[str], policy: str) -> tuple[AgentCall | None, int]:
        """The longest call of the policy whose conversation a request continues, and the place of its answer among the
        messages."""
        for number in range(len(beginnings) - 2, -1, -1):
            if (call := self._by_history.get((policy, beginnings[number]))) is not None:
                return call, number
        return None, 0

    def ask(self, digest: str, is_open: IsOpen, *, is_marked_retry: bool) -> Asking:
        """Which of several equal requests this one is. One whose connection broke before its answer was delivered is asked
        again by it; else, if the client says that it tries again, the last one is; else it is a new one.

        **Example** two equal requests at once get two answers; a third after the second was given up gets the second's.
        """
        asked = self._askings.setdefault(digest, [])
        lost = [each for each in asked if not each.is_delivered and not each.is_open()]
        if not lost and asked and is_marked_retry:
            lost = asked[-1:]
        if lost:
            lost[-1].is_open, lost[-1].is_delivered = is_open, False
            return lost[-1]
        asked.append(Asking(len(asked), is_open))
        return asked[-1]

    def begin_turn(self, key: str) -> Turn:
        """That of a call which is to be answered. One that a kill took from calls made at once keeps their number."""
        num_answered = len(self.kept) + sum(turn.is_answered for turn in self.turns.values())
        self.turns[key] = Turn(number=self._waited.get(key, num_answered))
        return self.turns[key]

    def mark_answered(self, turn: Turn) -> tuple[tuple[str, int], ...]:
        """Keys and numbers of the calls that are not recorded yet beside this one, whose answer is there."""
        turn.is_answered = True
        return tuple(sorted((key, other.number) for key, other in self.turns.items() if other is not turn))

    def check_budget(self) -> None:
        """Raise RequestRefused when the budget is used up."""
        sampled = [each for call in self.kept.values() for each in call.candidates]
        num_calls = len(self.kept) + len(self.turns)
        used = {"calls": num_calls, "tokens": sum(len(each.tokens) for each in sampled)}
        for name, most in (("calls", self.budget.num_calls), ("tokens", self.budget.num_tokens)):
            if most is not None and used[name] >= most:
                raise RequestRefused(
                    f"this session has used its {most} {name}; end the task", status=403, code="budget_spent"
                )

    def list_answered(self) -> list[AgentCall]:
        """All calls that have an answer. One of an earlier life counts before it is asked again: of two that were made at once
        either may be asked first."""
        if self._recorded is None:
            recorded = {key: self.journal.read(key) for key in sorted(self.journal.list_keys())}
            self._recorded = {key: call for key, call in recorded.items() if call is not None}
        return [*{**self._recorded, **self.kept}.values()]

    def keep(self, call: AgentCall) -> None:
        """Take an answered call into the session's rows, once."""
        self.turns.pop(call.key, None)
        self._waited.pop(call.key, None)
        if call.key not in self.kept:
            self.kept[call.key] = call
            self._by_history.setdefault((call.policy, call.history), call)
            self._waited.update(call.beside)
        if self.most_kept is not None and len(self.kept) > self.most_kept:
            oldest = self.kept.pop(next(iter(self.kept)))
            self._by_history.pop((oldest.policy, oldest.history), None)
            self._askings.pop(oldest.digest, None)

    def _drop_volatile(self, canonical: Any) -> Any:
        for pattern in self.volatile:
            canonical = _replace_texts(canonical, pattern)
        return canonical


def _replace_texts(value: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return pattern.sub("", value)
    if isinstance(value, dict):
        return {key: _replace_texts(each, pattern) for key, each in value.items()}
    return [_replace_texts(each, pattern) for each in value] if isinstance(value, list) else value
