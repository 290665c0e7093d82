"""A person who plays every agent of an environment in the terminal."""

import shutil
import textwrap
from collections.abc import Mapping
from typing import TextIO

from components.environments.play import Playthrough, Position
from components.environments.social.game import number
from components.errors import ConfigurationError
from components.evaluation.answered_play import PayoffSums
from components.schema import ActionOutcome
from components.text.escaping import printable


class Person:
    """Prompts a person in the terminal, explains errors and prompts again, and shows the result of a proposal.

    If roles share a grammar of short moves, an answer is one line and Enter keeps the proposal. Otherwise (`writes_prose`) it
    is one of the environment's choices, in a line, whatever the case of its letters; or without choices it has several lines
    and ends with a line that is a single dot. Those who act at once are asked one after another, and each sees what that agent
    would see.
    """

    def __init__(self, stdin: TextIO, stdout: TextIO, *, explains: bool, writes_prose: bool) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._proposal: str | None = None
        self._explains = explains
        self._writes_prose = writes_prose
        self._choices: tuple[str, ...] | None = None
        self._told: set[str] = set()

    def __call__(self, played: Playthrough, agent: str) -> str | None:
        decides = agent == played.roles[-1]
        self._choices = played.choices(agent) if self._writes_prose else None
        if self._explains:
            self._explain(played)
        if self._writes_prose and (self._choices is None or agent not in self._told):
            self._told.add(agent)
            if told := played.observe(agent).instructions:
                self._say(f"\n{_wrap(told)}\n")
        self._show(played, agent, decides)
        while (text := self._ask(agent, decides)) is not None:
            error = self._try_answer(played, agent, text)
            if error is None:
                self._proposal = text
                return text
            self._say(f"Not understood: {printable(error)}.")
        self._say("")  # what follows stands below the prompt
        return None

    def _show(self, played: Playthrough, agent: str, decides: bool) -> None:
        """Show the agent's observation where several players choose, else the position before whoever does not only decide."""
        several = len(played.roles) > 1
        if self._choices is None or not several:
            if self._writes_prose or not decides or not several:
                self._say(f"\n{self._picture(played)}\n")
            return
        seen = played.observe(agent).state
        self._say(f"\n{seen}\n")
        if not all(choice in seen for choice in self._choices):
            self._say(f"{_wrap(', '.join(self._choices))}\n")

    def _try_answer(self, played: Playthrough, agent: str, text: str) -> str | None:
        """Why an answer is refused; of one that is not, the consequence is shown, unless it comes of all answers together."""
        if played.acts_together:
            return played.refusal(agent, text)
        before = played.position
        outcome = played.apply(agent, text)
        if outcome.error is None:
            self._say(self._consequence(played, agent, text, before, solves=outcome.solves))
        played.position = before
        return outcome.error

    def _explain(self, played: Playthrough) -> None:
        self._explains = False
        if self._choices is not None:
            self._say("You play every agent. An answer is one line, in small letters or capitals; q quits.")
            return
        if self._writes_prose:
            self._say("You play every agent. An answer ends with a line that holds a dot alone; q alone quits.")
            return
        self._say(_wrap(played.observe(played.roles[0]).instructions))
        if len(played.roles) > 1:
            self._say(
                "You play every agent: type a list, see what it would do, then decide: Enter keeps it, another list "
                "replaces it."
            )
        self._say("q quits.")

    def _ask(self, agent: str, decides: bool) -> str | None:
        """The line typed, a list of moves in capitals; the proposal if the deciding agent's line is empty; None if the person
        left."""
        self._stdout.write(f"{agent}> ")
        self._stdout.flush()
        if self._writes_prose and self._choices is None:
            return self._lines()
        line = self._read_line()
        text = line.strip().upper()
        if self._choices is not None and line.removesuffix("\n") in self._choices:
            return line.removesuffix("\n")
        if line == "" or text == "Q":
            return None
        if self._choices is not None:
            return line.strip()
        return self._proposal if decides and text == "" and self._proposal is not None else text

    def _read_line(self) -> str:
        try:
            return self._stdin.readline()
        except UnicodeDecodeError as error:
            raise ConfigurationError("standard input: not UTF-8 text; type or pipe UTF-8") from error

    def _lines(self) -> str | None:
        """The text up to a line with a single dot or the end of the input; None for a lone q or no input."""
        lines: list[str] = []
        while (line := self._read_line()) and line.strip() != ".":
            if not lines and line.strip() in ("q", "Q"):
                return None
            lines.append(line)
        return "".join(lines).strip() if lines or line else None

    def _consequence(self, played: Playthrough, agent: str, text: str, before: Position, *, solves: bool) -> str:
        """The result of an answer, or of a proposal if it were carried out."""
        if agent == played.roles[-1] or self._writes_prose:
            return f"{self._picture(played)}\nSolved." if solves and played.success else ""
        played.position = before
        played.apply(played.roles[-1], text)
        return f"would lead to{' the solution' if solves else ''}:\n{self._picture(played)}"

    def _picture(self, played: Playthrough) -> str:
        return played.render(color=self._stdout.isatty())

    def _say(self, text: str) -> None:
        print(text, file=self._stdout)


class Payments:
    """Tells a person after each turn what it paid, and at the end of an episode how it ended; nothing where nobody is paid."""

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout
        self._of_turn, self._earned = PayoffSums(), PayoffSums()

    def began(self, played: Playthrough) -> None:
        self._of_turn, self._earned = PayoffSums(), PayoffSums()

    def show_action(self, turn: int, role: str, action: str, outcome: ActionOutcome) -> None:
        self._of_turn.add(outcome)
        self._earned.add(outcome)

    def turn_ended(self, played: Playthrough, turn: int) -> None:
        if any(self._of_turn.by_agent.values()):
            print(f"\n{pays(self._of_turn.by_agent)}", file=self._stdout)
        self._of_turn = PayoffSums()
        if played.done and self._earned.by_agent:
            picture = played.render(color=self._stdout.isatty())
            print(f"\n{picture}\n\nThe game is over: {pays(self._earned.by_agent)}.", file=self._stdout)


def pays(payoffs: Mapping[str, float]) -> str:
    """**Example** "ann earns 1, bob earns -0.5"."""
    return ", ".join(f"{agent} earns {number(payoff)}" for agent, payoff in payoffs.items())


def _wrap(text: str) -> str:
    """`text` wrapped between words to the terminal's width; its own line breaks stay."""
    width = min(shutil.get_terminal_size().columns, 100)
    return "\n".join(textwrap.fill(line, width, break_long_words=False) for line in text.splitlines())
