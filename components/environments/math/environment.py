"""math: the tool agent's program is run, and the reasoner gives the team's answer. Problems are drawn by rule or read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from components.environments.base import Split, Step, Tools
from components.environments.environment import Demonstrator, ToolEnvironment
from components.environments.math.grammar import (
    VALUE_ENDING,
    failure,
    final_value,
    parse_answer,
    parse_program,
    read_printed_answer,
)
from components.environments.math.history import Progress, Round, Run
from components.environments.math.numbers import number
from components.environments.math.observations import (
    COMPACT_ALPHABET,
    EXAMPLE_ANSWER,
    REASONER,
    TOOL_AGENT,
    compact_view,
    instructions,
    picture,
    prose_view,
    show_output,
)
from components.environments.math.options import MathOptions
from components.environments.math.procedural import draw_question
from components.environments.math.questions import questions_of
from components.environments.math.verifier import verdict
from components.environments.shared.answer_extraction import PROGRAM_ENDING, final_program
from components.environments.shared.splits import shuffle_index
from components.environments.shared.text import PRINTABLE
from components.errors import MalformedAction
from components.schema import Execution

ROLES = (TOOL_AGENT, REASONER)
DEFAULT_WEIGHTS: Mapping[str, float] = {
    "team.solved": 1.0,
    "local.correct": 1.0,
    "local.failed": -0.1,
    "local.malformed": -0.1,
}
_RANDOM_NUMBERS = 999


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A problem being solved: its payload, and the team's work."""

    payload: Mapping[str, Any]
    progress: Progress

    @property
    def is_compact(self) -> bool:
        """Whether the agents see short lines instead of sentences."""
        return bool(self.payload["compact"])

    @property
    def is_solved(self) -> bool:
        """Whether the reasoner's newest answer is right. It decides success and rewards, but never the end."""
        answer = self.progress.answer
        return answer is not None and verdict(answer, self.payload["answer"])


class MathEnvironment(Demonstrator, ToolEnvironment):
    """All math problems, drawn by rule or from a dataset; the statement determines the split."""

    roles = ROLES
    weights = DEFAULT_WEIGHTS
    Options = MathOptions
    over = "the episode is over: program and reasoner agree"
    remedy = "name other generators"
    states_are_immutable = True
    max_answer_characters = None

    def problem(self, options: MathOptions, *, split: Split, index: int, seed: int) -> Mapping[str, Any] | None:
        """A question of the split's dataset, each once per epoch; None where problems are drawn."""
        if options.dataset_of(split) == "procedural":
            return None
        questions = questions_of(options, split)
        question = questions[shuffle_index(index, num_rows=len(questions), seed=seed, split=split)]
        return {"statement": question.statement, "answer": question.answer, **_limits(options)}

    def draw(self, options: MathOptions, rng: Random) -> Mapping[str, Any] | None:
        generator = rng.choice(options.generators)
        question = draw_question(generator, level=options.level, prose=not options.is_compact, rng=rng)
        return None if question is None or question["answer"] == EXAMPLE_ANSWER else question

    def deciding(self, problem: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"statement": problem["statement"]}

    def complete_problem(self, options: MathOptions, drawn: Mapping[str, Any], rng: Random) -> Mapping[str, Any]:
        return {**drawn, **_limits(options)}

    def start(self, problem: Mapping[str, Any]) -> Sheet:
        return Sheet(payload=problem, progress=Progress())

    def characters(self, options: MathOptions) -> str:
        """Printable ASCII for datasets; character models refuse statements with other characters."""
        return COMPACT_ALPHABET if options.is_compact else PRINTABLE

    def longest_answer(self, options: MathOptions) -> int:
        return options.max_answer_width

    def observe(self, state: Sheet, agent: str) -> str:
        view = compact_view if state.is_compact else prose_view
        return view(agent, state.payload["statement"], state.progress)

    def instructions(self, state: Sheet, agent: str) -> str:
        return instructions(agent, compact=state.is_compact)

    def ending(self, state: Sheet, agent: str) -> str:
        return PROGRAM_ENDING if agent == TOOL_AGENT else VALUE_ENDING

    def final_answer(self, state: Sheet, agent: str, text: str) -> str:
        """The last block of a program, or the final value."""
        return final_program(text) if agent == TOOL_AGENT else final_value(text)

    def tool_calls(self, state: Sheet, agent: str, answer: str) -> tuple[Execution, ...]:
        return (_execution(state, answer),) if agent == TOOL_AGENT else ()

    def step(self, state: Sheet, agent: str, answer: str, tools: Tools) -> Step:
        return (
            _apply_program(state, _execution(state, answer), tools) if agent == TOOL_AGENT else _answer(state, answer)
        )

    def after_malformed(self, state: Sheet, agent: str, error: MalformedAction) -> Step:
        """A tool agent leaves a note in place of its program, unless the episode is over."""
        after = state
        if agent == TOOL_AGENT and not state.progress.agreed:
            run = Run(program="", output="", printed=None, failure=str(error))
            after = replace(state, progress=replace(state.progress, run=run))
        local = {"correct": 0.0, "failed": 0.0} if agent == TOOL_AGENT else {}
        return Step(state=after, solved=state.is_solved, local=local)

    def picture(self, state: Sheet, *, color: bool) -> str:
        return picture(state.payload["statement"], state.progress, solved=state.is_solved, color=color)

    def noisy_expert(self, state: Sheet, agent: str, *, noise: float, rng: Random) -> str:
        """The tool agent prints the expression or the reference answer, the reasoner gives the reference answer, with each
        digit and operator replaced by a random one with probability `noise`.

        A noisy reasoner cannot compute: it repeats the printed answer, if any, right or wrong.
        """
        payload = state.payload
        if agent == TOOL_AGENT:
            expression = payload.get("expression")
            noisy = None if expression is None else _blur(expression, noise, rng)
            return _printing(noisy, _blur(payload["answer"], noise, rng))
        run = state.progress.run
        told = run.printed if noise > 0 and run is not None else None
        known = told if told is not None and number(told) is not None else payload["answer"]
        return _format_answer(_blur(known, noise, rng), compact=state.is_compact)

    def random_answer(self, state: Sheet, agent: str, rng: Random) -> str:
        """A random number, printed or given as the answer."""
        drawn = str(rng.randint(-_RANDOM_NUMBERS, _RANDOM_NUMBERS))
        return _printing(drawn, drawn) if agent == TOOL_AGENT else _format_answer(drawn, compact=state.is_compact)

    def scramble(self, state: Sheet, rng: Random, tools: Tools) -> Sheet:
        """The second turn, after a turn with a wrong answer."""
        printed, answered = (str(rng.randint(-_RANDOM_NUMBERS, _RANDOM_NUMBERS)) for _ in range(2))
        run = Run(program=_printing(printed, printed) + "\n", output=printed, printed=printed, failure="")
        after = replace(state, progress=Progress(rounds=(Round(run=run, answer=answered),)))
        return state if after.is_solved or printed == answered else after


def _limits(options: MathOptions) -> dict[str, Any]:
    """What a problem says of its observations and answers."""
    return {
        "compact": options.is_compact,
        "max_program_characters": options.max_answer_width,
        "max_answer_characters": options.max_answer_characters,
        "max_output_characters": options.max_output_characters,
    }


def _execution(sheet: Sheet, answer: str) -> Execution:
    return parse_program(answer, max_characters=sheet.payload["max_program_characters"])


def _apply_program(sheet: Sheet, execution: Execution, tools: Tools) -> Step:
    result = tools.run(execution)
    printed = read_printed_answer(result)
    is_right = printed is not None and verdict(printed, sheet.payload["answer"])
    run = Run(
        program=execution.program,
        output=show_output(result.stdout, sheet.payload["max_output_characters"]),
        printed=printed,
        failure="" if printed is not None else failure(result),
    )
    return Step(
        state=replace(sheet, progress=replace(sheet.progress, run=run)),
        solved=is_right,
        success=sheet.is_solved,
        done=False,
        team={"solved": float(sheet.is_solved)},
        local={"correct": float(is_right), "failed": float(printed is None), "malformed": 0.0},
    )


def _answer(sheet: Sheet, answer: str) -> Step:
    payload = sheet.payload
    given = parse_answer(answer, max_characters=payload["max_answer_characters"], numbers_only=sheet.is_compact)
    run = sheet.progress.run
    agreed = run is not None and run.printed is not None and verdict(run.printed, given)
    rounds = (*sheet.progress.rounds, Round(run=run, answer=given))
    after = replace(sheet, progress=Progress(rounds=rounds, agreed=agreed))
    is_right = verdict(given, payload["answer"])
    return Step(state=after, solved=is_right, success=is_right, done=agreed, local={"malformed": 0.0})


def _printing(expression: str | None, answer: str) -> str:
    """A program that prints an expression's value, or an answer as it is."""
    return f"print({answer!r})" if expression is None else f"print({expression})"


def _format_answer(answer: str, *, compact: bool) -> str:
    return answer if compact else f"\\boxed{{{answer}}}"


def _blur(text: str, noise: float, rng: Random) -> str:
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
