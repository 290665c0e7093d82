"""Prefect's coat around the components: one file a stage. Bodies are thin; what they do lies in `components`."""
