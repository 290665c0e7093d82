"""A language model and an RL policy that share a game: who acts, what is learned from it. No Prefect."""
