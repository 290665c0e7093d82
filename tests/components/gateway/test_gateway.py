"""No answer is lost or sampled twice, and which answer a request gets depends on nothing but the request."""

import itertools
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from components.artifacts import codec
from components.artifacts.local import LocalArtifactStore
from components.config import TransformersGeneration
from components.errors import ArtifactCorrupt, EngineUnavailable
from components.gateway.base import AgentRequest, RequestRefused
from components.gateway.calls import AgentCall, StoredCalls, UnkeptCalls
from components.gateway.encoder import ChatEncoder, CompactEncoder
from components.gateway.gateway import Answered, Gateway, ServedPolicy, Unanswered
from components.gateway.sessions import AgentSession, Budget
from components.generation.base import Completion, GenerationRequest
from components.generation.local.engine import TransformersGenerator
from components.models.tokenizer import HuggingFaceTokenizer
from components.schema import PolicyVersion
from tests.components.gateway.talks import ADD, ask, call, make_chat_tokenizer, say
from tests.components.generation.tiny_models import random_model, save_model

VERSION = PolicyVersion(policy="team", step=3, weights_digest="d" * 16)
TOKENIZER = HuggingFaceTokenizer(make_chat_tokenizer())
ENCODER = ChatEncoder(TOKENIZER)


class Scripted:
    """Answers with a word that the seed decides, or with a call; counts what it sampled."""

    def __init__(self, write: Callable[[int], str] = lambda seed: f"word {seed % 10**6}") -> None:
        self.write = write
        self.asked: list[GenerationRequest] = []
        self.fails_after: int | None = None

    def sample(self, policy: str, request: GenerationRequest) -> tuple[Completion, ...]:
        if self.fails_after is not None and len(self.asked) >= self.fails_after:
            raise EngineUnavailable("no server answers")
        self.asked.append(request)
        return tuple(self.complete(policy, seed) for seed in request.seeds_K)

    def complete(self, policy: str, seed: int) -> Completion:
        tokens = (*TOKENIZER.encode(self.write(seed)), TOKENIZER.end_token)
        logprobs = tuple(-0.5 for _ in tokens)
        return Completion(
            tokens=tokens, logprobs=logprobs, finish_reason="stop", version=replace(VERSION, policy=policy)
        )


def serve(policy: str = "team", **also: object) -> ServedPolicy:
    fields = {"encoder": ENCODER, "show_tokens": TOKENIZER.decode_with_specials, "max_new_tokens": 64}
    return ServedPolicy(**{"policy": policy, "version": replace(VERSION, policy=policy), **fields, **also})  # type: ignore[arg-type]


def open_gateway(engine: Scripted, **also: object) -> Gateway:
    models = {"main": serve(), "other": serve("second")}
    return Gateway(**{"models": models, "sample": engine.sample, "seed": 7, **also})  # type: ignore[arg-type]


def answer(gateway: Gateway, session: AgentSession, request: AgentRequest, *, marked: bool = False) -> Answered:
    """The delivered answer."""
    found = gateway.answer(session, request, lambda: True, is_marked_retry=marked)
    found.asking.is_delivered = True
    return found


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path / "store")


def open_session(store: LocalArtifactStore | None = None, **also: object) -> AgentSession:
    journal = UnkeptCalls() if store is None else StoredCalls(store, "runs/r/agents/s1")
    return AgentSession(**{"name": "s1", "journal": journal, **also})  # type: ignore[arg-type]


def play_agent(gateway: Gateway, session: AgentSession, num_calls: int) -> list[AgentCall]:
    """An agent of one growing conversation, whose questions depend on the answers, with two models in turn."""
    messages = [say("be brief", role="system")]
    calls = []
    for number in range(num_calls):
        last = messages[-1].text
        messages.append(say(f"{number} after {last[:12]}"))
        found = answer(gateway, session, ask(*messages, model=("main", "other")[number % 2]))
        messages.append(say(found.answer.text, role="assistant"))
        calls.append(found.call)
    return calls


@pytest.mark.parametrize("lives", [[8], [3, 8], [1, 1, 5, 7, 8]])
def test_an_agent_begun_again_gets_the_same_answers_and_none_is_sampled_twice(
    store: LocalArtifactStore, lives: list[int]
) -> None:
    engine = Scripted()
    for num_calls in lives:
        calls = play_agent(open_gateway(engine), open_session(store), num_calls)
    once = play_agent(open_gateway(Scripted()), open_session(), 8)
    assert [replace(each, created=0) for each in calls] == [replace(each, created=0) for each in once]
    assert len(engine.asked) == 8


def test_a_prompt_continues_what_its_policy_has_read_and_sampled() -> None:
    gateway, session = open_gateway(Scripted()), open_session()
    calls = play_agent(gateway, session, 6)
    for earlier, later in zip(calls, calls[2:], strict=False):
        assert (
            later.prompt_tokens[: len(earlier.prompt_tokens) + len(earlier.tokens)]
            == earlier.prompt_tokens + earlier.tokens
        )
        assert later.extends == earlier.key, "of the same policy: the other one's words are read, not continued"
    assert [each.extends for each in calls[:2]] == ["", ""]
    whole = "<|start|>system\nbe brief<|end|>\n"
    for number, each in enumerate(calls):
        last = "be brief" if number == 0 else calls[number - 1].text
        whole += f"<|start|>user\n{number} after {last[:12]}<|end|>\n<|start|>assistant\n"
        assert TOKENIZER.decode_with_specials(each.prompt_tokens) == whole, "nothing that was said is left out"
        whole += f"{each.text}<|end|>\n"
    assert (gateway.counts.num_extended, gateway.counts.num_begun) == (4, 2)


def test_history_that_the_agent_edits_begins_a_new_prompt() -> None:
    gateway, session = open_gateway(Scripted()), open_session()
    first = answer(gateway, session, ask(say("q")))
    edited = ask(say("q"), say(f"{first.answer.text}!", role="assistant"), say("r"))
    assert answer(gateway, session, edited).call.extends == ""
    tools_changed = ask(say("q"), say(first.answer.text, role="assistant"), say("r"), tools=(ADD,))
    assert answer(gateway, session, tools_changed).call.extends == ""


@pytest.mark.parametrize("echoed", ['{"a": 1}', '{ "a":1 }'])
def test_a_call_of_a_tool_is_continued_however_its_arguments_are_written(echoed: str) -> None:
    engine = Scripted(lambda seed: '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>')
    gateway, session = open_gateway(engine), open_session()
    first = answer(gateway, session, ask(say("q"), tools=(ADD,)))
    assert (first.answer.finish, first.answer.text) == ("tool_calls", "")
    (made,) = first.answer.calls
    none = answer(gateway, open_session(), ask(say("q"), tools=(ADD,), tool_choice="none")).answer
    assert (none.calls, "add" in none.text) == ((), True), "it reads of the tool, and calls none"
    said = say("", role="assistant", calls=(call("an id of the agent's", echoed),))
    result = say("2", role="tool", answers="an id of the agent's")
    assert answer(gateway, session, ask(say("q"), said, result, tools=(ADD,))).call.extends == first.call.key
    again = answer(open_gateway(Scripted(engine.write)), open_session(), ask(say("q"), tools=(ADD,)))
    assert again.answer.calls == (made,), "ids are the same in each life"


def test_answers_do_not_depend_on_the_order_in_which_sub_agents_ask() -> None:
    requests = [ask(say(f"sub-agent {number}")) for number in range(6)]
    seen = set()
    for order in random.Random(0).sample(list(itertools.permutations(range(6))), 20):
        gateway, session = open_gateway(Scripted()), open_session()
        texts = {number: answer(gateway, session, requests[number]).answer.text for number in order}
        seen.add(tuple(sorted(texts.items())))
    assert len(seen) == 1


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_calls_at_once_are_numbered_alike_in_whatever_order_they_come_and_are_answered(order: tuple[int, ...]) -> None:
    gateway, session = open_gateway(Scripted()), open_session()
    answer(gateway, session, ask(say("first")))
    asked = [gateway.find(session, ask(say(f"at once {n}")), lambda: True) for n in order]
    numbers = [gateway.sample_answer(each).call.number for each in reversed(asked) if isinstance(each, Unanswered)]
    assert [*numbers, answer(gateway, session, ask(say("last"))).call.number] == [1, 1, 1, 4]


def test_a_kill_between_the_records_of_calls_at_once_changes_no_number() -> None:
    journal, texts = Kept(), ("one", "two", "three")
    gateway, session = open_gateway(Scripted()), open_session(journal=journal)
    answer(gateway, session, ask(say("first")))
    found = [gateway.find(session, ask(say(text)), lambda: True) for text in texts]
    assert isinstance(found[1], Unanswered)
    gateway.sample_answer(found[1])
    gateway, session = open_gateway(Scripted()), open_session(journal=journal)
    again = [answer(gateway, session, ask(say(text))).call.number for text in ("first", "two", "one", "last", "three")]
    assert again == [0, 1, 1, 3, 1]


def test_a_call_that_comes_while_another_is_recorded_is_numbered_after_it() -> None:
    class Recording(Kept):
        def write(self, call: AgentCall) -> AgentCall:
            found.append(gateway.find(session, ask(say(f"after {call.text}")), lambda: True))
            return super().write(call)

    gateway, session = open_gateway(Scripted()), open_session(journal=Recording())
    found: list[object] = []
    first = answer(gateway, session, ask(say("first"))).call
    assert isinstance(later := found[0], Unanswered)
    assert (first.number, gateway.sample_answer(later).call.number) == (0, 1)


def test_equal_requests_at_once_are_different_samples() -> None:
    engine = Scripted()
    gateway, session = open_gateway(engine), open_session()
    found = [gateway.answer(session, ask(say("q")), lambda: True) for _ in range(3)]
    assert [each.call.repeat for each in found] == [0, 1, 2]
    assert len({each.answer.text for each in found}) == 3


@pytest.mark.parametrize(
    ("is_open", "delivered", "marked", "repeat", "num_sampled"),
    [
        (False, False, False, 0, 1),  # given up, asked again without a mark, as codex does
        (False, False, True, 0, 1),
        (True, True, True, 0, 1),  # marked: the answer came and was lost beyond the socket
        (True, True, False, 1, 2),  # the agent wants another sample
        (False, True, False, 1, 2),  # delivered, then closed
        (True, False, False, 1, 2),  # two at once
    ],
)
def test_a_retry_is_an_equal_request_whose_answer_was_not_delivered(
    is_open: bool, delivered: bool, marked: bool, repeat: int, num_sampled: int
) -> None:
    engine, state = Scripted(), {"open": True}
    gateway, session = open_gateway(engine), open_session(journal=Kept())
    first = gateway.answer(session, ask(say("q")), lambda: state["open"])
    first.asking.is_delivered, state["open"] = delivered, is_open
    second = gateway.answer(session, ask(say("q"), wants_stream=True), lambda: True, is_marked_retry=marked)
    assert (second.call.repeat, len(engine.asked)) == (repeat, num_sampled)
    assert (second.call == first.call) == (repeat == 0)


class Kept(dict[str, AgentCall]):
    """A journal in memory, of one session."""

    def read(self, key: str) -> AgentCall | None:
        return self.get(key)

    def write(self, call: AgentCall) -> AgentCall:
        assert call.key not in self, "what is recorded is not sampled again"
        self[call.key] = call
        return call

    def list_keys(self) -> set[str]:
        return set(self)


class Widening:
    """One candidate more for each call."""

    def count(self, before: Sequence[AgentCall]) -> int:
        return len(before) + 2

    def choose(self, before: Sequence[AgentCall], call: AgentCall) -> int:
        return 0


def test_of_two_calls_at_once_the_recorded_one_comes_first_whichever_is_asked_first_again() -> None:
    journal = Kept()
    answer(open_gateway(Scripted()), open_session(journal=journal, siblings=Widening()), ask(say("a")))
    gateway, session = open_gateway(Scripted()), open_session(journal=journal, siblings=Widening())
    later, first = (answer(gateway, session, ask(say(text))).call for text in ("b", "a"))
    last = answer(gateway, session, ask(say("c"))).call
    assert [(call.number, len(call.candidates)) for call in (first, later, last)] == [(0, 2), (1, 3), (2, 4)]


def test_who_gave_up_while_waiting_is_not_sampled_for() -> None:
    engine = Scripted()
    with pytest.raises(RequestRefused, match="gave up"):
        open_gateway(engine).answer(open_session(), ask(say("q")), lambda: False)
    assert engine.asked == []


def test_volatile_spans_are_read_and_not_compared(store: LocalArtifactStore) -> None:
    def ask_at(seconds: int) -> AgentRequest:
        return ask(say(f"wall time {seconds} s: done"))

    pattern = (re.compile(r"wall time \d+ s"),)
    engine = Scripted()
    for seconds in (3, 4):
        found = answer(open_gateway(engine), open_session(store, volatile=pattern), ask_at(seconds))
    assert len(engine.asked) == 1
    assert "wall time 3 s" in TOKENIZER.decode(found.call.prompt_tokens), "as the model really saw it"
    answer(open_gateway(engine), open_session(store), ask_at(4))
    assert len(engine.asked) == 2, "without the pattern it is another request"


@pytest.mark.parametrize("asks_the_same", [True, False])
def test_recorded_calls_that_the_last_life_did_not_ask_have_diverged(
    store: LocalArtifactStore, asks_the_same: bool
) -> None:
    questions = [ask(say(f"sub-agent {number}")) for number in range(4)]
    for each in questions[:3]:
        answer(open_gateway(Scripted()), open_session(store), each)
    gateway, session = open_gateway(Scripted()), open_session(store)
    for each in reversed(questions[0 if asks_the_same else 2 :]):
        answer(gateway, session, each)
    gateway.end(session)
    assert gateway.counts.num_diverged == (0 if asks_the_same else 2), "whatever the order in which sub-agents ask"


def test_a_damaged_record_is_not_sampled_anew_without_a_word(store: LocalArtifactStore) -> None:
    (first,) = play_agent(open_gateway(Scripted()), open_session(store), 1)
    (record,) = (path for path in Path(store.uri.removeprefix("file://")).rglob(f"{first.key}*") if path.is_file())
    record.write_bytes(record.read_bytes()[:-7])
    with pytest.raises(ArtifactCorrupt, match=first.key):
        play_agent(open_gateway(Scripted()), open_session(store), 1)


def test_records_of_a_conversation_grow_as_it_does_and_are_read_whole(store: LocalArtifactStore) -> None:
    calls = play_agent(open_gateway(Scripted()), open_session(store), 12)
    journal = StoredCalls(store, "runs/r/agents/s1")
    records = [codec.decode(store.read(f"runs/r/agents/s1/calls/{call.key}") or b"", AgentCall) for call in calls]
    assert (
        max(len(record.prompt_tokens) for record in records[2:])
        < 2 * len(calls[2].prompt_tokens)
        < len(calls[-1].prompt_tokens)
    )
    assert [journal.read(call.key) for call in reversed(calls)] == calls[::-1]
    (gone,) = (call for call in calls if call.key == calls[-1].extends)
    (Path(store.uri.removeprefix("file://")) / f"runs/r/agents/s1/calls/{gone.key}").unlink()
    with pytest.raises(ArtifactCorrupt, match=f"{gone.key}: gone, and {calls[-1].key} continues it"):
        StoredCalls(store, "runs/r/agents/s1").read(calls[-1].key)


def test_in_training_the_gateway_decides_how_answers_are_drawn() -> None:
    engine = Scripted()
    wished = ask(say("q"), temperature=0.2, seed=5, max_tokens=8, top_p=0.5, stop=(";",))
    answer(open_gateway(engine), open_session(), wished)
    (asked,) = engine.asked
    assert (asked.temperature, asked.max_new_tokens, asked.stop, asked.top_p) == (1.0, 8, (";",), 1.0)
    answer(open_gateway(engine), open_session(), replace(wished, seed=6))
    assert engine.asked[1].seeds_K == asked.seeds_K


def test_end_tokens_among_the_stops_of_a_client_are_no_fault() -> None:
    """lm-eval asks every model to stop at the end tokens of many."""
    engine = Scripted()
    models = {"main": replace(serve(), is_special=TOKENIZER.is_special)}
    answer(open_gateway(engine, models=models), open_session(), ask(say("q"), stop=("Question:", "<|end|>", "</s>")))
    assert engine.asked[0].stop == ("Question:", "</s>")


def test_in_serving_the_agent_decides() -> None:
    engine = Scripted()
    gateway, session = open_gateway(engine, wishes="honoured"), open_session()
    wished = ask(say("q"), temperature=0.2, seed=5, max_tokens=10_000)
    first, again = answer(gateway, session, wished), answer(gateway, session, wished)
    assert (engine.asked[0].temperature, engine.asked[0].max_new_tokens, engine.asked[0].seeds_K) == (0.2, 64, (5,))
    assert first.answer.text == again.answer.text, "the same seed"
    assert answer(gateway, session, replace(wished, seed=6)).answer.text != first.answer.text
    answer(gateway, session, replace(wished, top_p=0.5))
    assert [each.top_p for each in engine.asked] == [1.0, 1.0, 1.0, 0.5]


@pytest.mark.parametrize(
    ("budget", "num_calls"), [(Budget(num_calls=3), 3), (Budget(num_tokens=1), 1), (Budget(num_tokens=40), 4)]
)
def test_a_session_ends_with_its_budget(budget: Budget, num_calls: int) -> None:
    gateway, session = open_gateway(Scripted(lambda seed: "123456789")), open_session(budget=budget)
    for number in range(num_calls):
        answer(gateway, session, ask(say(f"q{number}")))
    with pytest.raises(RequestRefused, match="has used its"):
        answer(gateway, session, ask(say("one more")))


def test_an_unknown_model_is_refused_with_the_names() -> None:
    with pytest.raises(RequestRefused, match=r"no 'gpt-9'; the models are main, other") as refused:
        open_gateway(Scripted()).answer(open_session(), ask(say("q"), model="gpt-9"), lambda: True)
    assert refused.value.status == 404


def test_a_served_session_forgets_the_oldest() -> None:
    gateway, session = open_gateway(Scripted()), open_session(most_kept=2)
    calls = [answer(gateway, session, ask(say(f"q{number}"))).call for number in range(4)]
    assert list(session.kept) == [each.key for each in calls[2:]]
    assert len(session._askings) == len(session._by_history) == 2


def test_rows_are_what_the_engine_computed_to_the_bit(tmp_path: Path) -> None:
    version = save_model(random_model(seed=3), tmp_path / "model")
    engine = TransformersGenerator(TransformersGeneration())
    engine.load(tmp_path / "model", version)
    tool = {"type": "object", "properties": {"path": {"type": "string", "enum": ["A", "AB", "CCD"]}}}
    tokenizer = engine.tokenizer
    served = ServedPolicy(
        policy="team",
        version=version,
        encoder=CompactEncoder(tokenizer),
        show_tokens=tokenizer.decode_with_specials,
        max_new_tokens=6,
        encode_choice=lambda text: (*tokenizer.encode(text), tokenizer.end_token),
    )
    gateway = Gateway(
        models={"main": served}, sample=lambda policy, asked: engine.generate([asked], version)[0], seed=1
    )
    session = open_session()
    texts = ["".join(random.Random(number).choices("ABCDEFG\n", k=9)) for number in range(20)]
    calls = [answer(gateway, session, ask(say(text))).call for text in texts]
    rescored = engine.score([each.prompt_tokens for each in calls[:1]], [calls[0].tokens])
    alone = [engine.score([each.prompt_tokens], [each.tokens])[0] for each in calls]
    assert [each.logprobs for each in calls] == alone
    assert rescored == alone[:1]
    chosen = [answer(gateway, session, ask(say(text), tools=(replace(ADD, parameters=tool),))) for text in texts]
    assert {json.loads(each.answer.calls[0].arguments)["path"] for each in chosen} == {"A", "AB", "CCD"}
