"""Features of programs two at a time: waves and forks, populations, evaluations beside each other."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.environments.base import Step
from components.environments.family import Family
from components.environments.program import AgentProgram
from components.errors import EngineUnavailable
from components.gateway.asking import open_sampling
from components.gateway.door import ProgramDoor
from components.gateway.play import ProgramPlay
from components.gateway.programs import ProgramRunner
from components.gateway.server import Seat
from components.generation.base import Completion, GenerationRequest
from components.population.move_rewards import moves_of
from components.rewards.base import Rubric
from components.rewards.score import score_shard
from components.schema import Episode, ProgramEnd, RolloutShard
from tests.components.gateway.test_gateway import Kept, Scripted, open_gateway, open_session, serve
from tests.components.gateway.test_play import OFFICE, RUBRIC, RULES, Office, decode_answer, make_play, make_starts


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProgramRunner]:
    with ProgramRunner(tmp_path_factory.mktemp("programs"), ProgramDoor(num_at_once=16)) as made:
        yield made


class Rounding(Scripted):
    """Its answers depend on what is asked beside them, and on who asks when, as those of batches do."""

    num_waves = 0

    def ask(self, policy: str, requests: Sequence[GenerationRequest]) -> list[tuple[Completion, ...]]:
        time.sleep(0.005)
        self.num_waves += 1
        self.write = lambda seed: f"{seed % 10**4} {len(requests)} {self.num_waves}"
        return [self.sample(policy, each) for each in requests]


@pytest.mark.parametrize("function", ["hand_on", "ask_at_once"])
@pytest.mark.parametrize(
    ("changes", "num_nodes"),
    # The path has 4 calls. nested: of 2 calls that are played anew with 2 and 3 answers each 6 lead to `later` calls more.
    [({"branching": (2, 3)}, None), ({"group_size": 2, "team_credit": "episode_end"}, 4 + 2 * (3 + 2 + 1 + 0))],
)
def test_forks_in_waves_go_on_from_what_is_recorded(
    runner: ProgramRunner, changes: dict[str, Any], num_nodes: int | None, function: str
) -> None:
    """Killed again and again: no recorded answer is sampled anew or changes, and each line has the rows of its whole play."""
    rules, starts = replace(RULES, **changes), make_starts(3, function=function, num_rounds=2)
    journals: dict[str, Kept] = {}
    engine = Rounding()

    def play() -> tuple[Episode, ...]:
        models = {"clerk": serve(), "boss": serve("second")}
        return ProgramPlay(
            open_gateway=lambda rules: open_gateway(
                engine, models=models, seed=3, sample=open_sampling(engine.ask, "waves"), num_at_once=16
            ),
            journal=lambda name: journals.setdefault(name, Kept()),
            runner=runner,
            decode_answer=decode_answer,
            num_at_once=16,
        ).play(starts, rules, family=OFFICE, rubric=RUBRIC, tools=OFFICE.referee().tools)

    for fails_after in (5, 17, 30):
        engine.fails_after = fails_after
        with pytest.raises(EngineUnavailable):
            play()
    before = {(name, key): call for name, kept in journals.items() for key, call in kept.items()}
    assert before
    engine.fails_after = None
    episodes = play()
    recorded = {(name, key): call for name, kept in journals.items() for key, call in kept.items()}
    assert {place: recorded[place] for place in before} == before
    nodes = [node for episode in episodes for node in episode.nodes]
    assert sorted(each.candidates[0].tokens for each in nodes) == sorted(
        call.candidates[0].tokens for call in recorded.values()
    )
    assert [(each.error, each.cuts) for each in episodes] == [(None, None)] * 3
    for episode in episodes:
        if rules.branching:
            expanded = [node for node in episode.nodes if node.is_trained_on]
            (first,) = {node.group.turn for node in expanded}
            assert [len(node.candidates) for node in expanded] == [2, 3, 3]
            assert len(episode.nodes) == 4 + 3 + 6 * 2 * (1 - first)
        else:
            assert len(episode.nodes) == num_nodes
        assert episode.ends is not None
        for each in episode.ends:
            said, (n, k) = [], each.candidate
            while n >= 0:
                said.append(episode.nodes[n].candidates[k].text)
                n, k = episode.nodes[n].parent or (n - 1, episode.nodes[n - 1].chosen if n else 0)
            assert sorted(each.end.files["said.txt"].split("\n")) == sorted(said)


class Duel(Office):
    """What a program leaves pays the clerk and costs the boss."""

    def finish(self, state: Any, end: ProgramEnd) -> Step:
        return Step(state=state, done=True, payoffs={"clerk": float(len(end.output)), "boss": -float(len(end.output))})


def test_members_behind_a_program_earn_what_its_end_pays_and_nothing_for_a_title(runner: ProgramRunner) -> None:
    duel = Family("duel", Duel())
    rubric = Rubric(weights=duel.default_weights, team_weight=1.0)
    problems = [replace(each, problem=replace(each.problem, environment="duel")) for each in make_starts(2)]
    for function, author in (("ask_beside_its_work", "clerk"), ("hand_on", "boss")):
        starts = [
            replace(each, problem=replace(each.problem, payload={**each.problem.payload, "function": function}))
            for each in problems
        ]
        episodes = make_play(runner, Scripted()).play(
            starts, RULES, family=duel, rubric=rubric, tools=duel.referee().tools
        )
        shard = RolloutShard(step=0, shard=0, policy_versions={}, episodes=episodes)
        scored = score_shard(shard, family=duel, rubric=rubric)
        for episode, rewards_N_K in zip(episodes, scored.rewards_E_N_K, strict=True):
            assert episode.ended is not None
            paid = float(len(episode.ended.output))
            moves = moves_of(episode, rewards_N_K, agents=("clerk", "boss"), acts_together=duel.rules.acts_together)
            assert [each.chosen_rewards_A for each in moves] == [(0.0, 0.0)] * (len(moves) - 1) + [(paid, -paid)]
            assert episode.nodes[moves[-1].nodes[0][0]].group.agent == author
            assert len(moves) == len(episode.nodes) - (function != "hand_on")


def test_teams_are_compared_under_the_same_draws_whatever_their_policies_are_called(runner: ProgramRunner) -> None:
    asked = []
    for clerk, digest in (("team", "d" * 16), ("another", "e" * 16)):
        engine = Scripted()
        served = serve(clerk)
        models = {"clerk": replace(served, version=replace(served.version, weights_digest=digest)), "boss": serve("b")}
        playing = replace(
            make_play(runner, engine),
            open_gateway=lambda rules, engine=engine, models=models: open_gateway(engine, models=models, seed=3),
        )
        playing.play(make_starts(2), RULES, family=OFFICE, rubric=RUBRIC, tools=OFFICE.referee().tools)
        asked.append({request.seeds_K for request in engine.asked})
    assert asked[0] == asked[1]
    assert len(asked[0]) == 12, "each request has draws of its own"


def test_equal_episodes_at_once_have_the_folder_one_after_the_other(tmp_path: Path) -> None:
    """As those of two evaluations of a store, which are processes of their own."""

    def run(number: int) -> ProgramEnd:
        with ProgramRunner(tmp_path / "programs", ProgramDoor(num_at_once=1)) as own:
            program = AgentProgram(command=("sh", "-c", f"pwd; echo {number} >a; sleep 0.2; cat a"), outputs=("a",))
            return own.run(program, {}, Seat(open_session(name="p/e0")))

    with ThreadPoolExecutor(4) as threads:
        ends = list(threads.map(run, range(4)))
    assert [each.files for each in ends] == [{"a": f"{number}\n"} for number in range(4)]
    assert len({each.output.split("\n")[0] for each in ends}) == 1
    assert not [*(tmp_path / "programs").iterdir()]
