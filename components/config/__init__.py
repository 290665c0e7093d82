"""The configuration of a run: one frozen tree, unknown keys rejected with the nearest valid name.

Each field is documented under it. Values are written by hand only in `prefect.yaml`.
"""

from components.config.agents import AgentConfig as AgentConfig
from components.config.algorithm import AlgorithmConfig as AlgorithmConfig
from components.config.algorithm import CreditedConfig as CreditedConfig
from components.config.algorithm import Gae as Gae
from components.config.algorithm import Gigpo as Gigpo
from components.config.algorithm import RoleBaseline as RoleBaseline
from components.config.environment import EnvironmentConfig as EnvironmentConfig
from components.config.generation import GenerationConfig as GenerationConfig
from components.config.generation import TransformersGeneration as TransformersGeneration
from components.config.generation import VllmConfig as VllmConfig
from components.config.generation import VllmGeneration as VllmGeneration
from components.config.hybrid import CurriculumConfig as CurriculumConfig
from components.config.hybrid import HybridMethod as HybridMethod
from components.config.hybrid import LearnerConfig as LearnerConfig
from components.config.hybrid import StageConfig as StageConfig
from components.config.hybrid import StartsConfig as StartsConfig
from components.config.loss import LossConfig as LossConfig
from components.config.parsing import differing_fields as differing_fields
from components.config.parsing import parse_config as parse_config
from components.config.parsing import parse_section as parse_section
from components.config.policies import AdapterConfig as AdapterConfig
from components.config.policies import ApiConfig as ApiConfig
from components.config.policies import PolicyConfig as PolicyConfig
from components.config.policies import TinyModelConfig as TinyModelConfig
from components.config.population import OpponentConfig as OpponentConfig
from components.config.population import PopulationMethod as PopulationMethod
from components.config.prompts import PromptConfig as PromptConfig
from components.config.retention import RetentionConfig as RetentionConfig
from components.config.rewards import RewardConfig as RewardConfig
from components.config.rollout import EvaluationConfig as EvaluationConfig
from components.config.rollout import RolloutConfig as RolloutConfig
from components.config.run import RunConfig as RunConfig
from components.config.sandbox import ExecutionConfig as ExecutionConfig
from components.config.sandbox import SandboxConfig as SandboxConfig
from components.config.sections import MethodConfig as MethodConfig
from components.config.sections import TeamMethod as TeamMethod
from components.config.store import ResourceConfig as ResourceConfig
from components.config.store import StoreConfig as StoreConfig
from components.config.store import TrackingConfig as TrackingConfig
from components.config.training import TrainingConfig as TrainingConfig
from components.config.training import WarmStartConfig as WarmStartConfig
from components.frozen import Frozen as Frozen
