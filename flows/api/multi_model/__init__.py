"""The documented API of Core SRL: several models trained together, as `from flows.api.multi_model import MultiModelTrainer`."""

from flows.api.multi_model.checkpoints import list_available_checkpoints as list_available_checkpoints
from flows.api.multi_model.checkpoints import load_checkpoint_metadata as load_checkpoint_metadata
from flows.api.multi_model.configs import CompetenceFactor as CompetenceFactor
from flows.api.multi_model.configs import CooperationFactor as CooperationFactor
from flows.api.multi_model.configs import EnvironmentType as EnvironmentType
from flows.api.multi_model.configs import LLMBackend as LLMBackend
from flows.api.multi_model.configs import LLMConfig as LLMConfig
from flows.api.multi_model.configs import LoRAConfig as LoRAConfig
from flows.api.multi_model.configs import MonitoringConfig as MonitoringConfig
from flows.api.multi_model.configs import MultiModelConfig as MultiModelConfig
from flows.api.multi_model.configs import RLAlgorithm as RLAlgorithm
from flows.api.multi_model.configs import RLConfig as RLConfig
from flows.api.multi_model.configs import TrainingMode as TrainingMode
from flows.api.multi_model.configs import UpdateStrategy as UpdateStrategy
from flows.api.multi_model.configs import WeightUpdateStrategy as WeightUpdateStrategy
from flows.api.multi_model.environments import CoopCompeteEnv as CoopCompeteEnv
from flows.api.multi_model.environments import MultiModelTrainingEnvironment as MultiModelTrainingEnvironment
from flows.api.multi_model.environments import OurMethodPolicy as OurMethodPolicy
from flows.api.multi_model.environments import SimplePG as SimplePG
from flows.api.multi_model.environments import create_maze_training_env as create_maze_training_env
from flows.api.multi_model.environments import (
    create_multi_model_coop_compete_env as create_multi_model_coop_compete_env,
)
from flows.api.multi_model.environments import create_multi_model_staged_env as create_multi_model_staged_env
from flows.api.multi_model.environments import create_multi_model_team_battle as create_multi_model_team_battle
from flows.api.multi_model.environments import create_social_training_env as create_social_training_env
from flows.api.multi_model.environments import run_benchmark as run_benchmark
from flows.api.multi_model.llm import LLMResponse as LLMResponse
from flows.api.multi_model.llm import SharedLLMManager as SharedLLMManager
from flows.api.multi_model.llm import create_claude_manager as create_claude_manager
from flows.api.multi_model.llm import create_llama3_manager as create_llama3_manager
from flows.api.multi_model.llm import create_openai_manager as create_openai_manager
from flows.api.multi_model.llm import create_qwen3_manager as create_qwen3_manager
from flows.api.multi_model.llm import create_qwen_coder_manager as create_qwen_coder_manager
from flows.api.multi_model.llm import create_qwen_math_manager as create_qwen_math_manager
from flows.api.multi_model.llm import get_available_models as get_available_models
from flows.api.multi_model.llm import get_version_info as get_version_info
from flows.api.multi_model.lora import DistributedLoRAScheduler as DistributedLoRAScheduler
from flows.api.multi_model.lora import LoRAManager as LoRAManager
from flows.api.multi_model.lora import create_distributed_lora_scheduler as create_distributed_lora_scheduler
from flows.api.multi_model.lora import create_lora_manager as create_lora_manager
from flows.api.multi_model.monitoring import GraphVisualizer as GraphVisualizer
from flows.api.multi_model.monitoring import UnifiedMonitor as UnifiedMonitor
from flows.api.multi_model.monitoring import create_graph_visualizer as create_graph_visualizer
from flows.api.multi_model.monitoring import create_unified_monitor as create_unified_monitor
from flows.api.multi_model.scheduler import UnifiedScheduler as UnifiedScheduler
from flows.api.multi_model.scheduler import create_competitive_scheduler as create_competitive_scheduler
from flows.api.multi_model.scheduler import create_cooperative_scheduler as create_cooperative_scheduler
from flows.api.multi_model.scheduler import create_unified_scheduler as create_unified_scheduler
from flows.api.multi_model.trainer import MultiModelTrainer as MultiModelTrainer
from flows.api.multi_model.trainer import create_competitive_multimodel_trainer as create_competitive_multimodel_trainer
from flows.api.multi_model.trainer import create_cooperative_multimodel_trainer as create_cooperative_multimodel_trainer
from flows.api.multi_model.trainer import create_multimodel_trainer as create_multimodel_trainer
from flows.api.multi_model.trainer import quick_start_multimodel_training as quick_start_multimodel_training
