"""The corpus a benchmark trains on: reports, or a folder that holds them encoded."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pathveil.errors import UsageError

if TYPE_CHECKING:
    from pathveil.vocabulary.encoded import EncodedCorpus


def add_corpus(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--corpus", type=Path, help="reports with labels; words that occur at least 5 times are taken")
    parser.add_argument("--encoded", type=Path, help="or a folder with an encoded corpus")


def read_corpus(options: argparse.Namespace) -> "EncodedCorpus":
    from pathveil.vocabulary.encoded import EncodedCorpus

    if bool(options.corpus) == bool(options.encoded):
        raise UsageError("give --corpus FILE or --encoded FOLDER")
    if options.encoded:
        return EncodedCorpus.load(options.encoded)
    from pathveil.bundle.train import usual_words
    from pathveil.vocabulary.encoding import encode

    return encode(options.corpus, usual_words(options.corpus, preset="paper"))
