"""Which words a model may know: counting, choosing and exposing them, and reports as word ids.

``encode`` and ``encode_texts`` are in `pathveil.vocabulary.encoding`; a node that trains needs only what is named here.
"""

from pathveil.vocabulary.encoded import MISSING, EncodedCorpus
from pathveil.vocabulary.words import FIRST_WORD, PADDING, UNKNOWN, Vocabulary

__all__ = ["FIRST_WORD", "MISSING", "PADDING", "UNKNOWN", "EncodedCorpus", "Vocabulary"]
