"""Plans of engines and ranks on machines that are not here, from closed forms and over all small configurations."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.config import RunConfig
from components.errors import ConfigurationError
from components.models.model_sizes import model_sizes
from components.placement import this_machine
from components.placement.fit import check_plan
from components.placement.inventory import Host, choose_visible, parse_inventory
from components.placement.plan import Plan, plan
from flows.preflight.checks import check_devices
from flows.presets import preset_config

TINY = "{base: tiny}"
ON_GPUS = ["generation.engine=vllm", "generation.device=cuda", "training.device=cuda", "resources.runner=ray"]
TWO_MODELS = [
    f"policies={{tool: {TINY}, plan: {TINY}}}",
    "agents={tool_agent: {policy: tool}, plan_agent: {policy: plan}}",
]


def configure(*overrides: str) -> RunConfig:
    return preset_config("tiny", [*ON_GPUS, *overrides])


def list_places(found: Plan) -> dict[str, tuple[int, tuple[int, ...]]]:
    return {str(worker): (worker.host, worker.devices) for worker in found.workers}


def test_a_team_of_one_policy_has_four_replicas_beside_four_ranks() -> None:
    config = configure("resources.placement={replicas: 4, share: apart}", "training.num_ranks=4")
    assert list_places(plan(config, parse_inventory("8x80"))) == {
        **{f"engine {number} of team": (0, (number,)) for number in range(4)},
        **{f"rank {number} of team": (0, (4 + number,)) for number in range(4)},
    }


def test_two_full_models_have_two_replicas_and_two_ranks_each() -> None:
    config = configure(*TWO_MODELS, "resources.placement={replicas: 2, share: apart}", "training.num_ranks=2")
    found = plan(config, parse_inventory("8x80"))
    assert sorted(device for worker in found.workers for device in worker.devices) == list(range(8))
    assert [worker.devices for worker in found.select("rank", "tool")] == [(6,), (7,)]


def test_in_turns_ranks_have_the_devices_of_their_engines() -> None:
    config = configure("resources.placement={replicas: 2, share: turns}", "training.num_ranks=2")
    assert [worker.devices for worker in plan(config, parse_inventory("2x80")).workers] == [(0,), (1,), (0,), (1,)]


def test_a_model_over_two_devices_stays_on_one_host_and_ranks_spread_over_hosts() -> None:
    config = configure(
        "generation.vllm.tensor_parallel_size=2", "training.num_ranks=2",
        "resources.placement={replicas: 2, ranks: spread}",
    )  # fmt: skip
    assert list_places(plan(config, parse_inventory("2x3x80"))) == {
        "engine 0 of team": (0, (0, 1)),
        "engine 1 of team": (1, (0, 1)),
        "rank 0 of team": (0, (2,)),
        "rank 1 of team": (1, (2,)),
    }


def test_servers_that_share_a_device_start_one_after_another() -> None:
    found = plan(configure("resources.placement.replicas=5"), parse_inventory("3x80"))
    groups = [[worker.number for worker in group] for group in found.group_starts()]
    assert groups == [[0, 1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("overrides", "inventory", "message"),
    [
        (["resources.placement.share=apart"], "1x80", r"share apart: no 1 free GPUs of one host are left for 1 ranks of team"),
        (["generation.vllm.tensor_parallel_size=4"], "2x2x80", r"engine 0 of team needs 4 GPUs of one host, .* are 2 \+ 2"),
        (["resources.placement.ranks=spread", "training.num_ranks=3"], "2x8x80", r"3 ranks and there are 2 hosts"),
        (["resources.placement.share=turns", "training.num_ranks=2"], "8x80", r"set training\.num_ranks to 1"),
        (["resources.runner=thread", "training.num_ranks=3"], "2x2x80", r"3 ranks of team needs 3 GPUs of one host"),
    ],
)  # fmt: skip
def test_what_finds_no_place_is_one_line(overrides: list[str], inventory: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as refused:
        plan(configure(*overrides), parse_inventory(inventory))
    assert "\n" not in str(refused.value)


@given(
    replicas=st.integers(1, 3), width=st.integers(1, 2), num_ranks=st.integers(1, 3),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
)  # fmt: skip
def test_every_plan_is_whole_and_shares_devices_only_when_all_are_taken(
    replicas: int, width: int, num_ranks: int, sizes: list[int]
) -> None:
    config = configure(
        f"resources.placement.replicas={replicas}",
        f"generation.vllm.tensor_parallel_size={width}",
        f"training.num_ranks={num_ranks}",
    )  # fmt: skip
    inventory = tuple(
        Host(name=str(n), devices=parse_inventory(f"{size}x80")[0].devices) for n, size in enumerate(sizes)
    )
    if max(sizes) < max(width, num_ranks):
        with pytest.raises(ConfigurationError):
            plan(config, inventory)
        return
    found = plan(config, inventory)
    assert len(found.select("engine", "team")) == replicas
    assert len({(rank.host, *rank.devices) for rank in found.select("rank", "team")}) == num_ranks, "a device each"
    assert all(len({*worker.devices}) == (width if worker.kind == "engine" else 1) for worker in found.workers)
    load = Counter((worker.host, device) for worker in found.workers for device in worker.devices)
    assert all(device < sizes[host] for host, device in load)
    for group in found.group_starts():
        devices = [(worker.host, device) for worker in group for device in worker.devices]
        assert len(devices) == len({*devices})
    if len(sizes) == 1 and width == 1:
        assert max(load.values()) - min(load[0, device] for device in range(sizes[0])) <= 1


@pytest.mark.parametrize(
    ("inventory", "message"),
    [
        ("1x8", "memory of device cuda: the run needs about"),
        ("1x16", None),
        ("1x24", None),
        ("1x80", None),
        ("8x80", None),
        ("2x8x80", None),
    ],
)
def test_the_presets_for_one_gpu_fit_into_the_one_that_they_name(inventory: str, message: str | None) -> None:
    config = preset_config("math-qwen", [])
    sizes = {"team": model_sizes([config.policies["team"]])}
    found = plan(config, parse_inventory(inventory))
    if message is None:
        check_plan(config, found, sizes, num_tokens=0)
        return
    with pytest.raises(ConfigurationError, match=message) as refused:
        check_plan(config, found, sizes, num_tokens=0)
    assert "\n" not in str(refused.value)


def test_a_model_that_its_server_cannot_hold_needs_more_devices() -> None:
    config = preset_config("math-qwen", ["resources.placement.memory_fraction=0.15"])
    sizes = {"team": model_sizes([config.policies["team"]])}
    with pytest.raises(
        ConfigurationError, match=r"weights of team take 2\.9 GiB of each device, and its server reserves 2\.4"
    ):
        check_plan(config, plan(config, parse_inventory("8x16")), sizes, num_tokens=0)
    halved = preset_config(
        "math-qwen", ["resources.placement.memory_fraction=0.15", "generation.vllm.tensor_parallel_size=2"]
    )
    check_plan(halved, plan(halved, parse_inventory("8x16")), sizes, num_tokens=0)


LISTED = "0, GPU-aaaa1, 81559\n1, GPU-bbbb2, 81559\n2, GPU-bbbc3, 24564\n"


@pytest.mark.parametrize(
    ("visible", "names"),
    [(None, "012"), ("2,0", "20"), ("GPU-bbbb,GPU-aaaa1", "10"), ("", ""), ("1,-1,2", "1"), (" 1 ", "1")],
)
def test_the_devices_that_the_user_leaves_visible_in_that_order(visible: str | None, names: str) -> None:
    devices = choose_visible(LISTED, visible)
    assert "".join(device.name for device in devices) == names
    assert all(device.num_bytes == (24564 if device.name == "2" else 81559) << 20 for device in devices)


@pytest.mark.parametrize("visible", ["3", "GPU-bbb", "MIG-1f", "0,x"])
def test_a_device_that_is_not_whole_or_not_here_is_named(visible: str) -> None:
    with pytest.raises(ConfigurationError, match=r"CUDA_VISIBLE_DEVICES .* is none of the GPUs"):
        choose_visible(LISTED, visible)


@pytest.mark.parametrize("text", ["", "8", "0x80", "8x0", "1x1x1x1", "8x80gb", "-1x8"])
def test_an_inventory_is_written_in_one_way(text: str) -> None:
    with pytest.raises(ConfigurationError, match="write GPUSxGIB"):
        parse_inventory(text)
    assert [len(host.devices) for host in parse_inventory("2x8x80")] == [8, 8]


def test_no_worker_is_planned_where_servers_run_already() -> None:
    config = configure("generation.vllm.urls=[https://far:1]")
    assert [worker.kind for worker in plan(config, parse_inventory("1x80")).workers] == ["rank"]
    assert list(itertools.chain(*plan(config, parse_inventory("1x80")).group_starts())) == []


def test_a_model_says_on_which_devices_it_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = choose_visible(LISTED, "2,0,1")
    monkeypatch.setattr(this_machine, "read_this_host", lambda environment: Host(name="here", devices=devices))
    config = preset_config("tiny", [*ON_GPUS[1:3], *TWO_MODELS])
    assert this_machine.rank_devices(config, "plan") == ("1",), "engines of both on 2 and 0, ranks on 1 and 2"


def test_turns_are_refused_by_name_until_a_gpu_has_shown_them() -> None:
    with pytest.raises(ConfigurationError, match=r"resources\.placement\.share turns: not offered"):
        check_devices(preset_config("tiny", ["resources.placement.share=turns"]))
