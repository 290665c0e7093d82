"""The family of `search`: its problems, its retriever, and scripted play."""

from collections.abc import Mapping
from random import Random
from typing import Any

from components.environments.base import MultiAgentEnv, Retriever, Split, Tools
from components.environments.family import Demonstrations, Family
from components.environments.search.environment import SearchEnv
from components.environments.search.expert import random_name, random_word, reasoner_line_text, searcher_line_texts
from components.environments.search.grading import normalized
from components.environments.search.observations import REASONER, SEARCHER, folded
from components.environments.search.options import SearchOptions
from components.environments.search.questions import Question
from components.environments.search.sizes import Sizes
from components.environments.search.sources import question_set, retriever_for
from components.environments.shared.splits import shuffled_index
from components.errors import ConfigurationError
from components.frozen import Frozen

_MAX_SCRAMBLED_TURNS = 2
_SCRAMBLING_NOISE = 0.5


class SearchFamily(Demonstrations, Family[SearchOptions, SearchEnv]):
    """The `EnvironmentFamily` of questions over a corpus."""

    name = "search"
    options_type = SearchOptions
    env_type = SearchEnv

    def payload(self, options: SearchOptions, *, split: Split, index: int, seed: int) -> Mapping[str, Any]:
        """Question `index` of `split`: every question once per epoch, in an order that depends on `seed`.

        Raises ConfigurationError if the questions cannot be read, or the split has none.
        """
        questions = question_set(options).train if split == "train" else question_set(options).test
        if not questions:
            raise ConfigurationError(
                f"environment.options.dataset {options.dataset_of(split)!r}: no question for the {split} split; name another "
                "dataset (and this one as test_dataset), or environment.options.train as a file in its layout"
            )
        question = questions[shuffled_index(index, num_rows=len(questions), seed=seed, split=split)]
        if options.sizes.ascii_only:
            question = _with_ascii_answers(question)
        payload = {**question.model_dump(mode="json", by_alias=True), "sizes": options.sizes.model_dump()}
        turns = options.num_reasoner_turns
        return payload if turns is None else {**payload, "num_reasoner_turns": turns}

    def play(self, payload: Mapping[str, Any], tools: Tools) -> SearchEnv:
        question = {name: value for name, value in payload.items() if name not in ("sizes", "num_reasoner_turns")}
        return SearchEnv(
            Question.model_validate(question),
            Sizes.model_validate(payload["sizes"]),
            tools=tools,
            num_reasoner_turns=payload.get("num_reasoner_turns"),
        )

    def retriever(self, options: Frozen) -> Retriever | None:
        return retriever_for(self.checked(options))

    def max_action_characters(self, options: Frozen) -> int:
        return self.checked(options).sizes.action_characters

    def expert_action(self, env: MultiAgentEnv, agent: str) -> str:
        """The gold chain: queries for the passages that it needs, sub-questions for what they name, the gold answer."""
        played = self.played(env, agent)
        if agent == SEARCHER:
            return "\n".join(searcher_line_texts(played))
        return reasoner_line_text(played, patient=False)

    def noisy_expert_action(self, env: MultiAgentEnv, agent: str, *, noise: float, rng: Random) -> str:
        """The expert's lines, each replaced with probability `noise` by one about a random word of the passages."""
        played = self.played(env, agent)
        if agent == SEARCHER:
            lines = searcher_line_texts(played)
            return "\n".join(f"?{random_name(played, rng)}" if rng.random() < noise else line for line in lines)
        if rng.random() < noise:
            return f"{rng.choice(self._marks(played))}{random_name(played, rng)}"
        return reasoner_line_text(played, patient=True)

    def random_action(self, env: MultiAgentEnv, agent: str, rng: Random) -> str:
        """A random word of the question, as a query, a sub-question or the answer."""
        played = self.played(env, agent)
        mark = "?" if agent == SEARCHER else rng.choice(self._marks(played))
        return f"{mark}{random_word(played, rng)}"

    def scramble(self, env: MultiAgentEnv, rng: Random) -> None:
        """Play some turns badly and without a final answer; the chain can still be followed from there."""
        played = self.played(env, SEARCHER)
        for _ in range(rng.randint(0, _MAX_SCRAMBLED_TURNS)):
            played.apply(SEARCHER, self.noisy_expert_action(env, SEARCHER, noise=_SCRAMBLING_NOISE, rng=rng))
            asked = reasoner_line_text(played, patient=True)
            if not asked.startswith("?") or rng.random() < _SCRAMBLING_NOISE:
                asked = f"?{random_name(played, rng)}"
            if len(played.state.sub_questions) < played.sizes.num_sub_questions:
                played.apply(REASONER, asked)

    def _marks(self, env: SearchEnv) -> str:
        """The marks that the reasoner may begin a line with."""
        return "?=" if len(env.state.sub_questions) < env.sizes.num_sub_questions else "="


def _with_ascii_answers(question: Question) -> Question:
    """The question with its answers as ASCII beside them, except those without a word left."""
    plain = filter(normalized, map(folded, question.answers))
    return question.model_copy(update={"answers": tuple(dict.fromkeys((*question.answers, *plain)))})
