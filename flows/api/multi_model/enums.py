"""The documented enums. Values are those that configurations and reports hold."""

from enum import Enum

from components.errors import ConfigurationError


class TrainingMode(Enum):
    """How the members' returns are mixed: see `components/population/training_modes.py`."""

    COOPERATIVE = "cooperative"
    COMPETITIVE = "competitive"
    MIXED = "mixed"
    HIERARCHICAL = "hierarchical"


class WeightUpdateStrategy(Enum):
    """How the members' adapters are coordinated after each update."""

    SYNCHRONIZED = "synchronized"
    ASYNCHRONOUS = "asynchronous"
    FEDERATED = "federated"
    SELECTIVE = "selective"


class LLMBackend(Enum):
    """Where a model runs. Unknown values raise ValueError "Unsupported LLM backend"."""

    HUGGINGFACE = "huggingface"
    OPENAI_API = "openai_api"
    ANTHROPIC = "anthropic"
    VLLM = "vllm"

    @classmethod
    def _missing_(cls, value: object) -> "LLMBackend":
        known = ", ".join(each.value for each in cls)
        raise ConfigurationError(f"Unsupported LLM backend: {value!r}; use one of {known}")


class UpdateStrategy(Enum):
    """Which parameters `update_shared_parameters` steps: none; all, at a rate within bounds; those whose gradient norm is above
    .05; the last layer first, one layer more with each update."""

    FROZEN = "frozen"
    ADAPTIVE = "adaptive"
    SELECTIVE = "selective"
    INCREMENTAL = "incremental"


class RLAlgorithm(Enum):
    """The learner. SAC and TD3 exist to be refused, with the reason."""

    PPO = "ppo"
    GRPO = "grpo"
    SAC = "sac"
    TD3 = "td3"


class CooperationType(Enum):
    """What members share."""

    NONE = "none"
    TEAM_BASED = "team_based"
    SHARED_REWARDS = "shared_rewards"
    KNOWLEDGE_TRANSFER = "knowledge_transfer"


class CompetenceType(Enum):
    """What a member's skill is a number of."""

    GENERAL = "general"
    SPECIALIZED = "specialized"
    ADAPTIVE = "adaptive"


class EnvironmentType(Enum):
    """The games of the reference."""

    COOPERATIVE_COMPETITIVE = "cooperative_competitive"
    MULTI_AGENT_STAGED = "multi_agent_staged"
    TEAM_BATTLE = "team_battle"
    MAZE_NAVIGATION = "maze_navigation"
    SOCIAL_INTERACTION = "social_interaction"
