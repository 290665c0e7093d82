"""One vLLM server on a CPU or a GPU: its command, its environment, its health check."""

import json
import os
import shutil
from collections.abc import Mapping
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path

from components.config import VllmGeneration
from components.errors import ConfigurationError, ServiceMissing
from components.machine.home import HOME
from components.machine.package_files import SOURCE_ROOT, is_checkout, package_file
from components.machine.scratch import socket_folder
from components.placement.fit import ALONE
from components.placement.inventory import VISIBLE
from components.session.engines import KEY_FILE_VARIABLE
from infra.services.loopback import LOOPBACK, local_url, request
from infra.services.secrets import ensure_secret
from infra.services.service import Launch, NotReady, Ports, Service

ENVIRONMENT = SOURCE_ROOT / ".venv-vllm" if is_checkout(SOURCE_ROOT) else HOME / "venv-vllm"
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
    memory_fraction: float = ALONE
    """Of each of them, for weights and cache."""


class VllmService(Service):
    """A server of one model."""

    grace_seconds = 15.0

    def __init__(self, index: int, model: ServedModel, config: VllmGeneration) -> None:
        """`index` numbers the servers of a home folder; the preferred port and the CPUs depend on it."""
        self.name = f"vllm-{index}"
        self.ports = {"vllm": config.vllm.port + index}
        self.start_timeout_seconds = config.vllm.start_timeout_seconds
        self._index = index
        self._model = model
        self._config = config

    def launch(self, home: Path, ports: Ports, peers: Mapping[str, Ports]) -> Launch:
        """The server process, with an empty scratch folder for its sockets and compiled files."""
        python = vllm_python()
        if self._config.device == "cpu" and find_library("numa") is None:
            raise ServiceMissing("vLLM's CPU build needs libnuma: `apt-get install -y libnuma1`")
        self.clean(ports)
        scratch = _scratch_folder(ports)
        scratch.mkdir(mode=0o700)
        ensure_secret(key_file(home))
        command = (str(python), str(START), *self._options(ports))
        own = {"TMPDIR": str(scratch), KEY_FILE_VARIABLE: str(key_file(home))}
        return Launch(command=command, env={**self._environment(), **own}, cwd=key_file(home).parent)

    def check(self, home: Path, ports: Ports) -> None:
        """Check its health and sample a token; the first one may take long, because it compiles."""
        super().check(home, ports)
        body = {"model": self._model.name, "token_ids": [1], "sampling_params": {"max_tokens": 1}}
        status, content = request(
            "POST",
            f"{local_url(ports['vllm'])}/inference/v1/generate",
            body=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {ensure_secret(key_file(home))}"},
            timeout_seconds=self.start_timeout_seconds,
        )
        if status != 200:
            raise NotReady(f"sampling a token gave HTTP {status}: {content[:300].decode(errors='replace')}")

    @classmethod
    def clean(cls, ports: Ports) -> None:
        """Remove its sockets and compiled files."""
        shutil.rmtree(_scratch_folder(ports), ignore_errors=True)

    def _options(self, ports: Ports) -> list[str]:
        vllm = self._config.vllm
        options: dict[str, object] = {
            "model": self._model.folder,
            "served-model-name": self._model.name,
            "host": LOOPBACK,
            "port": ports["vllm"],
            "dtype": self._config.dtype,
            "max-num-seqs": vllm.max_requests_at_once,
        }
        switches = []
        if vllm.max_model_tokens is not None:
            options["max-model-len"] = vllm.max_model_tokens
        if self._model.num_adapters:
            # The previous version of an adapter may still be loaded beside the next one.
            options |= {"max-loras": self._model.num_adapters, "max-cpu-loras": 2 * self._model.num_adapters + 1}
            options["max-lora-rank"] = lora_rank_for(self._model.max_rank)
            switches.append("--enable-lora")
        if self._config.device == "cpu":
            options["kv-cache-memory-bytes"] = int(vllm.kv_cache_gib * 2**30)
        else:
            options["gpu-memory-utilization"] = self._model.memory_fraction
            options["tensor-parallel-size"] = vllm.tensor_parallel_size
        return [*switches, *(part for name, value in options.items() for part in (f"--{name}", str(value)))]

    def _environment(self) -> dict[str, str]:
        env = {
            # Beside the packages it depends on. Without this cache every start inspects the model's code again.
            "VLLM_CACHE_ROOT": str(ENVIRONMENT / "cache"),
            "PATH": os.pathsep.join([str(ENVIRONMENT / "bin"), os.environ.get("PATH", os.defpath)]),
        }
        if self._config.device == "cpu":
            env["OMP_NUM_THREADS"] = str(self._config.num_threads)
            env["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, self._cpus()))
        else:
            env[VISIBLE] = ",".join(self._model.devices)
        return env

    def _cpus(self) -> list[int]:
        """The CPUs of this server's threads, assigned round-robin. vLLM's default leaves a core idle."""
        allowed = sorted(os.sched_getaffinity(0))
        first = self._index * self._config.num_threads
        return sorted({allowed[(first + i) % len(allowed)] for i in range(self._config.num_threads)})


def vllm_python() -> Path:
    """The Python of vLLM's separate environment. Raises ServiceMissing."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.is_file() or not any(ENVIRONMENT.glob("lib/python3*/site-packages/vllm")):
        packages = package_file("infra", "vllm/requirements-gpu.txt")
        by_pip = f"python -m venv {ENVIRONMENT} && {ENVIRONMENT}/bin/pip install -r {packages}"
        remedy = "make vllm" if is_checkout(SOURCE_ROOT) else by_pip
        raise ServiceMissing(f"vLLM is not installed in {ENVIRONMENT}: run `{remedy}`")
    return python


def _scratch_folder(ports: Mapping[str, int]) -> Path:
    """The folder for one server's temporary files; its path is short enough for Unix sockets."""
    return socket_folder("troupe-vllm") / str(ports["vllm"])


def key_file(home: Path) -> Path:
    """The file with the key of all servers of `home`."""
    return home.absolute() / "vllm" / "key"


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
