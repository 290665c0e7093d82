"""Calls of agents, recorded before they are answered, so that no answer is lost or sampled twice."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

from components.artifacts import codec
from components.artifacts.base import ArtifactStore
from components.artifacts.records import make_damage_error
from components.errors import ArtifactCorrupt
from components.gateway.base import AgentRequest, Tool
from components.gateway.conversation import show_tool
from components.identity import canonical_json
from components.schema import FinishReason, PolicyVersion
from components.text.choice_tokens import Choices


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledAnswer:
    """One answer to a request, as sampled and as read. `history` is the digest of the conversation with it."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason
    text: str
    calls: tuple[tuple[str, str], ...]
    """Names with arguments as JSON text."""
    history: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCall(SampledAnswer):
    """One answered request of an agent, with the answer that it got.

    `digest` names the request by what decides its answer, `repeat` counts equal requests that are not retries. `extends` is the
    key of the call whose prompt and answer the prompt begins with; "" for a prompt that begins anew.
    """

    session: str
    number: int
    """How many calls of the session had been answered when it was first asked: calls that are made at once have the same,
    whichever comes first. With siblings: when it was answered."""
    model: str
    policy: str
    version: PolicyVersion
    digest: str
    repeat: int
    extends: str
    prompt_tokens: tuple[int, ...]
    """The whole prompt; in a record, what follows the first `num_left_out` tokens, those of `extends` with its answer."""
    choices: Choices
    """The answers among which it was drawn, as tokens; none: any text."""
    offers_tools: bool
    temperature: float
    created: int
    """Seconds since 1970."""
    siblings: tuple[SampledAnswer, ...] = ()
    """The candidates that were sampled together, of which it got number `chosen`; none: only that answer was."""
    chosen: int = 0
    beside: tuple[tuple[str, int], ...] = ()
    """Keys and numbers of the calls that were not recorded yet when it was answered."""
    num_left_out: int = 0

    @property
    def key(self) -> str:
        """Its name in the session: the same in each life of the agent."""
        return f"{self.digest}-{self.repeat}"

    @property
    def candidates(self) -> tuple[SampledAnswer, ...]:
        """All answers that were sampled."""
        return self.siblings or (self,)

    def take(self, chosen: int) -> "AgentCall":
        """The same request, answered by another of its candidates."""
        taken = self.candidates[chosen]
        return replace(self, chosen=chosen, **{each.name: getattr(taken, each.name) for each in fields(SampledAnswer)})


class CallJournal(Protocol):
    """Where the calls of a session are kept."""

    def read(self, key: str) -> AgentCall | None:
        """The recorded call, or None."""
        ...

    def write(self, call: AgentCall) -> AgentCall:
        """Record `call`, durable when this returns; the call that was recorded first under its key."""
        ...

    def list_keys(self) -> set[str]:
        """The keys of all that is recorded."""
        ...


@dataclass(frozen=True, slots=True)
class StoredCalls:
    """The calls under one key prefix of a store, one record each: `<prefix>/calls/<digest>-<repeat>`.

    A record leaves out what its prompt has from the call that it continues, so those of a conversation grow as it does.
    """

    store: ArtifactStore
    prefix: str
    _known: dict[str, AgentCall] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was read or written here, whole."""

    def read(self, key: str) -> AgentCall | None:
        """See `CallJournal.read`. Raises ArtifactCorrupt: an answer that was given is not sampled anew without a word."""
        found: list[tuple[str, AgentCall]] = []
        wanted = key
        while wanted not in self._known:
            if (call := self._read_record(wanted)) is None:
                if found:
                    raise make_damage_error(self._place(wanted), f"gone, and {found[-1][0]} continues it")
                return None
            found.append((wanted, call))
            if not call.num_left_out:
                break
            wanted = call.extends
        for name, call in reversed(found):
            self._known[name] = self._complete(call)
        return self._known[key]

    def write(self, call: AgentCall) -> AgentCall:
        """See `CallJournal.write`."""
        if self.store.create(self._place(call.key), codec.encode(self._shorten(call))):
            self._known[call.key] = call
            return call
        first = self.read(call.key)
        assert first is not None, f"{call.key} is recorded and cannot be read"
        return first

    def _read_record(self, key: str) -> AgentCall | None:
        place = self._place(key)
        content = self.store.read(place)
        if content is None:
            return None
        try:
            return codec.decode(content, AgentCall)
        except ArtifactCorrupt as error:
            raise make_damage_error(place, f"no call that can be read ({error})") from error

    def _shorten(self, call: AgentCall) -> AgentCall:
        """Without what the call that it continues has, if that is here."""
        if (before := self._known.get(call.extends)) is None:
            return call
        read = (*before.prompt_tokens, *before.tokens)
        if call.prompt_tokens[: len(read)] != read:
            return call
        return replace(call, prompt_tokens=call.prompt_tokens[len(read) :], num_left_out=len(read))

    def _complete(self, call: AgentCall) -> AgentCall:
        if not call.num_left_out:
            return call
        before = self._known[call.extends]
        read = (*before.prompt_tokens, *before.tokens)
        if len(read) != call.num_left_out:
            raise make_damage_error(
                self._place(call.key), f"{call.num_left_out} tokens left out, {len(read)} before it"
            )
        return replace(call, prompt_tokens=(*read, *call.prompt_tokens), num_left_out=0)

    def list_keys(self) -> set[str]:
        """See `CallJournal.list_keys`."""
        return {place.rpartition("/")[2] for place in self.store.list(self._place(""))}

    def _place(self, key: str) -> str:
        return f"{self.prefix}/calls/{key}"


@dataclass(frozen=True, slots=True)
class ForkedCalls:
    """The calls of a fork: those before it are its parent's, and those after it its own."""

    before: Mapping[str, AgentCall]
    own: CallJournal

    def read(self, key: str) -> AgentCall | None:
        """See `CallJournal.read`."""
        return self.before.get(key) or self.own.read(key)

    def write(self, call: AgentCall) -> AgentCall:
        """See `CallJournal.write`."""
        return self.own.write(call)

    def list_keys(self) -> set[str]:
        """See `CallJournal.list_keys`."""
        return {*self.before, *self.own.list_keys()}


class UnkeptCalls:
    """No calls: for serving, where an answer that is lost is sampled again."""

    def read(self, key: str) -> AgentCall | None:
        """None."""
        return None

    def write(self, call: AgentCall) -> AgentCall:
        """`call`."""
        return call

    def list_keys(self) -> set[str]:
        """None."""
        return set()


def digest_request(request: AgentRequest, history: str, *also: Any) -> str:
    """The digest of what is asked: the conversation and the tools, by their digest `history`, and `also`."""
    return digest_values(history, request.tool_choice, *also)


def begin_history(tools: Sequence[Tool]) -> str:
    """The digest of a conversation without messages."""
    return digest_values([show_tool(tool) for tool in tools])


def continue_history(before: str, message: Any) -> str:
    """The digest of a conversation with one more message, in canonical form."""
    return digest_values(before, message)


def digest_values(*values: Any) -> str:
    """The digest of plain values."""
    return hashlib.sha256(canonical_json([*values])).hexdigest()[:24]
