"""HTML pages of a model at work: templates in ``pages/``, everything escaped, every name required, nothing fetched.

>>> as_share(0.0421), as_share(None)
('4.2\xa0%', '–')
"""

from typing import Any

from pathveil.disclosure import NOT_TOLD
from pathveil.formatting import percent


def fill(template: str, **content: Any) -> str:
    """A template of this room with its content."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pathveil.bundle", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["share"] = as_share
    environment.filters["told"] = lambda value: NOT_TOLD if value is None else as_share(value)
    return environment.get_template(template).render(**content)


def as_share(value: float | None) -> str:
    return "–" if value is None else percent(value).replace(" ", "\u00a0")
