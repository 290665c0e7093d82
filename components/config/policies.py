"""The section `policies`: the models that play and learn."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue, model_validator

from components.config.types import Address
from components.frozen import Settings

_RESERVED_ARGUMENTS = frozenset(
    {
        "add_generation_prompt",
        "chat_template",
        "continue_final_message",
        "conversation",
        "max_length",
        "messages",
        "padding",
        "processor_kwargs",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "self",
        "tokenize",
        "tokenizer_kwargs",
        "truncation",
    }
)
"""Arguments of transformers' apply_chat_template itself."""


def _check_argument(name: str) -> str:
    """`name` itself. Raises ValueError unless a chat template can take it as an argument."""
    if not name.isidentifier():
        raise ValueError("is no argument's name; use letters, digits and '_'")
    if name in _RESERVED_ARGUMENTS:
        raise ValueError("is set by Troupe itself; remove it")
    return name


class TinyModelConfig(Settings):
    hidden_size: int = Field(96, ge=8)
    num_layers: int = Field(4, ge=1)
    num_heads: int = Field(4, ge=1)
    intermediate_size: int = Field(256, ge=8)
    max_position_embeddings: int = Field(512, ge=16)


class AdapterConfig(Settings):
    rank: int = Field(8, ge=1)
    """Rank r of the weight update B A."""
    alpha: float = Field(16.0, gt=0.0)
    """The update is scaled by alpha / rank."""
    targets: tuple[str, ...] = Field(("q_proj", "k_proj", "v_proj", "o_proj"), min_length=1)
    """The adapted linear layers, by the last part of their name; the same for all policies of one base."""
    freeze_a: bool = False
    """Train B alone (FFA-LoRA, arXiv 2403.12313). A is drawn once for all such policies of the run, so that the federated mean
    of equal shapes is exact, and the optimizer's moments are kept."""


class ApiConfig(Settings):
    provider: Literal["openai", "anthropic"]
    """openai: any server that speaks OpenAI's chat completions. anthropic: the Messages API."""
    model: str = Field(min_length=1)
    """The provider's name of the model."""
    base_url: Address | None = None
    """The address of another server than the provider's: for openai with its /v1, for anthropic without. Keys come from
    OPENAI_API_KEY and ANTHROPIC_API_KEY; other servers may need none."""
    max_requests_at_once: int = Field(8, ge=1)
    timeout_seconds: float = Field(120.0, gt=0.0)
    """Of one request: for the connection, and between two bytes of the response."""
    max_retries: int = Field(5, ge=0)
    """Of one request, after rate limits, server errors and timeouts."""
    input_price: float = Field(0.0, ge=0.0)
    """Of a million prompt tokens."""
    output_price: float = Field(0.0, ge=0.0)
    """Of a million answer tokens."""
    max_cost: float | None = Field(None, gt=0.0)
    """The budget of one process, in the unit of the prices; None for no limit."""
    fixed_temperature: bool = False
    """True for models that take no temperature (OpenAI's reasoning models, newer Claude models): rollout.temperature
    and the temperature of evaluation are not sent."""
    max_choices: int = Field(128, ge=1, le=128)
    """openai: maximal candidates per request (`n`), which share its prompt and seed. With 1, for servers without `n`, each
    candidate has its own request and seed."""
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    """openai: the name of the length limit in a request. Older servers know only max_tokens, newer models refuse it."""
    sends_seed: bool = True
    """openai: False for servers that refuse `seed`."""

    @model_validator(mode="after")
    def _fits_the_provider(self) -> "ApiConfig":
        if self.max_cost is not None and self.input_price == self.output_price == 0:
            raise ValueError("max_cost needs input_price or output_price: without prices nothing is ever spent")
        for name in ("max_choices", "max_tokens_field", "sends_seed"):
            if self.provider != "openai" and getattr(self, name) != ApiConfig.model_fields[name].default:
                raise ValueError(f"{name} is for provider openai; leave it out")
        return self


class PolicyConfig(Settings):
    base: str = "tiny"
    """The initial weights: "tiny" (built and warm-started here), "smollm2-135m", a model folder, or a hub name."""
    tiny: TinyModelConfig = TinyModelConfig()
    """The shape of the model if base is "tiny"."""
    prompt_format: Literal["compact", "chat"] = "compact"
    """compact: only the state's text. chat: instructions and state in the model's chat template. Teams whose policies are all
    chat have other defaults, for pretrained models: free answers, bfloat16 on the CPU, 256 tokens an answer, 8 problems a
    step, 40 of an evaluation, lower learning rates."""
    chat_template_arguments: Mapping[Annotated[str, AfterValidator(_check_argument)], JsonValue] = Field(
        default_factory=dict
    )
    """Further arguments of the model's chat template, as plain JSON values: `{enable_thinking: false}` for Qwen3."""
    trained: bool = True
    """False keeps these weights fixed."""
    adapter: AdapterConfig | None = None
    """Train a LoRA adapter (arXiv 2106.09685) on a frozen base, which policies of equal base share."""
    learning_rate: float | None = Field(None, gt=0.0)
    """None uses training.learning_rate. Adapters of teams of chat models have 1.5e-4 unless this or that is given."""
    num_minibatches: int | None = Field(None, ge=1)
    """None uses training.num_minibatches."""
    api: ApiConfig | None = None
    """A model behind an API, without weights here: base is unused and trained must be False."""

    @model_validator(mode="after")
    def _api_is_not_trained(self) -> "PolicyConfig":
        if self.api is not None and (self.trained or self.adapter is not None):
            raise ValueError("a policy with api has no weights to train: set trained to False and leave adapter out")
        if self.api is not None and self.prompt_format != "chat":
            raise ValueError("a policy with api needs chats: set prompt_format to chat")
        return self

    @model_validator(mode="after")
    def _arguments_have_a_template(self) -> "PolicyConfig":
        if self.chat_template_arguments and self.api is not None:
            raise ValueError("chat_template_arguments: the provider of an api applies the template; leave them out")
        if self.chat_template_arguments and self.prompt_format != "chat":
            raise ValueError(
                f"chat_template_arguments are for prompt_format chat, and it is {self.prompt_format}; set it to chat, or leave "
                "them out"
            )
        return self
