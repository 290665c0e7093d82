"""OpenSpiel behind the environment: its own returns, exact values by hand, what is hidden, and what is refused."""

from collections.abc import Iterator, Mapping
from itertools import permutations
from random import Random
from typing import Any

import pyspiel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.environments.play import Position
from components.environments.social import spiel_games
from components.environments.social.spiel_games import SpielGame, SpielState, spiel_game
from components.errors import ConfigurationError, ServiceMissing
from tests.components.environments.social.games import Line, make_problem, paid
from tests.kuhn_poker import VALUE, equilibrium

NAMES = ("kuhn_poker", "leduc_poker", "tiny_hanabi", "bargaining", "matrix_rps", "goofspiel(num_cards=4)", "liars_dice")


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(NAMES), st.integers(0, 10**6))
def test_what_members_earn_is_openspiels_return(name: str, seed: int) -> None:
    known, problem = make_problem("open_spiel", {"game": name}, seed)
    line, rng = Line(known, problem), Random(seed)
    earned = dict.fromkeys(known.roles, 0.0)
    for phase, _ in line:
        outcomes = line.advance(phase, line.drawn(phase, rng))
        for member, amount in paid(outcomes).items():
            earned[member] += amount
    state = line.position.state
    game = pyspiel.load_game(name)
    oracle = game.new_initial_state()
    for move in state.moves:
        oracle.apply_actions(list(move)) if isinstance(move, tuple) else oracle.apply_action(move)
    assert oracle.is_terminal()
    assert list(earned.values()) == pytest.approx(oracle.returns(), abs=1e-12)
    if game.get_type().utility == pyspiel.GameType.Utility.ZERO_SUM:
        assert sum(earned.values()) == pytest.approx(0.0, abs=1e-12)


def first_positions(name: str, num_deals: int) -> list[tuple[Any, Position]]:
    """The first position of every deal of a game, found by seeds."""
    found: dict[str, tuple[Any, Position]] = {}
    for seed in range(2000):
        known, problem = make_problem("open_spiel", {"game": name}, seed)
        start = known.referee().start(problem)
        found.setdefault(str(start.state.position), (known, start))
        if len(found) == num_deals:
            return list(found.values())
    raise AssertionError(f"{len(found)} deals of {num_deals}")


def value(known: Any, position: Position, policy: Mapping[str, Mapping[str, float]]) -> float:
    """What player_0 of Kuhn poker earns from a position on, by all answers of both."""
    referee = known.referee()
    phase = referee.next_phase(position, known.turn_order)
    if phase is None:
        return 0.0
    (agent,) = phase.agents
    card, *past = position.state.game.text(position.state.position, int(agent[-1]))
    total = 0.0
    for choice, letter in (("Pass", "p"), ("Bet", "b")):
        outcomes, after = referee.advance(position, phase, [choice])
        amount = paid(outcomes).get("player_0", 0.0)
        total += policy["JQK"[int(card)] + "".join(past)][letter] * (amount + value(known, after, policy))
    return total


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1 / 3])
def test_kuhn_poker_has_its_value_by_enumerating_our_play(alpha: float) -> None:
    """Between equilibria the first player loses 1/18 a game, over the six deals."""
    earned = [value(known, start, equilibrium(alpha)) for known, start in first_positions("kuhn_poker", 6)]
    assert sum(earned) / 6 == pytest.approx(VALUE) == pytest.approx(-1 / 18)


@pytest.mark.parametrize(
    ("answers", "earned"),
    [
        (("Cooperate", "Cooperate"), (5, 5)),
        (("Cooperate", "Defect"), (0, 10)),
        (("Defect", "Cooperate"), (10, 0)),
        (("Defect", "Defect"), (1, 1)),
    ],
)
def test_the_prisoners_dilemma_pays_what_its_players_read(answers: tuple[str, str], earned: tuple[int, int]) -> None:
    known, problem = make_problem("open_spiel", {"game": "matrix_pd"})
    line = Line(known, problem)
    for phase, before in line:
        for seat, agent in enumerate(phase.agents):
            row = f"{answers[seat]} {answers[1 - seat]}: {earned[seat]} {earned[1 - seat]}"
            assert row in line.referee.observe(before, agent).state.splitlines()
        assert paid(line.advance(phase, list(answers))) == {
            "player_0": earned[0],
            "player_1": earned[1],
        }
    assert line.position.is_done


def lines_with(name: str, moves: list[int]) -> Iterator[str]:
    """What each player reads after these moves."""
    known, _ = make_problem("open_spiel", {"game": name})
    game: SpielGame = spiel_game(name, {}, None)
    position = game.game.new_initial_state()
    for move in moves:
        position.apply_action(move)
    state = SpielState(game=game, seed=0, moves=tuple(moves), position=position)
    for role in known.roles:
        yield known.referee().observe(Position(state=state), role).state


@pytest.mark.parametrize(
    ("name", "deck", "moves"),
    [
        ("kuhn_poker", range(3), [0]),
        ("kuhn_poker", range(3), [0, 1]),
        ("leduc_poker", range(6), [1, 1]),
        ("leduc_poker", range(6), [2]),
        ("tiny_hanabi", range(2), []),
        ("tiny_hanabi", range(2), [2]),
    ],
)
def test_nobody_reads_anothers_card(name: str, deck: range, moves: list[int]) -> None:
    """A text changes with the own card, and with no other's."""
    pairs = list(permutations(deck, 2)) if name != "tiny_hanabi" else [(a, b) for a in deck for b in deck]
    told = {pair: list(lines_with(name, [*pair, *moves])) for pair in pairs}
    for seat in (0, 1):
        by_card = {card: {told[pair][seat] for pair in pairs if pair[seat] == card} for card in deck}
        assert all(len(texts) == 1 for texts in by_card.values())
        suits = 2 if name == "leduc_poker" else 1
        assert len(set().union(*by_card.values())) == len(deck) // suits


def test_nobody_reads_what_items_are_worth_to_the_other() -> None:
    game = spiel_game("bargaining", {}, None)
    instances = [game.game.new_initial_state().child(number) for number in range(1000)]
    seen: dict[Any, set[str]] = {}
    for state in instances:
        lines = str(state).splitlines()
        pool, own = lines[0].split(), lines[1]
        wrapped = SpielState(game=game, seed=0, moves=(0,), position=state)
        known, _ = make_problem("open_spiel", {"game": "bargaining"})
        seen.setdefault((tuple(pool), own), set()).add(
            known.referee().observe(Position(state=wrapped), "player_0").state
        )
    assert all(len(texts) == 1 for texts in seen.values())
    assert max(len(str(state)) for state in instances) > 0 < len(seen) < len(instances)


def test_hanabis_table_is_what_it_pays() -> None:
    for seed in range(8):
        known, problem = make_problem("open_spiel", {"game": "tiny_hanabi"}, seed)
        line, rng = Line(known, problem), Random(seed)
        acted: list[str] = []
        cards = [int(state_part[-1]) for state_part in str(line.position.state.position).split()[:2]]
        text = line.referee.observe(line.position, "player_0").state
        for phase, _ in line:
            acted += (answers := line.drawn(phase, rng))
            outcomes = line.advance(phase, answers)
        row = next(each for each in text.splitlines() if each.startswith(f"the other's card {cards[1]}"))
        cells = next(each for each in row.partition(": ")[2].split(", ") if each.startswith(acted[0])).split()[1:]
        assert float(cells[int(acted[1][1])]) == outcomes[0].local["payoff"]
        assert line.position.is_solved == (outcomes[0].local["payoff"] == 10)


def test_bargaining_divides_by_the_words_of_an_offer() -> None:
    known, problem = make_problem("open_spiel", {"game": "bargaining"}, 3)
    line = Line(known, problem)
    texts = [line.referee.observe(line.position, role).state.splitlines() for role in known.roles]
    pool, *worth = (
        [int(each) for each in text.split() if each.isdigit()] for text in (texts[0][1], texts[0][2], texts[1][2])
    )
    answers = iter([f"keep {pool[0]} 0 0", "agree"])
    for phase, _ in line:
        outcomes = line.advance(phase, [next(answers)])
    kept = [pool[0], 0, 0]
    wanted = (
        sum(k * v for k, v in zip(kept, worth[0], strict=True)),
        sum((n - k) * v for n, k, v in zip(pool, kept, worth[1], strict=True)),
    )
    assert paid(outcomes) == {"player_0": wanted[0], "player_1": wanted[1]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"game": "kuhn_pokr"},
            r"environment\.options\.game 'kuhn_pokr': no game of OpenSpiel; did you mean 'kuhn_poker'",
        ),
        ({"game": "python_block_domino"}, "no game of OpenSpiel; did you mean 'python_block_dominoes'"),
        ({"game": "nfg_game"}, r"'nfg_game' with the parameters {}: OpenSpiel refuses them"),
        ({"parameters": {"playrs": 3}}, r"parameters 'playrs': no parameter of kuhn_poker; did you mean 'players'"),
        ({"num_players": 30}, r"num_players 30: kuhn_poker has 2 to 10"),
        ({"game": "matrix_pd", "num_players": 3}, r"num_players 3: matrix_pd has 2 to 2"),
        ({"game": "negotiation"}, r"'negotiation': it draws its chance inside"),
        ({"game": "mfg_garnet"}, r"'mfg_garnet': it is a mean-field game"),
        ({"game": "goofspiel(num_cards=-4)"}, r"parameters num_cards -4: use 0 or more; goofspiel has 13"),
        ({"game": "goofspiel(points_order=upwards)"}, r"'goofspiel' with the parameters .*: OpenSpiel refuses them"),
    ],
)
def test_what_cannot_be_played_is_refused_by_name(options: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_problem("open_spiel", options)


def test_a_game_that_is_written_in_python_is_imported_when_it_is_named() -> None:
    line, rng = Line(*make_problem("open_spiel", {"game": "python_kuhn_poker"})), Random(3)
    paid_in_all = [paid(line.advance(phase, line.drawn(phase, rng))) for phase, _ in line]
    returns = line.position.state.position.returns()
    assert line.position.is_done
    assert [sum(each[f"player_{player}"] for each in paid_in_all) for player in (0, 1)] == list(returns) != [0.0, 0.0]


def test_a_game_whose_clones_are_wrong_is_replayed_and_one_that_is_not_repeatable_is_refused() -> None:
    class Wrong:
        """A state that forgets in its clones that it has begun, or plays as it likes."""

        def __init__(self, inner: Any, *, whim: Random | None) -> None:
            self.inner, self.whim = inner, whim

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def __str__(self) -> str:
            return str(self.inner) + (str(self.whim.random()) if self.whim else "")

        def clone(self) -> "Wrong":
            return Wrong(self.inner, whim=self.whim)  # the same game under another name

    class Game:
        def __init__(self, whim: Random | None) -> None:
            self.inner, self.whim = pyspiel.load_game("tic_tac_toe"), whim

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def new_initial_state(self) -> Any:
            return Wrong(self.inner.new_initial_state(), whim=self.whim)

    assert spiel_game("tic_tac_toe", {}, None).copying == "clone"
    assert SpielGame(Game(None), ("tic_tac_toe", "{}", None)).copying == "replay"
    with pytest.raises(ConfigurationError, match="'tic_tac_toe': it neither clones nor replays exactly"):
        SpielGame(Game(Random(0)), ("tic_tac_toe", "{}", None))


def test_without_openspiel_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(spiel_games, "import_module", missing)
    with pytest.raises(ServiceMissing, match=r"OpenSpiel is not installed; .*pip install 'troupe\[populations\]'"):
        spiel_games.import_pyspiel()
