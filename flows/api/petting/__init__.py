"""The API of PettingLLMs over Troupe's flows."""

from flows.api.petting.agents import PolicyAgent as PolicyAgent
from flows.api.petting.configs import get_config as get_config
from flows.api.petting.evaluate import evaluate as evaluate
from flows.api.petting.trainer import train as train
