"""A hybrid player's training from top to bottom in one loop: no Prefect, no store, no session.

    python plain_hybrid.py hybrid-tiny 3

The policy learns to play a Game Boy game by its rules in NumPy. It ends in the very weights of `troupe train hybrid-tiny
--steps 3`.
"""

import sys

from components.config import RunConfig
from components.errors import ConfigurationError
from components.hybrid.agent import AgentRule, HybridAgent
from components.hybrid.arbitration import Mode
from components.hybrid.control import ControlRule
from components.hybrid.episodes import EpisodeRule
from components.hybrid.experience import digest_state
from components.hybrid.game_facts import STATE_VARIABLES
from components.hybrid.masked_ppo import MaskedPPO, PPORule
from components.hybrid.recording_games import RecordingGames
from components.hybrid.rewards import RewardWeights
from components.hybrid.start_positions import GamesFromPositions
from components.hybrid.twin import Twin
from components.identity import seed_for
from components.machine.torch_state import computing_with
from flows.presets import preset_config


def train(config: RunConfig) -> str:
    """The digest of the policy and its value function after the last step."""
    playing, seed = config.method, config.seed  # the settings of the method
    if playing.type != "hybrid" or (playing.mode.type, playing.game.type, playing.subgoals) != ("rl_only", "twin", ()):
        raise ConfigurationError(
            f"{config.preset}: here the policy plays alone, on the twin, without subgoals; use hybrid-tiny"
        )

    # The games: N at once, each a pure function of its seed and buttons. A record that grows pays, and each button costs
    # a little: r = sum of weights * (records after - before) + step.
    rule = EpisodeRule(
        max_steps=config.environment.max_turns, goal_badges=config.environment.options["goal_badges"],
        weights=RewardWeights(**playing.weights),
    )  # fmt: skip
    games = Twin(playing.num_games, seed=seed, rule=rule)
    if playing.game.starts is not None:
        # Some episodes begin where play has been: in a section that was entered n times with weight 1 / sqrt(n).
        games = GamesFromPositions(games, playing.game.starts, seed=seed)

    # warm_start: a policy pi(a | s) over the legal buttons and a value function V(s), two networks of random weights.
    network = playing.learner.network
    gains = tuple(network.state_gains.get(name, 1.0) for name in STATE_VARIABLES)
    rule = playing.learner.model_dump(exclude={"network"})
    learner = MaskedPPO(PPORule(**rule, width=network.width, state_gains=gains), seed=seed_for(seed, "weights"))

    # Who decides: under rl_only always the policy. In other modes a language model has its share of the buttons here.
    control = ControlRule(mode=Mode(playing.mode.type))
    agent = HybridAgent(AgentRule(control=control), playing.num_games, seed=seed, policy=learner)

    for step in range(config.num_steps):
        # collect_experience: T buttons in each game, and what each was worth more than expected (GAE):
        # A_t = sum over k of (discount * trace)^k * delta_(t+k), delta_t = r_t + discount * V(s_(t+1)) - V(s_t).
        learner.reseed(seed_for(seed, "collect_experience", step))
        watched = RecordingGames(games, agent)
        rollout = learner.collect(watched, watched.choose)

        # update_learner: PPO over minibatches, for some epochs. With ratio = pi(a | s) / pi_played(a | s), the loss is
        # -min(ratio A, clip(ratio, 1 - c, 1 + c) A) + value_weight (V - A - V_played)^2 - entropy_weight H(pi).
        learner.reseed(seed_for(seed, "update_learner", step))
        told = learner.update(rollout)
        values = {**watched.metrics(), **told}
        print(f"step {step}: " + ", ".join(f"{name} {value:.3f}" for name, value in values.items()))
    weights = {name: values for name, values in learner.to_arrays().items() if name.startswith("weights.")}
    return digest_state(weights)


if __name__ == "__main__":
    with computing_with(1):  # sums of floats depend on the number of threads
        print(f"reflexes: {train(preset_config(sys.argv[1], num_steps=int(sys.argv[2])))}")
