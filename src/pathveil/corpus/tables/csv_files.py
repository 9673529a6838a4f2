"""CSV files as laboratories export them, a batch at a time: any usual delimiter and encoding, quotation marks as found.

polars reads the records that follow CSV's grammar; others go to Python's ``csv``, which forgives what hospital exports
do to quotation marks and knows the line at fault.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "reports.csv"
...     _ = path.write_text('report_id;text\\n1;"left breast\\nbiopsy"\\n2;too;many\\n3;5" nail\\n')
...     faults = []
...     table = open_csv(path, note=lambda line, reason: faults.append((line, reason))).collect()
>>> table.rows(), faults
([('1', 'left breast\\nbiopsy', 2), ('3', '5" nail', 5)], [(4, 'has 3 fields, its header has 2')])
"""

import codecs
import csv
import io
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pathveil.corpus.tables.encodings import ENCODING_HINT, read_pieces, spoken_encoding
from pathveil.corpus.tables.files import BATCH, ROW, UNFIT, UNREADABLE, Note, polars_faults, streamed
from pathveil.errors import CorpusError
from pathveil.formatting import counted
from pathveil.untrusted import bounds
from pathveil.untrusted.archives import open_bytes

if TYPE_CHECKING:
    import polars as pl


LONGEST = 1 << 24  # characters in a CSV field; past it a quotation mark was never closed
LONGEST_LINE, LONGEST_HEADER = bounds.LONGEST_LINE, 1 << 20  # of a text file; past it this is no table
BLOCK = 1 << 22  # characters that polars reads at a time
DELIMITERS = ",;\t|^"
UNCLOSED = "opens a quotation mark and never closes it"
LONGEST_NAME = 80  # characters of a column's name; longer ones are texts
SAMPLE = 1 << 16  # bytes from which the delimiter is told


def open_csv(
    path: Path,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    note: Note | None = None,
) -> "pl.LazyFrame":
    """A CSV file (commas, semicolons, tabs, bars or carets, unless told) as a lazy frame of strings.

    A record that does not fit the header is told to ``note`` and passed over, and the others' lines are in the column
    ``ROW``; without it, it is refused.
    """
    import polars as pl

    encoding = encoding or "utf-8-sig"
    lines = first_lines(path, encoding=encoding)
    if re.fullmatch(r"\ufeff?sep=.\s*", lines[0], re.IGNORECASE):
        raise CorpusError(f"{path}: line 1 only tells Excel what separates the fields; remove that line")
    found = delimiter_of(lines)
    delimiter = delimiter or found
    if delimiter not in lines[0] and found in lines[0]:
        raise CorpusError(
            f"{path}: line 1 has no {named_delimiter(delimiter)}, by which its columns were told to be separated "
            f"(--delimiter, or a mapping); they seem to be by {named_delimiter(found)}"
        )
    csv.field_size_limit(LONGEST)
    try:
        columns = header_of(next(csv.reader(lines, delimiter=delimiter)), path=path)
    except (csv.Error, StopIteration):
        raise CorpusError(f"{path}: line 1 is no header; expected the names of columns") from None
    schema = pl.Schema(dict.fromkeys(columns, pl.String) | ({} if note is None else {ROW: pl.Int64}))
    bare = [pl.col(name).str.strip_chars("\ufeff \t").eq_missing(pl.lit(name)) for name in columns[:8]]

    def frames() -> Iterator["pl.DataFrame"]:
        for batch in csv_batches(path, columns, delimiter=delimiter, encoding=encoding, note=note):
            # Files with headers may have been put one behind the other; the first column mostly says that none was.
            if note is not None and len(columns) > 1 and batch.select(bare[0].any()).item():
                repeats = batch.select(pl.all_horizontal(bare)).to_series()
                for row in batch.filter(repeats)[ROW]:
                    note(row, "is the header again")
                batch = batch.filter(~repeats)
            batch = batch.select(schema.names()).with_columns(pl.when(pl.col(pl.String) != "").then(pl.col(pl.String)))
            if batch[columns[0]].null_count():  # a spreadsheet's empty rows are blank lines with delimiters
                batch = batch.filter(pl.any_horizontal(pl.col(columns).is_not_null()))
            yield batch

    return streamed(frames, schema)


def csv_batches(
    path: Path, columns: list[str], *, delimiter: str, encoding: str, note: Note | None
) -> Iterator["pl.DataFrame"]:
    """The records behind the header, some at a time, each with the line where it begins."""
    plain = plain_records(delimiter, len(columns))
    with open_bytes(path) as file:
        text = Text(file, path=path, encoding=encoding)
        records = text.records(delimiter=delimiter, fields=len(columns), note=note)
        next(records, None)  # the header
        while text.is_left:
            if len(columns) > 1 and not text.waiting and (block := text.block(plain)):
                table = read_block(block, columns, delimiter=delimiter, line=text.line)
                if table is not None:
                    text.pass_over(block)
                    yield table
                    continue
            yield from tables_of(islice(records, BATCH), columns)


def plain_records(delimiter: str, fields: int) -> re.Pattern[str]:
    """Match records by CSV's grammar (RFC 4180) with so many fields, which every reader understands alike.

    >>> plain_records(",", 2).match('1,"a ""b"",\\n"\\n2,5" nail\\n')[0]
    '1,"a ""b"",\\n"\\n'
    """
    between = re.escape(delimiter)
    field = rf'(?:"[^"]*+(?:""[^"]*+)*+"|[^"{between}\r\n]*+)'
    return re.compile(rf"(?:{field}(?:{between}{field}){{{fields - 1}}}+\r?\n)*+")


def read_block(block: str, columns: list[str], *, delimiter: str, line: int) -> "pl.DataFrame | None":
    """Read plain records by polars, each with the line where it begins; None if polars reads others than these."""
    import polars as pl

    schema = dict.fromkeys(columns, pl.String)
    try:
        table = pl.read_csv(block.encode(), has_header=False, schema=schema, separator=delimiter, infer_schema=False)
    except polars_faults():
        return None
    counts = [pl.col(columns).str.count_matches(end, literal=True) for end in ("\n", "\r", "\r\n")]
    if '"' in block:
        lf, cr, both = (pl.sum_horizontal(count.fill_null(0).cast(pl.Int64)) for count in counts)
        ends = table.select((1 + lf + cr - both).alias(ROW))[ROW]
    else:
        ends = pl.repeat(1, table.height, dtype=pl.Int64, eager=True)
    if ends.sum() != line_ends(block):
        return None
    return table.with_columns((line + ends.cum_sum() - ends).alias(ROW))


def tables_of(records: Iterator[tuple[int, list[str]]], columns: list[str]) -> Iterator["pl.DataFrame"]:
    """Frames of records that Python's csv read."""
    import polars as pl

    found = list(records)
    if found:
        values = zip(*(record for _, record in found), strict=True)
        table = pl.DataFrame(
            dict(zip(columns, values, strict=True)), schema_overrides=dict.fromkeys(columns, pl.String)
        )
        yield table.with_columns(pl.Series(ROW, [line for line, _ in found], pl.Int64))


class Text:
    """A file's text: what was read of it and not yet used, and the number of the line where that begins."""

    def __init__(self, file: io.BufferedReader, *, path: Path, encoding: str):
        self.file, self.path, self.encoding = decoded(file, encoding), path, encoding
        self.buffer, self.at, self.line = "", 0, 1
        self.waiting: list[str] = []  # lines to be read again, the next one last

    @property
    def is_left(self) -> bool:
        return bool(self.waiting) or self.at < len(self.buffer) or self.fill()

    def fill(self) -> bool:
        """Read more; whether there was more."""
        try:
            piece = self.file.read(BLOCK)
        except UnicodeError:
            line = undecodable_line(self.path, self.encoding)
            raise CorpusError(
                f"{self.path}: is not {spoken_encoding(self.encoding)} at line {line:,}; {ENCODING_HINT}"
            ) from None
        except UNREADABLE:
            raise CorpusError(f"{self.path}: is damaged after line {self.line:,}; is it cut short?") from None
        self.buffer, self.at = self.buffer[self.at :] + piece, 0
        return bool(piece)

    def block(self, plain: re.Pattern[str]) -> str:
        """As many plain records as there are up to some MB."""
        while len(self.buffer) - self.at < BLOCK and self.fill():
            pass
        found = plain.match(self.buffer, self.at)
        return found[0] if found else ""

    def pass_over(self, text: str) -> None:
        self.at += len(text)
        self.line += line_ends(text)

    def lines(self) -> Iterator[str]:
        """The lines one by one, those to be read again first, each with its end."""
        while True:
            if self.waiting:
                line = self.waiting.pop()
                self.line += line_ends(line)
                yield line
                continue
            found = LINE_END.search(self.buffer, self.at)
            # A CR at the very end may be half of a line end.
            while (not found or found.end() == len(self.buffer)) and self.fill():
                found = LINE_END.search(self.buffer, self.at)
                if not found and len(self.buffer) - self.at > LONGEST_LINE:
                    raise CorpusError(
                        f"{self.path}: a line is longer than {LONGEST_LINE:,} characters; expected one record a line"
                    )
            if self.at == len(self.buffer):
                return
            line = self.buffer[self.at : found.end() if found else len(self.buffer)]
            self.pass_over(line)
            yield line

    def records(self, *, delimiter: str, fields: int, note: Note | None) -> Iterator[tuple[int, list[str]]]:
        """The records, each with its line; blank lines are left out.

        Of a record that does not fit, only the first line is passed over if there are records in the others: a
        quotation mark that was opened by mistake must not swallow the records behind it.
        """
        csv.field_size_limit(LONGEST)
        taken: list[str] = []  # the lines of the record that is read
        ended = False  # the reader asked for a line beyond the last

        def kept_lines() -> Iterator[str]:
            nonlocal ended
            for line in self.lines():
                taken.append(line)
                yield line
            ended = True

        reader = csv.reader(kept_lines(), delimiter=delimiter)
        while True:
            taken.clear()
            start = self.line
            try:
                record = next(reader, None)
            except csv.Error:
                is_open = any('"' in line for line in taken)
                reason = UNCLOSED if is_open else f"holds a field of more than {LONGEST:,} characters"
                raise CorpusError(f"{self.path}: the record at line {start:,} {reason}") from None
            if record is None:
                return
            # Inside a quotation mark the reader asks for more: in the last column it would swallow all that follows.
            unclosed = ended and len(taken) > 1
            if record and (unclosed or len(record) != fields):
                reason = UNCLOSED if unclosed else f"has {counted(len(record), 'field')}, {UNFIT} {fields}"
                if note is None:
                    raise CorpusError(f"{self.path}: the record at line {start:,} {reason}")
                note(start, reason)
                if unclosed or holds_records(taken[1:], delimiter=delimiter, fields=fields):
                    self.waiting += reversed(taken[1:])
                    self.line -= sum(map(line_ends, taken[1:]))
                ended = False
                reader = csv.reader(kept_lines(), delimiter=delimiter)  # the other may have met the end
            elif record:
                yield start, record


def holds_records(lines: list[str], *, delimiter: str, fields: int) -> bool:
    """Whether lines that were taken for one text hold a record with so many fields, or the beginning of one.

    Where they do not, they are the rest of a text, whose closing mark then ends a field that none opened.

    >>> text = ["biopsy\\n", 'of the left side",C50,1\\n']
    >>> holds_records(text, delimiter=",", fields=3), holds_records(["2,colon,C18\\n"], delimiter=",", fields=3)
    (False, True)
    """
    try:
        *records, end = csv.reader([*lines, LAST], delimiter=delimiter)
    except csv.Error:
        return True
    whole = (record for record in records if not any(field.endswith('"') for field in record))
    return end != [LAST] or any(len(record) == fields for record in whole)


LAST = "the line behind them"  # a record of one field, unless a mark before it was not closed
LINE_END = re.compile(r"\r\n|\r|\n")


def decoded(file: io.BufferedReader, encoding: str) -> io.TextIOWrapper:
    """Open bytes as text; a byte order mark of UTF-8 is passed over before any encoding, as some programs write it."""
    if file.peek(len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8):
        file.read(len(codecs.BOM_UTF8))
    return io.TextIOWrapper(file, encoding, newline="")


def undecodable_line(path: Path, encoding: str) -> int:
    """Find the first line that is not in an encoding."""
    line = 1
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(encoding)(), translate=True)
    with open_bytes(path) as file:
        try:
            for piece in read_pieces(file):
                line += decoder.decode(piece).count("\n")
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as fault:
            line += line_ends(fault.object[: fault.start].decode(encoding, "ignore"))
    return line


def line_ends(line: str) -> int:
    return line.count("\n") + line.count("\r") - line.count("\r\n")


def first_lines(path: Path, *, encoding: str) -> list[str]:
    """The header of a text file and the lines that follow it at once; the last may be cut short."""
    try:
        with open_bytes(path) as file:
            start = file.read(LONGEST_HEADER).removeprefix(codecs.BOM_UTF8)
    except UNREADABLE as error:
        raise CorpusError(f"{path}: cannot be read ({type(error).__name__}); is it damaged or locked?") from None
    decoder = codecs.getincrementaldecoder(encoding)()
    for end in (SAMPLE, LONGEST_HEADER):
        try:
            lines = list(io.StringIO(decoder.decode(start[:end]), newline=""))
        except UnicodeError:
            # The fault may lie behind the header, whose reader then names its line.
            lines = start[:end].splitlines(keepends=True)[:1]
            try:
                lines = [lines[0].decode(encoding)]
            except UnicodeError:
                raise CorpusError(f"{path}: line 1 is not {spoken_encoding(encoding)}; {ENCODING_HINT}") from None
        if len(lines) > 1 or end >= len(start):
            break
        decoder.reset()
    if not any(map(str.strip, lines)):
        raise CorpusError(f"{path}: is empty; expected a header line")
    if not lines[0].strip():
        raise CorpusError(f"{path}: line 1 is blank; expected a header line")
    if not lines[0].endswith(("\n", "\r")) and len(start) == LONGEST_HEADER:
        raise CorpusError(f"{path}: its first line has no end; expected a header line with the names of columns")
    return lines


def delimiter_of(lines: list[str]) -> str:
    """What separates the fields: what makes the most columns in the header, of those the following records keep to.

    >>> delimiter_of(["name, first;text\\n", "Ada;a, b, c\\n", "Bob;d\\n"])
    ';'
    """

    def fit(delimiter: str) -> tuple[bool, int]:
        csv.field_size_limit(LONGEST)
        try:
            header, *records = csv.reader(lines[:20], delimiter=delimiter)
        except csv.Error:
            return False, 0
        records = [record for record in records if record]
        records = records[:-1] or records  # the last may be cut short
        kept = sum(len(record) == len(header) for record in records)
        return len(header) > 1 and kept >= len(records) * 0.8, len(header)

    return max(DELIMITERS, key=fit)


def named_delimiter(delimiter: str) -> str:
    return "tab" if delimiter == "\t" else f"'{delimiter}'"


def header_of(names: list[str], *, path: Path) -> list[str]:
    """The columns' names; a line that is no header is refused, and never quoted: it may be a report."""
    if len(names) > bounds.COLUMNS:
        raise CorpusError(f"{path}: has {len(names):,} columns; a table of reports has at most {bounds.COLUMNS:,}")
    bare = (name.replace("\ufeff", "").strip() for name in names)  # some write a byte order mark twice
    columns = [name or f"unnamed_{number}" for number, name in enumerate(bare, start=1)]
    for number, name in enumerate(columns, start=1):
        if len(name) > LONGEST_NAME or re.search(r"\d{6}", name):
            raise CorpusError(f"{path}: line 1 is no header (field {number} is no name of a column); add one")
        if name in columns[: number - 1]:
            first = columns.index(name) + 1
            raise CorpusError(f"{path}: columns {first} and {number} have the same name; is line 1 a header?")
    return columns
