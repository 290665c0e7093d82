"""A step's episodes as plain JSON: the tree of each, and the tags by which it is found. All texts are printable."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from statistics import fmean
from typing import Any

from components.population.seating import member_and_step
from components.rollout.statistics import keep_and_repair, last_agent_of
from components.schema import Candidate, Episode, Node
from components.session.prompt_texts import PromptText
from components.text.escaping import printable
from components.tool_calls.tool_runs import ProgramRun
from troupe.viewing.populations import (
    DrawnChoices,
    ShownPopulation,
    episode_population,
    population_document,
    read_shown_population,
)
from troupe.viewing.recorded import RecordedEpisode, RecordedStep
from troupe.viewing.tool_results import Runs

_LONGEST_PART = 2000
TAGS = ("solved", "unsolved", "failed", "repaired", "spoiled", "malformed", "unscorable", "past self")
"""failed: the episode ended with an error. repaired, spoiled: the last agent's chosen answer solved what the proposal before it
did not, or the other way round. malformed, unscorable: one of the candidates was. past self: in a
population, one of the players was a member as it was before."""


def step_document(
    recorded: RecordedStep,
    prompts: Mapping[str, PromptText],
    *,
    runs: Runs | None = None,
    notes: Sequence[str] = (),
    problem: str | None = None,
) -> dict[str, Any]:
    """The step and its episodes, only those of `problem` if it is given.

    `prompts` and `programs` hold each text and each run of a program once; nodes and candidates name theirs by index.
    """
    last_agent = last_agent_of([each.episode for each in recorded.episodes])
    shown = [
        (index, each)
        for index, each in enumerate(recorded.episodes)
        if problem in (None, each.episode.problem.problem_id)
    ]
    shared = _Shared(prompts, runs or {})
    population = read_shown_population(recorded)
    drawn = DrawnChoices([node for each in recorded.episodes for node in each.episode.nodes])
    episodes = [_episode_document(each, index, shared, last_agent, drawn, population) for index, each in shown]
    return {
        "step": recorded.step,
        "versions": {
            printable(policy, keep=""): {"step": version.step, "digest": printable(version.weights_digest, keep="")}
            for policy, version in sorted(recorded.versions.items())
        },
        "notes": [
            printable(note, keep="") for note in (*recorded.notes, *notes, *(population.notes if population else ()))
        ],
        "has_advantages": all(each.advantages_N_K is not None for _, each in shown),
        "is_scored": all(each.is_scored for _, each in shown),
        "population": None if population is None else population_document(population, episodes),
        "episodes": episodes,
        "prompts": shared.prompts,
        "programs": shared.programs,
    }


def tags_of(episode: Episode, last_agent: str | None, *, in_population: bool = False) -> list[str]:
    """Those of `TAGS` that apply; in a population nobody hands an answer on.

    **Example** a proposal that solves nothing, then an answer that solves: solved, repaired.
    """
    chosen = tuple(replace(node, candidates=(node.candidates[node.chosen],), chosen=0) for node in episode.nodes)
    handed = keep_and_repair([replace(episode, nodes=chosen)], last_agent=last_agent)
    outcomes = [candidate.outcome for node in episode.nodes for candidate in node.candidates]
    applies = {
        "solved": episode.success,
        "unsolved": not episode.success,
        "failed": episode.error is not None,
        "repaired": handed.num_repaired > 0 and not in_population,
        "spoiled": handed.num_kept < handed.num_solving and not in_population,
        "malformed": any(outcome.error is not None for outcome in outcomes),
        "unscorable": any(outcome.unscorable is not None for outcome in outcomes),
        "past self": any(member_and_step(node.policy)[1] is not None for node in episode.nodes),
    }
    return [tag for tag in TAGS if applies[tag]]


class _Shared:
    """What several nodes or candidates of a page have in common, each once."""

    def __init__(self, prompts: Mapping[str, PromptText], runs: Runs) -> None:
        self._prompt_texts, self._runs = prompts, runs
        self._index: dict[Any, int] = {}
        self.prompts: list[str] = []
        self.programs: list[dict[str, Any]] = []

    def prompt(self, node: Node) -> int:
        """The index of the node's prompt."""
        key = (node.policy, node.prompt_tokens)
        if key not in self._index:
            self._index[key] = len(self.prompts)
            text = self.text_of(node)
            shown = " ".join(map(str, node.prompt_tokens)) if text is None else text(node.prompt_tokens)
            self.prompts.append(printable(shown))
        return self._index[key]

    def text_of(self, node: Node) -> PromptText | None:
        """What reads the tokens of the node's player; a past self reads as its member does."""
        return self._prompt_texts.get(member_and_step(node.policy)[0])

    def programs_of(self, place: tuple[int, int, int], answer: str) -> list[int]:
        """The indices of a candidate's runs."""
        return [self._program(run, answer) for run in self._runs.get(place, ())]

    def _program(self, run: ProgramRun, answer: str) -> int:
        document = _program_document(run, answer)
        key = str(document)
        if key not in self._index:
            self._index[key] = len(self.programs)
            self.programs.append(document)
        return self._index[key]


def _program_document(run: ProgramRun, answer: str) -> dict[str, Any]:
    """How a program ended, and the texts that it read and wrote; the program itself unless it stands in the answer."""
    result = run.result
    parts = {
        "program": "" if run.execution.program.strip() in answer else run.execution.program,
        "standard input": run.execution.stdin,
        "standard output": result.stdout,
        "standard error": result.stderr,
        **{f"file {name}": content for name, content in result.files.items()},
        "detail": result.detail,
    }
    ended = "" if result.exit_code is None else f", exit code {result.exit_code}"
    return {
        "status": result.status,
        "ended": f"{result.status}{ended}, {result.wall_seconds:.2f} s",
        "parts": [[printable(name, keep=""), _bound(text)] for name, text in parts.items() if text.strip()],
    }


def _bound(text: str) -> str:
    shown = text if len(text) <= _LONGEST_PART else f"{text[:_LONGEST_PART]}… ({len(text):,} characters)"
    return printable(shown)


def _episode_document(
    recorded: RecordedEpisode,
    at: int,
    shared: _Shared,
    last_agent: str | None,
    drawn: DrawnChoices,
    population: ShownPopulation | None,
) -> dict[str, Any]:
    episode = recorded.episode
    return {
        "problem": printable(episode.problem.problem_id, keep=""),
        "episode": episode.episode,
        "shard": recorded.shard,
        "payload": _printable_tree(episode.problem.payload),
        "success": episode.success,
        "error": None if episode.error is None else printable(episode.error),
        "tags": tags_of(episode, last_agent, in_population=population is not None),
        "num_tokens": episode.num_generated_tokens,
        "cuts": [{"parent": list(cut.parent), "error": printable(cut.error)} for cut in episode.cuts or ()],
        "nodes": [_node_document(recorded, at, n, shared, drawn) for n in range(len(episode.nodes))],
        "population": None if population is None else episode_population(population, recorded),
    }


def _node_document(recorded: RecordedEpisode, at: int, n: int, shared: _Shared, drawn: DrawnChoices) -> dict[str, Any]:
    node = recorded.episode.nodes[n]
    unknown_K: Sequence[float | None] = (None,) * len(node.candidates)
    advantages_K = unknown_K if recorded.advantages_N_K is None else recorded.advantages_N_K[n]
    credits_K = unknown_K if recorded.credits_N_K is None else recorded.credits_N_K[n]
    rows = zip(node.candidates, recorded.rewards_N_K[n], credits_K, advantages_K, strict=True)
    return {
        "agent": printable(node.group.agent, keep=""),
        "policy": printable(node.policy, keep=""),
        "turn": node.group.turn,
        "repeat": node.group.repeat,
        "parent": None if node.parent is None else list(node.parent),
        "parallel_index": node.parallel_index,
        "is_trained_on": node.is_trained_on,
        "temperature": node.temperature,
        "prompt": shared.prompt(node),
        "num_prompt_tokens": len(node.prompt_tokens),
        "choices": drawn.document(node, shared.text_of(node)),
        "chosen": node.chosen,
        "chosen_randomly": node.chosen_randomly,
        "candidates": [
            {**_candidate_document(*row), "programs": shared.programs_of((at, n, k), row[0].text)}
            for k, row in enumerate(rows)
        ],
    }


def _candidate_document(
    candidate: Candidate, reward: float | None, credit: float | None, advantage: float | None
) -> dict[str, Any]:
    outcome, logprobs = candidate.outcome, candidate.sampler_logprobs
    return {
        "text": printable(candidate.text),
        "reward": _round(reward),
        "credit": _round(credit),
        "advantage": _round(advantage),
        "logprob": _round(sum(logprobs)),
        "mean_logprob": _round(fmean(logprobs) if logprobs else None),
        "num_tokens": len(candidate.tokens),
        "finish_reason": candidate.finish_reason,
        "solves": outcome.solves,
        "done": outcome.done,
        "malformed": None if outcome.error is None else printable(outcome.error),
        "unscorable": None if outcome.unscorable is None else printable(outcome.unscorable),
        "components": {
            printable(f"{kind}.{name}", keep=""): _round(value)
            for kind, values in (("team", outcome.team), ("local", outcome.local))
            for name, value in values.items()
        },
    }


def _round(value: float | None) -> float | None:
    """Six digits, more than a page shows; None for what is no number."""
    return None if value is None or not isfinite(value) else float(f"{value:.6g}")


def _printable_tree(document: Any) -> Any:
    """JSON with printable strings and keys, lines and tabs kept."""
    match document:
        case str():
            return printable(document)
        case Mapping():
            return {printable(str(key), keep=""): _printable_tree(value) for key, value in document.items()}
        case list() | tuple():
            return [_printable_tree(value) for value in document]
        case _:
            return document
