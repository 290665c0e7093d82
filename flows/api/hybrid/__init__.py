"""The documented API of a hybrid trainer: a language model and an RL policy share a Game Boy.

Its page says `trainer`, `core`, and `tests.utils` and `tests.benchmarks`; here these are `flows.api.hybrid.trainer`,
`flows.api.hybrid.core`, and `flows.api.hybrid.testing`. The environment alone needs Gymnasium and the emulator, of the extra
`hybrid`.
"""
