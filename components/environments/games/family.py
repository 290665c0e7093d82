"""What the puzzle families share: options, and expert, noisy and random play over a `Game`."""

from abc import abstractmethod
from collections.abc import Mapping
from random import Random
from typing import Any, TypeVar

from pydantic import Field, model_validator

from components.environments.base import MultiAgentEnv, Split, Tools
from components.environments.family import Demonstrations, DrawnFamily
from components.environments.games.proposal import ROLES, TOOL_AGENT, Game, ProposalEnv
from components.environments.games.python_tool import ToolOptions, printing_program
from components.environments.shared.text import PRINTABLE
from components.frozen import Frozen

State = TypeVar("State")
Options = TypeVar("Options", bound=ToolOptions)


class DistanceOptions(ToolOptions):
    """The options of a puzzle whose difficulty is the number of moves to solve it."""

    min_distance: int = Field(ge=2)
    max_distance: int = Field(ge=2)
    max_moves: int = Field(ge=1)

    @model_validator(mode="after")
    def _consistent(self) -> "DistanceOptions":
        if self.min_distance > self.max_distance:
            raise ValueError(f"min_distance {self.min_distance} exceeds max_distance {self.max_distance}; lower it")
        return self

    @property
    def longest_list(self) -> int:
        return self.max_moves


class PuzzleFamily(Demonstrations, DrawnFamily[Options, ProposalEnv[State]]):
    """An `EnvironmentFamily` of one game. `draw` draws the board, which play never changes and which alone decides the split;
    `completed` draws the rest."""

    env_type = ProposalEnv
    game_type: type[Game[State]]
    """The rules of one puzzle, made from its payload."""
    copies_proposals = True
    move_separator: str = ""
    remedy = "ask for a larger size or for less (density, distance, number of boxes or blanks)"
    has_solver_value = True

    @abstractmethod
    def completed(self, options: Options, drawn: Mapping[str, Any], rng: Random) -> Mapping[str, Any] | None:
        """The payload of a puzzle on the board `drawn` that meets `options`, or None if there is none."""

    @abstractmethod
    def move_alphabet(self, options: Options) -> str:
        """Every character of observations and of compact lists of moves, in a fixed order."""

    def solver_program(self) -> str | None:
        """A short program that solves any puzzle from its board as JSON; None if there is none."""
        return None

    def payload(self, options: Options, *, split: Split, index: int, seed: int) -> Mapping[str, Any]:
        return {**super().payload(options, split=split, index=index, seed=seed), **options.tool_payload}

    def play(self, payload: Mapping[str, Any], tools: Tools) -> ProposalEnv[State]:
        longest: int | None = payload.get("max_program_characters")
        return ProposalEnv(self.game_type(payload), max_program_characters=longest, tools=tools)

    def uses_sandbox(self, options: Frozen) -> bool:
        return self.checked(options).tool == "python"

    def alphabet(self, options: Frozen) -> str:
        checked = self.checked(options)
        return PRINTABLE if checked.tool == "python" else self.move_alphabet(checked)

    def max_action_characters(self, options: Frozen) -> int:
        """The length of the longest program or compact list of moves."""
        checked, separator = self.checked(options), len(self.move_separator)
        longest = checked.longest_list * (self.game_type.move_width + separator) - separator
        return max(checked.max_program_characters, longest) if checked.tool == "python" else longest

    def expert_action(self, env: MultiAgentEnv, agent: str) -> str:
        """The solver's list; the same for both agents, because both act from the real state.

        A tool agent that writes Python answers with the solver's program if it fits, else with a program that prints the list.
        """
        played = self.played(env, agent)
        if agent == TOOL_AGENT and played.max_program_characters is not None:
            program = self.solver_program()
            if program is not None and len(program) <= played.max_program_characters:
                return program
        return self._demonstrated(played, agent, noise=0.0, rng=None)

    def noisy_expert_action(self, env: MultiAgentEnv, agent: str, *, noise: float, rng: Random) -> str:
        """The solver's list with each move replaced by a random one with probability `noise`.

        After a random move the solver continues from the resulting state, so that a clone sees how a slip is repaired. The
        list ends when the puzzle is solved or lost, or at the longest length.
        """
        return self._demonstrated(self.played(env, agent), agent, noise=noise, rng=rng)

    def random_action(self, env: MultiAgentEnv, agent: str, rng: Random) -> str:
        """One random move; a long random list would often solve small boards by luck."""
        played = self.played(env, agent)
        return _as_answer(played, agent, played.game.random_move(played.state, rng))

    def scramble(self, env: MultiAgentEnv, rng: Random) -> None:
        played = self.played(env, ROLES[0])
        played.set_state(played.game.random_state(rng))

    def _demonstrated(self, played: ProposalEnv[State], agent: str, *, noise: float, rng: Random | None) -> str:
        game, state, moves = played.game, played.state, list[str]()
        while len(moves) < game.max_moves and (move := game.expert_move(state, rng)) is not None:
            if rng is not None and rng.random() < noise:
                move = game.random_move(state, rng)
            moves.append(move)
            state = game.play(state, (move,)).state
        return _as_answer(played, agent, self.move_separator.join(moves))


def _as_answer(played: ProposalEnv[Any], agent: str, moves: str) -> str:
    """`moves` as an answer of `agent`: if it writes Python, a program that prints them."""
    writes_python = agent == TOOL_AGENT and played.max_program_characters is not None
    return printing_program(moves) if writes_python else moves
