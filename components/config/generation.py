"""The section `generation`: the engine that samples, in this process or on vLLM servers."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from components.config.types import Address
from components.config.variants import ReadVariant, Variant
from components.frozen import Settings

BFLOAT16_PROBE = 0.5
"""The `probe_tolerance` of dtype bfloat16."""


class VllmConfig(Settings):
    port: int = Field(8100, ge=1024, le=65000)
    """Of the first server started on this machine; the others use the next free ports."""
    urls: tuple[Address, ...] = ()
    """Base addresses of running servers; then none are started, neither by `troupe up` nor on a Ray cluster. They read weights
    from this machine's temporary files (TMPDIR) where they see them, and else from the run's S3 store by signed addresses. They
    require the key in `key_file`. Use https:// on networks that others can read."""
    key_file: str | None = None
    """File with the key of the servers at `urls`, the same as in their TROUPE_VLLM_KEY_FILE; ~ is the home folder."""
    merge_adapters: bool = False
    """Load each adapter merged into its base as full weights: faster sampling, but one policy per server."""
    max_model_tokens: int | None = Field(None, ge=16)
    """Maximal tokens of prompt and answer; None uses the model's own limit."""
    max_requests_at_once: int = Field(64, ge=1)
    """Candidates that one server samples at once; others are queued here."""
    kv_cache_gib: float = Field(1.0, gt=0.0)
    """Used on the CPU, where vLLM cannot choose it."""
    tensor_parallel_size: int = Field(1, ge=1)
    """GPUs that share one server's model. Affects results: other sums round differently."""
    start_timeout_seconds: float = Field(600.0, gt=0.0)
    request_timeout_seconds: float = Field(600.0, gt=0.0)
    """Of one candidate or one refresh."""
    health_timeout_seconds: float = Field(20.0, gt=0.0)
    """A server that does not answer its health check for this long is dropped, and its requests go to others."""


class GenerationConfig(Variant):
    """What every engine reads."""

    chosen_by = "engine"
    draws_among_choices: ClassVar[bool]
    """Whether it draws among given answers (`environment.answer_format: choice`)."""
    serves_past_selves: ClassVar[bool]
    """Whether it holds several versions of a policy at once."""
    has_servers: ClassVar[bool]
    """Whether it samples in processes of its own."""

    engine: str
    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Teams of chat models on the CPU have bfloat16 unless this or training.dtype is given."""
    num_threads: int = Field(1, ge=1)
    """CPU threads of the engine. Affects results: other thread counts may round differently."""
    probe_tolerance: float = Field(1e-4, gt=0.0)
    """Largest allowed difference between the log-probabilities of engine and trainer on the refresh probe, whose tokens are
    improbable ones, down to -8 nats, and in proportion below; with dtype bfloat16 0.5 unless given."""

    @model_validator(mode="before")
    @classmethod
    def _allow_rounding(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("dtype") == "bfloat16":
            return {"probe_tolerance": BFLOAT16_PROBE, **values}
        return values

    @property
    def server_urls(self) -> tuple[Address, ...]:
        """The addresses of running servers; none: those that it has are started here."""
        return ()

    @property
    def token_bounds(self) -> Mapping[str, int | None]:
        """What bounds the tokens of a prompt and its answer beside the model, by field."""
        return {}

    @property
    def call_mode(self) -> Literal["exact", "waves", "concurrent"]:
        """How calls of programs are answered: one at a time, those that wait together, or each on its own at once."""
        return "concurrent"

    @abstractmethod
    def estimate_bytes(
        self, num_weight_bytes: int, num_token_bytes: int, *, num_tokens: int, reserved_bytes: int
    ) -> int:
        """The memory that an engine takes of its device, of which a server reserves `reserved_bytes`. `num_weight_bytes` are
        those of the base, `num_token_bytes` those kept of a token, `num_tokens` those of prompts and answers held at once."""


class TransformersGeneration(GenerationConfig):
    """Samples in this process."""

    draws_among_choices = True
    serves_past_selves = True
    has_servers = False
    engine: Literal["transformers"] = "transformers"
    kept_prefixes_gib: float = Field(0.5, ge=0.0)
    """Of each policy: keys and values that are kept of the conversations of programs, so that a call reads what is new in its
    prompt. Those used longest ago are dropped first. Changes no result."""
    program_calls: Literal["exact", "waves"] = "exact"
    """exact: one call of a program is answered at a time, to the bit as after any kill. waves: those that wait are answered
    together, several times as fast; an answer that was lost before it was recorded may come back as another one."""
    max_batch_tokens: int = Field(65536, ge=64)
    """Maximal prompt and completion tokens of a forward batch; larger requests are split in order. Affects results: other batch
    shapes round log-probabilities differently."""

    @property
    def call_mode(self) -> Literal["exact", "waves", "concurrent"]:
        """See GenerationConfig."""
        return self.program_calls

    def estimate_bytes(
        self, num_weight_bytes: int, num_token_bytes: int, *, num_tokens: int, reserved_bytes: int
    ) -> int:
        """The weights, and what is kept of the tokens of a batch."""
        return num_weight_bytes + num_token_bytes * min(num_tokens, self.max_batch_tokens)


class VllmGeneration(GenerationConfig):
    """Samples on separate servers, over HTTP."""

    draws_among_choices = False
    serves_past_selves = False
    has_servers = True
    engine: Literal["vllm"] = "vllm"
    vllm: VllmConfig = VllmConfig()
    """The servers."""

    @property
    def server_urls(self) -> tuple[Address, ...]:
        """See GenerationConfig."""
        return self.vllm.urls

    @property
    def token_bounds(self) -> Mapping[str, int | None]:
        """See GenerationConfig."""
        return {"generation.vllm.max_model_tokens": self.vllm.max_model_tokens}

    def estimate_bytes(
        self, num_weight_bytes: int, num_token_bytes: int, *, num_tokens: int, reserved_bytes: int
    ) -> int:
        """What a server reserves of a GPU; on a CPU its weights and its cache."""
        if self.device == "cuda":
            return reserved_bytes
        return num_weight_bytes + int(self.vllm.kv_cache_gib * (1 << 30))


Generation = Annotated[
    Annotated[TransformersGeneration | VllmGeneration, Field(discriminator="engine")],
    ReadVariant("engine", default="transformers"),
]
