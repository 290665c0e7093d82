"""Which of the nine actions make sense now. Walls forbid nothing: bumping into one turns the player towards it."""

import numpy as np

from components.hybrid.game_facts import NUM_ACTIONS, Action, Booleans, Facts


def action_masks(facts: Facts) -> Booleans:
    """Whether each action is allowed in each game (N, A); NONE always is, so that no mask is empty.

    While the game talks: A, B and NONE. In a battle: all but START and SELECT, since its menus need directions. In a menu: all
    but SELECT. In the world: all but SELECT.

    **Example** in the world (1, 1, 1, 0, 1, 1, 1, 1, 1), in a battle (1, 1, 0, 0, 1, 1, 1, 1, 1), in a dialogue
    (1, 1, 0, 0, 0, 0, 0, 0, 1).
    """
    allowed_N_A = np.ones((len(facts["battle_mode"]), NUM_ACTIONS), np.bool_)
    allowed_N_A[:, Action.SELECT] = False
    allowed_N_A[facts["battle_mode"] > 0, Action.START] = False
    talking_N = (facts["script"] > 0) & (facts["battle_mode"] == 0)
    allowed_N_A[np.ix_(talking_N, [Action.START, Action.UP, Action.DOWN, Action.LEFT, Action.RIGHT])] = False
    return allowed_N_A
