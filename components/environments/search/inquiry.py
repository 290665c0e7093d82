"""One question being answered: what queries find, and what sub-questions and answers earn."""

from dataclasses import dataclass, replace

from components.environments.base import Step, Tools
from components.environments.search.grading import judge, mentions, normalize, words_of
from components.environments.search.grammar import Note, parse_reasoner, parse_searcher, resolve_references
from components.environments.search.observations import REASONER
from components.environments.search.questions import Question, Text
from components.environments.search.sizes import Sizes
from components.environments.search.state import SearchState, SubQuestion
from components.errors import MalformedAction
from components.schema import Query

_LONGEST_SMALL_WORD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """A question with the sizes of its observations, and what the team has done about it.

    `num_reasoner_turns`: the reasoner's actions in an episode, None if unknown. `hidden_hops` are the numbers of the hops that
    the question does not ask by name.
    """

    question: Question
    sizes: Sizes
    num_reasoner_turns: int | None
    hidden_hops: frozenset[int]
    state: SearchState

    @classmethod
    def begin(cls, question: Question, sizes: Sizes, *, num_reasoner_turns: int | None = None) -> "Inquiry":
        """The inquiry before anybody has acted."""
        hops = enumerate(question.hops)
        hidden = frozenset(number for number, hop in hops if hop.names and not hop.is_asked_by(question.text))
        return cls(
            question=question,
            sizes=sizes,
            num_reasoner_turns=num_reasoner_turns,
            hidden_hops=hidden,
            state=SearchState(),
        )

    @property
    def can_ask(self) -> bool:
        """Whether the reasoner may ask another sub-question."""
        return len(self.state.sub_questions) < self.sizes.num_sub_questions

    @property
    def reasoner_marks(self) -> str:
        """The marks that the reasoner may begin a line with."""
        return "?=" if self.can_ask else "="

    @property
    def is_last(self) -> bool:
        """Whether the reasoner acts for the last time: nobody would search for a sub-question, so asking is no answer."""
        return self.num_reasoner_turns is not None and self.state.num_reasoned + 1 >= self.num_reasoner_turns

    def after(self, agent: str, *, is_refused: bool) -> "Inquiry":
        """The inquiry with an answer of `agent` counted, and whether it was malformed."""
        refused = self.state.refused | {agent} if is_refused else self.state.refused - {agent}
        num_reasoned = self.state.num_reasoned + (agent == REASONER)
        return self.at(replace(self.state, refused=refused, num_reasoned=num_reasoned))

    def at(self, state: SearchState) -> "Inquiry":
        """The inquiry in another state."""
        return replace(self, state=state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A well-formed answer of the searcher: the state with its notes, and the queries it sends."""

    state: SearchState
    notes: tuple[str, ...]
    queries: tuple[Query, ...]


def parse_plan(inquiry: Inquiry, answer: str) -> Plan:
    """The searcher's answer. A note holds from its line on, so a later query of the same answer may refer to it.

    Raises MalformedAction.
    """
    state, sizes, queries, notes = inquiry.state, inquiry.sizes, list[Query](), list[str]()
    for line in parse_searcher(answer, sizes):
        if isinstance(line, Note):
            if not 1 <= line.number <= len(state.sub_questions) or state.answers[line.number - 1] is not None:
                raise MalformedAction(f"#{line.number} is no open sub-question")
            state = state.with_note(line.number, line.text)
            notes.append(line.text)
        else:
            text = resolve_references(line.text, state.answers).encode("utf-8", "replace").decode("utf-8")
            queries.append(Query(text=text, num_passages=sizes.num_passages))
    return Plan(state=state, notes=tuple(notes), queries=tuple(dict.fromkeys(queries)))


def apply_search(inquiry: Inquiry, plan: Plan, tools: Tools) -> Step:
    """The result of the searcher's plan."""
    retrieved = [passage for query in plan.queries for passage in tools.retrieve(query)]
    passages = tuple((passage.title, passage.text) for passage in retrieved)
    state = plan.state.with_evidence(passages)
    found = _find_hops(inquiry.question, passages) - state.found
    expected = _list_expected_notes(inquiry.question)
    right = expected.intersection(map(normalize, plan.notes)) - state.noted
    return Step(
        state=inquiry.at(replace(state, found=state.found | found, noted=state.noted | right)),
        team={"f1": 0.0},
        local={
            "found": len(found) / max(1, len(inquiry.question.hops)),
            "noted": len(right) / max(1, len(expected)),
            "malformed": 0.0,
        },
    )


def apply_reasoning(inquiry: Inquiry, answer: str) -> Step:
    """The result of the reasoner's answer: sub-questions, or the final one. Raises MalformedAction."""
    decided = parse_reasoner(answer, inquiry.sizes)
    if not isinstance(decided, str):
        return _apply_questions(inquiry, decided)
    verdict = judge(decided, inquiry.question.answers, question=inquiry.question.text)
    return Step(
        state=inquiry.at(replace(inquiry.state, answer=decided, verdict=verdict)),
        solved=verdict.exact,
        done=True,
        team={"f1": verdict.f1},
        local={"asked": 0.0, "malformed": 0.0},
    )


def _find_hops(question: Question, passages: tuple[Text, ...]) -> frozenset[int]:
    """The hops whose passage is among `passages`; without hops, number 0 is any passage that mentions a gold answer."""
    if not question.hops:
        told = any(mentions(text, answer) for _, text in passages for answer in question.answers)
        return frozenset({0} if told else ())
    hops = enumerate(question.hops)
    return frozenset(number for number, hop in hops if any(hop.is_in(title, text) for title, text in passages))


def _list_expected_notes(question: Question) -> frozenset[str]:
    """The dataset's answers of the hops, or else the first answer of the question."""
    known = {normalize(hop.answer) for hop in question.hops if hop.answer}
    return frozenset(known or {normalize(question.answers[0])})


def _apply_questions(inquiry: Inquiry, texts: tuple[str, ...]) -> Step:
    state, hops, before = inquiry.state, inquiry.question.hops, inquiry.state.sub_questions
    if len(before) + len(texts) > inquiry.sizes.num_sub_questions:
        raise MalformedAction(f"more than {inquiry.sizes.num_sub_questions} sub-questions; give the final answer")
    open_hops = inquiry.hidden_hops - state.found - state.asked
    named = frozenset(number for number in open_hops if any(map(hops[number].is_asked_by, texts)))
    after = replace(
        state,
        sub_questions=(*before, *(SubQuestion(text=text) for text in texts)),
        asked=state.asked | named,
    )
    share = 0.0 if inquiry.is_last else len(named) / max(1, len(inquiry.hidden_hops))
    local = {"asked": share * _focus(inquiry, texts, named), "malformed": 0.0}
    return Step(state=inquiry.at(after), team={"f1": 0.0}, local=local)


def _focus(inquiry: Inquiry, texts: tuple[str, ...], named: frozenset[int]) -> float:
    """1 for sub-questions that mention little from the passages beyond what they need. Listing n names of which one is
    needed earns about 1/n, as much as guessing."""
    question = inquiry.question
    needed = {*words_of(question.text)}.union(
        *(words_of(name) for number in named for name in question.hops[number].names)
    )
    shown = {word for title, text in inquiry.state.evidence for word in (*words_of(title), *words_of(text))}
    taken = {word for text in texts for word in words_of(text) if len(word) > _LONGEST_SMALL_WORD}
    return 1 / (1 + max(0, len(taken & shown - needed) - inquiry.sizes.num_free_words))
