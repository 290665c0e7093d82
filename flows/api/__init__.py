"""The documented Python APIs of other systems, as thin facades over the flows."""
