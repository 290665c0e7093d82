"""Plays a block of a suite's problems without the tree. Runs and commands share the result."""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

from components.evaluation.held_out import EvalPlan, Setting, play_block
from components.evaluation.scripted_play import play_scripted
from components.evaluation.suite_play import SuitePlay
from components.identity import StageKey
from components.methods.contenders import Player, load_missing
from components.reporting import progress
from components.rollout.router import RoleBinding
from components.runs.run import stage_key
from components.runs.stage_protocol import committed
from components.schema import PolicyVersion
from components.session.session import Session
from components.tool_calls.journal import ToolJournal
from components.turn_order import agents_of
from tasks.refresh_weights import ensure_loaded
from tasks.stage import current_key, stage

SCRIPT = "script"
"""The key of the name of scripted players."""


@stage(
    "play_suite",
    version=4,
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
    """The play of the problems of `plan`, one block of a suite, by `players` (see `players_of`).

    A process that does not hold their weights loads them: from `weights`, or from the session's own run (None). `seating` says
    who plays each agent; None: the policies of the configuration.
    """
    scenario = session.scenario
    tools = session.toolbox.tools(journal=ToolJournal(session.store, current_key().path))
    reporter = progress.reporter("play_suite", 0)
    if script := players.get(SCRIPT):
        return play_scripted(
            script, plan, family=scenario.family, rubric=scenario.rubric, tools=tools, progress=reporter
        )
    if weights is None:
        ensure_loaded(session, versions)
    else:
        load_missing(session, versions, weights)
    router = session.router(versions, seating)
    setting = Setting(family=scenario.family, router=router, rubric=scenario.rubric, tools=tools)
    return play_block(plan, plan.problems, setting, progress=reporter)


def players_of(
    session: Session,
    plan: EvalPlan,
    versions: Mapping[str, PolicyVersion],
    seating: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What decides the answers of each role that acts: its weights, and how it is asked. Names of policies decide nothing."""
    seats = session.scenario.seats if seating is None else session.scenario.seated(seating)
    acting = [role for role in agents_of(plan.turn_order, session.scenario.family.roles) if role in seats]
    return {role: _asked(seats[role]) | {"weights": versions[seats[role].policy].weights_digest} for role in acting}


def block_plans(plan: EvalPlan) -> list[EvalPlan]:
    """The plan of each block. Suites of which one begins as the other share the blocks that they have in common."""
    return [replace(plan, problems=block, problems_per_block=len(block)) for block in plan.blocks]


def block_calls(
    session: Session,
    plan: EvalPlan,
    players: dict[str, Any],
    versions: dict[str, PolicyVersion],
    weights: dict[str, Player] | None = None,
) -> list[tuple[Any, ...]]:
    """The arguments of `play_suite` for each block."""
    return [(session, plan.sampling, block, players, versions, weights) for block in block_plans(plan)]


def block_keys(session: Session, plan: EvalPlan, players: dict[str, Any]) -> list[StageKey]:
    """The key of each block's play."""
    return [
        stage_key(play_suite.stage, session.run, {"part": plan.sampling, "plan": block, "players": players})
        for block in block_plans(plan)
    ]


def is_played(session: Session, plan: EvalPlan, players: dict[str, Any]) -> bool:
    """Whether every block is committed, whoever has played it."""
    keys = block_keys(session, plan, players)
    return all(committed(session.store, key, SuitePlay) is not None for key in keys)


def _asked(seat: RoleBinding) -> dict[str, Any]:
    return {each.name: getattr(seat, each.name) for each in fields(seat) if each.name != "policy"}
