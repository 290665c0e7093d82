"""The family of `search`: its problems, who plays them well or badly, and what answers their queries."""

from collections.abc import Mapping
from random import Random

from components.artifacts.refs import Frozen
from components.environments.base import NO_TOOLS, MultiAgentEnv, Retriever, Split, Tools
from components.environments.search.environment import DEFAULT_WEIGHTS, SearchEnv
from components.environments.search.expert import random_name, random_word, reasoner_line_text, searcher_line_texts
from components.environments.search.judges import normalized
from components.environments.search.observing import PRINTABLE, REASONER, ROLES, SEARCHER, folded
from components.environments.search.options import SearchOptions
from components.environments.search.questions import Question
from components.environments.search.sizes import Sizes
from components.environments.search.sources import question_set, retriever_for
from components.environments.shared.dataset_rows import shuffled_index
from components.errors import ConfigurationError
from components.identity import content_id
from components.schema import Problem

_MAX_SCRAMBLED_TURNS = 2
_SCRAMBLING_NOISE = 0.5


class SearchFamily:
    """An `EnvironmentFamily` of questions over a corpus."""

    @property
    def name(self) -> str:
        return "search"

    @property
    def roles(self) -> tuple[str, ...]:
        return ROLES

    @property
    def options_type(self) -> type[Frozen]:
        return SearchOptions

    @property
    def default_weights(self) -> Mapping[str, float]:
        return DEFAULT_WEIGHTS

    @property
    def copies_proposals(self) -> bool:
        return False

    def problem(self, options: Frozen, *, split: Split, index: int, seed: int) -> Problem:
        """Question `index` of `split`: every question once an epoch, in an order that `seed` decides.

        Raises ConfigurationError when the questions cannot be read, or when the split has none.
        """
        chosen = _checked(options)
        questions = question_set(chosen).train if split == "train" else question_set(chosen).test
        if not questions:
            raise ConfigurationError(
                f"environment.options.dataset {chosen.dataset_of(split)!r}: no question for the {split} split; name another "
                "dataset (and this one as test_dataset), or environment.options.train as a file in its layout"
            )
        question = questions[shuffled_index(index, num_rows=len(questions), seed=seed, split=split)]
        payload = {**_with_plain_answers(question, chosen.sizes).as_payload(), "sizes": chosen.sizes.as_payload()}
        return Problem(problem_id=content_id(self.name, payload), environment=self.name, payload=payload)

    def uses_sandbox(self, options: Frozen) -> bool:
        return False

    def retriever(self, options: Frozen) -> Retriever | None:
        return retriever_for(_checked(options))

    def build(self, problem: Problem, tools: Tools = NO_TOOLS) -> SearchEnv:
        assert problem.environment == self.name, f"{problem.problem_id} belongs to {problem.environment!r}"
        return SearchEnv(
            Question.from_payload(problem.payload), Sizes.from_payload(problem.payload["sizes"]), tools=tools
        )

    def expert_action(self, env: MultiAgentEnv, agent: str) -> str:
        """The gold chain: queries for the passages that it needs, sub-questions for what they name, the gold answer."""
        played = _played(env, agent)
        if agent == SEARCHER:
            return "\n".join(searcher_line_texts(played))
        return reasoner_line_text(played, patient=False)

    def noisy_expert_action(self, env: MultiAgentEnv, agent: str, *, noise: float, rng: Random) -> str:
        """The expert's lines, each replaced with probability `noise` by one about a random word of the passages."""
        played = _played(env, agent)
        if agent == SEARCHER:
            lines = searcher_line_texts(played)
            return "\n".join(f"?{random_name(played, rng)}" if rng.random() < noise else line for line in lines)
        if rng.random() < noise:
            return f"{rng.choice(self._marks(played))}{random_name(played, rng)}"
        return reasoner_line_text(played, patient=True)

    def random_action(self, env: MultiAgentEnv, agent: str, rng: Random) -> str:
        """A random word of the question, to search for, to ask about or as the answer."""
        played = _played(env, agent)
        mark = "?" if agent == SEARCHER else rng.choice(self._marks(played))
        return f"{mark}{random_word(played, rng)}"

    def scramble(self, env: MultiAgentEnv, rng: Random) -> None:
        """Play some turns badly, without an answer: the state before a later turn, from which the chain can be walked."""
        played = _played(env, SEARCHER)
        for _ in range(rng.randint(0, _MAX_SCRAMBLED_TURNS)):
            played.apply(SEARCHER, self.noisy_expert_action(env, SEARCHER, noise=_SCRAMBLING_NOISE, rng=rng))
            asked = reasoner_line_text(played, patient=True)
            if not asked.startswith("?") or rng.random() < _SCRAMBLING_NOISE:
                asked = f"?{random_name(played, rng)}"
            if len(played.state.sub_questions) < played.sizes.num_sub_questions:
                played.apply(REASONER, asked)

    def alphabet(self, options: Frozen) -> str:
        """Printable ASCII. With `ascii_only` off an observation may hold more, which no tokenizer of characters can read."""
        _checked(options)
        return f"\n{PRINTABLE}"

    def max_action_characters(self, options: Frozen) -> int:
        return _checked(options).sizes.action_characters

    def _marks(self, env: SearchEnv) -> str:
        """What the reasoner may begin a line with."""
        return "?=" if len(env.state.sub_questions) < env.sizes.num_sub_questions else "="


def _with_plain_answers(question: Question, sizes: Sizes) -> Question:
    """The question; where ASCII alone is shown, its answers also count as they are shown, if a word is left of them."""
    if not sizes.ascii_only:
        return question
    plain = (folded(answer) for answer in question.answers)
    answers = dict.fromkeys((*question.answers, *(answer for answer in plain if normalized(answer))))
    return Question(text=question.text, answers=tuple(answers), hops=question.hops)


def _checked(options: Frozen) -> SearchOptions:
    assert isinstance(options, SearchOptions), f"search got options {options!r}"
    return options


def _played(env: MultiAgentEnv, agent: str) -> SearchEnv:
    assert isinstance(env, SearchEnv), f"{env!r} was not built by this family"
    assert agent in ROLES, f"agent {agent!r} is none of {ROLES}"
    return env
