"""Worlds with a state that actions change: tool worlds for a planner and a tool agent, and two puzzles."""
