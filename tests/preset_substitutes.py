"""What tests put in place of what presets would download."""

from flows.presets import preset_config


def without_downloads(preset: str) -> list[str]:
    """Overrides that take made-up problems in place of a dataset on the hub."""
    options = preset_config(preset, []).environment.options
    on_hub = options.get("dataset", "procedural") not in ("procedural", "humaneval")
    return ["environment.options.dataset=procedural"] if on_hub else []
