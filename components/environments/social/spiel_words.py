"""OpenSpiel's best-known games in words: what a player sees, its choices, and the rules. All others speak as OpenSpiel does."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from components.environments.social.game import join_choices, member_names, number
from components.environments.social.spiel_games import SpielGame, SpielState

_SEAT = re.compile(r"^\[P\d+\]|^p\d+(?=a\d)|^Player \d+ ")
_LEDUC = re.compile(
    r"\[Private: (-?\d+)\].*?\[Pot: (\d+)\]\[Money: ([\d ]+)\](?:\[Public: (-?\d+)\])?"
    r"\[Round1: ([\d ]*)\]\[Round2: ([\d ]*)\]"
)


class Words(Protocol):
    """How one game is told. `text` has nothing that the player does not know."""

    def text(self, state: SpielState, player: int) -> str:
        """What a player sees, in a few lines."""
        ...

    def choice(self, state: SpielState, player: int, action: int) -> str:
        """One legal action."""
        ...

    def rules(self, game: SpielGame, player: int) -> str:
        """How the game goes and what it pays, for chat models."""
        ...


def words_for(game: SpielGame) -> Words:
    """The words of a game."""
    plain = {"action_mapping", "suit_isomorphism"}
    if game.name == "leduc_poker" and any(game.parameters.get(each) for each in plain):
        return Plain()
    if hasattr(game.game, "row_utilities"):
        return Matrix()
    kind: Callable[[], Words] = _KINDS.get(game.name, Plain)
    return kind()


class Plain:
    """OpenSpiel's own texts, without the seat that it puts before some actions."""

    def text(self, state: SpielState, player: int) -> str:
        return state.game.text(state.position, player)

    def choice(self, state: SpielState, player: int, action: int) -> str:
        return _SEAT.sub("", state.position.action_to_string(player, action)).strip()

    def rules(self, game: SpielGame, player: int) -> str:
        return f"The game is {game.title}, as OpenSpiel plays it."


class Kuhn(Plain):
    """**Example** "your card: Queen of Jack Queen King" and "player_0 passes, player_1 bets"."""

    def text(self, state: SpielState, player: int) -> str:
        told = state.game.text(state.position, player)
        deck = _deck(state.game.num_players + 1)
        card, played = re.fullmatch(r"(\d+)([pb]*)", told).groups()  # type: ignore[union-attr]
        names = member_names(state.game.num_players)
        past = [f"{names[turn % len(names)]} {'bets' if each == 'b' else 'passes'}" for turn, each in enumerate(played)]
        return f"your card: {deck[int(card)]} of {' '.join(deck)}\n{', '.join(past) or 'nobody has acted'}"

    def rules(self, game: SpielGame, player: int) -> str:
        deck = _deck(game.num_players + 1)
        return (
            f"Kuhn poker: everybody pays 1 and gets one of {' '.join(deck)}, lowest first. In turn you pass or bet 1 more. "
            "After a bet, Bet calls it and Pass folds. The highest card of those who did not fold takes the pot."
        )


class Leduc(Plain):
    """**Example** "your card: Jack, public card: King, pot: 6" and what was done in each round."""

    def text(self, state: SpielState, player: int) -> str:
        told = state.game.text(state.position, player)
        found = _LEDUC.search(told)
        assert found, f"OpenSpiel tells {told!r}"
        card, pot, money, public, *rounds = found.groups()
        deck = _deck(state.game.num_players + 1)
        paid = [100 - int(each) for each in money.split()]
        shown = deck[int(public) // 2] if public and int(public) >= 0 else "not yet open"
        acts = [" ".join(("folds", "calls", "raises")[int(each)] for each in acted.split()) for acted in rounds]
        return (
            f"your card: {deck[int(card) // 2]} of {' '.join(deck)}, public card: {shown}\n"
            f"paid: {', '.join(f'player_{seat} {each}' for seat, each in enumerate(paid))}; pot {pot}\n"
            f"round 1: {acts[0] or 'nothing'}; round 2: {acts[1] or 'nothing'}"
        )

    def rules(self, game: SpielGame, player: int) -> str:
        deck = _deck(game.num_players + 1)
        return (
            f"Leduc poker: two each of {' '.join(deck)}, lowest first. Everybody pays 1 and gets one card. In two "
            "rounds of betting raises are of 2 and then of 4, at most two a round; between them "
            "a public card is opened. A pair with the "
            "public card beats any other card, else the higher card wins."
        )


class Matrix(Plain):
    """All payoffs as (you, the other), by both choices."""

    def text(self, state: SpielState, player: int) -> str:
        return "\n".join(_table(state.game.game, player))

    def rules(self, game: SpielGame, player: int) -> str:
        return (
            f"{game.title}: both players choose at once. Each line of what you see has your choice, the other's choice, and "
            "then what you and the other player earn."
        )


class TinyHanabi(Plain):
    """The own card, what the first player did, and what both earn by the other's card and both actions."""

    def text(self, state: SpielState, player: int) -> str:
        numbers = state.game.parameters
        if state.game.num_players != 2:
            return super().text(state, player)
        told = state.game.text(state.position, player)
        card = int(re.search(rf"p{player}:d(\d+)", told).group(1))  # type: ignore[union-attr]
        acted = re.findall(r"p(\d+):a(\d+)", told)
        past = ", ".join(f"player_{who} chose a{what}" for who, what in acted) or "nobody has acted"
        tables = [
            f"the other's card {other}: {_hanabi_rows(numbers, player, card, other)}"
            for other in range(numbers["num_chance"])
        ]
        return "\n".join([f"your card: {card} of {numbers['num_chance']}", past, *tables])

    def rules(self, game: SpielGame, player: int) -> str:
        return (
            "Tiny Hanabi: both players earn the same. Each gets a card that the other does not see; player_0 chooses, and "
            "player_1, who sees that choice, chooses after it. The choice may tell the other one the card. "
            "For each card of the other player you see a line of what both earn: your choice, then the amounts for "
            "the other's choices in order."
        )


class Bargaining(Plain):
    """Offers say what the one who makes them keeps."""

    def text(self, state: SpielState, player: int) -> str:
        told = state.game.text(state.position, player)
        lines = told.splitlines()
        pool, values = (re.findall(r"(\w+): (\d+)", line.partition(":")[2]) for line in lines[:2])
        offers = [
            f"player_{who} keeps {_amounts(offer)}" for who, offer in re.findall(r"^P(\d) offers: (.*:.*)", told, re.M)
        ]
        items = " ".join(f"{name} {count}" for name, count in pool)
        worth = " ".join(f"{name} {count}" for name, count in values)
        return f"pool: {items}\none is worth to you: {worth}\n{'; '.join(offers) or 'no offer yet'}"

    def choice(self, state: SpielState, player: int, action: int) -> str:
        amounts = _amounts(str(state.position.action_to_string(player, action)))
        return f"keep {amounts}" if amounts else "agree"

    def rules(self, game: SpielGame, player: int) -> str:
        most, discount = game.parameters["max_turns"], game.parameters["discount"]
        lost = (
            f" Each offer after the first two shrinks what is earned to {number(discount)} of it."
            if discount < 1
            else ""
        )
        return (
            "Bargaining: two players divide a pool of items in turn. An offer says how many of each kind, in the order of the "
            "pool, the one who makes it keeps; the other gets the rest. If it agrees, each earns what its items are worth "
            f"to it; after {most} offers without agreement nobody earns anything. The other player's values are hidden."
            f"{lost}"
        )


_KINDS: dict[str, Callable[[], Words]] = {
    "kuhn_poker": Kuhn,
    "leduc_poker": Leduc,
    "tiny_hanabi": TinyHanabi,
    "bargaining": Bargaining,
}


def name_seat(state: SpielState, player: int, text: str, choices: Sequence[str]) -> str:
    """A text with the seat before it, and after it the choices if they are few."""
    few = f"\n{join_choices(choices)}?" if 0 < len(choices) <= 12 else ""
    return f"player_{player} of {state.game.num_players}\n{text}{few}"


def _deck(num_ranks: int) -> list[str]:
    """The names of cards, lowest first. **Example** 3: Jack Queen King; 5: 1 2 3 4 5."""
    return ["Jack", "Queen", "King"] if num_ranks == 3 else [str(rank + 1) for rank in range(num_ranks)]


def _amounts(offer: str) -> str:
    """**Example** "Offer: Book: 1, Hat: 2, Basketball: 1" is "1 2 1"."""
    return " ".join(re.findall(r": (\d+)", offer))


def _table(game: Any, player: int) -> list[str]:
    rows, cols = game.row_utilities(), game.col_utilities()
    row_names = [game.row_action_name(row) for row in range(game.num_rows())]
    col_names = [game.col_action_name(col) for col in range(game.num_cols())]
    pairs = [(r, c) for r in range(len(row_names)) for c in range(len(col_names))]
    cells = [(row_names[r], col_names[c], rows[r][c], cols[r][c]) for r, c in pairs]
    if player == 1:
        cells = [(theirs, mine, others, earned) for mine, theirs, earned, others in cells]
    own = col_names if player else row_names
    cells.sort(key=lambda cell: own.index(cell[0]))
    return [f"{mine} {theirs}: {number(earned)} {number(others)}" for mine, theirs, earned, others in cells]


def _hanabi_rows(numbers: Any, player: int, card: int, other: int) -> str:
    num_cards, num_actions = numbers["num_chance"], numbers["num_actions"]
    payoff = [float(each) for each in numbers["payoff"].split(";")]
    first, second = (card, other) if player == 0 else (other, card)

    def cell(mine: int, theirs: int) -> str:
        one, two = (mine, theirs) if player == 0 else (theirs, mine)
        return number(payoff[((first * num_cards + second) * num_actions + one) * num_actions + two])

    return ", ".join(
        f"a{mine} {' '.join(cell(mine, theirs) for theirs in range(num_actions))}" for mine in range(num_actions)
    )
