"""What the puzzle families share: splits, seeds, and expert, noisy and random play over a `Game`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from random import Random
from typing import Any, Generic, TypeVar

from components.artifacts.refs import Frozen
from components.environments.base import NO_TOOLS, MultiAgentEnv, Retriever, Split, Tools
from components.environments.games.proposal import DEFAULT_WEIGHTS, ROLES, TOOL_AGENT, Game, ProposalEnv
from components.environments.games.python_tool import PROGRAM_ALPHABET, PythonTool, ToolOptions, printing_program
from components.environments.shared.splits import split_of
from components.errors import ConfigurationError
from components.identity import content_id, seed_for
from components.schema import Problem

State = TypeVar("State")
Options = TypeVar("Options", bound=ToolOptions)

_MAX_ATTEMPTS = 2000


class PuzzleFamily(ABC, Generic[Options, State]):
    """An `EnvironmentFamily` of one game. A puzzle is drawn in two parts: the board, which play never changes and which
    alone decides the split, and then the rest."""

    name: str
    options_type: type[Options]
    move_separator: str = ""

    @abstractmethod
    def draw_board(self, options: Options, rng: Random) -> dict[str, Any] | None:
        """A random board as JSON, or None when this draw has none."""

    @abstractmethod
    def draw_puzzle(self, options: Options, board: Mapping[str, Any], rng: Random) -> dict[str, Any] | None:
        """The whole payload of a puzzle on `board` that meets `options`, or None when this board has none."""

    @abstractmethod
    def game(self, payload: Mapping[str, Any]) -> Game[State]:
        """The rules of one puzzle."""

    @abstractmethod
    def move_alphabet(self, options: Options) -> str:
        """Every character that observations, and lists of moves in their compact form, may contain, in a fixed order."""

    @abstractmethod
    def max_list_characters(self, options: Options) -> int:
        """The longest well-formed list of moves in its compact form, in characters."""

    def solver_program(self) -> str | None:
        """A program that solves any puzzle from its board as JSON; None where there is none short enough to show."""
        return None

    @property
    def roles(self) -> tuple[str, ...]:
        return ROLES

    @property
    def default_weights(self) -> Mapping[str, float]:
        return DEFAULT_WEIGHTS

    def problem(self, options: Frozen, *, split: Split, index: int, seed: int) -> Problem:
        """Problem `index` of `split`. Raises ConfigurationError when the options hardly ever allow a puzzle."""
        wanted = self.checked(options)
        for attempt in range(_MAX_ATTEMPTS):
            rng = Random(seed_for(seed, self.name, split, index, attempt))
            board = self.draw_board(wanted, rng)
            if board is None or split_of(board) != split:
                continue
            puzzle = self.draw_puzzle(wanted, board, rng)
            if puzzle is not None:
                payload = {**puzzle, **wanted.tool_payload}
                return Problem(problem_id=content_id(self.name, payload), environment=self.name, payload=payload)
        raise ConfigurationError(
            f"environment.options {options.model_dump()!r}: no {self.name} puzzle in {_MAX_ATTEMPTS} draws; "
            "ask for a larger size or for less (density, distance, number of boxes or blanks)"
        )

    @property
    def copies_proposals(self) -> bool:
        return True

    def uses_sandbox(self, options: Frozen) -> bool:
        return self.checked(options).tool == "python"

    def retriever(self, options: Frozen) -> Retriever | None:
        return None

    def build(self, problem: Problem, tools: Tools = NO_TOOLS) -> ProposalEnv[State]:
        assert problem.environment == self.name, f"{problem.problem_id} belongs to {problem.environment!r}"
        payload = problem.payload
        if payload.get("tool") != "python":
            return ProposalEnv(self.game(payload))
        python = PythonTool(max_program_characters=payload["max_program_characters"])
        return ProposalEnv(self.game(payload), python=python, tools=tools)

    def alphabet(self, options: Frozen) -> str:
        checked = self.checked(options)
        return PROGRAM_ALPHABET if checked.tool == "python" else self.move_alphabet(checked)

    def max_action_characters(self, options: Frozen) -> int:
        checked = self.checked(options)
        if checked.tool == "python":
            return max(checked.max_program_characters, self.max_list_characters(checked))
        return self.max_list_characters(checked)

    def expert_action(self, env: MultiAgentEnv, agent: str) -> str:
        """The solver's list; the same for both agents, for both act from the real state.

        A tool agent that writes Python gives the solver's program where it fits, or else a program that prints the list.
        """
        played = _played(env, agent)
        if agent == TOOL_AGENT and played.python is not None:
            program = self.solver_program()
            if program is not None and len(program) <= played.python.max_program_characters:
                return program
        return self._demonstrated(played, agent, noise=0.0, rng=None)

    def noisy_expert_action(self, env: MultiAgentEnv, agent: str, *, noise: float, rng: Random) -> str:
        """The solver's list with each move replaced by a random one with probability `noise`.

        After a random move the solver goes on from where the list really is, so a clone also sees how a slip is mended.
        The list ends when the puzzle is solved or lost, or is as long as a list may be.
        """
        return self._demonstrated(_played(env, agent), agent, noise=noise, rng=rng)

    def random_action(self, env: MultiAgentEnv, agent: str, rng: Random) -> str:
        """One random move. A long random list ends in the right place by luck on small boards, which says nothing."""
        played = _played(env, agent)
        return _as_answer(played, agent, played.game.random_move(played.state, rng))

    def scramble(self, env: MultiAgentEnv, rng: Random) -> None:
        played = _played(env, ROLES[0])
        played.set_state(played.game.random_state(rng))

    def checked(self, options: Frozen) -> Options:
        """`options` as this family's own type."""
        assert isinstance(options, self.options_type), f"{self.name} got options {options!r}"
        return options

    def _demonstrated(self, played: ProposalEnv[Any], agent: str, *, noise: float, rng: Random | None) -> str:
        game, state, moves = played.game, played.state, list[str]()
        while len(moves) < game.max_moves and (move := game.expert_move(state, rng)) is not None:
            if rng is not None and rng.random() < noise:
                move = game.random_move(state, rng)
            moves.append(move)
            state = game.play(state, (move,)).state
        return _as_answer(played, agent, self.move_separator.join(moves))


def _as_answer(played: ProposalEnv[Any], agent: str, moves: str) -> str:
    """`moves` as `agent` writes them: a program that prints them where it writes Python."""
    writes_python = agent == TOOL_AGENT and played.python is not None
    return printing_program(moves) if writes_python else moves


def _played(env: MultiAgentEnv, agent: str) -> ProposalEnv[Any]:
    assert isinstance(env, ProposalEnv), f"{env!r} was not built by this family"
    assert agent in ROLES, f"agent {agent!r} is none of {ROLES}"
    return env
