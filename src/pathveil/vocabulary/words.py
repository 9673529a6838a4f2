"""The vocabulary of a model: an ordered list of words, how it was chosen, and a hash.

Ids follow the list: 0 is padding (never materialised), 1 is ``unknown_word``, the first word is 2. Words are in the
order of their sha256, which says nothing about counts. In a sorted list, C10, C11 and C12 would be neighbours, as they
are in a report.

>>> Vocabulary.from_words(["left", "c10", "carcinoma", "c11"], method="by hand").words
('c10', 'left', 'carcinoma', 'c11')
>>> vocabulary = Vocabulary(words=("carcinoma", "left"), method="baseline")
>>> vocabulary
2 words, by 'baseline'
>>> vocabulary.size, vocabulary.id_of("left"), vocabulary.id_of("zebra")
(4, 3, 1)

A vocabulary can be given away with a keyed hash for each word, so that only the holders of the key can look a word up.
That hides the words from readers of the file; holders of the key can still try every name they know.

>>> secret = vocabulary.hashed(b"a key of at least sixteen bytes")
>>> secret.words[0] == "carcinoma", secret.with_key(b"a key of at least sixteen bytes").id_of("left")
(False, 3)
"""

import hashlib
import hmac
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathveil.errors import VocabularyError
from pathveil.files import check_file, read_json, write_json
from pathveil.formatting import counted
from pathveil.text.tokenizer import IDENTIFIERS, read_settings
from pathveil.untrusted import bounds

if TYPE_CHECKING:
    import polars as pl

FORMAT = "pathveil-vocabulary/1"
PADDING, UNKNOWN = 0, 1
FIRST_WORD = 2
KEY_CHECK = "hashed words, key check"  # a parameter of hashed words, by which a wrong key is known
SHOWN_SHA256 = "hashed words, sha256 before"  # another: ``Vocabulary.sha256`` of the words themselves


def check_vocabulary_file(path: Path, *, reads: Iterable[Any] = ()) -> None:
    """Refuse, before any work, a file that is no vocabulary; an earlier vocabulary may be replaced."""
    check_file(path, renews=[FORMAT.encode()], reads=reads)


@dataclass(frozen=True, repr=False)
class Vocabulary:
    """The words of a model in the order of their ids, without padding and unknown."""

    words: tuple[str, ...]
    method: str  # the expression that chose them, readable by a person
    parameters: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)  # corpus hash, registries, numbers of reports and cases
    key: bytes | None = field(default=None, compare=False)  # of hashed words; never written

    def __post_init__(self) -> None:
        if len(set(self.words)) != len(self.words):
            raise VocabularyError(f"a vocabulary holds each word once; {len(self.words) - len(set(self.words))} repeat")

    @classmethod
    def from_words(
        cls,
        words: Iterable[str],
        *,
        method: str,
        parameters: Mapping[str, Any] | None = None,
        source: Mapping[str, Any] | None = None,
    ) -> "Vocabulary":
        """Make a vocabulary, its words in the order of their sha256."""
        words = tuple(words)
        ordered = tuple(words[place] for place in hash_order(words))
        return cls(ordered, method=method, parameters=parameters or {}, source=source or {})

    @property
    def size(self) -> int:
        """The rows of an embedding: the words, padding and unknown."""
        return len(self.words) + FIRST_WORD

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, start=FIRST_WORD)}

    def id_of(self, word: str) -> int:
        if self.is_hashed:
            if self.key is None:
                raise VocabularyError("the words are hashed; give the key they were hashed with (--words-key)")
            word = keyed_word(self.key, word)
        return self.ids.get(word, UNKNOWN)

    @property
    def is_hashed(self) -> bool:
        """True if the vocabulary has keyed hashes in place of words."""
        return KEY_CHECK in self.parameters

    def hashed(self, key: bytes) -> "Vocabulary":
        """Replace each word by a keyed hash; ids stay."""
        if self.is_hashed:
            raise VocabularyError("the words are hashed already")
        return Vocabulary(
            words=tuple(keyed_word(key, word) for word in self.words),
            method=self.method,
            parameters={**self.parameters, KEY_CHECK: keyed_word(key, "", length=16), SHOWN_SHA256: self.sha256},
            source=self.source,
        )

    def with_key(self, key: bytes) -> "Vocabulary":
        """Add the key of hashed words, so that words can be looked up; refuse another key."""
        if not self.is_hashed:
            raise VocabularyError("the words are not hashed; leave out the key")
        if not hmac.compare_digest(keyed_word(key, "", length=16), str(self.parameters[KEY_CHECK])):
            raise VocabularyError("the words were hashed with another key")
        return replace(self, key=key)

    @cached_property
    def sha256(self) -> str:
        """The hash of the words in order; vocabularies with the same hash encode alike, however they were chosen."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    @property
    def shown_sha256(self) -> str:
        """The sha256 of the words; of hashed words as it was before, by the file's own account."""
        return str(self.parameters.get(SHOWN_SHA256, "")) if self.is_hashed else self.sha256

    @property
    def id_space(self) -> str:
        """The hash that sites that train together must share, so that an id is the same word everywhere.

        It is the sha256, except for words agreed on privately: a site then has ids for words that it cannot name, and
        sites differ in their words, not in their ids (see ``pathveil.agreement``).
        """
        return str(self.source.get("id_space", self.sha256))

    @property
    def identifiers(self) -> bool:
        """True if names and dates were masked in the text of these words; the default if the source does not say."""
        settings = read_settings(str(self.source.get("text", "")))
        return IDENTIFIERS if settings is None else settings[1]

    def __repr__(self) -> str:
        return f"{counted(len(self.words), 'word')}, by '{self.method}'"

    def _repr_html_(self) -> str:
        """Show a notebook the size alone: words may be people's names."""
        return f"<p>{html.escape(repr(self))}</p>"

    def to_frame(self) -> "pl.DataFrame":
        """Return ids and words as a table."""
        import polars as pl

        return pl.DataFrame({"id": list(self.ids.values()), "word": self.words})

    def to_dict(self) -> dict[str, Any]:
        """Return the content of its file."""
        return {
            "format": FORMAT,
            "sha256": self.sha256,
            "method": self.method,
            "parameters": dict(self.parameters),
            "source": dict(self.source),
            "words": list(self.words),
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """Return its file as JSON; also write it to ``path`` if given."""
        if path is not None:
            self.save(Path(path))
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def save(self, path: Path) -> None:
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        content = read_json(path, error=VocabularyError)
        if content.get("format") != FORMAT:
            raise VocabularyError(
                f"{path}: is not a vocabulary of format {FORMAT}; expected a file written by 'pathveil vocab select'"
            )
        words, method = content.get("words"), content.get("method", "")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise VocabularyError(f"{path}: 'words' must be a list of strings")
        if len(words) > bounds.WORDS:
            raise VocabularyError(f"{path}: has more than {bounds.WORDS:,} words")
        parameters, source = (content.get(name) or {} for name in ("parameters", "source"))
        if not isinstance(method, str) or not isinstance(parameters, dict) or not isinstance(source, dict):
            raise VocabularyError(f"{path}: does not say how its words were chosen; expected a text and two objects")
        try:
            vocabulary = cls(words=tuple(words), method=method, parameters=parameters, source=source)
            sha256 = vocabulary.sha256
        except VocabularyError as fault:
            raise VocabularyError(f"{path}: {fault}") from None
        except UnicodeEncodeError:  # half a character
            raise VocabularyError(f"{path}: holds a word that cannot be written as UTF-8") from None
        if content.get("sha256") != sha256:
            raise VocabularyError(f"{path}: its words do not match its sha256; the file was altered")
        return vocabulary


def hash_order(words: Sequence[str]) -> list[int]:
    """Order words by their sha256; return their places."""
    hashes = [hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest() for word in words]
    return sorted(range(len(words)), key=hashes.__getitem__)


def keyed_word(key: bytes, word: str, *, length: int = 32) -> str:
    """Hash a word with a key; ``length`` in hexadecimal digits."""
    return hmac.new(key, b"pathveil word\0" + word.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[
        :length
    ]
