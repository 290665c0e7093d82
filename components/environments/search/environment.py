"""One question being answered: in each turn the searcher searches, then the reasoner asks on or answers."""

from dataclasses import dataclass, replace

from components.environments.base import NO_TOOLS, MultiAgentEnv, Step, Tools
from components.environments.search.answer_extraction import LINES_ENDING, final_lines
from components.environments.search.grading import judge, mentions, normalized, words_of
from components.environments.search.grammar import Note, parse_reasoner, parse_searcher, resolved
from components.environments.search.observations import REASONER, ROLES, SEARCHER, instructions, state_text
from components.environments.search.questions import Question, Text
from components.environments.search.render import picture
from components.environments.search.sizes import Sizes
from components.environments.search.state import SearchState, SubQuestion
from components.environments.shared.answer_extraction import reasoning_instructions
from components.errors import MalformedAction
from components.schema import Observation, Query

DEFAULT_WEIGHTS = {
    "team.solved": 1.0,
    "team.f1": 0.1,
    "local.found": 0.3,
    "local.noted": 0.1,
    "local.asked": 0.3,
    "local.malformed": -0.1,
}
_LONGEST_SMALL_WORD = 3
_LOCALS = {SEARCHER: ("found", "noted"), REASONER: ("asked",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """A well-formed answer of the searcher: the state with its notes, and the queries it sends."""

    state: SearchState
    notes: tuple[str, ...]
    queries: tuple[Query, ...]


class SearchEnv(MultiAgentEnv):
    """The `MultiAgentEnv` of a question."""

    roles = ROLES
    weights = DEFAULT_WEIGHTS
    over = "the episode is over: the final answer was given"

    _state: SearchState

    def __init__(
        self, question: Question, sizes: Sizes, tools: Tools = NO_TOOLS, *, num_reasoner_turns: int | None = None
    ) -> None:
        """`num_reasoner_turns`: the reasoner's actions in an episode, None if unknown."""
        super().__init__(SearchState())
        self.question = question
        self.sizes = sizes
        self.num_reasoner_turns = num_reasoner_turns
        self._tools = tools
        self._hidden = frozenset(
            number for number, hop in enumerate(question.hops) if hop.names and not hop.is_asked_by(question.text)
        )

    @property
    def state(self) -> SearchState:
        """The current state."""
        return self._state

    def observe(self, agent: str) -> Observation:
        assert agent in ROLES, f"agent {agent!r} is none of {ROLES}"
        told = instructions(agent, self.sizes)
        return Observation(
            instructions=told if self.answers == "compact" else reasoning_instructions(told, LINES_ENDING),
            state=state_text(self.question.text, self._state, agent, self.sizes),
        )

    def final_answer(self, agent: str, text: str) -> str:
        """The last marked lines."""
        return final_lines(text, answers=agent == REASONER, max_lines=self.sizes.num_lines)

    def asked(self, agent: str, answer: str) -> tuple[Query, ...]:
        return self._planned(answer).queries if agent == SEARCHER else ()

    def step(self, agent: str, answer: str) -> Step:
        step = self._searched(self._planned(answer)) if agent == SEARCHER else self._reasoned(answer)
        return replace(step, state=self._after(step.state, agent, step.state.refused - {agent}))

    def after_malformed(self, agent: str, error: MalformedAction) -> Step:
        state = self._after(self._state, agent, self._state.refused | {agent})
        return Step(state=state, team={"f1": 0.0}, local=dict.fromkeys(_LOCALS[agent], 0.0))

    def _after(self, state: SearchState, agent: str, refused: frozenset[str]) -> SearchState:
        return replace(state, refused=refused, num_reasoned=self._state.num_reasoned + (agent == REASONER))

    def _planned(self, action: str) -> _Plan:
        """A note holds from its line on, so a later query of the same answer may refer to it."""
        state, queries, notes = self._state, list[Query](), list[str]()
        for line in parse_searcher(action, self.sizes):
            if isinstance(line, Note):
                if not 1 <= line.number <= len(state.sub_questions) or state.answers[line.number - 1] is not None:
                    raise MalformedAction(f"#{line.number} is no open sub-question")
                state = state.with_note(line.number, line.text)
                notes.append(line.text)
            else:
                text = resolved(line.text, state.answers).encode("utf-8", "replace").decode("utf-8")
                queries.append(Query(text=text, num_passages=self.sizes.num_passages))
        return _Plan(state=state, notes=tuple(notes), queries=tuple(dict.fromkeys(queries)))

    def _searched(self, plan: _Plan) -> Step:
        retrieved = [passage for query in plan.queries for passage in self._tools.retrieve(query)]
        passages = tuple((passage.title, passage.text) for passage in retrieved)
        state = plan.state.with_evidence(passages)
        found = self._found(passages) - state.found
        expected = self._expected_notes()
        right = expected.intersection(map(normalized, plan.notes)) - state.noted
        return Step(
            state=replace(state, found=state.found | found, noted=state.noted | right),
            team={"f1": 0.0},
            local={
                "found": len(found) / max(1, len(self.question.hops)),
                "noted": len(right) / max(1, len(expected)),
                "malformed": 0.0,
            },
        )

    def _found(self, passages: tuple[Text, ...]) -> frozenset[int]:
        """The hops whose passage is among `passages`; without hops, number 0 is any passage that mentions a gold answer."""
        if not self.question.hops:
            told = any(mentions(text, answer) for _, text in passages for answer in self.question.answers)
            return frozenset({0} if told else ())
        hops = enumerate(self.question.hops)
        return frozenset(number for number, hop in hops if any(hop.is_in(title, text) for title, text in passages))

    def _expected_notes(self) -> frozenset[str]:
        """The dataset's answers of the hops, or else the first answer of the question."""
        known = {normalized(hop.answer) for hop in self.question.hops if hop.answer}
        return frozenset(known or {normalized(self.question.answers[0])})

    def _reasoned(self, action: str) -> Step:
        decided = parse_reasoner(action, self.sizes)
        if not isinstance(decided, str):
            return self._asked(decided)
        verdict = judge(decided, self.question.answers, question=self.question.text)
        return Step(
            state=replace(self._state, answer=decided, verdict=verdict),
            solved=verdict.exact,
            done=True,
            team={"f1": verdict.f1},
            local={"asked": 0.0, "malformed": 0.0},
        )

    def _asked(self, texts: tuple[str, ...]) -> Step:
        before = self._state.sub_questions
        if len(before) + len(texts) > self.sizes.num_sub_questions:
            raise MalformedAction(f"more than {self.sizes.num_sub_questions} sub-questions; give the final answer")
        hops = self.question.hops
        open_hops = self._hidden - self._state.found - self._state.asked
        named = frozenset(number for number in open_hops if any(map(hops[number].is_asked_by, texts)))
        state = replace(
            self._state,
            sub_questions=(*before, *(SubQuestion(text=text) for text in texts)),
            asked=self._state.asked | named,
        )
        share = 0.0 if self._is_last else len(named) / max(1, len(self._hidden))
        local = {"asked": share * self._focus(texts, named), "malformed": 0.0}
        return Step(state=state, team={"f1": 0.0}, local=local)

    @property
    def _is_last(self) -> bool:
        """Whether the reasoner acts for the last time: nobody would search for a sub-question, so asking is no answer."""
        return self.num_reasoner_turns is not None and self._state.num_reasoned + 1 >= self.num_reasoner_turns

    def _focus(self, texts: tuple[str, ...], named: frozenset[int]) -> float:
        """1 for sub-questions that mention little from the passages beyond what they need. Listing n names of which one is
        needed earns about 1/n, as much as guessing."""
        needed = {*words_of(self.question.text)}.union(
            *(words_of(name) for number in named for name in self.question.hops[number].names)
        )
        shown = {word for title, text in self._state.evidence for word in (*words_of(title), *words_of(text))}
        taken = {word for text in texts for word in words_of(text) if len(word) > _LONGEST_SMALL_WORD}
        return 1 / (1 + max(0, len(taken & shown - needed) - self.sizes.num_free_words))

    @property
    def done(self) -> bool:
        return self._state.answer is not None

    @property
    def success(self) -> bool:
        return self._state.verdict.exact

    def render(self, *, color: bool) -> str:
        return picture(self.question, self._state, color=color)
