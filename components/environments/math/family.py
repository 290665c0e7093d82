"""The math family: problems drawn by rule or read from datasets, and scripted play."""

from collections.abc import Mapping
from random import Random
from typing import Any

from components.environments.base import MultiAgentEnv, Split, Tools
from components.environments.family import Demonstrations, DrawnFamily
from components.environments.math.environment import MathEnv
from components.environments.math.history import Progress, Round, Run
from components.environments.math.numbers import number
from components.environments.math.observations import COMPACT_ALPHABET, EXAMPLE_ANSWER, TOOL_AGENT
from components.environments.math.options import MathOptions
from components.environments.math.procedural import draw_question
from components.environments.math.questions import questions_of
from components.environments.shared.splits import shuffled_index
from components.environments.shared.text import PRINTABLE
from components.frozen import Frozen

_RANDOM_NUMBERS = 999


class MathFamily(Demonstrations, DrawnFamily[MathOptions, MathEnv]):
    """All math problems, drawn by rule or from a dataset; the statement determines the split."""

    name = "math"
    options_type = MathOptions
    env_type = MathEnv
    remedy = "name other generators"

    def payload(self, options: MathOptions, *, split: Split, index: int, seed: int) -> Mapping[str, Any]:
        """A problem drawn by rule, or a question of the split's dataset, each once per epoch."""
        if options.dataset_of(split) == "procedural":
            asked = super().payload(options, split=split, index=index, seed=seed)
        else:
            questions = questions_of(options, split)
            question = questions[shuffled_index(index, num_rows=len(questions), seed=seed, split=split)]
            asked = {"statement": question.statement, "answer": question.answer}
        return {
            **asked,
            "compact": options.is_compact,
            "max_program_characters": options.max_answer_width,
            "max_answer_characters": options.max_answer_characters,
            "max_output_characters": options.max_output_characters,
        }

    def draw(self, options: MathOptions, rng: Random) -> Mapping[str, Any] | None:
        generator = rng.choice(options.generators)
        question = draw_question(generator, level=options.level, prose=not options.is_compact, rng=rng)
        return None if question is None or question["answer"] == EXAMPLE_ANSWER else question

    def deciding(self, drawn: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"statement": drawn["statement"]}

    def play(self, payload: Mapping[str, Any], tools: Tools) -> MathEnv:
        return MathEnv(payload, tools)

    def uses_sandbox(self, options: Frozen) -> bool:
        return True

    def alphabet(self, options: Frozen) -> str:
        """Printable ASCII for datasets; character models refuse statements with other characters."""
        return COMPACT_ALPHABET if self.checked(options).is_compact else PRINTABLE

    def max_action_characters(self, options: Frozen) -> int:
        return self.checked(options).max_answer_width

    def noisy_expert_action(self, env: MultiAgentEnv, agent: str, *, noise: float, rng: Random) -> str:
        """The tool agent prints the expression or the reference answer, the reasoner gives the reference answer, with each
        digit and operator replaced by a random one with probability `noise`.

        A noisy reasoner cannot compute: it repeats the printed answer, if any, right or wrong.
        """
        played = self.played(env, agent)
        payload = played.payload
        if agent == TOOL_AGENT:
            expression = payload.get("expression")
            noisy = None if expression is None else _blurred(expression, noise, rng)
            return _printing(noisy, _blurred(payload["answer"], noise, rng))
        run = played.progress.run
        told = run.printed if noise > 0 and run is not None else None
        known = told if told is not None and number(told) is not None else payload["answer"]
        return _spoken(_blurred(known, noise, rng), compact=payload["compact"])

    def random_action(self, env: MultiAgentEnv, agent: str, rng: Random) -> str:
        """A random number, printed or given as the answer."""
        payload = self.played(env, agent).payload
        drawn = str(rng.randint(-_RANDOM_NUMBERS, _RANDOM_NUMBERS))
        return _printing(drawn, drawn) if agent == TOOL_AGENT else _spoken(drawn, compact=payload["compact"])

    def scramble(self, env: MultiAgentEnv, rng: Random) -> None:
        """Move `env` to the second turn, after a turn with a wrong answer."""
        played = self.played(env, TOOL_AGENT)
        printed, answered = (str(rng.randint(-_RANDOM_NUMBERS, _RANDOM_NUMBERS)) for _ in range(2))
        run = Run(program=_printing(printed, printed) + "\n", output=printed, printed=printed, failure="")
        before = played.progress
        played.set_progress(Progress(rounds=(Round(run=run, answer=answered),)))
        if played.success or printed == answered:
            played.set_progress(before)


def _printing(expression: str | None, answer: str) -> str:
    """A program that prints an expression's value, or an answer as it is."""
    return f"print({answer!r})" if expression is None else f"print({expression})"


def _spoken(answer: str, *, compact: bool) -> str:
    return answer if compact else f"\\boxed{{{answer}}}"


def _blurred(text: str, noise: float, rng: Random) -> str:
    """`text` with digits and operators randomly replaced by others of their kind; no number begins with 0."""
    blurred = ""
    for character in text:
        before = blurred[-1:]
        if rng.random() >= noise:
            blurred += character
        elif character.isdecimal():
            blurred += rng.choice("0123456789" if before.isdecimal() or before == "." else "123456789")
        elif character in "+-*" and before.isdecimal():
            blurred += rng.choice("+-*")
        else:
            blurred += character
    return blurred
