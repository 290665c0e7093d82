"""One vLLM server: how it is started, on a CPU or a GPU, and when it serves."""

import json
import os
import shutil
from collections.abc import Mapping
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path

from components.config import GenerationConfig
from components.errors import ConfigurationError, ServiceMissing
from components.scratch import private_folder
from infra.services.local_http import answers, request
from infra.services.ports import LOOPBACK
from infra.services.secrets import ensure_secret
from infra.services.service import Launch, NotReady
from tasks.home import HOME
from tasks.served import KEY_FILE_VARIABLE
from tasks.shipped import SOURCE_ROOT, is_checkout, shipped_file

ENVIRONMENT = SOURCE_ROOT / ".venv-vllm" if is_checkout(SOURCE_ROOT) else HOME / "venv-vllm"
START = shipped_file("infra", "vllm/serve.py")
_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
_CPU_HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """What one server serves: a model folder under a name, with room for adapters on it."""

    name: str
    folder: Path
    num_adapters: int = 0
    max_rank: int = 0


class VllmService:
    """A server of one model. Its worker processes carry the mark of its session, whatever title they give themselves."""

    grace_seconds = 15.0

    def __init__(self, index: int, model: ServedModel, config: GenerationConfig) -> None:
        """`index` counts all servers of a home folder; it decides the preferred port and the CPUs."""
        self.name = f"vllm-{index}"
        self.ports: Mapping[str, int] = {"vllm": config.vllm.port + index}
        self.start_timeout_seconds = config.vllm.start_timeout_seconds
        self._index = index
        self._model = model
        self._config = config

    def launch(self, home: Path, ports: Mapping[str, int], peers: Mapping[str, Mapping[str, int]]) -> Launch:
        """The command, which keeps what it writes for itself in a folder of its own."""
        python = vllm_python()
        if self._config.device == "cpu" and find_library("numa") is None:
            raise ServiceMissing("vLLM's CPU build needs libnuma: `apt-get install -y libnuma1`")
        scratch = _scratch_folder(ports)
        self.clean(home, ports)
        scratch.mkdir(mode=0o700)
        ensure_secret(key_file(home))
        command = (str(python), str(START), *self._options(ports))
        own = {"TMPDIR": str(scratch), KEY_FILE_VARIABLE: str(key_file(home))}
        return Launch(command=command, env={**self._environment(), **own})

    def check(self, home: Path, ports: Mapping[str, int]) -> None:
        """Have it sample a token: its first one may compile for a while."""
        if not self.serves(ports):
            raise NotReady("/health does not answer 200")
        body = {"model": self._model.name, "token_ids": [1], "sampling_params": {"max_tokens": 1}}
        status, content = request(
            "POST",
            f"{url_of(ports)}/inference/v1/generate",
            body=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {ensure_secret(key_file(home))}"},
            timeout_seconds=self.start_timeout_seconds,
        )
        if status != 200:
            raise NotReady(f"sampling a token gave HTTP {status}: {content[:300].decode(errors='replace')}")

    def serves(self, ports: Mapping[str, int]) -> bool:
        """Whether it reports its health."""
        return answers(f"{url_of(ports)}/health")

    def clean(self, home: Path, ports: Mapping[str, int]) -> None:
        """Remove its sockets and compiled files, which it leaves behind."""
        shutil.rmtree(_scratch_folder(ports), ignore_errors=True)

    def _options(self, ports: Mapping[str, int]) -> list[str]:
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
            # A version that is on its way out may still be held beside its successor.
            options |= {"max-loras": self._model.num_adapters, "max-cpu-loras": 2 * self._model.num_adapters + 1}
            options["max-lora-rank"] = lora_rank_for(self._model.max_rank)
            switches.append("--enable-lora")
        if self._config.device == "cpu":
            options["kv-cache-memory-bytes"] = int(vllm.kv_cache_gib * 2**30)
        else:
            options["gpu-memory-utilization"] = vllm.gpu_memory_fraction
        return [*switches, *(part for name, value in options.items() for part in (f"--{name}", str(value)))]

    def _environment(self) -> dict[str, str]:
        env = {
            # Beside the packages it depends on: without it every start imports the model's code once more, to look at it.
            "VLLM_CACHE_ROOT": str(ENVIRONMENT / "cache"),
            "PATH": os.pathsep.join([str(ENVIRONMENT / "bin"), os.environ.get("PATH", os.defpath)]),
        }
        if self._config.device == "cpu":
            env["OMP_NUM_THREADS"] = str(self._config.num_threads)
            env["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, self._cpus()))
        return env

    def _cpus(self) -> list[int]:
        """As many threads as the configuration says, taken in turn. vLLM's own default leaves a core idle."""
        allowed = sorted(os.sched_getaffinity(0))
        first = self._index * self._config.num_threads
        return sorted({allowed[(first + i) % len(allowed)] for i in range(self._config.num_threads)})


def vllm_python() -> Path:
    """The Python of vLLM's own environment. Raises ServiceMissing."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.is_file() or not any(ENVIRONMENT.glob("lib/python3*/site-packages/vllm")):
        raise ServiceMissing(f"vLLM is not installed in {ENVIRONMENT}: run {_how_to_install()}")
    return python


def _how_to_install() -> str:
    if is_checkout(SOURCE_ROOT):
        return "`make vllm`"
    packages = shipped_file("infra", "vllm/requirements-gpu.txt")
    return f"`python -m venv {ENVIRONMENT} && {ENVIRONMENT}/bin/pip install -r {packages}`"


def _scratch_folder(ports: Mapping[str, int]) -> Path:
    """For what one server writes for itself; short, because Unix sockets lie there."""
    return private_folder("troupe-vllm") / str(ports["vllm"])


def key_file(home: Path) -> Path:
    """The file with the key of all servers of `home`."""
    return home.absolute() / "vllm" / "key"


def url_of(ports: Mapping[str, int]) -> str:
    """The address of a server."""
    return f"http://{LOOPBACK}:{ports['vllm']}"


def lora_rank_for(rank: int) -> int:
    """The smallest of vLLM's ranks that holds `rank`. Raises ConfigurationError."""
    for allowed in _LORA_RANKS:
        if rank <= allowed:
            return allowed
    raise ConfigurationError(f"policies.<name>.adapter.rank {rank}: vLLM takes at most {_LORA_RANKS[-1]}")


def check_head_size(folder: Path, device: str) -> None:
    """Raises ConfigurationError when vLLM's CPU attention has no kernel for the model: it would die at the first token."""
    config = json.loads((folder / "config.json").read_text())
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    if device == "cpu" and size not in _CPU_HEAD_SIZES:
        raise ConfigurationError(
            f"generation.engine vllm: the model has heads of {size}, and vLLM on the CPU takes {_CPU_HEAD_SIZES}; for a tiny "
            "model set policies.<name>.tiny.hidden_size and num_heads to such a quotient, for example 96 and 3"
        )
