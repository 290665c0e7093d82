"""OpenSpiel's games by name, and states of theirs as immutable values that are copied exactly. Alone imports pyspiel."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from random import Random
from typing import Any, Literal

from components.environments.social.game import EXTRA
from components.errors import ConfigurationError, ServiceMissing
from components.identity import canonical_json, seed_for
from components.text.escaping import show_value
from components.text.suggestions import suggest

Move = int | tuple[int, ...]
"""What was applied to a state: chance's or a player's action, or those of all players at once."""
Copying = Literal["clone", "replay"]
"""How a state comes from the one before it: a clone of it, or all moves anew where clones are not exact."""
_NUM_PROBES, _PROBE_LENGTH = 2, 40


class SpielGame:
    """One game with its parameters; `copying` is proved on lines of random play when it is made.

    Raises ConfigurationError for a game that has no text for its players, whose chance cannot be drawn from outside, or that
    neither clones nor replays exactly.
    """

    def __init__(self, game: Any, key: tuple[str, str, int | None]) -> None:
        self.game, self.key = game, key
        kind = game.get_type()
        self.name: str = kind.short_name
        self.title: str = kind.long_name
        self.num_players: int = game.num_players()
        pyspiel = import_pyspiel()
        self.is_shared = kind.utility == pyspiel.GameType.Utility.IDENTICAL
        self.highest: float = game.max_utility() if self.is_shared else 0.0
        if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
            self._refuse("is a mean-field game, which has no single players")
        if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
            self._refuse("draws its chance inside, so that its play is no function of the problem's seed")
        shows_board = kind.information == pyspiel.GameType.Information.PERFECT_INFORMATION
        has_text = (kind.provides_observation_string, kind.provides_information_state_string)
        if not any(has_text):
            self._refuse("has no text of what a player sees")
        self._reads_observation = has_text[0] and (shows_board or not has_text[1])
        self.copying: Copying = "clone"
        if not self._copies_exactly():
            self.copying = "replay"
            if not self._copies_exactly():
                self._refuse("neither clones nor replays exactly")

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the game, with OpenSpiel's defaults."""
        given: Mapping[str, Any] = self.game.get_parameters()
        return {**self.game.get_type().parameter_specification, **given}

    def start(self, seed: int) -> "SpielState":
        """The first state in which a player acts."""
        return self._settle_chance(SpielState(game=self, seed=seed, position=self.game.new_initial_state()))

    def after(self, state: "SpielState", move: Move) -> "SpielState":
        """The state after a move, and after what chance then does."""
        return self._settle_chance(self._move(state, move))

    def text(self, position: Any, player: int) -> str:
        """What OpenSpiel tells a player: the board of a game of perfect information, else the information state."""
        if self._reads_observation:
            return str(position.observation_string(player)).rstrip()
        return str(position.information_state_string(player)).rstrip()

    def _settle_chance(self, state: "SpielState") -> "SpielState":
        while state.position.is_chance_node():
            actions, chances = zip(*state.position.chance_outcomes(), strict=True)
            rng = Random(seed_for(state.seed, "chance", len(state.moves)))
            state = self._move(state, int(rng.choices(actions, chances)[0]))
        return state

    def _move(self, state: "SpielState", move: Move) -> "SpielState":
        moves = (*state.moves, move)
        if self.copying == "clone":
            position = state.position.clone()
            _apply(position, move)
        else:
            position = self.game.new_initial_state()
            for each in moves:
                _apply(position, each)
        return SpielState(game=self, seed=state.seed, moves=moves, position=position)

    def _copies_exactly(self) -> bool:
        """Whether on some lines of random play each state is left as it was by a step, and a second step from it, with other
        play in between, ends as the first did."""
        for seed in range(_NUM_PROBES):
            rng, state = Random(seed), self.start(seed)
            for _ in range(_PROBE_LENGTH):
                if state.position.is_terminal():
                    break
                before, move, other = self._facts(state), random_move(state, rng), random_move(state, rng)
                first = self.after(state, move)
                told = self._facts(first)
                try:
                    aside = self.after(state, other)
                    if not aside.position.is_terminal():
                        self.after(aside, random_move(aside, rng))
                    second = self.after(state, move)
                except import_pyspiel().SpielError:  # a move that was legal is no longer: the state was changed
                    return False
                if self._facts(state) != before or self._facts(first) != told or self._facts(second) != told:
                    return False
                state = second
        return True

    def _facts(self, state: "SpielState") -> tuple[Any, ...]:
        position = state.position
        if position.is_terminal():
            return str(position), tuple(position.returns())
        texts = [self.text(position, player) for player in range(self.num_players)]
        return str(position), tuple(position.returns()), texts, [state.legal(player) for player in state.acting]

    def _refuse(self, why: str) -> None:
        raise ConfigurationError(f"environment.options.game {self.name!r}: it {why}; choose another game")


@dataclass(frozen=True, slots=True, eq=False)
class SpielState:
    """Where a game stands. Nobody changes `position`, so that a copy is the state itself; another process replays the moves."""

    game: SpielGame
    seed: int
    moves: tuple[Move, ...] = ()
    position: Any = field(repr=False, kw_only=True)

    @property
    def num_steps(self) -> int:
        """The moves so far, those of chance too."""
        return len(self.moves)

    @property
    def acting(self) -> tuple[int, ...]:
        """The players who act: one, or all who have something to choose."""
        if self.position.is_terminal():
            return ()
        if not self.position.is_simultaneous_node():
            return (self.position.current_player(),)
        return tuple(player for player in range(self.game.num_players) if self.position.legal_actions(player))

    def legal(self, player: int) -> list[int]:
        """The actions of a player, in OpenSpiel's order."""
        return list(self.position.legal_actions(player))

    def __deepcopy__(self, memo: object) -> "SpielState":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _replay, (self.game.key, self.seed, self.moves)


def random_move(state: SpielState, rng: Random) -> Move:
    """A move of all who act, each action as likely."""
    chosen = {player: rng.choice(state.legal(player)) for player in state.acting}
    return joint_move(state, chosen)


def joint_move(state: SpielState, chosen: Mapping[int, int]) -> Move:
    """The move in which the players who act do what is chosen; one who has nothing to choose does action 0."""
    if not state.position.is_simultaneous_node():
        (move,) = chosen.values()
        return move
    return tuple(chosen.get(player, 0) for player in range(state.game.num_players))


def random_line(game: SpielGame, seed: int, num_moves: int) -> Sequence[SpielState]:
    """The states of random play, the first one and at most `num_moves` after it."""
    rng, state = Random(seed), game.start(seed)
    line = [state]
    for _ in range(num_moves):
        if state.position.is_terminal():
            break
        state = game.after(state, random_move(state, rng))
        line.append(state)
    return line


def spiel_game(name: str, parameters: Mapping[str, Any], num_players: int | None) -> SpielGame:
    """A game by OpenSpiel's name, which may hold parameters: `goofspiel(num_cards=4)`.

    Raises ConfigurationError for an unknown name or parameter, with the nearest one, and for a number of players that the game
    does not have; ServiceMissing without OpenSpiel.
    """
    return _load((name, canonical_json(dict(parameters)).decode(), num_players))


@cache
def _load(key: tuple[str, str, int | None]) -> SpielGame:
    pyspiel = import_pyspiel()
    spec, parameters, num_players = key[0], json.loads(key[1]), key[2]
    name = spec.partition("(")[0]
    kind = _kind_named(name)
    known = kind.parameter_specification
    given: dict[str, Any] = {**pyspiel.game_parameters_from_string(spec), **parameters}
    given.pop("name", None)
    if num_players is not None:
        counted = next((each for each in ("players", "num_players") if each in known), None)
        if not kind.min_num_players <= num_players <= kind.max_num_players or (
            counted is None and kind.min_num_players != kind.max_num_players
        ):
            raise ConfigurationError(
                f"environment.options.num_players {num_players}: {name} has {kind.min_num_players} to {kind.max_num_players}"
            )
        given |= {} if counted is None else {counted: num_players}
    for each in given.keys() - known.keys():
        raise ConfigurationError(
            f"environment.options.parameters {each!r}: no parameter of {name}; {suggest(each, known, otherwise='it has none')}"
        )
    for each, value in given.items():
        default = known.get(each)
        if isinstance(value, int) and isinstance(default, int) and value < 0 <= default:
            # OpenSpiel would write outside of its memory.
            raise ConfigurationError(
                f"environment.options.parameters {each} {value}: use 0 or more; {name} has {default}"
            )
    try:
        return SpielGame(pyspiel.load_game(name, given), key)
    except ConfigurationError:
        raise
    except (pyspiel.SpielError, ValueError, LookupError, RuntimeError, TypeError, OverflowError) as error:
        why = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ConfigurationError(
            f"environment.options.game {name!r} with the parameters {show_value(given)}: OpenSpiel refuses them: {why}"
        ) from error


def _kind_named(name: str) -> Any:
    """What OpenSpiel knows of a game. Raises ConfigurationError for an unknown name, with the nearest one."""
    pyspiel = import_pyspiel()
    kinds = {kind.short_name: kind for kind in pyspiel.registered_games()}
    if name not in kinds:
        import_module("open_spiel.python.games")  # games written in Python are registered as they are imported
        kinds = {kind.short_name: kind for kind in pyspiel.registered_games()}
    if name not in kinds:
        raise ConfigurationError(f"environment.options.game {name!r}: no game of OpenSpiel; {suggest(name, kinds)}")
    return kinds[name]


def import_pyspiel() -> Any:
    """OpenSpiel's module. Raises ServiceMissing where it is not installed."""
    try:
        return import_module("pyspiel")
    except ModuleNotFoundError as error:
        if error.name != "pyspiel":
            raise
        raise ServiceMissing(f"environment.name 'open_spiel': OpenSpiel is not installed; {EXTRA}") from error


def _apply(position: Any, move: Move) -> None:
    if isinstance(move, tuple):
        position.apply_actions(list(move))
    else:
        position.apply_action(move)


def _replay(key: tuple[str, str, int | None], seed: int, moves: Sequence[Move]) -> SpielState:
    game = _load(key)
    position = game.game.new_initial_state()
    for move in moves:
        _apply(position, move)
    return SpielState(game=game, seed=seed, moves=tuple(moves), position=position)
