"""A changed record is refused."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.artifacts.local import LocalArtifactStore
from components.artifacts.parallel import in_parallel
from components.artifacts.records import DIGEST, read_as, read_verified, remedy, with_digest
from components.artifacts.refs import ArtifactRef
from components.errors import ArtifactCorrupt
from components.identity import StageKey
from components.runs.stage_protocol import manifest_key, read_committed, run_stage

KEY = StageKey(
    run_id="r7", step=12, stage="compute_rewards", version=1, part="0", lineage=0, depends_on="0123456789abcdef"
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(value=st.dictionaries(st.text().filter(lambda name: name != DIGEST), plain, max_size=4))
def test_what_was_sealed_comes_back(value: dict[str, Any]) -> None:
    assert read_verified("k", with_digest(value)) == value
    assert read_verified("k", with_digest(value, indent=1)) == value
    assert read_verified("k", json.dumps(value).encode()) == value, "as versions without digests wrote it"


@given(value=st.dictionaries(st.text("abc", min_size=1), st.integers(0, 999), min_size=1, max_size=4), data=st.data())
def test_any_changed_or_lost_byte_is_noticed(value: dict[str, int], data: st.DataObject) -> None:
    content = with_digest(value)
    at = data.draw(st.integers(0, len(content) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[at]))
    for damaged in (content[:at], content[:at] + bytes([other]) + content[at + 1 :]):
        with suppress(ArtifactCorrupt):
            found = read_verified("k", damaged)
            # White space, or the name of the digest's field: then it is a record without a digest.
            assert {name: found[name] for name in value} == value


def test_a_changed_digit_in_a_manifest_is_corrupt_and_names_it(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path)
    run_stage(store, KEY, lambda: {"success": 0.125}, dict[str, float])
    content = store.read(manifest_key(KEY)) or b""
    assert read_committed(store, KEY, dict[str, float]) == {"success": 0.125}
    store.delete(manifest_key(KEY))
    store.create(manifest_key(KEY), content.replace(b"0.125", b"0.925"))
    with pytest.raises(ArtifactCorrupt) as caught:
        read_committed(store, KEY, dict[str, float])
    assert str(caught.value) == (
        f"{manifest_key(KEY)}: its content differs from its digest, so it was changed after it was written; "
        "`troupe verify r7` says what makes it again"
    )


def test_a_metric_that_is_no_number_is_sealed_as_it_is() -> None:
    found = read_verified("k", with_digest({"loss": float("nan"), "bound": float("inf")}))
    assert found["loss"] != found["loss"]
    assert found["bound"] == float("inf")


def test_a_reference_keeps_its_own_digest() -> None:
    ref = ArtifactRef(kind="bytes", key="payloads/ab/cd", sha256="cd", num_bytes=2)
    assert read_as("k", with_digest(ref.model_dump(mode="json")), ArtifactRef) == ref
    assert read_as("k", ref.model_dump_json().encode(), ArtifactRef) == ref


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("runs/_shared/steps/000000/warm_start-v2/all/l0-9f/manifest.json", "makes it again"),
        ("runs/r.1/steps/000003/update_policy-v1/team/l0-9f/manifest.json", "`troupe verify r.1` says what makes it again"),
        ("runs/r/lineages/000001.json", "use the version of Troupe that wrote it"),
        ("elsewhere", "restore it from a copy, or delete it"),
    ],
)  # fmt: skip
def test_remedies_follow_from_the_place(key: str, told: str) -> None:
    assert told in remedy(key)


def test_work_side_by_side_keeps_its_order_and_ends_with_the_first_error() -> None:
    counts: list[int] = []
    assert in_parallel(lambda number: number * number, range(40), done=counts.append) == [n * n for n in range(40)]
    assert counts == list(range(1, 41))
    with pytest.raises(ZeroDivisionError):
        in_parallel(lambda number: 1 // (number - 7), range(40))
