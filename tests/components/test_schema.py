"""The selected branch of an episode, and what is counted over all of its nodes."""

from components.identity import GroupKey
from components.schema import ActionOutcome, Candidate, Episode, Node, Problem


def node(turn: int, agent: str, *, parent: tuple[int, int] | None = None, ends: bool = False, num: int = 1) -> Node:
    outcome = ActionOutcome(team={}, local={}, solves=ends, done=ends)
    answer = Candidate(
        tokens=(7,), sampler_logprobs=(-1.0,), finish_reason="stop", text="a", outcome=outcome, reward=0.0
    )
    branch = "" if parent is None else f"{parent[0]}.{parent[1]}"
    group = GroupKey(problem_id="p", episode=0, turn=turn, agent=agent, branch=branch)
    return Node(group=group, policy="team", prompt_tokens=(1,), candidates=(answer,) * num, chosen=0, parent=parent)


def episode_of(*nodes: Node) -> Episode:
    problem = Problem(problem_id="p", environment="e", payload={})
    return Episode(problem=problem, episode=0, nodes=nodes, success=False)


def test_the_path_is_the_nodes_without_a_parent_and_ends_where_one_of_them_ends_the_episode() -> None:
    first, below, last = node(0, "a", num=2), node(0, "b", parent=(0, 1), ends=True), node(0, "b", num=2)
    episode = episode_of(first, below, last)
    assert episode.path == (first, last)
    assert episode.final == 2
    assert episode_of(node(0, "a", ends=True), below, node(0, "c")).final == 0
    assert episode_of().final is None
    assert episode.num_generated_tokens == 5


def test_seeds_and_names_of_nodes_below_different_candidates_differ() -> None:
    plain = GroupKey(problem_id="p", episode=0, turn=1, agent="a")
    below = [GroupKey(problem_id="p", episode=0, turn=1, agent="a", branch=branch) for branch in ("2.5", "2.5/3.0")]
    assert plain.seed_parts == ("p", 0, 1, "a")
    assert len({key.seed_parts for key in (plain, *below)}) == 3
    assert [str(key) for key in below] == ["p/e0/t1/a below 2.5", "p/e0/t1/a below 2.5/3.0"]


def test_team_components_of_an_episode_are_those_from_its_start_where_they_differ() -> None:
    outcome = ActionOutcome(team={"solved": 0.0, "progress": 0.5}, local={}, solves=False, done=False)
    assert outcome.team_of_episode == outcome.team
    later = ActionOutcome(
        team={"solved": 0.0, "progress": 0.5},
        local={},
        solves=False,
        done=False,
        team_from_start={"progress": 0.625},
    )
    assert later.team_of_episode == {"solved": 0.0, "progress": 0.625}
