"""Configurations of games: a tool agent and a plan agent on a board, chosen by `env_name`."""

from flows.api.petting.config.named import named_configs

single_policy, two_policy, l0, l1, l2, l3 = named_configs("games")
