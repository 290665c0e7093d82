"""An environment of one's own: what it need not write, what it cannot break, and how its mistakes are told."""

import itertools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from components.environments.base import MAX_ANSWER_CHARACTERS
from components.environments.family import Family, require_expert
from components.environments.program import AgentProgram
from components.environments.registry import family, family_options, list_installed_environments, source_of
from components.environments.returned_values import find_program_fault
from components.environments.shared.text import PRINTABLE
from components.errors import ConfigurationError
from components.schema import Problem

GUESS = '''
"""A scout sees a digit, a caller names it."""
from troupe import Environment, Step


class Guess(Environment):
    roles = ("scout", "caller")

    def draw(self, options, rng):
        return {"secret": rng.randrange(1000), "notes": []}

    def observe(self, state, agent):
        return f"secret {state['secret']}" if agent == "scout" else f"notes {state['notes']}"

    def step(self, state, agent, answer):
        if agent == "scout":
            state["notes"].append(answer)
            return Step(state=state)
        return Step(state=state, solved=answer == str(state["secret"]))

    def expert(self, state, agent):
        return str(state["secret"])
'''
Written = Callable[..., str]
_numbers = itertools.count()


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Written]:
    """Writes an environment's module into the current folder and returns its name for the configuration."""
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)

    def write(text: str = GUESS, **replaced: str) -> str:
        for replacement in replaced.values():
            old, new = replacement.split(" => ")
            assert old in text
            text = text.replace(old, new)
        module = f"own_environment_{next(_numbers)}"
        (tmp_path / f"{module}.py").write_text(text)
        return f"{module}:Guess"

    yield write
    sys.path[:] = before


def own(name: str) -> Family:
    found = family(name)
    assert found.rules.is_custom
    return found


def problem(found: Family, index: int = 0, **options: Any) -> Problem:
    return found.problem(family_options(found.name, options), split="train", index=index, seed=3)


def play_a_turn(found: Family) -> None:
    env = found.build(problem(found))
    env.observe("scout")
    env.apply("caller", "1")


def test_four_members_are_an_environment(written: Written) -> None:
    guess = own(written())
    env = guess.build(problem(guess))
    assert (env.roles, env.done, env.success) == (("scout", "caller"), False, False)
    secret = env.observe("scout").state.removeprefix("secret ")
    outcome = env.apply("scout", secret)
    assert (dict(outcome.team), outcome.solves, env.done) == ({"solved": 0.0}, False, False)
    assert env.observe("caller").state == f"notes ['{secret}']"
    outcome = env.apply("caller", guess.expert_action(env.position, "caller"))
    assert (dict(outcome.team), outcome.solves, env.done, env.success) == ({"solved": 1.0}, True, True, True)
    assert (env.team_reward, env.local_reward("caller")) == (1.0, 0.0)
    assert secret in env.render(color=False)
    assert env.apply("caller", secret).error == "the episode is over"


def test_a_step_that_changes_its_state_changes_no_other_candidate(written: Written) -> None:
    guess = own(written())
    env = guess.build(problem(guess))
    before = env.position
    for note in ("a", "b"):
        env.position = before
        env.apply("scout", note)
        assert env.observe("caller").state == f"notes ['{note}']"
    env.position = before
    assert env.observe("caller").state == "notes []"
    assert guess.build(problem(guess)).observe("caller").state == "notes []"


def test_splits_share_no_problem_and_problems_follow_from_their_seeds(written: Written) -> None:
    name = written()
    guess, options = own(name), family_options(name, {})
    train, test = (
        {
            guess.problem(options, split=split, index=index, seed=1).payload["secret"]  # type: ignore[arg-type]
            for index in range(400)
        }
        for split in ("train", "test")
    )
    assert not train & test
    assert len(train | test) > 300
    assert problem(guess, 7) == problem(guess, 7) != problem(guess, 8)
    assert problem(guess).problem_id.startswith("own-")


def test_what_does_not_decide_the_answer_makes_no_other_problem(written: Written) -> None:
    decided = "    def deciding(self, problem):\n        return problem['secret'] % 10\n\n    def expert("
    name = written(more=f"    def expert( => {decided}")
    guess, options = own(name), family_options(name, {})
    ends = {
        split: {guess.problem(options, split=split, index=i, seed=1).payload["secret"] % 10 for i in range(60)}  # type: ignore[arg-type]
        for split in ("train", "test")
    }
    assert not ends["train"] & ends["test"]


def test_an_environment_whose_problems_are_all_decided_alike_is_told(written: Written) -> None:
    decided = "    def deciding(self, problem):\n        return 1\n\n    def expert("
    name = written(more=f"    def expert( => {decided}")
    guess, options = own(name), family_options(name, {})
    with pytest.raises(ConfigurationError, match=r"no problem of the (train|test) split in 2000 draws"):
        [guess.problem(options, split=split, index=0, seed=0) for split in ("train", "test")]  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", ["x" * 65, "x" * (MAX_ANSWER_CHARACTERS + 1), "bad"])
def test_a_malformed_answer_is_an_outcome_and_changes_nothing(written: Written, answer: str) -> None:
    refusing = 'if answer == "bad":\n            raise MalformedAnswer("no digit")\n        if agent == "scout":'
    text = GUESS.replace("import Environment, Step", "import Environment, MalformedAnswer, Step")
    guess = own(written(text, more=f'if agent == "scout": => {refusing}'))
    env = guess.build(problem(guess))
    before = env.position
    outcome = env.apply("scout", answer)
    assert outcome.error
    assert dict(outcome.local) == {"malformed": 1.0}
    assert (env.position.state, env.done, env.success) == (before.state, False, False)
    assert env.local_reward("scout") == -0.1


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ('answer == str(state["secret"]) => answer == state["secrets"]', r"step\(\): .*\.py:19: KeyError: 'secrets'"),
        ('rng.randrange(1000) => int("x")', r"draw\(\): .*\.py:10: ValueError: invalid literal for int\(\)"),
        ('"notes": [] => "notes": {1}', r"draw\(\) returned a value that is no JSON \(Object of type set"),
        ("return Step(state=state, => return dict(state=state,", r"step\(\) returned dict; return a Step"),
        ("solved=answer => local={'style': 1.0}, solved=answer", r"component local.style, which has no weight"),
        ("solved=answer => team_from_start={'near': 1.0}, solved=answer", r"component team.near, which has no weight"),
        (
            "return f\"secret {state['secret']}\" if => return state['secret'] if",
            r"\.py:12: observe\(\) returned int, not text",
        ),
        *(
            (
                f'return {{"secret": rng.randrange(1000), "notes": []}} => return {value}',
                rf"\.py:9: draw\(\) returned {told}",
            )
            for value, told in (
                ("'hello'", r"'hello'; return a dict, or None"),
                ("{1: 2}", r"\{1: 2\}, which comes back from JSON as"),
                ("{'at': (1, 2)}", r"\{'at': \(1, 2\)\}, which comes back from JSON as"),
                ("{'x': float('nan')}", r"a value that is no JSON"),
            )
        ),
        *(
            (f'return Step(state=state, solved=answer == str(state["secret"])) => {value}', rf"\.py:15: step\(\){told}")
            for value, told in (
                ("return None", " returned NoneType; return a Step"),
                ("return Step(state=state, solved='yes')", r": solved is 'yes'; use True or False"),
                ("return Step(state=state, done='no')", r": done is 'no'; use True or False"),
                ("return Step(state=state, success=[])", r": success is \[\]; use True or False"),
                ("return Step(state=state, team=0.5)", r": team is 0\.5; give a dict of numbers"),
                (
                    "return Step(state=state, team={'x': 10**5000})",
                    r": team\['x'\] is int with an integer of thousands of",
                ),
                ("return Step(state=state, team={'solved': float('nan')})", r": team\['solved'\] is nan, not a finite"),
                ("return Step(state=state, local={1: 1})", r": local has the name 1; use text"),
                ("return Step(state=state, team_from_start=[])", r": team_from_start is \[\]; give a dict"),
                (
                    "return Step(state=state, payoffs={'scout': 10**400})",
                    r": payoffs\['scout'\] is 1000.*, not a finite",
                ),
                ("return Step(state=state, value_gain=1.0)", r": value_gain is 1\.0; give a function"),
            )
        ),
        (
            "def draw => def start(self, problem):\n        return (each for each in 'ab')\n\n    def draw",
            r"a state cannot be copied \(TypeError: ",
        ),
    ],
)
def test_a_mistake_in_own_code_is_one_line_with_its_place(written: Written, mistake: str, told: str) -> None:
    name = written(mistake=mistake)
    guess = own(name)
    with pytest.raises(ConfigurationError, match=told) as caught:
        play_a_turn(guess)
    assert "\n" not in str(caught.value)


def test_problems_and_numbers_are_as_records_give_them_back(written: Written) -> None:
    drawn = 'return {"z": 1, "notes": [], "secret": __import__("numpy").str_("7")}'
    guess = own(
        written(
            problem=f'return {{"secret": rng.randrange(1000), "notes": []}} => {drawn}',
            step="return Step(state=state, solved=answer => return Step(state=state, local={'malformed': True}, solved=answer",
        )
    )
    found = problem(guess)
    assert [*found.payload] == ["notes", "secret", "z"]
    assert type(found.payload["secret"]) is str
    outcome = guess.build(found).apply("caller", "7")
    assert (outcome.local, type(outcome.local["malformed"])) == ({"malformed": 1.0}, float)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"outputs": ("answer.txt")}, r"outputs is 'answer\.txt'; give texts, as \(\"answer\.txt\",\) with its comma"),
        ({"volatile": "a.b"}, r"volatile is 'a\.b'; give texts"),
        ({"volatile": ("took (",)}, r"volatile has 'took \(', which is no regular expression"),
        ({"variables": {"N": 3}}, r"variables is .*; give a dict of texts"),
        ({"files": {"c.json": {}}}, r"files is .*; give a dict of texts"),
        ({"seconds": "60"}, r"seconds is '60'; give a positive number"),
    ],
)
def test_what_a_program_is_given_is_checked(given: dict[str, Any], told: str) -> None:
    assert re.search(told, find_program_fault(AgentProgram(command=("agent",), **given), ("main",)) or "")


TOGETHER = """
    turn_order = (("scout", "caller"),)

    def step_together(self, state, answers):
        return JointStep(state=state)

    def step(self"""


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("Step(state=state)", " returned Step; return a JointStep"),
        ("JointStep(state=state, solved='yes')", ": solved is 'yes'; use True or False"),
        ("JointStep(state=state, local={'scout': 1.0})", r": local\['scout'\] is 1\.0; give a dict of numbers"),
        ("JointStep(state=state, local={'scout': {'malformed': 'x'}})", r": local\['scout'\]\['malformed'\] is 'x'"),
        ("JointStep(state=state, local={'nobody': {}})", r": local names \['nobody'\]"),
        ("JointStep(state=state, team={'solved': True, 'x': float('inf')})", r": team\['x'\] is inf, not a finite"),
        ("JointStep(state=state, payoffs={'nobody': 1.0})", r": payoffs name 'nobody', which is no role"),
    ],
)
def test_a_mistake_in_a_joint_step_is_one_line_with_its_place(written: Written, value: str, told: str) -> None:
    together = GUESS.replace("import Environment, Step", "import Environment, JointStep, Step")
    together = together.replace("\n    def step(self", TOGETHER.replace("JointStep(state=state)", value))
    guess = own(written(together))
    with pytest.raises(ConfigurationError, match=rf"\.py:17: step_together\(\){told}"):
        guess.referee().act_together(guess.build(problem(guess)).position, {"scout": "1", "caller": "2"})


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ('roles = ("scout", "caller") => roles = "scout"', r'as roles = \("first", "second"\)'),
        *(
            (f'roles = ("scout" => roles = ({role!r}', r"cannot be part of a metric's name; use at most 100 letters")
            for role in ("scout (left)", "50%", "no #1", "a/b", "..", "", "a\\nb", "x" * 101, "a,b", "<b>")
        ),
        ("class Guess(Environment) => class Guess", r"is no subclass of troupe\.Environment"),
        ("class Guess => class Guest", r"own_environment_\d+\.py has no 'Guess'"),
        ("def observe => def observed", r"abstract method"),
        ("import Environment, Step => import Environment, Stop", r"own_environment_\d+\.py:3: ImportError"),
        ("def step => dif step", r"own_environment_\d+\.py:15: SyntaxError"),
    ],
)
def test_what_is_no_environment_is_told_when_it_is_named(written: Written, mistake: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as caught:
        family(written(mistake=mistake))
    assert "\n" not in str(caught.value)


def test_a_name_that_names_nothing_is_told(written: Written) -> None:
    for name, told in (
        ("nowhere_at_all:Guess", "there is no module 'nowhere_at_all'"),
        ("a b:Guess", "write it as module:Name"),
        ("gess", "unknown environment"),
    ):
        with pytest.raises(ConfigurationError, match=told):
            family(name)


def test_an_installed_package_names_its_environments_itself(written: Written, tmp_path: Path) -> None:
    place = written()
    info = tmp_path / "guessing-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guessing\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[troupe.environments]\nguessing = {place}\nsokoban = {place}\n")
    sys.path.append(str(tmp_path))
    assert own("guessing").name == "guessing"
    assert problem(own("guessing")).environment == "guessing"
    assert source_of("guessing", {}) == source_of(place, {})
    assert list_installed_environments() == {"guessing": place}, "a built-in name stays what it is"
    with pytest.raises(ConfigurationError, match="did you mean 'guessing'"):
        family("gessing")


def test_noise_keeps_to_the_expert_s_grammar(written: Written) -> None:
    guess = own(written())
    env = guess.build(problem(guess))
    right, rng = guess.expert_action(env.position, "scout"), Random(0)
    assert guess.noisy_expert_action(env.position, "scout", noise=0.0, rng=rng) == right
    noisy = [guess.noisy_expert_action(env.position, "scout", noise=1.0, rng=rng) for _ in range(200)]
    assert all(len(answer) == len(right) and answer.isdigit() for answer in noisy)
    assert all(sum(a != b for a, b in zip(answer, right, strict=True)) <= 1 for answer in noisy)
    assert len(set(noisy)) > 10
    assert guess.random_action(env.position, "scout", rng).isdigit()
    assert set("".join(noisy)) <= set(PRINTABLE)


def test_without_an_expert_there_is_play_but_no_cloning(written: Written) -> None:
    guess = own(written(more="def expert => def teacher"))
    env = guess.build(problem(guess))
    assert set(guess.random_action(env.position, "scout", Random(0))) <= set(PRINTABLE)
    assert not guess.has_expert
    with pytest.raises(ConfigurationError, match=r"has no expert\(state, agent\).*policies\.<name>\.base"):
        require_expert(guess)


def test_options_are_checked_like_those_of_any_environment(written: Written) -> None:
    text = GUESS.replace("import Environment, Step", "import Environment, Options, Step")
    chosen = 'roles = ("scout", "caller")\n\n    class Options(Options):\n        most: int = 10'
    name = written(
        text, more=f'roles = ("scout", "caller") => {chosen}', used="randrange(1000) => randrange(options.most)"
    )
    found = own(name)
    assert all(problem(found, index, most=3).payload["secret"] < 3 for index in range(20))
    with pytest.raises(ConfigurationError, match=r"environment\.options\.mast: unknown key .* did you mean 'most'"):
        family_options(name, {"mast": 3})


def test_the_source_of_own_code_is_known_and_that_of_built_in_ones_is_not_asked_for(written: Written) -> None:
    one, other = written(), written(used="randrange(1000) => randrange(999)")
    assert source_of("plan_path", {}) is None
    assert source_of(one, {}) != source_of(other, {})
