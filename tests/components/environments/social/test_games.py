"""All games of several players: the contract, exact copies, equal replays, complete choices, and what belongs to whom."""

import pickle
from collections.abc import Mapping
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from components.environments.environment import Environment
from components.environments.family import Family
from components.environments.registry import family, family_options
from components.errors import ConfigurationError, MalformedAction
from tests.components.environments.social.games import GAMES, SOCIAL, Line, facts, make_problem, paid
from troupe.testing import check_environment

IDS = ["-".join([name, *map(str, options.values())]) for name, options in GAMES]
every_game = pytest.mark.parametrize(("name", "options"), GAMES, ids=IDS)


def test_every_game_is_played_here() -> None:
    assert {name for name, _ in GAMES} == SOCIAL


@pytest.mark.parametrize("name", sorted(SOCIAL))
def test_a_game_keeps_the_contract_with_its_default_options(name: str) -> None:
    answer_format: Any = "free" if name in ("maze", "open_spiel") else "strict"
    check_environment(type(family(name).environment), num_problems=2, max_turns=1, answer_format=answer_format)
    assert family(name).under(family_options(name, {})) is family(name), (
        "the roles of the class are the default options'"
    )


@every_game
def test_copies_are_exact_and_equal_seeds_and_answers_give_equal_play(name: str, options: Mapping[str, Any]) -> None:
    """A copy, a pickled one and the state itself go on alike, in between others; so does the whole line played anew."""
    for seed in range(3):
        known, problem = make_problem(name, options, seed)
        line, rng, told = Line(known, problem), Random(seed), []
        for phase, before in line:
            answers, others = line.drawn(phase, rng), line.drawn(phase, rng)
            seen = facts(line.referee, before)
            copies = [deepcopy(before), pickle.loads(pickle.dumps(before))]
            line.referee.advance(before, phase, others)
            outcomes = line.advance(phase, answers)
            told.append((phase, answers, outcomes, facts(line.referee, line.position)))
            for copied in copies:
                again, after = line.referee.advance(copied, phase, answers)
                assert (again, facts(line.referee, after)) == told[-1][2:]
            assert facts(line.referee, before) == seen
        assert line.position.is_done
        replayed = Line(known, problem)
        for (phase, _), (recorded, answers, outcomes, after) in zip(replayed, told, strict=True):
            assert phase == recorded
            assert (replayed.advance(phase, answers), facts(replayed.referee, replayed.position)) == (outcomes, after)


@every_game
def test_every_member_is_paid_each_step_and_all_choices_are_words_of_the_alphabet(
    name: str, options: Mapping[str, Any]
) -> None:
    known, problem = make_problem(name, options, 1)
    line, rng = Line(known, problem), Random(3)
    longest = known.max_action_characters(family_options(name, options))
    for phase, position in line:
        for agent in phase.agents:
            choices = line.referee.rules.choices(position.state, agent) or ()
            assert len({*choices}) == len(choices) >= 1
            assert all(0 < len(choice) <= longest and choice == choice.strip() for choice in choices)
            assert set("".join(choices) + line.referee.observe(position, agent).state) <= set(
                known.alphabet(family_options(name, options))
            )
        outcomes = line.advance(phase, line.drawn(phase, rng))
        assert all(outcome.error is None for outcome in outcomes)
        assert paid(outcomes).keys() == {*known.roles} or (name == "led" and not paid(outcomes))


@every_game
def test_an_answer_that_is_no_choice_is_malformed_and_a_drawn_one_is_played(
    name: str, options: Mapping[str, Any]
) -> None:
    """Nobody can stop a game by nonsense; what is played instead depends on the problem and the step alone."""
    known, problem = make_problem(name, options, 2)
    ends = []
    for nonsense in ("nonsense", "\x00é"):
        line = Line(known, problem)
        for phase, _ in line:
            outcomes = line.advance(phase, [nonsense] * len(phase.agents))
            assert all("is none of" in str(outcome.error) for outcome in outcomes)
            assert all(outcome.local["malformed"] == 1.0 for outcome in outcomes)
        ends.append((line.phase, facts(line.referee, line.position)))
    assert ends[0] == ends[1]
    line = Line(known, problem)
    phase, position = next(iter(line))
    choice = (line.referee.rules.choices(position.state, phase.agents[0]) or ())[-1]
    heard = line.referee.rules.read(position.state, phase.agents[0], f" {choice.upper()}\n")
    assert heard == choice


class Choosy(Environment):
    """Answers with one of `told`; who plays is an option."""

    roles = ("ann",)
    told: Any = ("yes", "no")

    def roles_for(self, options: Any) -> Any:
        return self.members

    members: Any = ("ann",)

    def draw(self, options: Any, rng: Random) -> Mapping[str, Any]:
        return {"number": rng.randrange(10**6)}

    def observe(self, state: Any, agent: str) -> str:
        return str(state["number"])

    def step(self, state: Any, agent: str, answer: str) -> Any:
        from troupe import Step

        assert answer in self.told
        return Step(state=state, solved=True)

    def choices(self, state: Any, agent: str) -> Any:
        return self.told


def test_an_environment_of_ones_own_may_have_choices_too() -> None:
    check_environment(Choosy, num_problems=3)


@pytest.mark.parametrize(
    ("answer", "taken"),
    [(" Bxc4\n", "Bxc4"), ("bxc4 ", "bxc4"), ("nf3", "Nf3"), (" NF3 ", "Nf3"), ("BXC4", None), ("N f3", None)],
)
def test_a_choice_is_taken_in_any_case_unless_another_differs_in_case_alone(answer: str, taken: str | None) -> None:
    chess = type("Chess", (Choosy,), {"told": ("Bxc4", "bxc4", "Nf3")})
    known = Family("chess", chess(), "strict")
    problem = known.problem(known.options_type(), split="train", index=0, seed=1)
    referee = known.referee()
    start = referee.start(problem)
    if taken is None:
        with pytest.raises(MalformedAction, match="is none of Bxc4, bxc4, Nf3"):
            referee.rules.read(start.state, "ann", answer)
    else:
        assert referee.rules.read(start.state, "ann", answer) == taken


@pytest.mark.parametrize("told", [(), ("yes", "yes"), ("yes", ""), ("yes", 3)])
def test_choices_that_are_none_are_told(told: Any) -> None:
    wrong = type("Wrong", (Choosy,), {"told": told})
    with pytest.raises(AssertionError, match=r"choices\(\) returned .* for 'ann'; return different texts"):
        check_environment(wrong, num_problems=3)


@pytest.mark.parametrize("members", [(), ("ann", "ann"), ["ann"]])
def test_roles_that_are_none_are_told(members: Any) -> None:
    wrong = type("Wrong", (Choosy,), {"members": members})
    with pytest.raises(AssertionError, match=r"roles_for\(\) returned .*; return different names in a tuple"):
        check_environment(wrong, num_problems=3)


def test_roles_for_gives_names_that_metrics_can_hold() -> None:
    wrong = type("Wrong", (Choosy,), {"members": ("ann", "bob (left)")})
    with pytest.raises(AssertionError, match=r"roles_for\(\): 'bob \(left\)' cannot be part of a metric's name"):
        check_environment(wrong, num_problems=3)


def test_an_unknown_role_sees_nothing() -> None:
    known, problem = make_problem("open_spiel", {})
    referee = known.referee()
    with pytest.raises(AssertionError, match=r"agent 'player_2' is none of \('player_0', 'player_1'\)"):
        referee.observe(referee.start(problem), "player_2")
    with pytest.raises(ConfigurationError, match="did you mean 'num_members'"):
        family_options("coop_compete", {"members": 3})
