"""Answers requests of agents: from the journal, or from a policy's engine with a seed that the request decides."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from components.errors import ConfigurationError
from components.gateway.base import AgentAnswer, AgentRequest, AgentToolCall, Message, RequestRefused, Tool
from components.gateway.calls import AgentCall, SampledAnswer, digest_request, digest_values
from components.gateway.encoder import PromptEncoder, find_only_argument
from components.gateway.sessions import AgentSession, Asking, IsOpen, Turn
from components.generation.base import Completion, GenerationRequest
from components.identity import seed_for
from components.schema import PolicyVersion
from components.text.choice_tokens import Choices

Wishes = Literal["imposed", "honoured"]
"""Whether temperature, seed, top_p and length are the gateway's, as in training, or what the agent asks for."""
Sample = Callable[[str, GenerationRequest], Sequence[Completion]]
"""The answers of a policy to a request, one for each of its seeds."""
_MOST_STOPS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPolicy:
    """A policy that agents may name, and how it is asked. `max_new_tokens` is the most tokens of an answer, and the number for
    agents that ask for none."""

    policy: str
    version: PolicyVersion
    encoder: PromptEncoder
    show_tokens: Callable[[Sequence[int]], str]
    max_new_tokens: int
    temperature: float = 1.0
    stop: tuple[str, ...] = ()
    is_special: Callable[[str], bool] = lambda text: False
    """Whether a text is a special token, which no text of an answer holds."""
    encode_choice: Callable[[str], tuple[int, ...]] | None = None
    """For a policy that draws among the values of a tool's only argument: an answer as tokens, with its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A call, its answer in the inner form, and the asking that it is delivered to."""

    call: AgentCall
    answer: AgentAnswer
    asking: Asking


@dataclass(slots=True)
class Counts:
    """What a gateway did."""

    num_sampled: int = 0
    num_replayed: int = 0
    """Answers from the journal."""
    num_extended: int = 0
    """Prompts that continue an earlier one."""
    num_begun: int = 0
    """Prompts written from their beginning."""
    num_unread_fields: int = 0
    num_diverged: int = 0
    """Recorded calls of sessions that have ended which their last life did not ask: an agent that was begun again did not do
    again what it had done, so their answers were sampled for nothing. 0 for agents that are a function of their answers."""


@dataclass(slots=True)
class Gateway:
    """The policies behind one endpoint, by the model names that agents use.

    With `num_at_once` 1 an answer does not depend on what is asked beside it, so a session that is killed and begun again gets
    the same ones to the bit. What is recorded waits for no engine.

    **Example** an agent that asks for the model "planner" twice with the same words gets the answers number 0 and 1 of that
    request; killed and started anew, it gets both from the journal.
    """

    models: Mapping[str, ServedPolicy]
    sample: Sample
    seed: int
    wishes: Wishes = "imposed"
    counts: Counts = field(default_factory=Counts)
    num_at_once: int = 1
    """How many answers `sample` is asked for at once, from as many threads."""
    _engine_turns: threading.Semaphore = field(init=False)
    _is_closed: bool = False

    def __post_init__(self) -> None:
        self._engine_turns = threading.Semaphore(self.num_at_once)

    def answer(
        self, session: AgentSession, request: AgentRequest, is_open: IsOpen, *, is_marked_retry: bool = False
    ) -> Answered:
        """The answer, durable before this returns. Raises RequestRefused, and what the engine and the journal raise."""
        found = self.find(session, request, is_open, is_marked_retry=is_marked_retry)
        return found if isinstance(found, Answered) else self.sample_answer(found)

    def find(
        self, session: AgentSession, request: AgentRequest, is_open: IsOpen, *, is_marked_retry: bool = False
    ) -> "Answered | Unanswered":
        """The recorded answer, which waits for no engine, or what `sample_answer` takes. Raises as `answer`."""
        served = self.find_model(request.model)
        with session.lock:
            asked = self._make_question(session, served, request)
            asking = session.ask(asked.digest, is_open, is_marked_retry=is_marked_retry)
            self.counts.num_unread_fields += request.num_unread_fields
            try:
                call, turn = self._find_recorded(session, f"{asked.digest}-{asking.repeat}")
                if call is None:
                    return self._write_prompt(Unanswered(session, asked, asking, turn))
            except BaseException:
                asking.is_open = _is_closed  # its connection may stand, and carry the next attempt
                raise
        return Answered(call=call, answer=_show(served, request, call), asking=asking)

    def sample_answer(self, waiting: "Unanswered") -> Answered:
        """A new answer, or that of an equal request that was before. Raises as `answer`."""
        session, asked, asking, turn = waiting.session, waiting.asked, waiting.asking, waiting.turn
        with turn.lock, session.in_turn if session.siblings else nullcontext():
            if turn.call is None:
                try:
                    turn.call = session.journal.write(self._sample(waiting))
                except BaseException:
                    asking.is_open = _is_closed
                    with session.lock:
                        session.turns.pop(f"{asked.digest}-{asking.repeat}", None)
                    raise
                with session.lock:
                    self.counts.num_sampled += 1
                    session.keep(turn.call)
        return Answered(call=turn.call, answer=_show(asked.served, asked.request, turn.call), asking=asking)

    def close(self) -> None:
        """Sample nothing more; return when nothing is being sampled. Engines may be given other weights then."""
        self._is_closed = True
        for change in (self._engine_turns.acquire, self._engine_turns.release):
            for _ in range(self.num_at_once):
                change()

    def end(self, session: AgentSession) -> None:
        """Count what the journal holds of a finished session beyond what its last life asked."""
        with session.lock:
            self.counts.num_diverged += len(session.journal.list_keys() - session.kept.keys())

    def find_model(self, name: str) -> ServedPolicy:
        """The policy of a model name. Raises RequestRefused with the names that there are."""
        if name not in self.models:
            raise RequestRefused(
                f"model: there is no {name[:80]!r}; the models are {', '.join(self.models)}",
                status=404,
                field="model",
                code="model_not_found",
            )
        return self.models[name]

    def count_tokens(self, request: AgentRequest) -> int:
        """The tokens of a prompt that begins anew."""
        return len(self.find_model(request.model).encoder.encode(request.messages, request.tools))

    def _find_recorded(self, session: AgentSession, key: str) -> tuple[AgentCall | None, Turn]:
        """The call that was answered before, or whose turn it is to be."""
        if (turn := session.turns.get(key)) is not None:
            return turn.call, turn
        if (call := session.kept.get(key)) is None:
            session.check_budget()
            call = session.journal.read(key)
        if call is None:
            return None, session.begin_turn(key)
        self.counts.num_replayed += 1
        session.keep(call)
        return call, Turn(call=call)

    def _make_question(self, session: AgentSession, served: ServedPolicy, request: AgentRequest) -> "_Question":
        """What the engine will be asked, and the digest of what decides its answer. Raises RequestRefused."""
        honoured = self.wishes == "honoured"
        if len(request.stop) > _MOST_STOPS or not all(request.stop):
            raise RequestRefused(f"stop: at most {_MOST_STOPS} texts, none empty", field="stop")
        wanted = served.max_new_tokens if request.max_tokens is None else request.max_tokens
        temperature = request.temperature if honoured and request.temperature is not None else served.temperature
        question = _Question(
            served=served,
            request=request,
            beginnings=session.digest_beginnings(request),
            temperature=temperature,
            max_new_tokens=min(wanted, served.max_new_tokens),
            # Clients that know no model send the end tokens of many; those of this one end its answers anyway.
            stop=(*served.stop, *(text for text in request.stop if not served.is_special(text))),
            seed=request.seed if honoured else None,
            top_p=request.top_p if honoured and request.top_p is not None else 1.0,
        )
        asks = digest_request(request, question.beginnings[-1], question.max_new_tokens, list(question.stop))
        wishes = {"seed": question.seed, "top_p": None if question.top_p == 1 else question.top_p}
        decides = [served.policy, served.version.weights_digest, temperature, wishes]
        return replace(question, asks=asks, digest=digest_values(asks, *decides))

    def _write_prompt(self, waiting: "Unanswered") -> "Unanswered":
        """With the prompt: what the policy has read and sampled in this conversation, and what is new."""
        served, request = waiting.asked.served, waiting.asked.request
        before, place = waiting.session.find_extended(waiting.asked.beginnings, served.policy)
        if before is None:
            self.counts.num_begun += 1
            return replace(waiting, prompt=served.encoder.encode(request.messages, request.tools))
        self.counts.num_extended += 1
        said, new = request.messages[place], request.messages[place + 1 :]
        prompt = served.encoder.extend((*before.prompt_tokens, *before.tokens), said, new, request.tools)
        return replace(waiting, prompt=prompt, extends=before.key)

    def _sample(self, waiting: "Unanswered") -> AgentCall:
        """The call with a new answer, not yet recorded."""
        session, asked, repeat = waiting.session, waiting.asked, waiting.asking.repeat
        served, request = asked.served, asked.request
        siblings = session.siblings
        with session.lock:
            earlier = session.list_answered() if siblings else []
        completions_K = self._draw(waiting, siblings.count(earlier) if siblings else 1)
        answers_K = tuple(self._read(waiting, each) for each in completions_K)
        with session.lock:
            beside = session.mark_answered(waiting.turn)
        call = AgentCall(
            session=session.name,
            number=waiting.turn.number if len(completions_K) == 1 else len(earlier),
            model=request.model,
            policy=served.policy,
            version=completions_K[0].version,
            digest=asked.digest,
            repeat=repeat,
            extends=waiting.extends,
            prompt_tokens=waiting.prompt,
            choices=_list_choices(served, request),
            offers_tools=bool(request.tools),
            temperature=asked.temperature,
            created=int(time.time()),
            siblings=answers_K if len(answers_K) > 1 else (),
            beside=beside,
            **{each.name: getattr(answers_K[0], each.name) for each in fields(SampledAnswer)},
        )
        return call if siblings is None else call.take(siblings.choose(earlier, call))

    def _read(self, waiting: "Unanswered", completion: Completion) -> SampledAnswer:
        """A completion as an answer to what was asked."""
        asked, session = waiting.asked, waiting.session
        read = asked.served.encoder.read(completion.tokens, _list_callable(asked.request), asked.stop)
        calls = _name_calls(asked.digest, waiting.asking.repeat, read.calls)
        said = Message(role="assistant", text=read.text, calls=calls)
        with session.lock:
            history = session.continue_history(asked.beginnings[-1], said)
        return SampledAnswer(
            tokens=completion.tokens,
            logprobs=completion.logprobs,
            finish_reason=completion.finish_reason,
            text=read.text,
            calls=read.calls,
            history=history,
        )

    def _draw(self, waiting: "Unanswered", num_candidates: int) -> Sequence[Completion]:
        asked, choices = waiting.asked, _list_choices(waiting.asked.served, waiting.asked.request)
        request = GenerationRequest(
            prompt_tokens=waiting.prompt,
            seeds_K=self._choose_seeds(waiting.session, asked, waiting.asking.repeat, num_candidates),
            max_new_tokens=max(map(len, choices)) if choices else asked.max_new_tokens,
            temperature=asked.temperature,
            stop=() if choices else asked.stop,
            top_p=asked.top_p,
            choices=choices,
        )
        with self._engine_turns:
            if self._is_closed:
                raise RequestRefused("the play that this session belongs to has ended", status=503)
            if not waiting.asking.is_open():
                raise RequestRefused("the client gave up before its turn came", status=499, code="client_gave_up")
            try:
                return self.sample(asked.served.policy, request)
            except ConfigurationError as error:
                raise RequestRefused(f"messages: {error}", field="messages", code="context_length_exceeded") from error

    def _choose_seeds(
        self, session: AgentSession, asked: "_Question", repeat: int, num_candidates: int
    ) -> tuple[int, ...]:
        if asked.seed is not None:
            return (asked.seed,)
        below = (f"below {session.branch}",) if session.branch else ()
        # Of no weights and no policy: teams are compared under the same draws, whatever their policies are called.
        call = ("call", session.name, asked.request.model, asked.asks, repeat, *below)
        return tuple(seed_for(self.seed, *call, *((k,) if k else ())) for k in range(num_candidates))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """A request and how the engine is asked. `beginnings` are the digests of its conversation's beginnings; `seed` is the
    agent's own, where it counts. `asks` is the digest of what is asked, whoever answers, `digest` that of all that decides the
    answer."""

    served: ServedPolicy
    request: AgentRequest
    beginnings: list[str]
    temperature: float
    max_new_tokens: int
    stop: tuple[str, ...]
    seed: int | None
    top_p: float
    asks: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A call whose answer is to be sampled, with its prompt."""

    session: AgentSession
    asked: _Question
    asking: Asking
    turn: Turn
    prompt: tuple[int, ...] = ()
    extends: str = ""
    """The key of the call that the prompt continues."""


def _is_closed() -> bool:
    return False


def _show(served: ServedPolicy, request: AgentRequest, call: AgentCall) -> AgentAnswer:
    logprobs: tuple[tuple[str, float], ...] = ()
    if request.wants_logprobs:
        logprobs = tuple((served.show_tokens((token,)), p) for token, p in zip(call.tokens, call.logprobs, strict=True))
    return AgentAnswer(
        answer_id=f"{call.digest}{call.repeat}",
        created=call.created,
        text=call.text,
        calls=_name_calls(call.digest, call.repeat, call.calls),
        finish="tool_calls" if call.calls else call.finish_reason,
        num_prompt_tokens=len(call.prompt_tokens),
        num_answer_tokens=len(call.tokens),
        token_logprobs=logprobs,
    )


def _name_calls(digest: str, repeat: int, calls: tuple[tuple[str, str], ...]) -> tuple[AgentToolCall, ...]:
    """Calls with ids that are the same in each life of an agent: some agents write them into their prompts."""
    return tuple(
        AgentToolCall(call_id=f"call_{digest[:16]}{repeat:x}{number:02d}", name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(calls)
    )


def _list_callable(request: AgentRequest) -> tuple[Tool, ...]:
    """The tools that an answer may call: it reads of all, and calls none if `tool_choice` says so."""
    return () if request.tool_choice == "none" else request.tools


def _list_choices(served: ServedPolicy, request: AgentRequest) -> Choices:
    """The values of the only argument of the only tool, for a policy that draws among them; none where it says no values."""
    if served.encode_choice is None or len(_list_callable(request)) != 1:
        return ()
    argument = find_only_argument(request.tools[0])
    values = request.tools[0].parameters["properties"][argument].get("enum") if argument else None
    texts = [value for value in values if isinstance(value, str) and value] if isinstance(values, list) else []
    try:
        return tuple(map(served.encode_choice, texts))
    except ConfigurationError as error:
        raise RequestRefused(f"tools: {error}", field="tools") from error
