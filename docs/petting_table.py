"""The table of the keys of PettingLLMs' configurations."""

from flows.api.petting.configs import SETTINGS

NAMING = (
    ("config_name", "A configuration, a preset or a file."),
    ("env_name", "One of the domain's environments."),
    ("base_model", "The initial weights: tiny, a model folder or a hub name."),
)


def table() -> str:
    """A row for each key: the fields that it sets, or what it is."""
    rows = [f"| `{key}` | {meaning} |" for key, meaning in NAMING]
    rows += [f"| `{key}` | {', '.join(f'`{place}`' for place in places)} |" for key, places in SETTINGS.items()]
    rows.append("| `overrides` | A list of `a.b=c`, as for `--set`, for every other field. |")
    return "\n".join(["| key | sets |", "|---|---|", *rows])
