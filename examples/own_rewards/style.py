"""Rewards beside solving the problem."""


def brevity(episode, node):
    """One value per candidate of a node: short answers get more."""
    return [-len(candidate.text) / 10 for candidate in node.candidates]


def teamwork(episode, node):
    """A bonus at every node of a solved episode for the candidate that the next agent saw."""
    return [float(episode.success and k == node.chosen) for k in range(len(node.candidates))]
