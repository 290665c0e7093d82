"""The API of PettingLLMs over Troupe's flows.

**Example**

    from flows.api.petting import evaluate, train
    from flows.api.petting.config.code import single_policy

    config = single_policy.get_config(batch_size=8)
    train(config, num_iterations=20, checkpoint_dir="checkpoints/")
    print(evaluate("checkpoints/model_20", "code_single_policy", num_episodes=100)["success_rate"])
"""

from flows.api.petting.agents import PolicyAgent as PolicyAgent
from flows.api.petting.configs import config_names as config_names
from flows.api.petting.configs import get_config as get_config
from flows.api.petting.evaluate import evaluate as evaluate
from flows.api.petting.multi_agent_env import CodeEnv as CodeEnv
from flows.api.petting.multi_agent_env import GamesEnv as GamesEnv
from flows.api.petting.multi_agent_env import MathEnv as MathEnv
from flows.api.petting.multi_agent_env import SearchEnv as SearchEnv
from flows.api.petting.multi_agent_env import StatefulEnv as StatefulEnv
from flows.api.petting.trainer import train as train
