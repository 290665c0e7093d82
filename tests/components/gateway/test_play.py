"""Episodes that programs play: what they ask is the rows, and their end is judged."""

import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest

from components.artifacts.local import LocalArtifactStore
from components.environments.base import Step
from components.environments.family import Family
from components.environments.program import AgentProgram, ProgramEnvironment
from components.environments.registry import family, family_options
from components.errors import ConfigurationError, EngineUnavailable
from components.frozen import Frozen
from components.gateway.calls import CallJournal, StoredCalls, UnkeptCalls
from components.gateway.door import ProgramDoor
from components.gateway.encoder import CompactEncoder
from components.gateway.gateway import Gateway, ServedPolicy
from components.gateway.play import ProgramPlay
from components.gateway.programs import ProgramRunner
from components.gateway.server import Seat
from components.generation.base import Completion
from components.machine.process_ids import process_of
from components.models.character_tokenizer import character_tokenizer
from components.models.tokenizer import HuggingFaceTokenizer
from components.rewards.base import Rubric
from components.rewards.score import score_shard
from components.rollout.rules import SamplingRules, Start
from components.schema import Episode, ProgramEnd, RolloutShard
from tests.components.gateway.test_gateway import TOKENIZER, VERSION, Scripted, open_gateway, open_session, serve

PROGRAMS = "tests.components.gateway.agent_programs"


class Office(ProgramEnvironment):
    """Solved if what a program leaves holds 77."""

    roles = ("clerk", "boss")
    weights: ClassVar[Mapping[str, float]] = {"team.length": 0.01}
    max_answer_characters = None

    def draw(self, options: Frozen, rng: Random) -> Mapping[str, Any]:
        return {"name": f"n{rng.randrange(10**6)}", "num_rounds": 3, "function": "hand_on", "seconds": 60.0}

    def program(self, problem: Mapping[str, Any]) -> AgentProgram:
        function = f"{problem.get('module', PROGRAMS)}:{problem['function']}"
        volatile = tuple(problem.get("volatile", ()))
        return AgentProgram(function=function, outputs=("said.txt",), volatile=volatile, seconds=problem["seconds"])

    def finish(self, state: Any, end: ProgramEnd) -> Step:
        said = end.files.get("said.txt", "")
        return Step(state=state, solved="77" in said, team={"length": float(len(said))})


OFFICE = Family("office", Office())
RUBRIC = Rubric(weights=OFFICE.default_weights, team_weight=1.0)
RULES = SamplingRules(turn_order=(), max_turns=4, group_size=1, temperature=1.0, seed=3, purpose=("rollout", 0))


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProgramRunner]:
    with ProgramRunner(tmp_path_factory.mktemp("programs"), ProgramDoor(num_at_once=1)) as made:
        yield made


def decode_answer(role: str, tokens: Any) -> str:
    return TOKENIZER.decode(tokens)


def make_starts(num_starts: int, **changes: Any) -> list[Start]:
    options = Office.Options()
    problems = [OFFICE.problem(options, split="train", index=index, seed=0) for index in range(num_starts)]
    return [Start(problem=replace(each, payload={**each.payload, **changes}), episode=0) for each in problems]


def make_play(
    runner: ProgramRunner, engine: Scripted, journal: Callable[[str], CallJournal] = lambda name: UnkeptCalls()
) -> ProgramPlay:
    models = {"clerk": serve(), "boss": serve("second")}

    def open_play(rules: SamplingRules) -> Gateway:
        return open_gateway(engine, models=models, seed=rules.seed)

    return ProgramPlay(open_gateway=open_play, journal=journal, runner=runner, decode_answer=decode_answer)


def play(
    runner: ProgramRunner,
    starts: list[Start],
    engine: Scripted | None = None,
    rules: SamplingRules = RULES,
    **also: Any,
) -> tuple[Episode, ...]:
    tools = OFFICE.referee().tools
    return make_play(runner, engine or Scripted(), **also).play(
        starts, rules, family=OFFICE, rubric=RUBRIC, tools=tools
    )


def test_what_a_program_asks_is_its_rows_and_its_end_the_verdict(runner: ProgramRunner) -> None:
    engine = Scripted()
    episodes = play(runner, make_starts(6), engine)
    assert len(engine.asked) == 6 * 6
    for episode in episodes:
        assert [str(node.group).partition("/")[2] for node in episode.nodes] == [
            f"e0/t{turn}/{role}" for turn in range(3) for role in ("clerk", "boss")
        ]
        assert {node.group.agent: node.policy for node in episode.nodes} == {"clerk": "team", "boss": "second"}
        assert episode.ended is not None
        said = "\n".join(node.candidates[0].text for node in episode.nodes)
        assert episode.ended.files == {"said.txt": said}
        assert episode.success == ("77" in said)
        last = episode.nodes[-1].candidates[0]
        assert last.outcome.done
        assert last.reward == pytest.approx(float(episode.success) + 0.01 * len(said))
        assert [node.candidates[0].reward for node in episode.nodes[:-1]] == [0.0] * 5
    assert {episode.success for episode in episodes} == {True, False}


@pytest.mark.parametrize("function", ["hand_on", "ask_for_ever"])
def test_the_reward_stage_judges_the_recorded_end_again_whoever_was_asked_when(
    runner: ProgramRunner, function: str
) -> None:
    episodes = play(runner, make_starts(4, function=function))
    shard = RolloutShard(step=0, shard=0, policy_versions={}, episodes=episodes)
    scored = score_shard(shard, family=OFFICE, rubric=RUBRIC, turn_order=OFFICE.turn_order)
    assert all(len({node.group for node in each.nodes}) == len(each.nodes) for each in episodes)
    assert all(
        [node.group.turn for node in each.nodes] == [n // 2 for n in range(len(each.nodes))] for each in episodes
    )
    assert [[rewards_K[0] for rewards_K in rewards_N_K] for rewards_N_K in scored.rewards_E_N_K] == [
        [node.candidates[0].reward for node in episode.nodes] for episode in episodes
    ]


def test_what_was_asked_before_a_kill_is_not_sampled_again(runner: ProgramRunner, tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    engine = Scripted()

    def journal(name: str) -> CallJournal:
        return StoredCalls(store, f"runs/r/{name}")

    once = play(runner, make_starts(3))
    engine.fails_after = 8  # the engine dies in the middle of the block
    with pytest.raises(EngineUnavailable):
        play(runner, make_starts(3), engine, journal=journal)
    num_sampled = len(engine.asked)
    engine.fails_after = None
    assert play(runner, make_starts(3), engine, journal=journal) == once
    assert (num_sampled, len(engine.asked)) == (8, 18)


@pytest.mark.parametrize(("num_deaths", "ends_well"), [(4, True), (5, False)])
def test_a_program_that_is_killed_begins_again_with_its_answers(
    runner: ProgramRunner, tmp_path: Path, num_deaths: int, ends_well: bool
) -> None:
    engine, store = Scripted(), LocalArtifactStore(tmp_path / "store")
    (tmp_path / "marks").mkdir()
    changes = {"function": "die_at_times", "marks": str(tmp_path / "marks"), "num_deaths": num_deaths, "differs": False}
    (episode,) = play(runner, make_starts(1, **changes), engine, journal=lambda name: StoredCalls(store, name))
    assert episode.ended is not None
    assert (episode.ended.exit_code, len(engine.asked)) == ((0, 7) if ends_well else (-9, 1))
    if ends_well:
        (undisturbed,) = play(runner, make_starts(1, **changes))
        assert [node.candidates for node in episode.nodes] == [node.candidates for node in undisturbed.nodes]


def test_a_program_that_gets_further_in_each_life_is_begun_again_as_often(
    runner: ProgramRunner, tmp_path: Path
) -> None:
    engine, store = Scripted(), LocalArtifactStore(tmp_path / "store")
    (tmp_path / "marks").mkdir()
    changes = {"function": "get_further", "marks": str(tmp_path / "marks")}
    (episode,) = play(runner, make_starts(1, **changes), engine, journal=lambda name: StoredCalls(store, name))
    assert episode.ended is not None
    assert (episode.ended.exit_code, len(engine.asked)) == (0, 6)


@pytest.mark.parametrize(
    ("differs", "volatile", "num_diverged"), [(False, (), 0), (True, (), 2), (True, (r"and \d deaths",), 0)]
)
def test_answers_of_an_earlier_life_that_are_not_asked_again_are_counted(
    runner: ProgramRunner,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    differs: bool,
    volatile: tuple[str, ...],
    num_diverged: int,
) -> None:
    (tmp_path / "marks").mkdir()
    store, gateway = (
        LocalArtifactStore(tmp_path / "store"),
        open_gateway(Scripted(), models={"clerk": serve(), "boss": serve()}),
    )
    playing = replace(
        make_play(runner, Scripted(), lambda name: StoredCalls(store, name)), open_gateway=lambda rules: gateway
    )
    changes = {
        "function": "die_at_times",
        "marks": str(tmp_path / "marks"),
        "num_deaths": 2,
        "differs": differs,
        "volatile": volatile,
    }
    playing.play(make_starts(1, **changes), RULES, family=OFFICE, rubric=RUBRIC, tools=OFFICE.referee().tools)
    assert gateway.counts.num_diverged == num_diverged
    assert ("2 recorded calls of programs were not asked again" in caplog.text) is (num_diverged > 0)


def test_a_call_beside_the_work_is_no_row(runner: ProgramRunner) -> None:
    (episode,) = play(runner, make_starts(1, function="ask_beside_its_work"))
    assert [node.is_trained_on for node in episode.nodes] == [False, True, True]
    assert [node.candidates[0].outcome.done for node in episode.nodes] == [False, False, True]
    shard = RolloutShard(step=0, shard=0, policy_versions={}, episodes=(episode,))
    (rewards_N_K,) = score_shard(shard, family=OFFICE, rubric=RUBRIC).rewards_E_N_K
    assert rewards_N_K[0] == (None,)


@pytest.mark.parametrize(
    ("function", "seconds", "num_calls", "code", "says"),
    [
        ("crash", 60.0, 1, 1, "the program's own fault"),
        ("hang", 1.5, 1, None, "ended after 1.5 s"),
        ("ask_for_ever", 60.0, 8, 1, "403"),  # max_turns 4, two roles
        ("ask_nothing", 60.0, 0, 0, "idle"),
    ],
)
def test_how_a_program_fails_is_data(
    runner: ProgramRunner, function: str, seconds: float, num_calls: int, code: int | None, says: str
) -> None:
    (episode,) = play(runner, make_starts(1, function=function, seconds=seconds))
    assert episode.ended is not None
    assert (len(episode.nodes), episode.ended.exit_code, episode.success) == (num_calls, code, False)
    assert says in episode.ended.output
    assert (episode.error is None) == (num_calls > 0)
    assert play(runner, make_starts(1))[0].error is None, "the next one has a process"


def test_a_play_ends_when_its_engine_is_at_rest(runner: ProgramRunner) -> None:
    """Its weights may be exchanged then. A program that is gone leaves an answer that is being sampled."""
    engine, resting = Scripted(), threading.Event()

    def sample(policy: str, request: Any) -> Any:
        resting.clear()
        time.sleep(1.5)
        resting.set()
        return engine.sample(policy, request)

    models = {"clerk": serve(), "boss": serve()}
    playing = replace(
        make_play(runner, engine), open_gateway=lambda rules: Gateway(models=models, sample=sample, seed=rules.seed)
    )
    starts = make_starts(1, function="give_up")
    (episode,) = playing.play(starts, RULES, family=OFFICE, rubric=RUBRIC, tools=OFFICE.referee().tools)
    assert episode.ended is not None
    assert (episode.ended.output, resting.is_set()) == ("gone", True)


def run_command(runner: ProgramRunner, script: str, **also: Any) -> ProgramEnd:
    program = AgentProgram(**{"command": ("/bin/sh", "-c", script), "seconds": 10.0, **also})
    return runner.run(program, {"n": 5}, Seat(open_session(name="one")))


def test_a_function_that_cannot_be_imported_is_named(runner: ProgramRunner) -> None:
    with pytest.raises(ConfigurationError, match=r"program\(\).function .*there is no module 'absent'"):
        runner.run(AgentProgram(function="absent:main"), {}, Seat(open_session(name="one")))


def test_a_command_runs_in_a_folder_of_its_own(runner: ProgramRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the user's own")
    monkeypatch.setenv("OPENAI_API_KEY", "the user's own")
    script = "cat problem.json in/a.txt; echo; env; pwd; echo left > out.txt; ln -s /etc/passwd link.txt; exit 3"
    end = run_command(runner, script, files={"in/a.txt": "given"}, outputs=("out.txt", "link.txt", "absent.txt"))
    assert (end.exit_code, end.files) == (3, {"out.txt": "left\n"})
    assert end.output.startswith('{"n": 5}given\n')
    assert "the user's own" not in end.output
    for line in (r"OPENAI_BASE_URL=http://127.0.0.1:(\d+)/v1", r"ANTHROPIC_BASE_URL=http://127.0.0.1:(\d+)"):
        assert re.search(f"^{line}$", end.output, re.MULTILINE)
    again = run_command(runner, script, files={"in/a.txt": "given"}, outputs=())
    without_keys = [re.sub(r"(?m)^(\w+_API_KEY)=.*$", r"\1", each.output) for each in (end, again)]
    assert without_keys[0] == without_keys[1], "paths, too"


def test_a_command_that_hangs_is_ended_with_its_children(runner: ProgramRunner) -> None:
    end = run_command(runner, "echo begun; sleep 600 & sleep 600", seconds=0.5)
    assert (end.exit_code, end.output) == (None, "begun\n")


def test_what_a_killed_life_left_in_a_folder_is_ended(runner: ProgramRunner) -> None:
    folder = run_command(runner, "until grep -qs -- -$$- ../*.process; do sleep 0.01; done; pwd").output.strip()
    place = Path(folder).with_suffix(".process")
    assert not place.exists(), "that life ended by itself"
    with subprocess.Popen(["sleep", "20"], start_new_session=True) as left:
        place.write_text(str(process_of(left.pid)._replace(started=1)))  # another with its number, long gone
        run_command(runner, "true")
        assert left.poll() is None
        place.write_text(str(process_of(left.pid)))
        run_command(runner, "true")
        assert left.wait(10) == -signal.SIGKILL


def test_a_flood_of_output_is_cut(runner: ProgramRunner) -> None:
    end = run_command(runner, "head -c 3000000 /dev/zero | tr '\\0' x; echo end")
    assert (len(end.output), end.output[-4:]) == (64 << 10, "end\n")


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (AgentProgram(command=("/no/such/program",)), "cannot be started"),
        (AgentProgram(command=("true",), files={"../x": ""}), "outside of the program's folder"),
    ],
)
def test_a_program_that_cannot_be_started_is_named(runner: ProgramRunner, program: AgentProgram, says: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        runner.run(program, {}, Seat(open_session(name="one")))


@pytest.mark.parametrize(
    "program",
    [
        AgentProgram(),
        AgentProgram(command=("a",), function="b:c"),
        AgentProgram(function="no colon"),
        AgentProgram(command="python agent.py"),  # type: ignore[arg-type]
        AgentProgram(command=("a",), seconds=0.0),
        AgentProgram(command=("a",), models={"gpt": "clark"}),
        AgentProgram(command=("a",), sub_agents="clark"),
        "python agent.py",
    ],
)
def test_a_wrong_program_is_named_with_its_place(program: Any) -> None:
    class Wrong(Office):
        def program(self, problem: Mapping[str, Any]) -> Any:
            return program

    with pytest.raises(ConfigurationError, match=r"test_play\.py.*program\(\)"):
        Family("wrong", Wrong()).rules.program(make_starts(1)[0].problem)


def walk_with(runner: ProgramRunner, num_problems: int) -> tuple[tuple[Episode, ...], list[str]]:
    """The episodes of the walking program, and what it showed the policy."""
    walk = family("agent_plan_path")
    options = family_options("agent_plan_path", {"size": 4, "min_distance": 2, "max_moves": 4})
    tokenizer = HuggingFaceTokenizer(character_tokenizer(walk.alphabet(options)))
    prompts: list[str] = []

    def sample(policy: str, request: Any) -> tuple[Completion, ...]:
        prompts.append(tokenizer.decode(request.prompt_tokens))
        text = "".join(Random(request.seeds_K[0]).choices("UDLRA", weights=[5, 5, 5, 5, 1], k=3))
        tokens = (*tokenizer.encode(text), tokenizer.end_token)
        return (Completion(tokens=tokens, logprobs=(-1.0,) * 4, finish_reason="stop", version=VERSION),)

    served = ServedPolicy(
        policy="team",
        version=VERSION,
        encoder=CompactEncoder(tokenizer),
        show_tokens=tokenizer.decode,
        max_new_tokens=8,
    )
    programs = ProgramPlay(
        open_gateway=lambda rules: Gateway(models={"walker": served}, sample=sample, seed=rules.seed),
        journal=lambda name: UnkeptCalls(),
        runner=runner,
        decode_answer=lambda role, tokens: tokenizer.decode(tokens),
        num_at_once=1,
    )
    rubric = Rubric(weights=walk.default_weights, team_weight=1.0)
    starts = [
        Start(problem=walk.problem(options, split="train", index=i, seed=0), episode=0) for i in range(num_problems)
    ]
    return programs.play(starts, RULES, family=walk, rubric=rubric, tools=walk.referee().tools), prompts


def test_the_walking_program_plays_as_the_walker_plays_without_it(runner: ProgramRunner) -> None:
    episodes, prompts = walk_with(runner, 24)
    walk, seen = family("agent_plan_path"), iter(prompts)
    for episode in episodes:
        game = walk.build(episode.problem)
        for node in episode.nodes:
            assert next(seen) == game.observe("walker").state, "the program draws what the walker would see"
            assert game.apply("walker", node.candidates[0].text) == node.candidates[0].outcome
        assert (game.success, len(episode.nodes) == 3 or game.done) == (episode.success, True)
    assert any(episode.success for episode in episodes)
    assert any(node.candidates[0].outcome.error for episode in episodes for node in episode.nodes)
