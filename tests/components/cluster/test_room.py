import pytest

from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.cluster import engines, room
from components.cluster.engine_actor import EngineOrder
from components.cluster.engines import order_engines
from components.cluster.room import share_gpus
from components.errors import ConfigurationError
from components.placement.inventory import Inventory, parse_inventory
from components.runs.run import Run
from flows.presets import preset_config

ON_GPUS = ("resources.runner=ray", "generation.engine=vllm", "generation.device=cuda", "training.device=cuda")
ADAPTERS = (
    "policies={tool: {base: tiny, adapter: {rank: 4}}, plan: {base: tiny, adapter: {rank: 12}}}",
    "agents={tool_agent: {policy: tool}, plan_agent: {policy: plan}}",
)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Inventory:
    found = parse_inventory(request.param)
    for module in (room, engines):
        monkeypatch.setattr(module, "read_cluster", lambda: found)
    return found


@pytest.mark.parametrize(
    ("cluster", "replicas", "width", "expected"),
    [
        ("2x4x1", 3, 2, (1.0, 1.0)),
        ("2x1x1", 1, 1, (1.0, 1.0)),
        ("1x1x1", 1, 1, (0.5, 0.5)),
        ("1x2x1", 3, 1, (0.5, 0.5)),
    ],
    indirect=["cluster"],
)
def test_workers_ask_for_whole_gpus_where_there_are_enough(
    cluster: Inventory, replicas: int, width: int, expected: tuple[float, float]
) -> None:
    """Together never for more than there are."""
    more = (f"resources.placement.replicas={replicas}", f"generation.vllm.tensor_parallel_size={width}")
    config = preset_config("tiny", [*ON_GPUS, *more])
    found = share_gpus(config, "engine", "team"), share_gpus(config, "rank", "team")
    assert found == pytest.approx(expected)
    assert replicas * width * found[0] + found[1] <= sum(len(host.devices) for host in cluster) + 1e-9


@pytest.mark.parametrize(
    ("cluster", "more", "message"),
    [
        ("1x2x1", "generation.vllm.tensor_parallel_size=2", "a server on several GPUs shares none"),
        ("2x2x1", "generation.vllm.tensor_parallel_size=4", "engine 0 of team needs 4 GPUs of one host"),
        ("1x1x1", "resources.placement.share=apart", "share apart: no 1 free GPUs"),
    ],
    indirect=["cluster"],
)
def test_a_cluster_without_room_is_refused_in_one_line(cluster: Inventory, more: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        share_gpus(preset_config("tiny", [*ON_GPUS, more]), "engine", "team")


@pytest.mark.parametrize("cluster", ["1x2x1"], indirect=True)
def test_servers_have_room_for_the_adapters_that_share_a_base(cluster: Inventory) -> None:
    ref = ArtifactRef(kind="folder", key="folders/f", sha256="00", num_bytes=1)
    checkpoints = {
        name: CheckpointRef(policy=name, step=0, folder=ref, weights_digest="w", optimizer_digest="o", base=ref)
        for name in ("tool", "plan")
    }
    run = Run(run_id="r", config=preset_config("tiny", [*ON_GPUS, *ADAPTERS, "resources.placement.replicas=2"]))
    orders = {name: EngineOrder.model_validate_json(order) for name, order in order_engines(run, checkpoints).items()}
    assert list(orders) == ["r/engine/plan+tool/0", "r/engine/plan+tool/1"]
    first = orders["r/engine/plan+tool/0"]
    assert (first.num_adapters, first.max_rank, first.checkpoint.base) == (2, 12, ref)
    assert [each.memory_fraction for each in orders.values()] == [0.5, 0.9], "one shares its GPU with the rank"
