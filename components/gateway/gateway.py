"""Answers requests of agents: from the journal, or from a policy's engine with a seed that the request decides."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from components.errors import ConfigurationError
from components.gateway.base import AgentAnswer, AgentRequest, AgentToolCall, Message, RequestRefused
from components.gateway.calls import AgentCall, SampledAnswer, continue_history, digest_request
from components.gateway.encoder import PromptEncoder, find_only_argument
from components.gateway.sessions import AgentSession, Asking, IsOpen
from components.generation.base import Completion, GenerationRequest
from components.identity import seed_for
from components.schema import PolicyVersion
from components.text.choice_tokens import Choices

Wishes = Literal["imposed", "honoured"]
"""Whether temperature, seed and length are the gateway's, as in training, or what the agent asks for."""
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


@dataclass(slots=True)
class Gateway:
    """The policies behind one endpoint, by the model names that agents use.

    One request at a time is sampled: an answer does not depend on what is asked beside it, so a session that is killed and
    begun again gets the same ones.

    **Example** an agent that asks for the model "planner" twice with the same words gets the answers number 0 and 1 of that
    request; killed and started anew, it gets both from the journal.
    """

    models: Mapping[str, ServedPolicy]
    sample: Sample
    seed: int
    wishes: Wishes = "imposed"
    counts: Counts = field(default_factory=Counts)
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def answer(
        self, session: AgentSession, request: AgentRequest, is_open: IsOpen, *, is_marked_retry: bool = False
    ) -> Answered:
        """The answer, durable before this returns. Raises RequestRefused, and what the engine and the journal raise."""
        served = self.find_model(request.model)
        with self._one_at_a_time:
            if not is_open():
                raise RequestRefused("the client gave up before its turn came", status=499, code="client_gave_up")
            session.check_budget()
            asked = self._make_question(session, served, request)
            asking = session.ask(asked.digest, is_open, is_marked_retry=is_marked_retry)
            self.counts.num_unread_fields += request.num_unread_fields
            try:
                call = self._find_or_sample(session, asked, asking.repeat)
            except BaseException:
                asking.is_open = lambda: False  # its connection may stand, and carry the next attempt
                raise
            session.keep(call)
        return Answered(call=call, answer=_show(served, request, call), asking=asking)

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

    def _find_or_sample(self, session: AgentSession, asked: "_Question", repeat: int) -> AgentCall:
        """The call from the journal, or else a new one, recorded."""
        if (call := session.journal.read(f"{asked.digest}-{repeat}")) is not None:
            self.counts.num_replayed += 1
            return call
        call = session.journal.write(self._sample(session, asked, repeat))
        self.counts.num_sampled += 1
        return call

    def _make_question(self, session: AgentSession, served: ServedPolicy, request: AgentRequest) -> "_Question":
        """What the engine will be asked, and the digest of what decides its answer. Raises RequestRefused."""
        honoured = self.wishes == "honoured"
        if honoured and request.top_p not in (None, 1.0):
            raise RequestRefused(
                f"top_p: answers are drawn from the whole distribution, not from {request.top_p} of it; leave it out",
                field="top_p",
            )
        if len(request.stop) > _MOST_STOPS or not all(request.stop):
            raise RequestRefused(f"stop: at most {_MOST_STOPS} texts, none empty", field="stop")
        wanted = served.max_new_tokens if request.max_tokens is None else request.max_tokens
        temperature = request.temperature if honoured and request.temperature is not None else served.temperature
        question = _Question(
            served=served,
            request=request,
            canonical=session.make_canonical(request.messages),
            temperature=temperature,
            max_new_tokens=min(wanted, served.max_new_tokens),
            stop=(*served.stop, *request.stop),
            seed=request.seed if honoured else None,
        )
        decides = [
            served.policy,
            served.version.weights_digest,
            temperature,
            question.max_new_tokens,
            list(question.stop),
        ]
        digest = digest_request(
            request, question.canonical, *decides, *([] if question.seed is None else [question.seed])
        )
        return replace(question, digest=digest)

    def _sample(self, session: AgentSession, asked: "_Question", repeat: int) -> AgentCall:
        """The call with a new answer, not yet recorded."""
        served, request = asked.served, asked.request
        before, place, history = session.find_extended(request, asked.canonical, served.policy)
        prompt = self._write_prompt(served, request, before, place)
        earlier, siblings = list(session.kept.values()), session.siblings
        seeds_K = self._choose_seeds(session, asked, repeat, 1 if siblings is None else siblings.count(earlier))
        completions_K = self._draw(asked, prompt, seeds_K)
        answers_K = tuple(self._read(session, asked, repeat, history, each) for each in completions_K)
        call = AgentCall(
            session=session.name,
            number=len(session.kept),
            model=request.model,
            policy=served.policy,
            version=completions_K[0].version,
            digest=asked.digest,
            repeat=repeat,
            extends=before.key if before else "",
            prompt_tokens=prompt,
            choices=_list_choices(served, request),
            offers_tools=bool(request.tools),
            temperature=asked.temperature,
            created=int(time.time()),
            siblings=answers_K if len(answers_K) > 1 else (),
            **{each.name: getattr(answers_K[0], each.name) for each in fields(SampledAnswer)},
        )
        return call if siblings is None else call.take(siblings.choose(earlier, call))

    def _read(
        self, session: AgentSession, asked: "_Question", repeat: int, history: str, completion: Completion
    ) -> SampledAnswer:
        """A completion as the answer to the conversation with the digest `history`."""
        read = asked.served.encoder.read(completion.tokens, asked.request.tools, asked.stop)
        said = Message(role="assistant", text=read.text, calls=_name_calls(asked.digest, repeat, read.calls))
        return SampledAnswer(
            tokens=completion.tokens,
            logprobs=completion.logprobs,
            finish_reason=completion.finish_reason,
            text=read.text,
            calls=read.calls,
            history=continue_history(history, session.make_canonical([said])[0]),
        )

    def _write_prompt(
        self, served: ServedPolicy, request: AgentRequest, before: AgentCall | None, place: int
    ) -> tuple[int, ...]:
        """The prompt: what the policy has read and sampled in this conversation, and what is new."""
        if before is None:
            self.counts.num_begun += 1
            return served.encoder.encode(request.messages, request.tools)
        self.counts.num_extended += 1
        said, new = request.messages[place], request.messages[place + 1 :]
        return served.encoder.extend((*before.prompt_tokens, *before.tokens), said, new, request.tools)

    def _draw(self, asked: "_Question", prompt: tuple[int, ...], seeds_K: tuple[int, ...]) -> Sequence[Completion]:
        choices = _list_choices(asked.served, asked.request)
        request = GenerationRequest(
            prompt_tokens=prompt,
            seeds_K=seeds_K,
            max_new_tokens=max(map(len, choices)) if choices else asked.max_new_tokens,
            temperature=asked.temperature,
            stop=() if choices else asked.stop,
            choices=choices,
        )
        try:
            return self.sample(asked.served.policy, request)
        except ConfigurationError as error:
            raise RequestRefused(f"messages: {error}", field="messages", code="context_length_exceeded") from error

    def _choose_seeds(
        self, session: AgentSession, asked: "_Question", repeat: int, num_candidates: int
    ) -> tuple[int, ...]:
        if asked.seed is not None:
            return (seed_for(self.seed, "served", asked.seed),)
        below = (f"below {session.branch}",) if session.branch else ()
        call = ("call", session.name, asked.served.policy, asked.digest, repeat, *below)
        return tuple(seed_for(self.seed, *call, *((k,) if k else ())) for k in range(num_candidates))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """A request and how the engine is asked. `canonical` is its conversation as two lives of an agent send it alike; `seed` is
    the agent's own, where it counts."""

    served: ServedPolicy
    request: AgentRequest
    canonical: list[Any]
    temperature: float
    max_new_tokens: int
    stop: tuple[str, ...]
    seed: int | None
    digest: str = ""


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


def _list_choices(served: ServedPolicy, request: AgentRequest) -> Choices:
    """The values of the only argument of the only tool, for a policy that draws among them; none where it says no values."""
    if served.encode_choice is None or len(request.tools) != 1:
        return ()
    argument = find_only_argument(request.tools[0])
    values = request.tools[0].parameters["properties"][argument].get("enum", ()) if argument else ()
    return tuple(served.encode_choice(value) for value in values if isinstance(value, str) and value)
