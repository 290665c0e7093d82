"""The documented API of a hybrid trainer: a language model and an RL policy share a Game Boy.

Its page says `trainer`, `core`, and `tests.utils` and `tests.benchmarks`; here these are `flows.api.hybrid.trainer`,
`flows.api.hybrid.core`, and `flows.api.hybrid.testing`.

**Example**

    from flows.api.hybrid.trainer.hybrid_llm_rl_trainer import create_trainer_from_config

    trainer = create_trainer_from_config("config.json")  # {"rom_path": "homebrew", "llm_model": "scripted"}
    summary = trainer.train(total_episodes=1000)
"""
