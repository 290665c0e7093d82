import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.identity import StageKey, canonical_json, check_run_id, content_id, fingerprint, seed_for


@given(st.integers(), st.lists(st.integers() | st.text(), max_size=4))
def test_a_seed_is_a_63_bit_function_of_its_parts(seed: int, parts: list[int | str]) -> None:
    assert 0 <= seed_for(seed, *parts) < 2**63
    assert seed_for(seed, *parts) == seed_for(seed, *parts)


def test_seeds_differ_by_every_part_and_by_how_parts_are_cut() -> None:
    seeds = {
        seed_for(0, "rollout", 1), seed_for(1, "rollout", 1), seed_for(0, "rollout", 2),
        seed_for(0, "rollout", "1"), seed_for(0, "rollout1"), seed_for(0, "rollout", 1, 0),
    }  # fmt: skip
    assert len(seeds) == 6


def test_a_fingerprint_ignores_the_order_of_keys_and_nothing_else() -> None:
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 1.5})
    with pytest.raises(ValueError, match="Out of range float"):
        canonical_json(float("nan"))


def test_a_stage_key_can_be_read_aloud() -> None:
    key = StageKey(
        run_id="r7", step=12, stage="compute_rewards", version=1, part="0", lineage=2, depends_on="9f2c"
    )  # fmt: skip
    assert key.path == "runs/r7/steps/000012/compute_rewards-v1/0/l2-9f2c"


@pytest.mark.parametrize("run_id", ["a", "plan-path", "r7.b_c", "9" * 63])
def test_run_ids_that_every_store_can_spell_pass(run_id: str) -> None:
    assert check_run_id(run_id) == run_id


@pytest.mark.parametrize("run_id", ["", "-a", "_shared", "A", "a/b", "a b", "../x", "a" * 64])
def test_other_run_ids_are_refused_with_the_rule(run_id: str) -> None:
    with pytest.raises(ConfigurationError, match="use 1 to 63 of"):
        check_run_id(run_id)


def test_equal_content_has_one_id() -> None:
    assert content_id("x", {"a": 1, "b": 2}) == content_id("x", {"b": 2, "a": 1}) != content_id("x", {"a": 1, "b": 3})
