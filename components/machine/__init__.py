"""This machine: its processes, files, memory and waits."""
