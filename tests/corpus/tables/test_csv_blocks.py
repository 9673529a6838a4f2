"""Blocks of CSV: where the quick way answers, it answers as Python's csv does, and it stops where that might not."""

import csv
import io

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.corpus.tables.csv_blocks import regular_table
from pathveil.corpus.tables.files import ROW

COLUMNS = ["x", "y"]


@given(st.lists(st.text(st.sampled_from('ab,"\n\r'), max_size=8), min_size=1, max_size=10), st.booleans())
@settings(max_examples=300, deadline=None)
def test_any_block_that_polars_is_given_reads_as_pythons(lines, large):
    """However quotation marks and ends of lines fall."""
    content = "\n".join(lines) + "\n"
    found = regular_table(content.encode(), 0, COLUMNS, delimiter=",", line=1, large=large)
    if found:
        table, block = found
        assert content.encode().startswith(block.data)
        reader = csv.reader(io.StringIO(block.data.decode(), newline=""))
        records, starts, end = [], [], 0
        for record in reader:
            if record:
                records.append(tuple(record))
                starts.append(end + 1)
            end = reader.line_num
        assert block.lines == end and all(len(record) == 2 for record in records)
        assert table.drop(ROW).select(pl.all().fill_null("")).rows() == records
        assert table[ROW].to_list() == starts


@pytest.mark.parametrize("large", [False, True])
def test_what_is_by_the_book_is_taken(large):
    """Quoted marks, ends of lines within texts, empty fields; up to what is not whole, from where one says."""
    content = b'id,text\r\n1,"a ""b""\r\nc\rd"\r\n2,\r\n"3","e"\n4,"not who'
    table, block = regular_table(content, 9, COLUMNS, delimiter=",", line=2, large=large)
    assert table.rows() == [("1", 'a "b"\r\nc\rd', 2), ("2", None, 5), ("3", "e", 6)]
    assert content[9:].removeprefix(block.data) == b'4,"not who' and block.lines == 5


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    "wrong", [b'1,5" nail\n', b'1,"a"b\n', b'1,"a" ,b\n', b"1\n", b"1,a,b\n", b"1,a\rb\n", b'1,"a']
)
def test_what_is_not_is_left_to_others(wrong, large):
    assert regular_table(wrong, 0, COLUMNS, delimiter=",", line=1, large=large) is None
    before = regular_table(b"0,a\n" + wrong, 0, COLUMNS, delimiter=",", line=1, large=large)
    assert before is None or before[0].rows() == [("0", "a", 1)]


def test_a_large_file_loses_nothing_by_one_odd_record():
    """Compiled code reads up to it; it was the whole file that was left to slower readers."""
    content = b'1,a\n2,b\n3,5" nail\n4,c\n'
    table, block = regular_table(content, 0, COLUMNS, delimiter=",", line=7, large=True)
    assert table.rows() == [("1", "a", 7), ("2", "b", 8)] and block.data == b"1,a\n2,b\n"
