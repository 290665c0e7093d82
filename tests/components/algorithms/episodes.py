"""Hand-made shards with given rewards."""

from components.identity import GroupKey
from components.schema import ActionOutcome, Candidate, Episode, Node, PolicyVersion, Problem, RolloutShard, ScoredShard

POLICY_OF = {"tool": "small", "plan": "large"}


def candidate(token: int) -> Candidate:
    return Candidate(
        tokens=(token, 0),
        sampler_logprobs=(-0.5, -token / 10),
        finish_reason="stop",
        text=str(token),
        outcome=ActionOutcome(team={}, local={}, solves=False, done=False),
        reward=-1.0,
    )


def node(problem_id: str, episode: int, turn: int, agent: str, num: int, chosen: int = 0) -> Node:
    return Node(
        group=GroupKey(problem_id=problem_id, episode=episode, turn=turn, agent=agent),
        policy=POLICY_OF[agent],
        prompt_tokens=(ord(problem_id[0]), episode, turn, len(agent)),
        candidates=tuple(candidate(token) for token in range(1, num + 1)),
        chosen=chosen,
    )


def episode(
    problem_id: str, number: int, agents: str, num: int = 1, *, error: str | None = None, chosen: int = 0
) -> Episode:
    """`agents` has one letter a node: t tool, p plan; each p ends a turn."""
    turns, turn = [], 0
    for letter in agents:
        turns.append(node(problem_id, number, turn, {"t": "tool", "p": "plan"}[letter], num, chosen))
        turn += letter == "p"
    problem = Problem(problem_id=problem_id, environment="toy", payload={})
    return Episode(problem=problem, episode=number, nodes=tuple(turns), success=False, error=error)


def shard(*episodes: Episode, number: int = 0, step: int = 4) -> RolloutShard:
    versions = {p: PolicyVersion(policy=p, step=step, weights_digest="d") for p in ("small", "large")}
    return RolloutShard(step=step, shard=number, policy_versions=versions, episodes=episodes)


def scores(*rewards_E_N_K: tuple[tuple[float | None, ...], ...], number: int = 0, step: int = 4) -> ScoredShard:
    return ScoredShard(step=step, shard=number, rewards_E_N_K=rewards_E_N_K)
