"""The table of the keys of PettingLLMs' configurations, from the settings themselves."""

from flows.api.petting.run_configs import NAMING
from flows.api.petting.settings import SETTINGS


def table() -> str:
    """A row for each key: the fields that it sets, and what it is."""
    rows = [f"| `{key}` | | {meaning} |" for key, meaning in NAMING.items()]
    for key, setting in SETTINGS.items():
        places = ", ".join(f"`{place}`" for place in setting.places)
        rows.append(f"| `{key}` | {places} | {setting.meaning} |")
    rows.append("| `overrides` | any | A list of `a.b=c`, as for `--set`, for every other field. |")
    return "\n".join(["| key | sets | what it is |", "|---|---|---|", *rows])
