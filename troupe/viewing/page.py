"""The page of `troupe view`: one HTML file that loads nothing."""

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

_UNSAFE_IN_SCRIPTS = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def view_page(document: Mapping[str, Any]) -> str:
    """The document as a page. Recorded text is data to its script, and no script or style but its own is allowed to run."""
    script = own_text("page.js")
    return render_page(
        "page.html.jinja",
        title=f"{document['run_id']}, step {document['main']['step']}",
        style=own_text("colors.css") + own_text("page.css"),
        script=Markup(script),
        script_digest=_digest(script),
        document=Markup(json_in_script(document)),
    )


def own_text(name: str) -> str:
    """A file of this folder."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def render_page(template: str, *, style: str, **values: Any) -> str:
    """A template of this folder as a page with this style. All values but markup are escaped."""
    texts = Environment(loader=PackageLoader(__package__, "."), undefined=StrictUndefined, autoescape=True)
    return texts.get_template(template).render(style=Markup(style), style_digest=_digest(style), **values)


def json_in_script(document: Any) -> str:
    """JSON that nothing inside a script element can end: `</script>` is `\\u003c/script\\u003e`."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_UNSAFE_IN_SCRIPTS)


def _digest(text: str) -> str:
    """As a content security policy names an inline script."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
