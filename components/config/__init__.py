"""The configuration of a run: one frozen tree, unknown keys rejected with the nearest valid name.

Each field is documented under it. Values are written by hand only in `prefect.yaml`.
"""

from components.config.learning import AlgorithmConfig as AlgorithmConfig
from components.config.learning import EvaluationConfig as EvaluationConfig
from components.config.learning import LossConfig as LossConfig
from components.config.learning import TrainingConfig as TrainingConfig
from components.config.parsing import differing_fields as differing_fields
from components.config.parsing import parse_config as parse_config
from components.config.places import ResourceConfig as ResourceConfig
from components.config.places import StoreConfig as StoreConfig
from components.config.places import TrackingConfig as TrackingConfig
from components.config.play import EnvironmentConfig as EnvironmentConfig
from components.config.play import ExecutionConfig as ExecutionConfig
from components.config.play import GenerationConfig as GenerationConfig
from components.config.play import RewardConfig as RewardConfig
from components.config.play import RolloutConfig as RolloutConfig
from components.config.play import SandboxConfig as SandboxConfig
from components.config.play import VllmConfig as VllmConfig
from components.config.policies import AdapterConfig as AdapterConfig
from components.config.policies import AgentConfig as AgentConfig
from components.config.policies import ApiConfig as ApiConfig
from components.config.policies import PolicyConfig as PolicyConfig
from components.config.policies import TinyModelConfig as TinyModelConfig
from components.config.policies import WarmStartConfig as WarmStartConfig
from components.config.prompts import PromptConfig as PromptConfig
from components.config.run import RunConfig as RunConfig
from components.frozen import Frozen as Frozen
