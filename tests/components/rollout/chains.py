"""Trees checked from their records alone: every prompt and outcome again, from a fresh environment and the chain of answers."""

from typing import Any

from components.rewards.base import Rubric
from components.schema import ROOT, ActionOutcome, Episode

Chain = tuple[tuple[int, int], ...]
"""(node, candidate) of each answer before a node, from the start."""


def chain_of(episode: Episode, n: int) -> Chain:
    """The answers before node `n`."""
    node = episode.nodes[n]
    if node.parent == ROOT:
        return ()
    if node.parent is not None:
        return (*chain_of(episode, node.parent[0]), node.parent)
    before = [m for m in range(n) if episode.nodes[m].parent is None]
    return tuple((m, episode.nodes[m].chosen) for m in before)


def standing_at(episode: Episode, chain: Chain, family: Any, parallel_index: int = 0) -> Any:
    """A fresh environment after a chain. Answers after one that ends the episode are not applied."""
    env = family.build(episode.problem)
    for n, k in chain:
        node = episode.nodes[n]
        before = env.position
        env.apply(node.group.agent, node.candidates[k].text)
        if env.done:
            env.position = before
            break
    return env


def check_chains(episode: Episode, family: Any, router: Any) -> None:
    """Assert that each node was sampled and stepped where its chain of answers leads, and that keys are unique."""
    keys = [node.group for node in episode.nodes]
    assert len(set(keys)) == len(keys)
    for n, node in enumerate(episode.nodes):
        assert node.parent is None or node.parent[0] < n
        chain = chain_of(episode, n)
        asked_at = standing_at(episode, chain[: len(chain) - node.parallel_index], family)
        assert router.encode(node.group.agent, asked_at.observe(node.group.agent)) == node.prompt_tokens
        for candidate in node.candidates:
            env = standing_at(episode, chain, family)
            assert env.apply(node.group.agent, candidate.text) == candidate.outcome


def fork_of(episode: Episode, n: int) -> tuple[int, int] | None:
    """The candidate of the selected branch below which node `n` hangs; None for one on it."""
    parent = episode.nodes[n].parent
    if parent is None or parent == ROOT or episode.nodes[parent[0]].parent is None:
        return parent
    return fork_of(episode, parent[0])


def end_in_a_tree(episode: Episode, n: int, k: int) -> ActionOutcome:
    """The last outcome of the continuation of a candidate, or its own without one."""
    line = [node.candidates[0].outcome for m, node in enumerate(episode.nodes) if fork_of(episode, m) == (n, k)]
    ended = [outcome for outcome in line if outcome.done]
    return (ended[:1] or line[-1:] or [episode.nodes[n].candidates[k].outcome])[0]


def team_of_leaves(episode: Episode, n: int, k: int, rubric: Rubric) -> float:
    """The mean team term of the answers below a candidate that nothing follows, each as likely as the line to it."""
    chains = [chain_of(episode, m) for m in range(len(episode.nodes))]
    total = 0.0
    for m, node in enumerate(episode.nodes):
        for j, candidate in enumerate(node.candidates):
            chain = (*chains[m], (m, j))
            if (n, k) not in chain:
                continue
            below = chain[chain.index((n, k)) :]
            has_ended = any(episode.nodes[a].candidates[b].outcome.done for a, b in below[:-1])
            if not has_ended and (candidate.outcome.done or chain not in chains):
                chance = 1.0
                for a, _ in below[1:]:
                    chance /= len(episode.nodes[a].candidates)
                total += chance * rubric.team(candidate.outcome)
    return total


def shape_of(episode: Episode) -> list[tuple[int, str, tuple[int, int] | None, int]]:
    """Turn, agent, parent and number of candidates of each node."""
    return [(each.group.turn, each.group.agent, each.parent, len(each.candidates)) for each in episode.nodes]


def path_of(episode: Episode) -> list[Any]:
    """What was played on the selected branch, without keys of the tree."""
    return [(node.group, node.prompt_tokens, node.candidates, node.chosen) for node in episode.path]
