"""Who plays, and where the weights start."""

from typing import Literal

from pydantic import Field, model_validator

from components.config.names import Address
from components.config.section import Section


class TinyModelConfig(Section):
    hidden_size: int = Field(96, ge=8)
    num_layers: int = Field(4, ge=1)
    num_heads: int = Field(4, ge=1)
    intermediate_size: int = Field(256, ge=8)
    max_position_embeddings: int = Field(512, ge=16)


class AdapterConfig(Section):
    rank: int = Field(8, ge=1)
    """Inner width r of the update B A of a weight."""
    alpha: float = Field(16.0, gt=0.0)
    """The update is scaled by alpha / rank."""
    targets: tuple[str, ...] = Field(("q_proj", "k_proj", "v_proj", "o_proj"), min_length=1)
    """The linear layers that have one, by the last part of their name; every policy of one base has the same."""


class ApiConfig(Section):
    provider: Literal["openai", "anthropic"]
    """openai: any server that speaks OpenAI's chat completions. anthropic: the Messages API."""
    model: str = Field(min_length=1)
    """The provider's name of the model."""
    base_url: Address | None = None
    """Another server than the provider's own: for openai with its /v1, for anthropic without. Keys come from OPENAI_API_KEY
    and ANTHROPIC_API_KEY; only the provider's own server cannot do without one."""
    max_requests_at_once: int = Field(8, ge=1)
    timeout_seconds: float = Field(120.0, gt=0.0)
    """Of one request: for the connection, and between two bytes of the answer."""
    max_retries: int = Field(5, ge=0)
    """Of one request, after rate limits, server errors and timeouts."""
    input_price: float = Field(0.0, ge=0.0)
    """Of a million prompt tokens."""
    output_price: float = Field(0.0, ge=0.0)
    """Of a million answer tokens."""
    max_cost: float | None = Field(None, gt=0.0)
    """What one run of a process may spend, in the unit of the prices; None sets no bound."""
    fixed_temperature: bool = False
    """True for models that take no temperature (OpenAI's reasoning models, newer Claude models): none is sent, whatever
    rollout.temperature and evaluation ask for."""
    max_choices: int = Field(128, ge=1, le=128)
    """openai: candidates that one request may ask for (`n`), which then share its prompt and its seed. 1 is for servers
    without `n`, and gives each candidate a request and a seed of its own."""
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    """openai: the request's field for the longest answer. Older servers know only max_tokens, newer models refuse it."""
    sends_seed: bool = True
    """openai: False for servers that refuse the field `seed`."""

    @model_validator(mode="after")
    def _bound_can_be_reached(self) -> "ApiConfig":
        if self.max_cost is not None and self.input_price == self.output_price == 0:
            raise ValueError("max_cost needs input_price or output_price: without prices nothing is ever spent")
        return self

    @model_validator(mode="after")
    def _dialect_belongs_to_the_provider(self) -> "ApiConfig":
        if self.provider == "anthropic":
            for name in ("max_choices", "max_tokens_field", "sends_seed"):
                if getattr(self, name) != ApiConfig.model_fields[name].default:
                    raise ValueError(f"{name} is for provider openai; leave it out")
        return self


class PolicyConfig(Section):
    base: str = "tiny"
    """Where the weights start: "tiny" (built and warm-started here), "smollm2-135m", a model folder, or a hub name."""
    tiny: TinyModelConfig = TinyModelConfig()
    """The shape of the model when base is "tiny"."""
    prompt_format: Literal["compact", "chat"] = "compact"
    """compact: the state's text alone. chat: instructions and state under the model's chat template."""
    trained: bool = True
    """False keeps these weights fixed."""
    adapter: AdapterConfig | None = None
    """Train a LoRA adapter (arXiv 2106.09685) on a base that stays as it is and that policies of equal base share."""
    learning_rate: float | None = Field(None, gt=0.0)
    """This policy's own; None takes training.learning_rate."""
    num_minibatches: int | None = Field(None, ge=1)
    """This policy's own; None takes training.num_minibatches."""
    api: ApiConfig | None = None
    """Played by a model behind an API, which has no weights here: base is then unused and trained must be False."""

    @model_validator(mode="after")
    def _api_is_not_trained(self) -> "PolicyConfig":
        if self.api is not None and (self.trained or self.adapter is not None):
            raise ValueError("a policy with api has no weights to train: set trained to False and leave adapter out")
        if self.api is not None and self.prompt_format != "chat":
            raise ValueError("a policy with api is asked in chats: set prompt_format to chat")
        return self


class AgentConfig(Section):
    policy: str
    """The policy that plays this role."""
    max_new_tokens: int | None = Field(None, ge=1)
    """Longest answer; None takes the environment's longest well-formed answer and its end."""


class WarmStartConfig(Section):
    gate: float = Field(0.30, ge=0.0, le=1.0)
    """Cloning stops at the first check whose held-out team success (temperature 1) reaches this."""
    gate_ceiling: float = Field(0.50, ge=0.0, le=1.0)
    """A success above this at the gate leaves too little to learn and is an error."""
    max_steps: int = Field(1500, ge=0)
    """Gradient steps after which a policy still below its gate is an error; 0 takes the random weights as they are."""
    check_every: int = Field(50, ge=1)
    """Gradient steps between two checks."""
    num_check_problems: int = Field(200, ge=1)
    """Train-split problems, outside the training range, on which a check plays."""
    prompts_per_step: int = Field(24, ge=1)
    demonstrations_per_prompt: int = Field(4, ge=1)
    noise: float = Field(0.25, ge=0.0, le=1.0)
    """Probability that a demonstrated move is a random one, so that the clone is weak but well-formed."""
    copy_probability: float = Field(0.5, ge=0.0, le=1.0)
    """How often the last agent's demonstration repeats a proposal that solves."""
    learning_rate: float = Field(2e-3, gt=0.0)
    num_warmup_steps: int = Field(50, ge=0)
