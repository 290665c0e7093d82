"""open_spiel: any game of OpenSpiel by its name, of players in turn or at once, with chance drawn by the problem's seed."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from components.environments.base import JointStep
from components.environments.social.game import SocialGame, join_choices, member_names, place_of
from components.environments.social.spiel_games import SpielState, joint_move, random_line, spiel_game
from components.environments.social.spiel_words import name_seat, words_for
from components.frozen import Settings

_MOST_LISTED = 60
"""So many choices are listed in the instructions."""


class OpenSpielOptions(Settings):
    """The options of open_spiel."""

    game: str = "kuhn_poker"
    """A name of OpenSpiel's, with parameters in parentheses if any: `leduc_poker`, `goofspiel(num_cards=4,imp_info=True)`."""
    parameters: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Parameters of the game, beside those in its name."""
    num_players: int | None = Field(None, ge=1)
    """None: as many as the game has by default."""


class OpenSpielEnvironment(SocialGame):
    """The games of OpenSpiel. A problem is a game and the seed of its chance.

    Payoffs are OpenSpiel's: a step pays each player the difference of its return. An episode that `environment.max_turns` cuts
    off before the end pays nothing in most games. `solved`: the game was played to its end; where all players earn the same, to
    the highest return that the game has.
    """

    roles = member_names(2)
    Options = OpenSpielOptions

    def roles_for(self, options: OpenSpielOptions) -> tuple[str, ...]:
        return member_names(spiel_game(options.game, options.parameters, options.num_players).num_players)

    def start(self, problem: Mapping[str, Any]) -> SpielState:
        return spiel_game(problem["game"], problem["parameters"], problem["num_players"]).start(problem["seed"])

    def next_role(self, state: SpielState) -> tuple[str, ...] | None:
        return tuple(f"player_{player}" for player in state.acting) or None

    def choices(self, state: SpielState, agent: str) -> tuple[str, ...]:
        return tuple(self._actions(state, place_of(agent)))

    def longest_answer(self, options: OpenSpielOptions) -> int:
        """The longest choice in a few lines of random play."""
        game = spiel_game(options.game, options.parameters, options.num_players)
        states = (state for seed in range(4) for state in random_line(game, seed, 60))
        return max(len(text) for state in states for player in state.acting for text in self._actions(state, player))

    def after(self, state: SpielState, played: Mapping[str, str]) -> JointStep:
        chosen = {place_of(agent): self._actions(state, place_of(agent))[text] for agent, text in played.items()}
        after = state.game.after(state, joint_move(state, chosen))
        done, returns = after.position.is_terminal(), after.position.returns()
        earned = {
            f"player_{player}": now - before
            for player, (now, before) in enumerate(zip(returns, state.position.returns(), strict=True))
        }
        best = not state.game.is_shared or min(returns) >= state.game.highest - 1e-9
        return JointStep(
            state=after,
            solved=done and best,
            done=done,
            payoffs=earned,
        )

    def observe(self, state: SpielState, agent: str) -> str:
        player = place_of(agent)
        acts = player in state.acting
        choices = tuple(self._actions(state, player)) if acts else ()
        return name_seat(state, player, words_for(state.game).text(state, player), choices)

    def instructions(self, state: SpielState, agent: str) -> str:
        player = place_of(agent)
        choices = tuple(self._actions(state, player)) if player in state.acting else ()
        told = f"You are {agent}. {words_for(state.game).rules(state.game, player)}"
        if not 0 < len(choices) <= _MOST_LISTED:
            return f"{told}\nAnswer with one legal move and nothing else."
        return f"{told}\nAnswer with one of these and nothing else: {join_choices(choices)}."

    def render(self, state: SpielState) -> str:
        """The whole state, with what is hidden from players."""
        end = f"\nreturns: {' '.join(f'{each:g}' for each in state.position.returns())}"
        return str(state.position).rstrip() + (end if state.position.is_terminal() else "")

    def _actions(self, state: SpielState, player: int) -> dict[str, int]:
        """Choice -> action. Actions of one name are told apart by their number in OpenSpiel."""
        words, actions = words_for(state.game), dict[str, int]()
        for action in state.legal(player):
            text = words.choice(state, player, action)
            actions[text if text and text not in actions else f"{text} ({action})".strip()] = action
        return actions
