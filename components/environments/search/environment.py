"""search: in each turn the searcher searches, then the reasoner asks on or answers."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from components.environments.base import Retriever, Split, Step, Tools
from components.environments.environment import Demonstrator, ToolEnvironment
from components.environments.search.expert import random_name, random_word, reasoner_line_text, searcher_line_texts
from components.environments.search.grading import normalize
from components.environments.search.grammar import LINES_ENDING, final_lines
from components.environments.search.inquiry import Inquiry, apply_reasoning, apply_search, parse_plan
from components.environments.search.observations import (
    REASONER,
    ROLES,
    SEARCHER,
    fold_to_ascii,
    instructions,
    state_text,
)
from components.environments.search.options import SearchOptions
from components.environments.search.questions import Question
from components.environments.search.render import picture
from components.environments.search.sizes import Sizes
from components.environments.search.sources import question_set, retriever_for
from components.environments.shared.splits import shuffle_index
from components.errors import ConfigurationError, MalformedAction
from components.schema import Query

DEFAULT_WEIGHTS = {
    "team.solved": 1.0,
    "team.f1": 0.1,
    "local.found": 0.3,
    "local.noted": 0.1,
    "local.asked": 0.3,
    "local.malformed": -0.1,
}
_LOCALS = {SEARCHER: ("found", "noted"), REASONER: ("asked",)}
_MAX_SCRAMBLED_TURNS = 2
_SCRAMBLING_NOISE = 0.5


class SearchEnvironment(Demonstrator, ToolEnvironment):
    """All questions over a corpus."""

    roles = ROLES
    weights = DEFAULT_WEIGHTS
    Options = SearchOptions
    over = "the episode is over: the final answer was given"
    states_are_immutable = True
    max_answer_characters = None

    def draw(self, options: SearchOptions, rng: Random) -> None:
        """None: all questions are read."""

    def problem(self, options: SearchOptions, *, split: Split, index: int, seed: int) -> Mapping[str, Any]:
        """Question `index` of `split`: every question once per epoch, in an order that depends on `seed`.

        Raises ConfigurationError if the questions cannot be read, or the split has none.
        """
        questions = question_set(options).train if split == "train" else question_set(options).test
        if not questions:
            raise ConfigurationError(
                f"environment.options.dataset {options.dataset_of(split)!r}: no question for the {split} split; name another "
                "dataset (and this one as test_dataset), or environment.options.train as a file in its layout"
            )
        question = questions[shuffle_index(index, num_rows=len(questions), seed=seed, split=split)]
        if options.sizes.ascii_only:
            question = _with_ascii_answers(question)
        payload = {**question.model_dump(mode="json", by_alias=True), "sizes": options.sizes.model_dump()}
        turns = options.num_reasoner_turns
        return payload if turns is None else {**payload, "num_reasoner_turns": turns}

    def start(self, problem: Mapping[str, Any]) -> Inquiry:
        question = {name: value for name, value in problem.items() if name not in ("sizes", "num_reasoner_turns")}
        return Inquiry.begin(
            Question.model_validate(question),
            Sizes.model_validate(problem["sizes"]),
            num_reasoner_turns=problem.get("num_reasoner_turns"),
        )

    def uses_sandbox(self, options: SearchOptions) -> bool:
        return False

    def retriever(self, options: SearchOptions) -> Retriever | None:
        return retriever_for(options)

    def longest_answer(self, options: SearchOptions) -> int:
        return options.sizes.action_characters

    def observe(self, state: Inquiry, agent: str) -> str:
        return state_text(state.question.text, state.state, agent, state.sizes)

    def instructions(self, state: Inquiry, agent: str) -> str:
        return instructions(agent, state.sizes)

    def ending(self, state: Inquiry, agent: str) -> str:
        return LINES_ENDING

    def final_answer(self, state: Inquiry, agent: str, text: str) -> str:
        """The last marked lines."""
        return final_lines(text, answers=agent == REASONER)

    def tool_calls(self, state: Inquiry, agent: str, answer: str) -> tuple[Query, ...]:
        return parse_plan(state, answer).queries if agent == SEARCHER else ()

    def step(self, state: Inquiry, agent: str, answer: str, tools: Tools) -> Step:
        step = (
            apply_search(state, parse_plan(state, answer), tools)
            if agent == SEARCHER
            else apply_reasoning(state, answer)
        )
        return replace(step, state=step.state.after(agent, is_refused=False))

    def after_malformed(self, state: Inquiry, agent: str, error: MalformedAction) -> Step:
        after = state.after(agent, is_refused=True)
        return Step(state=after, team={"f1": 0.0}, local=dict.fromkeys(_LOCALS[agent], 0.0))

    def picture(self, state: Inquiry, *, color: bool) -> str:
        return picture(state.question, state.state, color=color)

    def expert(self, state: Inquiry, agent: str) -> str:
        """The gold chain: queries for the passages that it needs, sub-questions for what they name, the gold answer."""
        if agent == SEARCHER:
            return "\n".join(searcher_line_texts(state))
        return reasoner_line_text(state, patient=False)

    def noisy_expert(self, state: Inquiry, agent: str, *, noise: float, rng: Random) -> str:
        """The expert's lines, each replaced with probability `noise` by one about a random word of the passages."""
        if agent == SEARCHER:
            lines = searcher_line_texts(state)
            return "\n".join(f"?{random_name(state, rng)}" if rng.random() < noise else line for line in lines)
        if rng.random() < noise:
            return f"{rng.choice(state.reasoner_marks)}{random_name(state, rng)}"
        return reasoner_line_text(state, patient=True)

    def random_answer(self, state: Inquiry, agent: str, rng: Random) -> str:
        """A random word of the question, as a query, a sub-question or the answer."""
        mark = "?" if agent == SEARCHER else rng.choice(state.reasoner_marks)
        return f"{mark}{random_word(state, rng)}"

    def scramble(self, state: Inquiry, rng: Random, tools: Tools) -> Inquiry:
        """The inquiry after some bad turns without a final answer; the chain can still be followed from there."""
        for _ in range(rng.randint(0, _MAX_SCRAMBLED_TURNS)):
            bad = self.noisy_expert(state, SEARCHER, noise=_SCRAMBLING_NOISE, rng=rng)
            state = self._after(state, SEARCHER, bad, tools)
            asked = reasoner_line_text(state, patient=True)
            if not asked.startswith("?") or rng.random() < _SCRAMBLING_NOISE:
                asked = f"?{random_name(state, rng)}"
            if state.can_ask:
                state = self._after(state, REASONER, asked, tools)
        return state

    def _after(self, state: Inquiry, agent: str, answer: str, tools: Tools) -> Inquiry:
        try:
            after: Inquiry = self.step(state, agent, answer, tools).state
        except MalformedAction as error:
            after = self.after_malformed(state, agent, error).state
        return after


def _with_ascii_answers(question: Question) -> Question:
    """The question with its answers as ASCII beside them, except those without a word left."""
    plain = filter(normalize, map(fold_to_ascii, question.answers))
    return question.model_copy(update={"answers": tuple(dict.fromkeys((*question.answers, *plain)))})
