"""How a vLLM server is started: what it serves, its options and its environment."""

import json
import os
from collections.abc import Mapping
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path

from components.config import VllmGeneration
from components.errors import ConfigurationError, ServiceMissing
from components.generation.vllm.addresses import KEY_FILE_VARIABLE
from components.machine.home import HOME
from components.machine.package_files import SOURCE_ROOT, is_checkout, package_file
from components.machine.process_variables import read_variable

ENVIRONMENT = Path(
    read_variable("TROUPE_VLLM_ENVIRONMENT")
    or (SOURCE_ROOT / ".venv-vllm" if is_checkout(SOURCE_ROOT) else HOME / "venv-vllm")
)
"""The folder of vLLM's own Python."""
START = package_file("infra", "vllm/serve.py")
_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
_CPU_HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """What one server serves: a model folder under a name, with capacity for adapters."""

    name: str
    folder: Path
    num_adapters: int = 0
    max_rank: int = 0
    devices: tuple[str, ...] = ()
    """Names in CUDA_VISIBLE_DEVICES; none on the CPU."""
    memory_fraction: float | None = None
    """Of each of them, for weights and cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStart:
    """A server of `model` at an address. `index` numbers the servers of a host, which share its CPUs."""

    model: ServedModel
    config: VllmGeneration
    host: str
    port: int
    index: int
    scratch: Path
    """An empty folder for its sockets and compiled files."""
    key_file: Path

    def command(self) -> tuple[str, ...]:
        """Its command line. Raises ServiceMissing if vLLM, or what it needs, is not installed."""
        python = vllm_python()
        if self.config.device == "cpu" and find_library("numa") is None:
            raise ServiceMissing("vLLM's CPU build needs libnuma: `apt-get install -y libnuma1`")
        return (str(python), str(START), *self._list_options())

    def variables(self) -> dict[str, str]:
        """What it needs in its environment besides what it inherits."""
        path = os.pathsep.join([str(ENVIRONMENT / "bin"), read_variable("PATH") or os.defpath])
        # Beside the packages it depends on. Without this cache every start inspects the model's code again.
        cache = ENVIRONMENT if os.access(ENVIRONMENT, os.W_OK) else self.scratch
        env = {
            "PATH": path,
            "TMPDIR": str(self.scratch),
            "VLLM_CACHE_ROOT": str(cache / "cache"),
            KEY_FILE_VARIABLE: str(self.key_file),
        }
        if self.config.device == "cpu":
            env["OMP_NUM_THREADS"] = str(self.config.num_threads)
            env["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, self._choose_cpus()))
        else:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(self.model.devices)
        return env

    def _list_options(self) -> list[str]:
        vllm, model = self.config.vllm, self.model
        options: dict[str, object] = {
            "model": model.folder,
            "served-model-name": model.name,
            "host": self.host,
            "port": self.port,
            "dtype": self.config.dtype,
            "max-num-seqs": vllm.max_requests_at_once,
        }
        switches = []
        if vllm.max_model_tokens is not None:
            options["max-model-len"] = vllm.max_model_tokens
        if model.num_adapters:
            # The previous version of an adapter may still be loaded beside the next one.
            options |= {"max-loras": model.num_adapters, "max-cpu-loras": 2 * model.num_adapters + 1}
            options["max-lora-rank"] = lora_rank_for(model.max_rank)
            switches.append("--enable-lora")
        if self.config.device == "cpu":
            options["kv-cache-memory-bytes"] = int(vllm.kv_cache_gib * 2**30)
        else:
            assert model.memory_fraction is not None, "a server on a GPU reserves a part of it"
            options["gpu-memory-utilization"] = model.memory_fraction
            options["tensor-parallel-size"] = vllm.tensor_parallel_size
        return [*switches, *(part for name, value in options.items() for part in (f"--{name}", str(value)))]

    def _choose_cpus(self) -> list[int]:
        """The CPUs of this server's threads, assigned round-robin. vLLM's default leaves a core idle."""
        allowed = sorted(os.sched_getaffinity(0))
        first = self.index * self.config.num_threads
        return sorted({allowed[(first + i) % len(allowed)] for i in range(self.config.num_threads)})


def describe_sampling(model: str) -> tuple[str, Mapping[str, object]]:
    """The path and the body of a request for one token: the first one may take long, because it compiles."""
    return "/inference/v1/generate", {"model": model, "token_ids": [1], "sampling_params": {"max_tokens": 1}}


def vllm_python() -> Path:
    """The Python of vLLM's separate environment. Raises ServiceMissing."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.is_file() or not any(ENVIRONMENT.glob("lib/python3*/site-packages/vllm")):
        packages = package_file("infra", "vllm/requirements-gpu.txt")
        by_pip = f"python -m venv {ENVIRONMENT} && {ENVIRONMENT}/bin/pip install -r {packages}"
        remedy = "make vllm" if is_checkout(SOURCE_ROOT) else by_pip
        raise ServiceMissing(f"vLLM is not installed in {ENVIRONMENT}: run `{remedy}`")
    return python


def lora_rank_for(rank: int) -> int:
    """The smallest rank of vLLM's list that fits `rank`. Raises ConfigurationError."""
    if rank > _LORA_RANKS[-1]:
        raise ConfigurationError(f"policies.<name>.adapter.rank {rank}: vLLM takes at most {_LORA_RANKS[-1]}")
    return next(allowed for allowed in _LORA_RANKS if rank <= allowed)


def check_head_size(folder: Path, device: str) -> None:
    """Raise ConfigurationError if vLLM's CPU attention has no kernel for the model; it would crash at the first token."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    if device == "cpu" and size not in _CPU_HEAD_SIZES:
        raise ConfigurationError(
            f"generation.engine vllm: the model has heads of {size}, and vLLM on the CPU takes {_CPU_HEAD_SIZES}; for a tiny "
            "model set policies.<name>.tiny.hidden_size and num_heads to one of these quotients, for example 96 and 3"
        )
