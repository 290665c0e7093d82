"""A language model as adviser and as teacher, through the pipeline's `Generator`."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from components.generation.base import GenerationRequest, Generator, Tokenizer, choice_request, read_choice
from components.hybrid.game_facts import LARGEST, Action
from components.hybrid.llm_actor import Advice, Question
from components.hybrid.subgoals import MOST_SUBGOALS, Lesson, read_lesson
from components.identity import seed_for
from components.schema import PolicyVersion

WORDS = {
    Action.A: "A",
    Action.B: "B",
    Action.START: "Start",
    Action.SELECT: "Select",
    Action.UP: "Up",
    Action.DOWN: "Down",
    Action.LEFT: "Left",
    Action.RIGHT: "Right",
    Action.NONE: "None",
}
"""What a model answers for each action; one token each in the vocabularies of SmolLM2 and Qwen."""
ADVISER_TASK = "You play a Game Boy game. Answer with one of the buttons that are listed, and with nothing else."
_LEGAL = re.compile(r"Buttons: ([A-Z, ]+)\.")
_TEACHER_TASK = """You teach a player of a Game Boy game who learns by trial. Write subgoals on the way to the goal, one a line,
as `name: condition`. A condition compares facts with whole numbers (==, !=, <, <=, >, >=), joined by `and` and `or`."""
_TEACHER_TOKENS = 512


class LanguageModelAdviser:
    """Asks one version of a model for a button: the state, the goal, the last decisions and the legal buttons, in words.

    The answer is drawn from the model's probabilities of the legal buttons, and its confidence is the probability it was drawn
    with. Raises StaleEngine where the generator holds another version, and the generator's own errors.
    """

    def __init__(self, generator: Generator, version: PolicyVersion, *, seed: int = 0, is_chat: bool = True) -> None:
        self._generator, self._version, self._seed, self._is_chat = generator, version, seed, is_chat

    def advise(self, questions: Sequence[Question]) -> list[Advice]:
        """One answer for each question, all in one batch.

        **Example** eight legal buttons of which the model gives LEFT .57: LEFT with a confidence of .57 in 57 of 100 states.
        """
        tokenizer = self._generator.tokenizer
        requests = [
            choice_request(
                tokenizer,
                button_tokens(tokenizer, button_prompt(question), is_chat=self._is_chat),
                [WORDS[action] for action in question.legal],
                [seed_for(self._seed, "advice", button_prompt(question))],
            )
            for question in questions
        ]
        answered = self._generator.generate(requests, self._version)
        drawn = [read_choice(request, completion) for request, (completion,) in zip(requests, answered, strict=True)]
        return [
            Advice(action=question.legal[index], confidence=probability)
            for question, (index, probability) in zip(questions, drawn, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One drawn button as it is learned from: all in tokens, with the log-probabilities among the legal buttons."""

    prompt_tokens: tuple[int, ...]
    choices: tuple[tuple[int, ...], ...]
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]


class TrainableLlmActor:
    """Draws a button for every question, equal ones included, and keeps what it drew to learn from. Of one step.

    Raises what `LanguageModelAdviser` raises.
    """

    def __init__(self, generator: Generator, version: PolicyVersion, *, seed: int, is_chat: bool = True) -> None:
        self._generator, self._seed, self._is_chat = generator, seed, is_chat
        self.version = version
        self.draws: list[Draw] = []

    def advise(self, questions: Sequence[Question]) -> list[Advice]:
        """One answer for each question; equal questions are one prompt with a seed for each.

        **Example** 64 games in 5 different states: 5 prompts, 64 draws.
        """
        tokenizer = self._generator.tokenizer
        alike: dict[tuple[str, tuple[Action, ...]], list[int]] = {}
        for index, question in enumerate(questions):
            alike.setdefault((button_prompt(question), question.legal), []).append(index)
        first = len(self.draws)
        requests = [
            choice_request(
                tokenizer,
                button_tokens(tokenizer, prompt, is_chat=self._is_chat),
                [WORDS[action] for action in legal],
                [seed_for(self._seed, "draw", first + index) for index in indices],
            )
            for (prompt, legal), indices in alike.items()
        ]
        drawn: dict[int, tuple[Advice, Draw]] = {}
        answered = self._generator.generate(requests, self.version)
        for ((_, legal), indices), request, completions in zip(alike.items(), requests, answered, strict=True):
            for index, completion in zip(indices, completions, strict=True):
                choice, confidence = read_choice(request, completion)
                advice = Advice(action=legal[choice], confidence=confidence, draw=first + index)
                drawn[index] = (
                    advice,
                    Draw(
                        prompt_tokens=request.prompt_tokens,
                        choices=request.choices,
                        tokens=completion.tokens,
                        logprobs=completion.logprobs,
                    ),
                )
        self.draws += [drawn[index][1] for index in range(len(questions))]
        return [drawn[index][0] for index in range(len(questions))]


def button_prompt(question: Question) -> str:
    """What the model reads of a question.

    **Example** "You are in the town ... Goal: ... Your last buttons: Up, Up. Buttons: A, B, ... Which button?"
    """
    recent = ", ".join(WORDS[action] for action in question.recent) or "none"
    return f"{question.description} Your last buttons: {recent}. Which button?"


def read_legal(prompt: str) -> list[Action]:
    """The legal buttons that the last line of a prompt lists; all nine if it lists none.

    **Example** "... Buttons: UP, B. Which button?": up and B.
    """
    found = _LEGAL.findall(prompt.rpartition("\n")[2])
    return [Action[name] for name in found[-1].split(", ")] if found else list(Action)


def button_tokens(tokenizer: Tokenizer, prompt: str, *, is_chat: bool) -> tuple[int, ...]:
    """What the model reads: a chat with its task, or the question alone."""
    return tokenizer.encode_chat(ADVISER_TASK, prompt) if is_chat else tokenizer.encode(prompt)


class LanguageModelTeacher:
    """Asks one version of a model for subgoals, and again with what was refused, at most `most_attempts` times."""

    def __init__(
        self,
        generator: Generator,
        version: PolicyVersion,
        *,
        most_attempts: int = 3,
        temperature: float = 0.7,
    ) -> None:
        self._generator, self._version = generator, version
        self._most_attempts, self._temperature = most_attempts, temperature

    def write_lesson(self, situation: str, goal: str, *, seed: int, names: Collection[str] = LARGEST) -> Lesson:
        """The subgoals towards a goal: those of the attempt with the most of them, which may be none.

        **Example** the first attempt writes `len(x) > 1`, which is refused; the second reads why, and writes `x >= 8`.
        """
        best = Lesson()
        refusals: tuple[str, ...] = ()
        for attempt in range(self._most_attempts):
            prompt = lesson_prompt(situation, goal, names, refusals)
            lesson = read_lesson(self._write(prompt, seed_for(seed, "lesson", attempt)), names)
            best = max(best, lesson, key=lambda each: len(each.subgoals))
            if lesson.subgoals and not lesson.refusals:
                return lesson
            refusals = lesson.refusals or ("there was no line at all",)
        return best

    def _write(self, prompt: str, seed: int) -> str:
        tokens = self._generator.tokenizer.encode_chat(_TEACHER_TASK, prompt)
        request = GenerationRequest(
            prompt_tokens=tokens,
            seeds_K=(seed,),
            max_new_tokens=_TEACHER_TOKENS,
            temperature=self._temperature,
        )
        ((completion,),) = self._generator.generate([request], self._version)
        return self._generator.tokenizer.decode(completion.tokens)


def lesson_prompt(situation: str, goal: str, names: Collection[str], refusals: Sequence[str]) -> str:
    """What the teacher reads: where the player begins, the goal, the facts and their ranges, and what was refused before."""
    facts = ", ".join(f"{name} (0 to {LARGEST.get(name, 'any')})" for name in names)
    refused = "".join(f"\n- {refusal}" for refusal in refusals[:MOST_SUBGOALS])
    again = f"\nLines of your last answer were refused:{refused}" if refused else ""
    return f"{situation} Goal: {goal}.\nFacts: {facts}.\nWrite at most {MOST_SUBGOALS} lines.{again}"
