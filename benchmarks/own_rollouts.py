"""Rollouts of an estimator's own kind that contain given decisions, and the advantages that it gives to their candidates.

An estimator is asked about the candidates of a recorded node, in the state in which they were drawn, by the code that trains:
play under its configuration, the reward stage, the estimator. Whatever is not recorded is sampled. What is recorded is put
where its seeds are: a seed depends on step, problem, episode, turn, agent and candidate alone, so the engine answers the
seeds of the way to the node, and of its candidates, with what was recorded. One rollout holds as many candidates as its kind
compares:

- tree: all K at the node. Before it, all K candidates are the recorded choice, so that this is handed on.
- independent: at an episode's first node the K episodes of a problem take the K candidates. At a later one K rollouts take one
  each: in the first of a rollout's K episodes, which is led there; the others begin anew, as they would in training.
- nested: as many as fan out at the agent's place in the expanded turn, below each of the equal proposals before it. Steps are
  passed over until one expands the node's turn, however many turns after it the selected branch reaches.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from components.algorithms.registry import find_estimator
from components.config import RunConfig
from components.environments.base import NO_TOOLS, RecordingTools
from components.generation.base import Completion, GenerationRequest, Generator, Tokenizer
from components.identity import GroupKey
from components.rewards.credit import credit_rule
from components.rewards.score import score_shard
from components.rollout.branch import REPLAYED
from components.rollout.router import Router
from components.rollout.rules import SamplingRules, Start, rollout_rules
from components.rollout.sampler import collect_shard
from components.rollout.shards import NumberedProblem
from components.schema import Candidate, Episode, Node, PolicyVersion, RolloutShard
from components.session.scenario import Scenario, scenario_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a rollout holds a candidate: the node of `group`, at `index`; it is candidate `k` of decision `decision`."""

    group: GroupKey
    index: int
    decision: int
    k: int


@dataclass(slots=True, kw_only=True)
class Led:
    """One step's rollouts: which seeds are answered by what, and where the decisions' candidates are."""

    recorded: dict[int, Candidate] = field(default_factory=dict)
    places: list[Place] = field(default_factory=list)
    decisions: list[int] = field(default_factory=list)


class Recorded:
    """An engine that answers some seeds with what was recorded, and all others itself."""

    def __init__(self, generator: Generator, recorded: Mapping[int, Candidate]) -> None:
        self._generator = generator
        self._recorded = recorded

    @property
    def tokenizer(self) -> Tokenizer:
        return self._generator.tokenizer

    def generate(self, requests: Sequence[GenerationRequest], version: PolicyVersion) -> list[tuple[Completion, ...]]:
        free = [tuple(seed for seed in request.seeds_K if seed not in self._recorded) for request in requests]
        asked = [replace(request, seeds_K=seeds) for request, seeds in zip(requests, free, strict=True) if seeds]
        sampled = iter(self._generator.generate(asked, version) if asked else [])
        drawn = [iter(next(sampled) if seeds else ()) for seeds in free]
        return [
            tuple(
                _completion(self._recorded[seed], version) if seed in self._recorded else next(fresh)
                for seed in request.seeds_K
            )
            for request, fresh in zip(requests, drawn, strict=True)
        ]


def _completion(candidate: Candidate, version: PolicyVersion) -> Completion:
    return Completion(
        tokens=candidate.tokens,
        logprobs=candidate.sampler_logprobs,
        finish_reason=candidate.finish_reason,
        version=version,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """One kind's rollouts that hold the decisions: the shard of each step, and where the candidates are in it."""

    shards: tuple[tuple[Led, RolloutShard], ...]


def sample_rollouts(
    decisions: Sequence[Episode],
    config: RunConfig,
    generators: Mapping[str, Generator],
    versions: Mapping[str, PolicyVersion],
    tools: RecordingTools = NO_TOOLS,
) -> Sampled:
    """Rollouts under `config` that hold every candidate of every decision once. The decisions are of different problems."""
    scenario = scenario_of(config)
    names = [decision.problem.problem_id for decision in decisions]
    assert len(set(names)) == len(names), "two decisions of one problem would share seeds"
    shards = []
    for step, led in sorted(_find_leads(decisions, scenario).items()):
        engines: dict[str, Generator] = {
            policy: Recorded(generator, led.recorded)  # type: ignore[dict-item]
            for policy, generator in generators.items()
        }
        plan = replace(
            scenario.shard_plan(step=step, shard=0),
            problems=tuple(NumberedProblem(problem=decisions[each].problem, occurrence=0) for each in led.decisions),
        )
        router = Router(engines, seats=scenario.seats, versions=versions)
        shard = collect_shard(plan, family=scenario.family, router=router, rubric=scenario.training_rubric, tools=tools)
        shards.append((led, shard))
    return Sampled(shards=tuple(shards))


def advantages(
    decisions: Sequence[Episode], found: Sampled, config: RunConfig, tools: RecordingTools = NO_TOOLS
) -> list[tuple[float | None, ...]]:
    """The advantage of each candidate of each decision, by the estimator of `config`."""
    scenario, algorithm = scenario_of(config), config.algorithm
    given: list[list[float | None]] = [[None] * len(each.nodes[-1].candidates) for each in decisions]
    for led, shard in found.shards:
        scored = score_shard(
            shard,
            family=scenario.family,
            rubric=scenario.training_rubric,
            credit=credit_rule(config),
            tools=tools,
            overlong=scenario.overlong,
            own=scenario.own_rewards,
            turn_order=scenario.turn_order,
        )
        estimate = find_estimator(algorithm.advantage, source=algorithm.source)
        advantages_E_N_K = estimate(shard.episodes, scored.rewards_E_N_K, algorithm)
        at = {
            node.group: (node, advantages_K)
            for episode, advantages_N_K in zip(shard.episodes, advantages_E_N_K, strict=True)
            for node, advantages_K in zip(episode.nodes, advantages_N_K, strict=True)
        }
        for place in led.places:
            node, advantages_K = at[place.group]
            wanted = decisions[place.decision].nodes[-1]
            assert node.prompt_tokens == wanted.prompt_tokens, f"{place.group} was led into another state"
            assert node.candidates[place.index].tokens == wanted.candidates[place.k].tokens, f"{place} holds another"
            given[place.decision][place.k] = advantages_K[place.index]
    return [tuple(each) for each in given]


def _find_leads(decisions: Sequence[Episode], scenario: Scenario) -> dict[int, Led]:
    """Which step's rollouts hold which candidates."""
    found: dict[int, Led] = {}
    for number, decision in enumerate(decisions):
        for step, recorded, places in _rollouts(number, decision, scenario):
            led = found.setdefault(step, Led())
            led.recorded |= recorded
            led.places += places
            led.decisions.append(number)
    return found


Rollout = tuple[int, dict[int, Candidate], list[Place]]


def _rollouts(number: int, decision: Episode, scenario: Scenario) -> Iterator[Rollout]:
    mode = scenario.config.rollout.mode
    if mode == "nested":
        return _nest(number, decision, scenario)
    assert mode in ("tree", "independent"), f"no decision is of mode {mode}"
    return (_in_tree if mode == "tree" else _in_episodes)(number, decision, scenario)


def _rules(scenario: Scenario, step: int) -> SamplingRules:
    config = scenario.config
    return rollout_rules(
        config.rollout,
        turn_order=scenario.turn_order,
        max_turns=config.environment.max_turns,
        seed=config.seed,
        step=step,
    )


def _choose_candidate(node: Node) -> Candidate:
    return node.candidates[node.chosen]


def _in_tree(number: int, decision: Episode, scenario: Scenario) -> Iterator[Rollout]:
    rules, (*before, node) = _rules(scenario, 0), decision.nodes
    recorded = {seed: _choose_candidate(each) for each in before for seed in rules.seeds(each.group)}
    recorded |= dict(zip(rules.seeds(node.group), node.candidates, strict=True))
    places = [Place(group=node.group, index=k, decision=number, k=k) for k in range(len(node.candidates))]
    yield 0, recorded, places


def _in_episodes(number: int, decision: Episode, scenario: Scenario) -> Iterator[Rollout]:
    *before, node = decision.nodes
    if not before:
        groups = [replace(node.group, episode=k) for k in range(len(node.candidates))]
        rules = _rules(scenario, 0)
        recorded = {rules.seeds(group)[0]: c for group, c in zip(groups, node.candidates, strict=True)}
        yield 0, recorded, [Place(group=group, index=0, decision=number, k=k) for k, group in enumerate(groups)]
        return
    for k, candidate in enumerate(node.candidates):
        rules = _rules(scenario, k)
        recorded = {rules.seeds(each.group)[0]: _choose_candidate(each) for each in before}
        recorded |= {rules.seeds(node.group)[0]: candidate}
        yield k, recorded, [Place(group=node.group, index=0, decision=number, k=k)]


def _nest(number: int, decision: Episode, scenario: Scenario) -> Iterator[Rollout]:
    node = decision.nodes[-1]
    start = Start(problem=decision.problem, episode=node.group.episode)
    max_turns = scenario.config.environment.max_turns
    steps = (step for step in count() if _rules(scenario, step).expanded_turn(start, max_turns) == node.group.turn)
    waiting = list(range(len(node.candidates)))
    for step in steps:
        if not waiting:
            return
        rules = _rules(scenario, step)
        recorded, slots = _find_expanded_nodes(decision, rules)
        held = list(zip(slots, waiting, strict=False))
        waiting = waiting[len(held) :]
        recorded |= {rules.seeds(group, index + 1)[index]: node.candidates[k] for (group, index), k in held}
        yield step, recorded, [Place(group=group, index=index, decision=number, k=k) for (group, index), k in held]


def _find_expanded_nodes(
    decision: Episode, rules: SamplingRules
) -> tuple[dict[int, Candidate], list[tuple[GroupKey, int]]]:
    """What leads to the decision's nodes in its expanded turn, and those nodes with the indices of their candidates.

    A node below candidate k > 0 of the n-th answer has "n.k" in its group's branch; below candidate 0 that line goes on.
    """
    *before, node = decision.nodes
    earlier = [each for each in before if each.group.turn < node.group.turn]
    recorded = {rules.seeds(each.group, 1)[0]: _choose_candidate(each) for each in earlier}
    branches = [REPLAYED]
    for n, each in enumerate(before[len(earlier) :], start=len(earlier)):
        fan_out = rules.branching[n - len(earlier)]
        for branch in branches:
            seeds = rules.seeds(replace(each.group, branch=branch), fan_out)
            recorded |= dict.fromkeys(seeds, _choose_candidate(each))
        branches = [under for branch in branches for under in (branch, *_below(branch, n, fan_out))]
    fan_out = rules.branching[len(before) - len(earlier)]
    return recorded, [(replace(node.group, branch=branch), k) for branch in branches for k in range(fan_out)]


def _below(branch: str, answer: int, fan_out: int) -> Iterable[str]:
    return (f"{branch}/{answer}.{k}".lstrip("/") for k in range(1, fan_out))
