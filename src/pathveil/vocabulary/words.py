"""The words a model may know: an ordered list, how it was chosen, and a hash.

Ids follow the list: 0 is padding (never materialised), 1 is ``unknown_word``, the first word is 2.

>>> vocabulary = Vocabulary(words=("carcinoma", "left"), method="baseline")
>>> vocabulary.size, vocabulary.id_of("left"), vocabulary.id_of("zebra")
(4, 3, 1)
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pathveil.errors import VocabularyError

FORMAT = "pathveil-vocabulary/1"
PADDING, UNKNOWN = 0, 1
FIRST_WORD = 2
UNKNOWN_WORD = "unknown_word"


@dataclass(frozen=True)
class Vocabulary:
    """Words in id order, without padding and unknown."""

    words: tuple[str, ...]
    method: str  # the expression that chose them, readable by a person
    parameters: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)  # corpus hash, registries, numbers of reports and cases

    def __post_init__(self) -> None:
        if len(set(self.words)) != len(self.words):
            raise VocabularyError(f"a vocabulary holds each word once; {len(self.words) - len(set(self.words))} repeat")

    @property
    def size(self) -> int:
        """Rows of an embedding: the words, padding and unknown."""
        return len(self.words) + FIRST_WORD

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, start=FIRST_WORD)}

    def id_of(self, word: str) -> int:
        return self.ids.get(word, UNKNOWN)

    @cached_property
    def sha256(self) -> str:
        """Of the words in order; two vocabularies with it encode alike, however they were chosen."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    @property
    def id_space(self) -> str:
        """What sites that train together must have in common: an id means one word at all of them.

        The sha256, except for words agreed on privately: there a site has ids for words that it cannot name, so two
        sites' words differ though their ids do not (see ``pathveil.vocabulary.agree``).
        """
        return str(self.source.get("id_space", self.sha256))

    def save(self, path: Path) -> None:
        content = {
            "format": FORMAT,
            "sha256": self.sha256,
            "method": self.method,
            "parameters": dict(self.parameters),
            "source": dict(self.source),
            "words": list(self.words),
        }
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        os.replace(part, path)

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise VocabularyError(f"{path}: cannot be read ({error.strerror}); expected a vocabulary file") from None
        except ValueError:
            raise VocabularyError(f"{path}: is not JSON; expected a file written by 'pathveil vocab select'") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise VocabularyError(f"{path}: is not a vocabulary of format {FORMAT}")
        words = content.get("words")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise VocabularyError(f"{path}: 'words' must be a list of strings")
        vocabulary = cls(
            words=tuple(words),
            method=str(content.get("method", "")),
            parameters=content.get("parameters") or {},
            source=content.get("source") or {},
        )
        if content.get("sha256") != vocabulary.sha256:
            raise VocabularyError(f"{path}: its words do not match its sha256; the file was altered")
        return vocabulary
