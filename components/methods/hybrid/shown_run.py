"""What `troupe view` shows of a hybrid run: its course, who acted when, what helped, and where play has been, as plain JSON.

A history is read from its file where that is whole, else from the store. What is missing or damaged is a note.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.artifacts.base import ArtifactStore
from components.artifacts.payloads import get
from components.artifacts.refs import ArtifactRef
from components.config import RunConfig
from components.config.hybrid import Adaptive, Crystal, HybridMethod
from components.errors import ArtifactCorrupt, ArtifactMissing, ConfigurationError
from components.machine.home import HOME
from components.methods.hybrid.decision_histories import open_history, read_collected_steps
from components.methods.hybrid.settings import hybrid_config
from components.runs.available_checkpoints import format_ranges
from components.runs.history import read_history
from components.runs.run import Run
from components.runs.steps import first_unfinished_step
from components.text.escaping import printable

if TYPE_CHECKING:
    from components.hybrid.decision_history import Decision, DecisionHistory
    from components.hybrid.patterns import DecisionCount

NUM_PARTS = 24
"""Of the episode and of the history, in pictures of who acted."""
NO_PRESSES = "the policy sees screens, which say no place: tiles show the games that were there, and no presses"
_MAP = re.compile(r"map (\d+)\.(\d+)")
_NUM_EPISODES, _NUM_PATTERNS = 8, 30
_COURSE = {
    "llm_share": "rollout/llm_share",
    "success_rate": "rollout/success_rate",
    "starter_rate": "rollout/starter_rate",
    "episode_length": "rollout/episode_length",
    "llm_confidence": "curriculum/llm_confidence",
    "stage": "curriculum/stage",
}


def hybrid_document(store: ArtifactStore, run: Run, *, step: int | None = None, home: Path = HOME) -> dict[str, Any]:
    """What the page of a hybrid run shows: the run as a whole, and the games of `step` (None: the newest).

    Raises ConfigurationError for a step without games.
    """
    hybrid, collected = hybrid_config(run.config), read_collected_steps(store, run)
    at = _step_in(run, collected, step)
    notes: list[str] = []
    document = {
        "kind": "hybrid",
        "run_id": run.run_id,
        "preset": printable(run.config.preset or "", keep=""),
        "environment": printable(run.config.environment.name, keep=""),
        "store": store.uri,
        "game": hybrid.game.type,
        "mode": hybrid.mode.type,
        "strategy": hybrid.mode.strategy if isinstance(hybrid.mode, Adaptive) else None,
        "stages": _stage_names(run),
        "num_steps": run.config.num_steps,
        "step": at,
        "course": _course(store, run),
        "decisions": _decisions_document(store, run, hybrid, notes, home),
        "maps": [
            {"step": each, "maps": _maps_document(store, collected[each], run.config, notes)}
            for each in dict.fromkeys((min(collected), at))
        ],
    }
    return document | {"notes": [printable(note, keep="") for note in notes]}


def _stage_names(run: Run) -> list[str] | None:
    """Those of the run's curriculum; None without one."""
    from components.hybrid.curriculum import list_stages

    mode = hybrid_config(run.config).mode
    rule = mode.curriculum if isinstance(mode, Adaptive) else None
    return None if rule is None else [printable(stage.name, keep="") for stage in list_stages(rule)]


def _step_in(run: Run, collected: dict[int, ArtifactRef], step: int | None) -> int:
    if not collected:
        raise ConfigurationError(f"run {run.run_id!r} has played no games yet; train it first")
    if step is not None and step not in collected:
        known = format_ranges(sorted(collected))
        raise ConfigurationError(
            f"--step {step}: run {run.run_id!r} has no games of it; those of steps {known} are there"
        )
    return max(collected) if step is None else step


def _course(store: ArtifactStore, run: Run) -> dict[str, Any]:
    """The run's metrics by step, and its evaluations; a step without an ended episode has no rates."""
    history = read_history(store, run, first_unfinished_step(store, run))
    metrics = [(each.step, each.summary.metrics) for each in history.steps]
    return {
        "steps": [
            {"step": step, **{name: found.get(metric) for name, metric in _COURSE.items()}} for step, found in metrics
        ],
        "evaluations": [
            {name: each[name] for name in ("step", "sampling", "success_rate", "interval", "n")}
            for each in history.evaluations
        ],
    }


def _decisions_document(
    store: ArtifactStore, run: Run, hybrid: HybridMethod, notes: list[str], home: Path
) -> dict[str, Any] | None:
    if not hybrid.has_history:
        notes.append(
            "no decisions: this run keeps none, as mode "
            f"{hybrid.mode.type} asks no language model for buttons; method.keeps_decisions=true keeps them all the same"
        )
        return None
    history, missing = open_history(store, run, home)
    notes.extend(missing)
    with history:
        if not history.num_decisions():
            notes.append("no decisions: no episode has ended yet")
            return None
        return _history_document(history, _phase_words if not isinstance(hybrid.game, Crystal) else _as_it_is)


def _history_document(history: "DecisionHistory", words: Callable[[str], str]) -> dict[str, Any]:
    """The decisions of a run; `words` says what a phase is called."""
    from components.hybrid.arbitration import Actor
    from components.hybrid.patterns import llm_shares

    over_episode, over_history = history.counts("episode", NUM_PARTS), history.counts("history", NUM_PARTS)
    phases = sorted({each.phase for each in over_history})
    report, episodes = history.patterns(), history.last_episodes(_NUM_EPISODES)
    return {
        "num_decisions": history.num_decisions(),
        "over_episode": [_share(*each) for each in llm_shares(over_episode, NUM_PARTS, Actor.LLM)],
        "strategies": _strategies(over_history),
        "phases": [
            {
                "phase": words(phase),
                "over_history": [
                    _share(*each)
                    for each in llm_shares([one for one in over_history if one.phase == phase], NUM_PARTS, Actor.LLM)
                ],
            }
            for phase in phases
        ],
        "patterns": {
            "num_found": len(report.patterns),
            "num_tested": report.num_tested,
            "level": report.level,
            "rows": [
                {
                    "state": f"{each.state_hash:016x}",
                    "phase": words(history.phase_of(each.state_hash)),
                    "buttons": [_button(action) for action in each.actions],
                    **{name: getattr(each, name) for name in ("effect", "seen", "won", "low", "high", "base_rate")},
                    "p_value": each.p_value,
                }
                for each in report.patterns[:_NUM_PATTERNS]
            ],
        },
        "episodes": [_episode_document(each, words) for each in episodes],
    }


def _share(num_decisions: int, llm_share: float | None) -> dict[str, Any]:
    return {"num_decisions": num_decisions, "llm_share": llm_share}


def _strategies(counts: Sequence["DecisionCount"]) -> list[dict[str, Any]]:
    """Which strategy decided when: runs of parts of the history with the same one most often."""
    found: list[dict[str, Any]] = []
    for part in sorted({each.part for each in counts}):
        totals: dict[str, int] = {}
        for each in counts:
            if each.part == part:
                totals[each.strategy] = totals.get(each.strategy, 0) + each.num_decisions
        most = max(totals, key=lambda name: totals[name])
        if found and found[-1]["strategy"] == printable(most, keep=""):
            found[-1]["last_part"] = part
        else:
            found.append({"strategy": printable(most, keep=""), "first_part": part, "last_part": part})
    return found


def _phase_words(phase: str) -> str:
    """A phase of our own cartridge. **Example** "map 24.4, 0 badges" is "the town, 0 badges"."""
    from components.hybrid.game_text import place_name

    return _MAP.sub(lambda found: place_name(int(found[1]), int(found[2])), _as_it_is(phase))


def _as_it_is(phase: str) -> str:
    return printable(phase, keep="")


def _episode_document(decisions: Sequence["Decision"], words: Callable[[str], str]) -> dict[str, Any]:
    return {
        "episode": decisions[0].episode_id,
        "decisions": [
            {
                "button": _button(each.action),
                "by": each.source,
                "confidence": round(each.confidence, 3),
                "phase": words(each.phase),
                "outcome": round(each.outcome_reward, 3),
                "reasoning": printable(each.reasoning),
            }
            for each in decisions
        ],
    }


def _button(action: int) -> str:
    from components.hybrid.game_facts import Action

    return Action(action).name


def _maps_document(store: ArtifactStore, ref: ArtifactRef, config: RunConfig, notes: list[str]) -> list[dict[str, Any]]:
    from components.hybrid.experience import Experience
    from components.hybrid.game_text import place_name
    from components.hybrid.visited_tiles import list_visited_maps

    try:
        experience: Experience = get(store, ref, Experience)
    except (ArtifactCorrupt, ArtifactMissing) as error:
        notes.append(f"no map: {error}")
        return []
    hybrid = hybrid_config(config)
    sees_screens = hybrid.learner.network.sees_screens
    if sees_screens and NO_PRESSES not in notes:
        notes.append(NO_PRESSES)
    return [
        {
            "name": place_name(*each.place),
            "rows": list(each.rows),
            "tiles": [
                {
                    "x": x,
                    "y": y,
                    "num_presses": each.num_presses.get((x, y), 0),
                    "num_games": each.num_games.get((x, y), 0),
                }
                for x, y in sorted(each.num_presses.keys() | each.num_games.keys())
            ],
        }
        for each in list_visited_maps(
            experience, is_homebrew=not isinstance(hybrid.game, Crystal), sees_screens=sees_screens
        )
    ]
