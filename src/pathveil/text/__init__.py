"""A report's text: what it says of people hidden, and its tokens."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathveil.text.tokenizer import tokenize

__all__ = ["tokenize"]


def __getattr__(name: str) -> Any:
    if name == "tokenize":
        from pathveil.text import tokenizer

        return tokenizer.tokenize
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
