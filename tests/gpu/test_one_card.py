"""One card in twelve minutes: vLLM servers on it, alone, asleep, twice and beside a trainer. Prints what it measured.

`TROUPE_TEST_DEVICE=cpu` tries all but sleep without a card.
"""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from components.config import TrainingConfig, VllmConfig
from components.generation.refresh import refresh
from components.generation.vllm.engine import VllmGenerator
from components.generation.vllm.launch import ServedModel
from components.generation.vllm.transport import Transport
from components.schema import PolicyVersion
from infra.services.secrets import ensure_secret
from infra.services.service import Launch
from infra.services.vllm_server import VllmService, key_file
from infra.services.vllm_stack import down_vllm, start_servers
from tests.gpu.test_training import make_job, make_trainer, write_initial
from tests.integration.vllm_servers import needs_vllm, save_adapter, save_model
from tests.sections import choose_generation

DEVICE = os.environ.get("TROUPE_TEST_DEVICE", "cuda")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.timeout(720),
    pytest.mark.skipif(DEVICE == "cuda" and not torch.cuda.is_available(), reason="needs a CUDA device"),
    needs_vllm,
]
SMALL = VllmConfig(kv_cache_gib=0.125, max_model_tokens=256, max_requests_at_once=32, port=18100)
CONFIG = choose_generation(
    engine="vllm", device=DEVICE, dtype="bfloat16" if DEVICE == "cuda" else "float32", vllm=SMALL
)


class SleepingService(VllmService):
    """A server that can be put to sleep."""

    def launch(self, *args: Any) -> Launch:
        found = super().launch(*args)
        return replace(found, command=(*found.command, "--enable-sleep-mode"))


class Card:
    """Servers on the first device, and the engine over them."""

    def __init__(self, home: Path, kind: type[VllmService], *, fractions: tuple[float, ...]) -> None:
        self.home = home
        self.base, self.probe = save_model(0, home / "base")
        devices = ("0",) if DEVICE == "cuda" else ()
        served = [
            ServedModel(
                name="team", folder=home / "base", num_adapters=2, max_rank=4, devices=devices, memory_fraction=fraction
            )
            for fraction in fractions
        ]
        with tell(f"{len(served)} servers up, one after another"):
            groups = [[kind(number, model, CONFIG)] for number, model in enumerate(served)]
            self.urls = list(start_servers(home, groups).values())
        self.engine = self.open_engine()

    def open_engine(self) -> VllmGenerator:
        return VllmGenerator(CONFIG, model="team", urls=self.urls, key=ensure_secret(key_file(self.home)))

    def adapt(self, seed: int, engine: VllmGenerator | None = None) -> None:
        """Load an adapter, and prove it."""
        version, probe = save_adapter(seed, self.home / f"adapter-{seed}", policy="plan")
        self.refresh(engine or self.engine, version, probe, adapter=self.home / f"adapter-{seed}")

    def refresh(self, engine: VllmGenerator, version: PolicyVersion, probe: Any, **where: Any) -> None:
        with tell(f"refresh to {version.policy}@{version.step}") as figures:
            found = {"folder": self.home / "base", **where}
            figures["probe"] = refresh(engine, version=version, probe=probe, tolerance=CONFIG.probe_tolerance, **found)

    def post(self, path: str) -> None:
        async def call() -> None:
            transport = Transport(ensure_secret(key_file(self.home)))
            try:
                await transport.call(self.urls[0], path, b"{}", timeout_seconds=120)
            finally:
                await transport.close()

        with tell(path):
            asyncio.run(call())


@contextmanager
def tell(what: str) -> Iterator[dict[str, float]]:
    """Print the seconds of the block, what it adds, and the device's memory after it."""
    began, figures = time.perf_counter(), dict[str, float]()
    yield figures
    facts = "  ".join(f"{name} {value:.2e}" for name, value in figures.items())
    print(f"{what:40} {time.perf_counter() - began:7.2f} s  {read_used_mebibytes():>9}  {facts}")


def read_used_mebibytes() -> str:
    if DEVICE != "cuda":
        return "-"
    query = ["nvidia-smi", "--id=0", "--query-gpu=memory.used", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def card(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Card]:
    kind, fractions = request.param
    try:
        found = Card(tmp_path, kind, fractions=fractions)
        yield found
        found.engine.close()
    finally:
        down_vllm(tmp_path)


@pytest.mark.parametrize("card", [(VllmService, (0.3,))], indirect=True)
def test_a_server_takes_adapters_and_a_base_beside_a_trainer(card: Card, tmp_path: Path) -> None:
    card.refresh(card.engine, card.base, card.probe)
    for seed in (1, 2, 3):
        card.adapt(seed)
    other, probe = save_model(5, tmp_path / "other", step=5)
    card.refresh(card.engine, other, probe, folder=tmp_path / "other")
    card.refresh(card.engine, card.base, card.probe)

    training = TrainingConfig(learning_rate=1e-3, device=DEVICE, dtype=CONFIG.dtype)
    trainer = make_trainer(training)
    try:
        checkpoint = write_initial(tmp_path)
        for step in ("first", "second"):
            with tell(f"{step} update beside the server"):
                trainer.update(make_job(tmp_path, checkpoint, training, step))
            checkpoint = tmp_path / step
            card.adapt(4)
    finally:
        trainer.close()


@pytest.mark.skipif(DEVICE != "cuda", reason="a server on the CPU does not sleep")
@pytest.mark.parametrize("card", [(SleepingService, (0.3,))], indirect=True)
def test_an_adapter_is_proved_after_a_sleep(card: Card) -> None:
    """Held since before, and loaded anew by one who knows of none: what `resources.placement.share: turns` needs."""
    card.adapt(1)
    for seed in (2, 3):
        card.post("/sleep?level=1")
        card.post("/wake_up")
        card.adapt(seed - 1)
        other = card.open_engine()
        card.adapt(seed, other)
        other.close()


@pytest.mark.parametrize("card", [(VllmService, (0.3, 0.3))], indirect=True)
def test_two_servers_share_a_card(card: Card) -> None:
    card.refresh(card.engine, card.base, card.probe)
    assert len(card.engine.replicas.up) == 2
