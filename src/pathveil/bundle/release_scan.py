"""A search through every file of a release for what must not leave: ids, names, pieces of reports, caches.

Files are judged by what they are: only those a release consists of, only JSON, Markdown, HTML, TOML and safetensors,
each what its name says. Then their content is searched for the reports' own ids, for names on a list, and for any run
of six words that stands in a report. Numbers alone are no such run, nor are the model's labels one after the other. An
error names the file and how many there are; words only where they stand in a row in the model's own list.

>>> pieces = Searched.of({"card.md": b"Seen by Zebedee Quill, case R-20451"})
>>> pieces.ids({"R-20451", "R-1"}), pieces.names(["Quill", "Smith"])
({'card.md': 1}, {'card.md': 1})
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from pathveil.bundle.release import Scan
from pathveil.corpus.schema import Paths, scan
from pathveil.errors import BundleError, UsageError, short
from pathveil.files import WORDS
from pathveil.formatting import counted
from pathveil.progress import Progress, silent
from pathveil.text.tokenizer import DECIMAL, LARGE_INTEGER, tokenize
from pathveil.untrusted import Refused, parse_json

RUN = 6  # words of a report in a row that count as a piece of it
SHORTEST = 4  # characters of an id or name that is looked for; shorter ones stand everywhere by chance
BATCH = 2_000  # reports at a time
SHOWN = 3  # runs of the model's own words that an error names
IN_A_ROW = (
    ". Words of its list stand in a row as in reports; choose words with 'pathveil vocab select', which lists them in "
    "no order that a text has, and train again. In a row: "
)
OF_THE_MODEL = {"vocabulary.json", "bundle.json", "model.safetensors", "encoder.json", "encoder.safetensors"}
TEXT = {".json", ".md", ".html", ".toml", ".sig"}
# How files begin that have no place in a release, whatever they are called.
FOREIGN = {
    b"PAR1": "a Parquet table",
    b"ARROW1": "an Arrow table",
    b"\x93NUMPY": "a NumPy array",
    b"PK\x03\x04": "an archive",
    b"\x1f\x8b": "a compressed file",
    b"SQLite format 3": "a database",
    b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
    b"MSH|": "an HL7 message",
}
_PRINTED = re.compile(rb"[\x20-\x7e]{4,}")
_PIECE = re.compile(r"[^\s\"'`,;|<>()\[\]{}]+")
_HOME = re.compile(r"(?:/home/|/Users/|/root/|[A-Z]:\\Users\\)[\w.\-]+")


@dataclass(frozen=True)
class Searched:
    """The text of every file: whole for text, what is printable for weights."""

    texts: Mapping[str, str]

    @classmethod
    def of(cls, contents: Mapping[str, bytes]) -> "Searched":
        return cls({name: _readable(name, content) for name, content in contents.items()})

    def ids(self, looked_for: Collection[str]) -> dict[str, int]:
        """How many of the ids stand in each file, as words of their own."""
        wanted = {one for one in looked_for if len(one) >= SHORTEST}
        found = {}
        for name, text in self.texts.items():
            pieces = {piece for word in _PIECE.findall(text) for piece in (word, word.strip(".:=#*_-"))}
            found[name] = len(pieces & wanted)
        return {name: number for name, number in found.items() if number}

    def names(self, looked_for: Iterable[str], *, own: Collection[str] = ()) -> dict[str, int]:
        """How many of the names stand in each file, whole words, however they are written.

        A name of one word that is among ``own`` says nothing in a document, for "White" and "North" stand there anyway;
        in the model's own files it counts.
        """
        wanted = {" ".join(all_words(one)) for one in looked_for if len(one.strip()) >= SHORTEST}
        wanted.discard("")
        longest = max((one.count(" ") + 1 for one in wanted), default=0)
        found = {}
        for name, text in self.texts.items():
            words = all_words(text)
            there = {run for length in range(1, longest + 1) for run in _runs(words, length)}
            found[name] = len((there & wanted) - (set() if name in OF_THE_MODEL else set(own)))
        return {name: number for name, number in found.items() if number}

    def runs(self) -> dict[str, set[str]]:
        """Each file's runs of words, to hold against reports."""
        return {name: pieces_of(all_words(text)) for name, text in self.texts.items()}

    def word_list(self) -> set[str]:
        """The runs of the model's list of words, which its release publishes; none where the file is no such list."""
        try:
            return pieces_of(all_words(" ".join(parse_json(self.texts[WORDS].encode())["words"])))
        except (KeyError, TypeError, Refused):
            return set()


def _readable(name: str, content: bytes) -> str:
    if Path(name).suffix in TEXT:
        return content.decode("utf-8", "replace")
    return "\n".join(piece.decode("ascii") for piece in _PRINTED.findall(content))


def all_words(text: str) -> list[str]:
    """Every word, names and numbers of people too, which a model's own text may hide."""
    return tokenize(text, words=1 << 30, identifiers=False)


def _runs(words: list[str], length: int) -> Iterator[str]:
    for start in range(len(words) - length + 1):
        yield " ".join(words[start : start + length])


def pieces_of(words: list[str]) -> set[str]:
    """Runs of words that would be a piece of a report: not of numbers alone, which files have anyway."""
    numbers = [word in (DECIMAL, LARGE_INTEGER) or not any(map(str.isalpha, word)) for word in words]
    return {run for place, run in enumerate(_runs(words, RUN)) if not all(numbers[place : place + RUN])}


def scan_release(
    folder: Path,
    *,
    expected: Collection[str],
    reports: Paths | None = None,
    names: Collection[str] = (),
    labels: Iterable[Sequence[str]] = (),
    own_text: str = "",
    progress: Progress = silent,
) -> Scan:
    """Search all files of a folder; something found is an error that names files and numbers.

    ``labels`` are the model's, task by task. ``own_text`` is what the release's documents are written with: their
    templates, and what the signer gave.
    """
    check_files(folder, expected)
    contents = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    searched = Searched.of(contents)
    for name, text in searched.texts.items():
        if _HOME.search(text):
            raise BundleError(f"{name}: holds the path of somebody's home folder; it would leave with the release")
    own = {*all_words(own_text), *template_words()} if names else set()
    _refuse(searched.names(names, own=own), "names that may not leave", counted(len(names), "name"))
    looked_at = 0
    if reports is not None:
        looked_at = _scan_reports(searched, reports, labels, progress)
    return Scan(files=len(contents), reports=looked_at, names=len(names), words_run=RUN)


@cache
def template_words() -> frozenset[str]:
    """The words that our own documents are written with: those of this room's modules."""
    modules = [path for path in files("pathveil.bundle").iterdir() if path.name.endswith(".py")]
    return frozenset(word for path in modules for word in all_words(path.read_text(encoding="utf-8")))


def check_files(folder: Path, expected: Collection[str]) -> None:
    """Only plain files that a release consists of, each what its name says."""
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_file():
            raise BundleError(f"{path.name}: is a link or a folder; a release holds plain files only")
        if path.name not in expected:
            raise BundleError(f"{path.name}: has no place in a release (a cache, or a file left over)")
        with path.open("rb") as file:
            head = file.read(16)
        for mark, what in FOREIGN.items():
            if head.startswith(mark):
                raise BundleError(f"{path.name}: is {what}, whatever its name says; it has no place in a release")


def _scan_reports(searched: Searched, reports: Paths, labels: Iterable[Sequence[str]], progress: Progress) -> int:
    """Hold every report's ids and text against the files."""
    frame = scan(reports).select("report_id", "case_id", "text").collect(engine="streaming")
    number = counted(frame.height, "report")
    _refuse(searched.ids(set(frame["report_id"]) | set(frame["case_id"])), "ids of reports or cases", number)
    of_labels = set[str]().union(*(pieces_of(all_words(" ".join(names))) for names in labels))
    runs = {name: pieces - of_labels for name, pieces in searched.runs().items()}
    everything = set().union(*runs.values())
    report_of: dict[str, str] = {}  # the first report that holds a run
    for start in range(0, frame.height, BATCH):
        for report, text in frame.select("report_id", "text").slice(start, BATCH).iter_rows():
            for run in everything.intersection(_runs(all_words(text), RUN)) if text else ():
                report_of.setdefault(run, report)
        progress("searching for reports", min(start + BATCH, frame.height), frame.height)
    where = {name: len(pieces & report_of.keys()) for name, pieces in runs.items()}
    public = sorted(report_of.keys() & searched.word_list())[:SHOWN]
    examples = "; ".join(f"'{run}' (report {short(report_of[run])})" for run in public)
    _refuse(where, f"pieces of reports ({RUN} words in a row)", number, more=f"{IN_A_ROW}{examples}" if public else "")
    return frame.height


def _refuse(where: Mapping[str, int], what: str, looked_for: str, *, more: str = "") -> None:
    found = {name: number for name, number in where.items() if number}
    if found:
        name, number = next(iter(found.items()))
        others = f" (and {counted(len(found) - 1, 'more file')})" if len(found) > 1 else ""
        raise BundleError(
            f"{name}{others}: holds {number:,} {what}, of {looked_for} looked for; nothing was released{more}"
        )


def read_names(path: Path) -> list[str]:
    """Names to look for, one a line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path}: cannot be read; expected a text file with one name a line") from None
    found = sorted({line.strip() for line in lines if len(line.strip()) >= SHORTEST})
    if not found:
        raise UsageError(f"{path}: holds no name of at least {SHORTEST} letters; expected one a line")
    return found
