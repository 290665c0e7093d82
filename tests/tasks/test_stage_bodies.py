"""What a stage computes of the configuration: known by hand, on rollouts without a model."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.artifacts import payloads
from components.errors import RecordRefuted, TooManyUnscorable
from components.rollout.router import Router
from components.rollout.sampler import collect_shard
from components.rollout.shards import NumberedProblem
from components.runs.run import Run
from components.schema import ExecutionResult, PolicyVersion, Problem, RolloutShard, ScoredShard, TrainBatch
from components.session import toolbox
from components.session.publishing import Publishing
from components.session.session import Session
from flows.presets import preset_config
from tasks.collect_rollouts import collect_rollouts
from tasks.compute_advantages import compute_advantages
from tasks.compute_rewards import compute_rewards
from tests.components.generation.scripted import CharacterTokenizer, ScriptedGenerator
from tests.components.rewards.test_team_credit import calculator, math_shard
from tests.components.sandbox.scripted import ScriptedSandbox, make_printed, sandbox_failed
from tests.recorded_calls import RecordedCalls, call

VERSION = PolicyVersion(policy="team", step=0, weights_digest="d")
ROWS = ["......."] * 7
CORRIDOR: dict[str, Any] = {"size": 7, "rows": ROWS, "start": [0, 0], "goal": [0, 6], "max_moves": 10}
"""Six moves to the right solve it."""


def session_of(root: Path, *overrides: str, preset: str = "tiny") -> Session:
    team = ["rollout={num_problems: 1, problems_per_block: 1, group_size: 2, num_shards: 1}", "environment.max_turns=2"]
    local = ["store.kind=local", f"store.root={root}", "tracking.kind=none"]
    return Session(Run(run_id="run", config=preset_config(preset, [*local, *team, *overrides])))


def engine_of(session: Session, answer: Callable[[int], str]) -> ScriptedGenerator:
    """An engine that answers by seed alone."""
    tokenizer = CharacterTokenizer(session.scenario.family.alphabet(session.scenario.options))
    return ScriptedGenerator(lambda prompt, seed: answer(seed), tokenizer, VERSION)


def walk(session: Session, answer: Callable[[int], str] = lambda seed: "RR") -> RolloutShard:
    """The corridor, with all continuations that the configuration asks for."""
    scenario, engine = session.scenario, engine_of(session, answer)
    problem = Problem(problem_id="corridor", environment="plan_path", payload=CORRIDOR)
    plan = replace(scenario.shard_plan(step=0, shard=0), problems=(NumberedProblem(problem=problem, occurrence=0),))
    router = Router({"team": engine}, seats=scenario.seats, versions={"team": VERSION})
    return collect_shard(plan, family=scenario.family, router=router, rubric=scenario.training_rubric)


@pytest.mark.parametrize(
    ("team_credit", "progress"),
    [
        ("node", 2 / 6),  # its own two moves, of the six from where it stood
        ("turn_end", 2 / 4),  # the last answer of the lines below it: two moves of the four that are left
        ("episode_end", 4 / 6),  # the same end, counted from the start
    ],
)
def test_the_reward_stage_takes_the_team_term_where_team_credit_says(
    team_credit: str, progress: float, tmp_path: Path
) -> None:
    with session_of(tmp_path, "rewards.team_credit=episode_end") as recording:
        shard = walk(recording)
    with session_of(tmp_path, f"rewards.team_credit={team_credit}") as session:
        assert of_first_decision(shard, score(session, shard)) == pytest.approx((0.2 * progress + CLEAN,) * 2)


CLEAN = 0.1
"""What an answer without a bump earns."""
OWN = "def length(episode, node):\n    return [len(each.text) for each in node.candidates]\n"


@pytest.mark.parametrize(
    ("overrides", "more"),
    [
        (
            ["rewards.overlong_buffer=2", "rewards.overlong_penalty=0.4"],
            -0.2,
        ),  # three tokens of four are half of the buffer
        (["rewards.functions=['own_length:length']"], 2.0),  # two letters
        (["rewards.functions=['own_length:length']", "rewards.weights={own.length: 0.5}"], 1.0),
        (["rewards.team_weight=4"], 3 * 0.2 / 3),
    ],
)
def test_the_reward_stage_adds_what_the_configuration_names(
    overrides: list[str], more: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_length.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    short = ["agents.tool_agent.max_new_tokens=4", "agents.plan_agent.max_new_tokens=4"]
    with session_of(tmp_path / "store", *short, *overrides) as session:
        shard = walk(session)
        rewards = of_first_decision(shard, score(session, shard))
    assert rewards == pytest.approx((0.2 / 3 + CLEAN + more,) * 2)


def test_the_control_permutes_the_rewards_of_the_same_rollouts(tmp_path: Path) -> None:
    def rewards(overrides: list[str]) -> list[float | None]:
        with session_of(tmp_path, "rollout.group_size=8", *overrides) as session:
            scored = score(session, walk(session, lambda seed: "R" * (1 + seed % 3)))
        return [reward for rewards_N_K in scored.rewards_E_N_K for rewards_K in rewards_N_K for reward in rewards_K]

    plain, shuffled = rewards([]), rewards(["rewards.shuffle_rewards=true"])
    assert plain != shuffled
    assert sorted(map(str, plain)) == sorted(map(str, shuffled))


def test_the_reward_stage_takes_programs_from_the_record_runs_them_again_or_refutes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = math_shard("node")
    boxes: list[ScriptedSandbox] = []

    def score_run(run: Any, *overrides: str) -> ScoredShard:
        boxes.append(ScriptedSandbox(run))
        monkeypatch.setattr(toolbox, "new_sandbox", lambda *_: boxes[-1])
        with session_of(tmp_path / str(len(boxes)), *overrides, preset="math-tiny") as session:
            return score(session, shard)

    recorded = score_run(calculator)
    assert boxes[-1].asked == {}
    again = score_run(calculator, "rewards.reuse_executions=false")
    assert len(boxes[-1].asked) == len(shard.tools.executions) > 6
    assert again.rewards_E_N_K == recorded.rewards_E_N_K
    with pytest.raises(RecordRefuted):
        score_run(lambda program, stdin: make_printed("forged"), "sandbox.spot_check_fraction=1.0")

    def gone(program: str, stdin: str) -> ExecutionResult:
        return sandbox_failed("box gone")

    with pytest.raises(TooManyUnscorable, match=r"rewards\.max_failed_fraction allows 0\.25"):
        score_run(gone, "rewards.reuse_executions=false", "rewards.max_failed_fraction=0.25")
    score_run(gone, "rewards.reuse_executions=false", "rewards.max_failed_fraction=1.0")


class Always:
    """Engines that are one and the same."""

    def __init__(self, engine: ScriptedGenerator) -> None:
        self._engine = engine

    def of(self, policy: str) -> ScriptedGenerator:
        return self._engine

    def close(self) -> None: ...


def test_the_rollout_stage_replaces_problems_without_a_signal(tmp_path: Path) -> None:
    for max_resamples in (0, 2):
        overrides = ("rollout={num_problems: 3, problems_per_block: 3}", f"rollout.max_resamples={max_resamples}")
        with session_of(tmp_path / str(max_resamples), *overrides) as session:
            session.engines = Always(engine_of(session, lambda seed: "RR"))  # type: ignore[assignment]
            ref = collect_rollouts.fn(session, 0, 0, {"team": VERSION})
            refills = session.kept.get(ref, RolloutShard).refills
        found = None if refills is None else (refills.num_problems, refills.num_silent)
        assert found == (None if max_resamples == 0 else (3 * max_resamples, 3))


def test_groups_without_a_signal_are_trained_on_where_a_term_of_the_loss_covers_them(tmp_path: Path) -> None:
    for kl, num_groups in ((0.0, 0), (0.1, 4)):
        overrides = ("loss.average_over=all", "loss.entropy_coefficient=0", f"loss.kl_coefficient={kl}")
        with session_of(tmp_path / str(kl), *overrides) as session:
            shard = walk(session)
            rollouts = session.kept.put(shard)
            scored = compute_rewards.fn(session, 0, 0, rollouts)
            found = compute_advantages.fn(session, 0, [rollouts], [scored])
            batch = payloads.get(session.store, found.batches["team"], TrainBatch)
        assert (len(batch.groups), batch.num_groups_without_signal) == (num_groups, 4)


def test_the_episodes_of_a_step_are_shown_with_their_rewards(tmp_path: Path) -> None:
    calls = RecordedCalls()
    with session_of(tmp_path) as session:
        session.publishing = calls.object(Publishing, "publishing")
        shard = walk(session)
        scored = score(session, shard)
        compute_advantages.fn(session, 0, [session.kept.put(shard)], [session.kept.put(scored)])
    assert calls == [call("publishing.post_traces", step=0, shards=[shard], scores=[scored])]


def score(session: Session, shard: RolloutShard) -> ScoredShard:
    """What the reward stage makes of `shard`."""
    return session.kept.get(compute_rewards.fn(session, 0, 0, session.kept.put(shard)), ScoredShard)


def of_first_decision(shard: RolloutShard, scored: ScoredShard) -> tuple[float | None, ...]:
    """The rewards of what the plan agent decides in the first turn."""
    (rewards_N_K,) = scored.rewards_E_N_K
    (found,) = [
        rewards_K
        for node, rewards_K in zip(shard.episodes[0].nodes, rewards_N_K, strict=True)
        if node.is_trained_on and (node.group.turn, node.group.agent) == (0, "plan_agent")
    ]
    return found
