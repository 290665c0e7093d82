"""Plays a block of a suite's problems, each once. Runs and commands share the result."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from components.evaluation.held_out import EvalPlan
from components.evaluation.scripted_play import play_scripted
from components.evaluation.suite_play import SuitePlay
from components.identity import StageKey
from components.methods.base import method_for
from components.methods.open_subjects import Player, load_missing
from components.reporting import progress
from components.runs.run import stage_key
from components.runs.stage_protocol import read_committed
from components.schema import PolicyVersion
from components.session.session import Session
from components.tool_calls.journal import ToolJournal
from tasks.refresh_weights import ensure_loaded
from tasks.stage import current_key, stage

SCRIPT = "script"
"""The key of the name of scripted players."""


@stage(
    "play_suite",
    version=6,
    reads=("environment", "generation", "execution", "rewards.weights", "rewards.team_weight"),
    scope="shared",
    ignores=("versions", "weights", "seating"),
    writes="plays",
    optional=True,
    retries=2,
    timeout_seconds=4 * 3600,
    decisive=partial(replace, seconds=0.0),
)
def play_suite(
    session: Session,
    part: str,
    plan: EvalPlan,
    players: dict[str, Any],
    versions: dict[str, PolicyVersion],
    weights: dict[str, Player] | None = None,
    seating: dict[str, str] | None = None,
) -> SuitePlay:
    """The play of the problems of `plan`, one block of a suite, by `players` (see `Evaluation.name_players`).

    A process that does not hold their weights loads them: from `weights`, or from the session's own run. `seating` says who
    plays each agent; None: the policies of the configuration.
    """
    scenario, given = session.scenario, weights or {}
    tools = session.toolbox.tools(journal=ToolJournal(session.store, current_key().path))
    reporter = progress.reporter("play_suite", 0)
    if script := players.get(SCRIPT):
        return play_scripted(
            script, plan, family=scenario.family, rubric=scenario.rubric, tools=tools, progress=reporter
        )
    load_missing(session, versions, given)
    ensure_loaded(session, {policy: each for policy, each in versions.items() if policy not in given})
    return method_for(session.config).evaluation.play(
        session, plan, versions, given, seating=seating, tools=tools, progress=reporter
    )


def block_plans(plan: EvalPlan) -> list[EvalPlan]:
    """The plan of each block. Suites of which one begins as the other share the blocks that they have in common."""
    return [replace(plan, problems=block, problems_per_block=len(block)) for block in plan.blocks]


def block_calls(
    session: Session,
    plan: EvalPlan,
    players: dict[str, Any],
    versions: Mapping[str, PolicyVersion],
    weights: Mapping[str, Player],
    seating: dict[str, str] | None = None,
) -> list[tuple[Any, ...]]:
    """The arguments of `play_suite` for each block."""
    return [
        (session, plan.sampling, block, players, dict(versions), dict(weights), seating) for block in block_plans(plan)
    ]


def key_block(call: tuple[Any, ...]) -> StageKey:
    """The key of the play of a block, by its arguments."""
    session, sampling, block, players, *_ = call
    return stage_key(play_suite.stage, session.run, {"part": sampling, "plan": block, "players": players})


def is_played(call: tuple[Any, ...]) -> bool:
    """Whether the play of a block is committed, whoever has played it."""
    return read_committed(call[0].store, key_block(call), SuitePlay) is not None
