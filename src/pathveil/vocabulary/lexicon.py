"""Read the words of an open lexicon, cleaned as reports are: a plain list, or UMLS's MRCONSO.RRF.

Only words of a medical lexicon was the earlier way to have no names (the vocabulary paper's reference 31). A term of
several words gives each of them, as a report's text would.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "MRCONSO.RRF"
...     _ = path.write_text("C0007124|ENG|P|L1|PF|S1|Y|A1||||NCI|PT|C2924|Ductal Carcinoma In-Situ|0|N||\\n")
...     sorted(read_lexicon(path))
['carcinoma', 'ductal', 'in-situ']
"""

import io
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pathveil.errors import VocabularyError
from pathveil.files import sha256_of_file
from pathveil.text.tokenizer import tokenize
from pathveil.untrusted.archives import open_bytes
from pathveil.vocabulary.words import Vocabulary

TERM, LANGUAGE, FIELDS = 14, 1, 18  # of MRCONSO.RRF, counted from 0
BLOCK = 20_000  # lines cleaned at a time
LONGEST = 1 << 20  # characters of a line


def read_lexicon(path: Path) -> set[str]:
    """Read all words of a lexicon's terms, of an MRCONSO file the English ones."""
    words: set[str] = set()
    try:
        lines = _terms(path)
        while block := list(islice(lines, BLOCK)):
            words.update(tokenize("\n".join(block), words=10**9, identifiers=False))
    except UnicodeDecodeError:
        raise VocabularyError(f"{path}: is not UTF-8; expected a word list or an MRCONSO.RRF file") from None
    except (OSError, EOFError, zlib.error) as error:
        raise VocabularyError(f"{path}: cannot be read ({type(error).__name__}); expected a word list") from None
    if not words:
        raise VocabularyError(f"{path}: holds no word; expected one term a line, or an MRCONSO.RRF file")
    return words


def public_words(path: Path) -> Vocabulary:
    """Make a vocabulary of all words of a public lexicon, which says nothing about anybody's reports."""
    return Vocabulary.from_words(
        read_lexicon(path),
        method="words of a public list",
        parameters={"public": True, "lexicon_sha256": sha256_of_file(path)},
    )


def _terms(path: Path) -> Iterator[str]:
    with open_bytes(path) as binary, io.TextIOWrapper(binary, encoding="utf-8") as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST), ""), start=1):
            if len(line) == LONGEST:
                raise VocabularyError(f"{path}: line {number:,} has no end; expected one term a line")
            if "|" not in line:
                yield line
                continue
            fields = line.split("|")
            if len(fields) < FIELDS:
                raise VocabularyError(
                    f"{path}: line {number:,} has {len(fields)} fields, an MRCONSO.RRF line has {FIELDS}"
                )
            if fields[LANGUAGE] == "ENG":
                yield fields[TERM]
