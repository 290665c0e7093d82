"""Groups inside programs that know nothing of them: a fork runs the program again, and its first calls cost nothing."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from components.algorithms.registry import find_estimator
from components.artifacts.local import LocalArtifactStore
from components.environments.registry import family, family_options
from components.errors import EngineUnavailable
from components.gateway.calls import CallJournal, StoredCalls, UnkeptCalls
from components.gateway.door import ProgramDoor
from components.gateway.encoder import CompactEncoder
from components.gateway.gateway import Gateway, ServedPolicy
from components.gateway.play import ProgramPlay
from components.gateway.programs import ProgramRunner
from components.generation.base import Completion, GenerationRequest
from components.models.character_tokenizer import character_tokenizer
from components.models.tokenizer import HuggingFaceTokenizer
from components.rewards.base import Rubric
from components.rewards.score import score_shard
from components.rollout.play import play as play_natively
from components.rollout.router import RoleBinding, Router
from components.rollout.rules import SamplingRules, Start
from components.schema import Episode, Node, PolicyVersion, RolloutShard
from tests.components.gateway.test_gateway import VERSION, Scripted
from tests.components.gateway.test_play import OFFICE, RUBRIC, RULES, make_starts, play
from tests.sections import choose_algorithm

WALK = family("agent_plan_path")
OPTIONS = family_options("agent_plan_path", {"size": 4, "min_distance": 2, "max_moves": 4})
WALK_RUBRIC = Rubric(weights=WALK.default_weights, team_weight=1.0)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProgramRunner]:
    with ProgramRunner(tmp_path_factory.mktemp("programs"), ProgramDoor(num_at_once=1)) as made:
        yield made


@dataclass
class Walker:
    """An engine whose answers are decided by the prompt and the number of the candidate, and by no seed."""

    tokenizer = HuggingFaceTokenizer(character_tokenizer(WALK.alphabet(OPTIONS)))

    def generate(self, requests: list[GenerationRequest], version: PolicyVersion) -> list[tuple[Completion, ...]]:
        return [self.sample("team", each) for each in requests]

    def sample(self, policy: str, request: GenerationRequest) -> tuple[Completion, ...]:
        return tuple(self._complete(request.prompt_tokens, k) for k in range(len(request.seeds_K)))

    def _complete(self, prompt: tuple[int, ...], k: int) -> Completion:
        text = "".join(random.Random(f"{prompt} {k}").choices("UDLRA", weights=[5, 5, 5, 5, 1], k=2))
        tokens = (*self.tokenizer.encode(text), self.tokenizer.end_token)
        return Completion(tokens=tokens, logprobs=(-1.0,) * len(tokens), finish_reason="stop", version=VERSION)


def walk_by_program(runner: ProgramRunner, starts: list[Start], rules: SamplingRules) -> tuple[Episode, ...]:
    engine = Walker()
    served = ServedPolicy(
        policy="team",
        version=VERSION,
        encoder=CompactEncoder(engine.tokenizer),
        show_tokens=engine.tokenizer.decode,
        max_new_tokens=8,
    )
    programs = ProgramPlay(
        open_gateway=lambda rules: Gateway(models={"walker": served}, sample=engine.sample, seed=rules.seed),
        journal=lambda name: UnkeptCalls(),
        runner=runner,
        decode_answer=lambda role, tokens: engine.tokenizer.decode(tokens),
    )
    return programs.play(starts, rules, family=WALK, rubric=WALK_RUBRIC, tools=WALK.referee().tools)


def walk_natively(starts: list[Start], rules: SamplingRules) -> tuple[Episode, ...]:
    native = [replace(s, problem=replace(s.problem, payload={**s.problem.payload, "native": True})) for s in starts]
    seats = {"walker": RoleBinding(policy="team", prompt_format="compact", max_new_tokens=8)}
    router = Router({"team": Walker()}, seats=seats, versions={"team": VERSION})  # type: ignore[dict-item]
    return play_natively(native, rules, family=WALK, router=router, rubric=WALK_RUBRIC)


def show_nodes(episode: Episode, *values_E_N_K: Any) -> dict[str, Any]:
    """Each node by its group, with its parent's group and its values."""

    def show(n: int, node: Node) -> Any:
        n_parent, k = node.parent or (-1, None)
        above = "" if n_parent < 0 else str(episode.nodes[n_parent].group)
        acted = [(each.text, each.outcome, each.reward) for each in node.candidates]
        flags = (node.chosen, node.chosen_randomly, node.is_trained_on, node.prompt_tokens)
        return (above, k), acted, flags, *(values_N_K[n] for values_N_K in values_E_N_K)

    return {str(node.group): show(n, node) for n, node in enumerate(episode.nodes)}


@pytest.mark.parametrize(
    ("changes", "credit"),
    [
        ({"group_size": 4}, "node"),
        ({"group_size": 3, "team_credit": "episode_end"}, "episode_end"),
        ({"branching": (4,)}, "leaves"),
    ],
)
def test_a_forked_program_is_the_native_tree_node_by_node(
    runner: ProgramRunner, changes: dict[str, Any], credit: Any
) -> None:
    rules = replace(RULES, turn_order=WALK.roles, max_turns=3, **changes)
    starts = [Start(problem=WALK.problem(OPTIONS, split="train", index=i, seed=0), episode=0) for i in range(6)]
    found = []
    for episodes in (walk_by_program(runner, starts, rules), walk_natively(starts, rules)):
        shard = RolloutShard(step=0, shard=0, policy_versions={}, episodes=episodes)
        scored = score_shard(shard, family=WALK, rubric=WALK_RUBRIC, credit=credit, turn_order=WALK.roles)
        c3 = find_estimator("c3")(episodes, scored.rewards_E_N_K, choose_algorithm(advantage="c3"))
        found.append(
            [show_nodes(*each) for each in zip(episodes, scored.rewards_E_N_K, c3, strict=True)]
            + [[each.success, each.cuts] for each in episodes]
        )
        assert any(a for a_N_K in c3 for a_K in a_N_K for a in a_K), "something is learned"
    assert found[0] == found[1]
    assert any(each.outcome.solves for episode in episodes for node in episode.nodes for each in node.candidates)


def test_eight_siblings_at_the_middle_of_forty_calls_cost_no_token_before_it(runner: ProgramRunner) -> None:
    rules = replace(RULES, max_turns=20, branching=(8,))
    (made,) = make_starts(1, num_rounds=20)
    start = next(s for s in (replace(made, episode=e) for e in range(999)) if rules.expanded_turn(s, 40) == 20)
    engine = Scripted()
    (episode,) = play(runner, [start], engine, rules=rules)
    assert Counter(len(each.seeds_K) for each in engine.asked) == {1: 40 + 8 * 19, 8: 1}
    assert sum(map(len, (each.candidates for each in episode.nodes))) == 40 + 8 + 8 * 19
    assert {n.group.turn * 2 + (n.group.agent == "boss") for n in episode.nodes if n.parent} == set(range(20, 40))
    (at,) = (n for n, node in enumerate(episode.nodes) if node.is_trained_on)
    before = [node.candidates[0].text for node in episode.path][:20]
    assert episode.ends is not None
    assert len(episode.ends) == 8
    ends = {}
    for each in episode.ends:
        said, place = [], each.candidate
        while place[0] > at:
            said.append(episode.nodes[place[0]].candidates[place[1]].text)
            place = episode.nodes[place[0]].parent or (-1, 0)
        said.append(episode.nodes[at].candidates[place[1]].text)
        assert place[0] == at
        assert each.end.files["said.txt"] == "\n".join([*before, *reversed(said)])
        ends[place[1]] = float("77" in each.end.files["said.txt"]) + 0.01 * len(each.end.files["said.txt"])
    shard = RolloutShard(step=0, shard=0, policy_versions={}, episodes=(episode,))
    (rewards_N_K,) = score_shard(shard, family=OFFICE, rubric=RUBRIC, credit="leaves").rewards_E_N_K
    assert rewards_N_K[at] == pytest.approx([ends[k] for k in range(8)])
    assert len({*rewards_N_K[at]}) > 1


def test_an_end_judges_the_candidate_that_it_follows(runner: ProgramRunner) -> None:
    """Each candidate of the last call is the end of a run of its own."""
    rules = replace(RULES, group_size=3, team_credit="episode_end")
    (episode,) = play(runner, make_starts(1, num_rounds=1), rules=rules)
    shard = RolloutShard(step=0, shard=0, policy_versions={}, episodes=(episode,))
    (rewards_N_K,) = score_shard(shard, family=OFFICE, rubric=RUBRIC, credit="episode_end").rewards_E_N_K
    clerk, boss = episode.path
    said = [f"{clerk.candidates[0].text}\n{each.text}" for each in boss.candidates]
    assert rewards_N_K[1] == pytest.approx([("77" in each) + 0.01 * len(each) for each in said])
    assert [each.outcome.done for each in boss.candidates] == [True] * 3
    assert [node.parent for node in episode.nodes] == [None, None, (0, 0), (0, 1), (0, 2)]


def test_a_random_candidate_is_handed_on_except_by_the_last_role(runner: ProgramRunner) -> None:
    rules = replace(RULES, group_size=8, random_handoff_probability=1.0)
    (episode,) = play(runner, make_starts(1), rules=rules)
    assert [node.chosen_randomly for node in episode.path] == [True, False] * 3
    assert episode.ended is not None
    assert episode.ended.files["said.txt"].split("\n") == [node.candidates[node.chosen].text for node in episode.path]
    assert any(node.chosen for node in episode.path[::2])
    assert not any(node.chosen for node in episode.path[1::2]), "all are worth the same, so the first is the best"


@pytest.mark.parametrize("changes", [{"branching": (2, 3)}, {"group_size": 2, "team_credit": "episode_end"}])
def test_a_play_that_was_killed_between_its_forks_ends_as_one_that_was_not(
    runner: ProgramRunner, tmp_path: Path, changes: dict[str, Any]
) -> None:
    rules, starts = replace(RULES, **changes), make_starts(3, num_rounds=2)
    plain = Scripted()
    once = play(runner, starts, plain, rules=rules)
    rng = random.Random(str(changes))
    store, engine = LocalArtifactStore(tmp_path / "store"), Scripted()

    def journal(name: str) -> CallJournal:
        return StoredCalls(store, f"runs/r/{name}")

    for num_asked in sorted(rng.sample(range(1, len(plain.asked)), 6)):
        engine.fails_after = num_asked
        with pytest.raises(EngineUnavailable):
            play(runner, starts, engine, journal=journal, rules=rules)
        assert len(engine.asked) == num_asked
    engine.fails_after = None
    assert play(runner, starts, engine, journal=journal, rules=rules) == once
    assert len(engine.asked) == len(plain.asked), "nothing is sampled twice"
    assert len({seed for each in engine.asked for seed in each.seeds_K}) == sum(len(e.seeds_K) for e in engine.asked)


def test_a_program_that_asks_something_else_when_it_is_run_again_has_no_forks(runner: ProgramRunner) -> None:
    rules = replace(RULES, branching=(2,))
    made = make_starts(1, function="ask_at_random")[0]
    starts = [s for s in (replace(made, episode=e) for e in range(40)) if rules.expanded_turn(s, 3) == 2][:2]
    for episode in play(runner, starts, rules=rules):
        assert (len(episode.nodes), episode.error, episode.ends) == (3, None, None)
        assert episode.cuts is not None
        (cut,) = episode.cuts
        assert cut.parent == (1, 0)
        assert "did not ask what it had asked before answer 2" in cut.error
        shard = RolloutShard(step=0, shard=0, policy_versions={}, episodes=(episode,))
        (rewards_N_K,) = score_shard(shard, family=OFFICE, rubric=RUBRIC, credit="leaves").rewards_E_N_K
        assert rewards_N_K == ((None,),) * 3


def test_a_call_beside_the_work_is_no_place_of_a_fork(runner: ProgramRunner) -> None:
    rules = replace(RULES, group_size=2, team_credit="episode_end")
    (episode,) = play(runner, make_starts(1, function="ask_beside_its_work"), rules=rules)
    assert [node.is_beside for node in episode.path] == [True, False, False]
    assert {node.parent for node in episode.nodes} == {None, (1, 0), (1, 1)}
    for node in episode.nodes[3:]:
        n, k = node.parent or (0, 0)
        read = (*episode.nodes[n].prompt_tokens, *episode.nodes[n].candidates[k].tokens)
        assert node.prompt_tokens[: len(read)] == read, "it goes on from the candidate's own tokens"
    shard = RolloutShard(step=0, shard=0, policy_versions={}, episodes=(episode,))
    (rewards_N_K,) = score_shard(shard, family=OFFICE, rubric=RUBRIC, credit="episode_end").rewards_E_N_K
    assert [None in rewards_K for rewards_K in rewards_N_K] == [True, False, False, True, True]
