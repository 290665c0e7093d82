"""Each step takes fresh problems, split evenly in order."""

from hypothesis import given
from hypothesis import strategies as st

from components.config import RolloutConfig, RunConfig
from components.rollout.rules import episode_starts
from components.rollout.shards import problem_indices, shard_problems
from tests.components.rollout.toy_team import ToyFamily, ToyOptions
from tests.sections import make_config


def config(num_problems: int, num_shards: int) -> RunConfig:
    rollout = {"num_problems": num_problems, "num_shards": num_shards}
    return make_config("toy", "agent0", num_steps=3, seed=4, rollout=rollout)


@given(st.integers(0, 50), st.integers(1, 60), st.data())
def test_shards_cover_the_step_once_in_order_and_differ_by_at_most_one(
    step: int, num_problems: int, data: st.DataObject
) -> None:
    num_shards = data.draw(st.integers(1, num_problems))
    shards = [problem_indices(step, num_problems, shard, num_shards) for shard in range(num_shards)]
    assert [i for shard in shards for i in shard] == list(range(step * num_problems, (step + 1) * num_problems))
    sizes = {len(shard) for shard in shards}
    assert max(sizes) - min(sizes) <= 1


def test_equal_problems_of_a_step_are_numbered_through_its_shards() -> None:
    family, options = ToyFamily(1), ToyOptions(num_names=3)
    whole = shard_problems(config(8, 1), family, options, step=1, shard=0)
    split = [shard_problems(config(8, 3), family, options, step=1, shard=shard) for shard in range(3)]
    assert tuple(each for shard in split for each in shard) == whole
    assert [each.problem.payload["name"][-1] for each in whole] == ["2", "0", "1", "2", "0", "1", "2", "0"]
    assert [each.occurrence for each in whole] == [0, 0, 0, 1, 1, 1, 2, 2]


def test_episodes_of_equal_problems_never_share_a_number() -> None:
    problems = shard_problems(config(8, 1), ToyFamily(1), ToyOptions(num_names=3), step=0, shard=0)
    for mode, expected in (("tree", 8), ("independent", 32)):
        played = episode_starts(problems, RolloutConfig(mode=mode, group_size=4))
        assert len({(start.problem.problem_id, start.episode) for start in played}) == expected == len(played)
