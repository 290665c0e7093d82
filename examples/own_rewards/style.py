"""What answers are worth beside solving the problem."""


def brevity(episode, node):
    """One value for each candidate of a node: short answers are worth more."""
    return [-len(candidate.text) / 10 for candidate in node.candidates]


def teamwork(episode, node):
    """A bonus at every node of an episode that ends well, for what the next agent was handed."""
    return [float(episode.success and k == node.chosen) for k in range(len(node.candidates))]
