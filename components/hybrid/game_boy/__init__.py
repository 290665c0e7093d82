"""A Game Boy emulator as an environment of the hybrid agent: memory, save states, screens and processes."""
