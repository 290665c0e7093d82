"""Settings with which both badges of the homebrew cartridge are learned, and why they are what they are.

Where play stopped before: after the first badge it stayed in the grass of the route, since levels paid more than what is south
of it, and the same buttons were pressed on all maps, which differ by 1/255 in what the policy sees. So levels pay little and
steps cost; maps, places and badges are told apart; much of the practice begins where play has been; an episode has 600 steps.
"""

from components.config.hybrid import StartsConfig
from components.hybrid.experience import HybridSettings
from components.hybrid.game_facts import LARGEST, STATE_VARIABLES
from components.hybrid.masked_ppo import PPORule
from components.hybrid.rewards import RewardWeights

_GAINS = {"x": 25.0, "y": 25.0, "map_number": 128.0, "johto_badges": 8.0, "party_count": 6.0, "level": 4.0}
"""What makes the differences on this cartridge about 1: its maps are ten by nine cells, with the numbers 2 to 4."""
WEIGHTS = RewardWeights(levels=0.5, maps=10.0, tiles=0.5, step=-0.1)


def both_badges() -> HybridSettings:
    """Settings for the second badge, from 64 games of the twin. On one core about 10,000 steps a second.

    **Example** seed 0: both badges in 87 of 100 episodes after 1.4 million steps, in all of them after 1.5 million; after 2
    million an episode has 105 steps, where the scripted player needs 126.
    """
    assert set(_GAINS) <= set(LARGEST)
    return HybridSettings(
        num_games=64,
        max_steps=600,
        goal_badges=2,
        weights=WEIGHTS,
        learner=PPORule(steps=64, minibatch=1024, state_gains=tuple(_GAINS.get(name, 1.0) for name in STATE_VARIABLES)),
        starts=StartsConfig(),
    )
