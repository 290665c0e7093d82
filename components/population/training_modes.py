"""Training modes: one matrix that mixes the members' returns, and nothing else.

A mode is a linear map of returns: `mixed = M raw`. The learner sees `mixed`, every evaluation sees `raw`. With own
returns I, the team's mean T and the difference to the others D, each of the three flat modes is

    M = (1 - beta - kappa) I + beta T + kappa D,        0 <= beta, 0 <= kappa, beta + kappa <= 1

cooperative has kappa 0, competitive beta 0, and mixed shares both by how the returns have moved together
(`credit.ReturnCorrelation`). At kappa 1 the game is zero-sum whatever it was; at beta 1 teammates have one return.
Hierarchical gives the leader half of its followers' mean, and leaves the followers their own.
"""

import numpy as np
from numpy.typing import NDArray

from components.config.population import Competitive, Cooperative, Hierarchical, TrainingMode

Floats = NDArray[np.float64]


def team_means(num_members: int, team_size: int) -> Floats:
    """T, [N, N]: the map from returns to the mean of each member's team, where teams are blocks of `team_size` neighbours.

    **Example** 4 members in teams of 2: the first two rows are (.5, .5, 0, 0).
    """
    return np.kron(np.eye(num_members // team_size), np.full((team_size, team_size), 1 / team_size))


def differences_to_others(num_members: int) -> Floats:
    """D, [N, N]: the map from returns to each one's difference to the mean of all others; its columns sum to 0.

    **Example** three members with (3, 0, 0): (3, -1.5, -1.5).
    """
    return (num_members * np.eye(num_members) - np.ones((num_members, num_members))) / (num_members - 1)


def flat_matrix(num_members: int, *, beta: float, kappa: float, team_size: int | None = None) -> Floats:
    """`(1 - beta - kappa) I + beta T + kappa D`, [N, N]; without a team size, all are one team.

    **Example** two members, beta .6: rows (.7, .3) and (.3, .7). kappa .4: rows (1, -.4) and (-.4, 1).
    """
    matrix = (1 - beta - kappa) * np.eye(num_members)
    if beta:
        matrix += beta * team_means(num_members, team_size or num_members)
    if kappa:
        matrix += kappa * differences_to_others(num_members)
    return matrix


def mix_strengths(cooperation_strength: float, competition_intensity: float, correlation: float) -> tuple[float, float]:
    """beta and kappa of the mixed mode: `beta (1 + rho) / 2` and `kappa (1 - rho) / 2`.

    Members whose returns rise together (rho 1) cooperate with full strength, those who take from each other (rho -1)
    compete. The sum never exceeds the larger of both strengths. Because the mean correlation of N members is at least
    -1 / (N - 1), many members compete with little more than half of the intensity.

    **Example** (.6, .4) at rho 0: (.3, .2); at rho 1: (.6, 0).
    """
    return cooperation_strength * (1 + correlation) / 2, competition_intensity * (1 - correlation) / 2


def hierarchical_matrix(num_members: int, leader: int) -> Floats:
    """The matrix, [N, N], by which half of the leader's return is the mean of its followers' returns.

    Those stay as they are: followers earn more by following (`credit.compliance_bonuses`), the leader by leading.

    **Example** leader 0 and returns (1, 0, .5): (.625, 0, .5).
    """
    matrix = np.eye(num_members)
    matrix[leader] = 0.5 / (num_members - 1)
    matrix[leader, leader] = 0.5
    return matrix


def make_mode_matrix(mode: TrainingMode, num_members: int, *, correlation: float = 0.0, leader: int = 0) -> Floats:
    """The matrix, [N, N], of a training mode. Mixed reads `correlation`, hierarchical the place of the `leader`.

    **Example** two members: cooperative (.7, .3), competitive (1, -.4), mixed at rho 0 (.85, -.05), hierarchical (.5,
    .5) are the first rows.
    """
    if isinstance(mode, Cooperative):
        return flat_matrix(num_members, beta=mode.cooperation_strength, kappa=0.0, team_size=mode.team_size)
    if isinstance(mode, Competitive):
        return flat_matrix(num_members, beta=0.0, kappa=mode.competition_intensity)
    if isinstance(mode, Hierarchical):
        return hierarchical_matrix(num_members, leader)
    beta, kappa = mix_strengths(mode.cooperation_strength, mode.competition_intensity, correlation)
    return flat_matrix(num_members, beta=beta, kappa=kappa, team_size=mode.team_size)
