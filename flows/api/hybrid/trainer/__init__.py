"""The trainer, its configuration, and the managers of language models."""

from flows.api.hybrid.trainer.hybrid_llm_rl_trainer import HybridLLMRLTrainer as HybridLLMRLTrainer
from flows.api.hybrid.trainer.hybrid_llm_rl_trainer import create_trainer_from_config as create_trainer_from_config
from flows.api.hybrid.trainer.llm_manager import BaseLLMManager as BaseLLMManager
from flows.api.hybrid.trainer.llm_manager import LLMManager as LLMManager
from flows.api.hybrid.trainer.llm_manager import ScriptedLLMManager as ScriptedLLMManager
