"""Recorded calls of environments' tools: programs in the sandbox and queries."""
