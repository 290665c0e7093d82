"""Thin Prefect wrappers around the components: one file per stage. What they do lies in `components`."""
