"""Agent, strategies, history, environment, goals and errors. Import each from its module, as the API's page does.

`enhanced_pyboy_env` alone needs Gymnasium and the emulator, of the extra `hybrid`.
"""
