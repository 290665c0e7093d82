"""The configuration of a run: one frozen tree, unknown keys rejected with the nearest valid name.

Each field's meaning stands under it. Values are written by hand in `prefect.yaml` alone.
"""

from components.config.learning import AlgorithmConfig, EvaluationConfig, LossConfig, TrainingConfig
from components.config.parsing import differing_fields, parse_config
from components.config.places import ResourceConfig, StoreConfig, TrackingConfig
from components.config.play import (
    EnvironmentConfig,
    ExecutionConfig,
    GenerationConfig,
    RewardConfig,
    RolloutConfig,
    SandboxConfig,
    VllmConfig,
)
from components.config.policies import (
    AdapterConfig,
    AgentConfig,
    ApiConfig,
    PolicyConfig,
    TinyModelConfig,
    WarmStartConfig,
)
from components.config.run import STAGE_SECTIONS, RunConfig, stage_config
from components.config.section import Section

__all__ = [
    "STAGE_SECTIONS",
    "AdapterConfig",
    "AgentConfig",
    "AlgorithmConfig",
    "ApiConfig",
    "EnvironmentConfig",
    "EvaluationConfig",
    "ExecutionConfig",
    "GenerationConfig",
    "LossConfig",
    "PolicyConfig",
    "ResourceConfig",
    "RewardConfig",
    "RolloutConfig",
    "RunConfig",
    "SandboxConfig",
    "Section",
    "StoreConfig",
    "TinyModelConfig",
    "TrackingConfig",
    "TrainingConfig",
    "VllmConfig",
    "WarmStartConfig",
    "differing_fields",
    "parse_config",
    "stage_config",
]
