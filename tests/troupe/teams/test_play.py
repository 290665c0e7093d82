"""Playing in the terminal: what the agents score and how a person is served."""

import io
import json
import re
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

from components.config import RewardConfig
from components.environments.base import NO_TOOLS
from components.environments.registry import family, family_options
from components.environments.turn_orders import turn_order_of
from components.errors import ConfigurationError
from components.evaluation.answered_play import play_answers
from components.identity import GroupKey
from components.rewards.rubric import rubric_for
from components.schema import EvalReport
from tests.components.environments.bare import bare
from tests.components.environments.social.games import GAMES as SOCIAL_GAMES
from tests.components.environments.social.games import SOCIAL, Line, make_problem
from troupe.cli import app
from troupe.cli.play import next_command
from troupe.teams.play import play
from troupe.teams.players import person
from troupe.teams.reports import PlayReport

GAMES = ("plan_path", "sokoban", "sudoku")


def run_play(environment: str, *, typed: str = "", **wanted: object) -> tuple[PlayReport, str]:
    arguments = {
        "agent": "expert",
        "episodes": 1,
        "seed": 0,
        "options": {},
        "split": "test",
        "max_turns": None,
        "sampling": None,
        "store": "file:///nowhere/at/all",
        **wanted,
    }
    stdout = io.StringIO()
    report = play(environment, stdin=io.StringIO(typed), stdout=stdout, **arguments)  # type: ignore[arg-type]
    return report, stdout.getvalue()


def expert_list(environment: str, index: int = 0) -> str:
    chosen = family(environment)
    env = chosen.build(chosen.problem(family_options(environment, {}), split="test", index=index, seed=0))
    return chosen.expert_action(env.position, "plan_agent")


@pytest.mark.parametrize("environment", GAMES)
def test_the_expert_solves_all_and_random_and_idle_agents_nothing(environment: str) -> None:
    expert, _ = run_play(environment, agent="expert", episodes=60)
    assert expert.success_rate == 1.0
    assert expert.mean_reward == pytest.approx(1.3)
    assert expert.interval[0] > 0.9
    for agent in ("random", "noop"):
        report, _ = run_play(environment, agent=agent, episodes=60)
        assert report.success_rate == 0.0
        assert report.n == 60
        assert report.interval[0] == 0.0
        assert report.mean_reward <= 0.2


def test_the_report_has_the_keys_that_other_programs_read() -> None:
    report, _ = run_play("sudoku", episodes=3)
    assert json.loads(report.model_dump_json()) == {
        "env": "sudoku",
        "agent": "expert",
        "success_rate": 1.0,
        "n": 3,
        "interval": [pytest.approx(0.43850, abs=1e-5), 1.0],
        "mean_reward": pytest.approx(1.3),
    }


def test_equal_seeds_play_equally_and_the_options_matter() -> None:
    assert run_play("sokoban", agent="random", episodes=20) == run_play("sokoban", agent="random", episodes=20)
    _, small = run_play("plan_path")
    _, large = run_play("plan_path", options={"size": 8})
    assert [line for line in small.splitlines() if len(line) == 9]
    assert [line for line in large.splitlines() if len(line) == 15]


def test_as_many_episodes_are_drawn_as_are_to_be_shown() -> None:
    _, one = run_play("plan_path")
    assert "turn 1, plan_agent: " in one
    assert "after turn 1, solved" in one
    _, many = run_play("plan_path", episodes=5, num_shown=0)
    assert many.splitlines()[1:] == ["", "to see the turns of the first 3: --show 3"]
    assert "100.0% of 5 solved" in many
    _, some = run_play("plan_path", episodes=5, num_shown=2)
    assert re.findall("episode . of 5|turn ., plan_agent|after turn 1, solved", some) == [
        *("episode 1 of 5", "turn 1, plan_agent", "after turn 1, solved"),
        *("episode 2 of 5", "turn 1, plan_agent", "after turn 1, solved"),
    ]
    assert "100.0% of 5 solved" in some


def test_a_few_episodes_are_shown_unless_the_user_says_otherwise() -> None:
    def count_shown(*arguments: str) -> int:
        command = ["play", "plan_path", "--agent", "expert", *arguments]
        return CliRunner().invoke(app, command, catch_exceptions=False).stdout.count("after turn 1")

    counts = [
        count_shown("--episodes", "3"),
        count_shown("--episodes", "11"),
        count_shown("--episodes", "11", "--show", "2"),
    ]
    assert counts == [3, 0, 2]
    assert count_shown("--show", "0") == 0


def test_turns_are_limited_without_that_being_success() -> None:
    report, text = run_play("plan_path", agent="noop", max_turns=3)
    assert report.success_rate == 0.0
    assert "after turn 3" in text
    assert "after turn 4" not in text


def test_a_person_proposes_sees_the_outcome_and_keeps_it_with_enter() -> None:
    report, text = run_play("plan_path", agent="human", typed=expert_list("plan_path").lower() + "\n\n")
    assert report == PlayReport(
        env="plan_path", agent="human", success_rate=1.0, n=1, interval=report.interval, mean_reward=1.3
    )
    assert "would lead to the solution:" in text
    assert "Solved." in text
    assert "U up" in text


def test_a_person_may_decide_otherwise() -> None:
    report, _ = run_play("plan_path", agent="human", typed=f"\n{expert_list('plan_path')}\n")
    assert report.success_rate == 1.0
    report, _ = run_play("plan_path", agent="human", max_turns=1, typed=f"{expert_list('plan_path')}\n[]\n")
    assert report.success_rate == 0.0
    assert report.n == 1


def test_what_a_person_mistypes_is_explained_and_costs_no_turn() -> None:
    typed = f"north\n{'U' * 11}\n{expert_list('plan_path')}\nx\n\n"
    report, text = run_play("plan_path", agent="human", max_turns=1, typed=typed)
    assert report.success_rate == 1.0
    assert "Not understood: 'NORTH' is not a list of moves from UDLR." in text
    assert "Not understood: 11 moves; at most 10 are allowed." in text
    assert text.count("Not understood") == 3


def test_a_person_cannot_overwrite_a_clue() -> None:
    chosen = family("sudoku")
    problem = chosen.problem(family_options("sudoku", {}), split="test", index=0, seed=0)
    place = re.search(r"\d", "".join(problem.payload["rows"]))
    assert place is not None
    row, column = divmod(place.start(), 4)
    _, text = run_play("sudoku", agent="human", typed=f"{row + 1}{column + 1}1\nq\n")
    assert "is a clue and cannot be overwritten" in text


@pytest.mark.parametrize("leaving", ["q\n", "Q\n", ""])
def test_leaving_drops_the_open_episode_and_keeps_the_finished_ones(leaving: str) -> None:
    typed = f"{expert_list('plan_path')}\n\n[]\n{leaving}"
    report, _ = run_play("plan_path", agent="human", episodes=3, typed=typed)
    assert (report.n, report.success_rate) == (1, 1.0)
    report, _ = run_play("plan_path", agent="human", episodes=3, typed=leaving)
    assert (report.n, report.success_rate, report.interval) == (0, 0.0, (0.0, 1.0))


def test_instructions_break_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    _, text = run_play("shop", agent="human", typed="q\n")
    words = {word for line in text.splitlines() for word in line.split()}
    monkeypatch.setenv("COLUMNS", "1000")
    _, wide = run_play("shop", agent="human", typed="q\n")
    assert words == {word for line in wide.splitlines() for word in line.split()}
    explained = text[text.index("You play") :].splitlines()[2:]
    assert (
        max(map(len, explained[: explained.index(next(line for line in explained if line.startswith("planner>")))]))
        <= 60
    )


def test_buttons_are_typed_one_a_line_and_their_rewards_are_summed() -> None:
    report, text = run_play("game_boy", agent="human", max_turns=3, typed="down\nzz\nDown\nup\n")
    assert report.mean_reward == pytest.approx(0.17), "two new tiles, three steps: not the last step's -.01"
    assert text.count("Answer with one of the buttons") == 1
    assert text.count("player> ") == 4
    assert "Not understood: 'zz' is none of A, B" in text


def test_a_person_plays_an_environment_without_an_expert_in_prose() -> None:
    silent, said = bare(family("plan_path")), io.StringIO()
    problem = silent.problem(family_options("plan_path", {}), split="test", index=0, seed=0)
    env, node = silent.build(problem), GroupKey(problem_id="p", episode=0, turn=0, agent="plan_agent")
    player = person(silent, silent.roles, io.StringIO("nonsense\n.\nU\n.\n"), said)
    assert player.answers(0)(env, node) == "U"
    assert "Not understood" in said.getvalue()
    latin = io.TextIOWrapper(io.BytesIO(b"R\xe9\n"), encoding="utf-8")
    with pytest.raises(ConfigurationError, match="standard input: not UTF-8 text"):
        person(silent, silent.roles, latin, said).answers(0)(env, node)


@pytest.mark.parametrize("game", sorted(SOCIAL))
def test_a_person_answers_for_every_player_of_a_game(game: str) -> None:
    options = next(options for name, options in SOCIAL_GAMES if name == game)
    line, rng = Line(*make_problem(game, options)), Random(1)
    typed: list[str] = []
    for phase, _ in line:
        answers = line.drawn(phase, rng)
        typed += [answer.swapcase() for answer in answers]
        line.advance(phase, answers)
    assert line.position.is_done
    wanted: dict[str, Any] = {"agent": "human", "options": options, "split": "train", "seed": 7}
    report, text = run_play(game, **wanted, typed="\n".join(["nonsense", *typed]) + "\n")
    assert (report.n, report.success_rate) == (1, float(line.position.is_solved))
    assert text.count("> ") == 1 + len(typed)
    assert text.count("Not understood: 'nonsense' is none of ") == 1
    assert line.referee.picture(line.position, color=False) in text
    assert "player_0 earns " in text.splitlines()[-2]
    assert "an episode pays player_0 " in text.splitlines()[-1]

    report, text = run_play(game, **wanted, typed="\n".join(typed[:-1]))
    assert report.n == 0
    assert text.count("> ") == len(typed), "nobody is asked after the end of the input"
    assert text.endswith("no episode was played to its end\n")


def test_whoever_leaves_ends_the_episode_for_all_and_no_rate_of_nothing_is_shown() -> None:
    _, text = run_play("plan_path", agent="human", episodes=2, typed="")
    assert text.splitlines()[-1] == "plan_path, human: no episode was played to its end"
    asked: list[str] = []

    def leave(played: object, node: GroupKey) -> None:
        asked.append(node.agent)

    chosen = family("coop_compete")
    order = turn_order_of(chosen, None)
    problem = chosen.problem(family_options("coop_compete", {}), split="test", index=0, seed=0)
    [ended] = play_answers(
        [problem], [leave], family=chosen, tools=NO_TOOLS, rubric=rubric_for(chosen, RewardConfig()), turn_order=order,
        max_turns=None,
    )  # fmt: skip
    assert ended is None
    assert len(asked) == 1, "the other players of the phase are not asked"


@pytest.mark.parametrize(
    ("agent", "subject", "suite", "command"),
    [
        ("expert", "expert", "tiny", "troupe play tiny"),
        ("random", "random", "tiny", "troupe play tiny --agent expert"),
        ("random", "random", "coop_compete", "troupe play coop_compete"),
        ("out/team", "out/team", "tiny", "troupe compare expert out/team --suite tiny"),
        ("openai:m", "openai:m", "coop_compete/train", "troupe compare random openai:m --suite coop_compete/train"),
        ("a=b@0,c=b", "a=b@0,c=b", "tiny", "troupe compare expert a=b@0,c=b --suite tiny"),
        ("my-run@3", "my-run", None, "troupe play plan_path --agent my-run@3 --sampling sample --store file:///x"),
    ],
)
def test_the_next_command_is_one_that_works(agent: str, subject: str, suite: str | None, command: str) -> None:
    report = EvalReport(
        agent=agent, suite=suite or "plan_path/test", suite_digest="d", step=0, sampling="sample", seed=0, num_samples=1,
        n=1, num_successes=0, success_rate=0.0, interval=(0.0, 1.0), mean_reward=0.0, keep_rate=None, repair_rate=None,
        num_solved_P=(0,), payoffs_P={"player_0": (1.0, 2.0)},
    )  # fmt: skip
    store = "file:///x" if suite is None else None
    assert next_command(report, subject, suite, store) == command
    assert str(report).splitlines()[1] == "  player_0 earns 1.500 an episode"
    assert f"{agent} on " in report._repr_html_()
