"""Configurations of math: a tool agent and a reasoner."""

from flows.api.petting.config.named import named_configs

single_policy, two_policy, l0, l1, l2, l3 = named_configs("math")
