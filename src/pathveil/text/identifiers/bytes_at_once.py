"""8, 16 or 64 bytes of text at once: what a loop over UTF-8 asks of each byte, asked of all of them.

Eight bytes are one number, the first byte the lowest; what is found is told by the highest bit of each byte. Of 64
bytes it is told by one bit each.

>>> import numpy as np
>>> text = np.frombuffer(b"ct2, no\\n" + b"x" * 64, np.uint8)
>>> word = np.uint64(numba.njit(lambda data: load(data, 0))(text))
>>> digits = np.uint64(numba.njit(lambda data: bits_between(data, 0, 48, 57))(text))
>>> hex(alphanumeric(word)), hex(between(word, 48, 57)), digits == 1 << 2
('0x7fffff7f7fffffff', '0x800000', np.True_)
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

_HIGH, _LOW = np.uint64(0x8080808080808080), np.uint64(0x0101010101010101)
_SEVEN, _ONE = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(1)

STEP = 1 << 14  # bytes of which places are listed at a time, so that lists stay in a processor's first cache

compiled = numba.njit(nogil=True, forceinline=True)

# What is compiled into one another, and the words and signs it holds.
_FILES = ("text/*.py", "text/identifiers/*.py", "vocabulary/column.py", "vocabulary/scanning.py")


def sources(package: Path = Path(__file__).parents[2]) -> str:
    """A hash of all that compiled functions are made of."""
    found = hashlib.sha256()
    for pattern in _FILES:
        for path in sorted(package.glob(pattern)):
            found.update(path.read_bytes())
    return found.hexdigest()


class _Kept(FunctionCache):
    """Compiled functions on disk, known by all sources they are made of. numba looks only at the file that a function
    stands in: with a newer version beside it, one compiled with the words of an older would be taken for the same."""

    stamp = sources()

    def _index_key(self, sig: object, codegen: object) -> tuple[object, ...]:
        return *super()._index_key(sig, codegen), self.stamp


def kept(function: Callable[..., Any]) -> Any:
    """A function compiled when it is first called, and kept on disk."""
    made: Any = numba.njit(nogil=True)(function)
    made._cache = _Kept(function)
    return made


@intrinsic
def _load(typing_context, array, index):
    """Eight bytes of an array of bytes, from any place on; the array must have them. (A compiled function would do, if
    numba did not count the users of an array that is handed to one, which takes longer than the rest.)"""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.gep(data, [arguments[1]])
        return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(array, types.int64), generate


@intrinsic
def _at(typing_context, array, index):
    """What an array has at a place that is not negative, which it is not asked."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.load(builder.gep(data, [arguments[1]]))

    return array.dtype(array, types.int64), generate


@intrinsic
def _borrow(typing_context, array):
    """An array as one whose users nobody counts, to be handed to functions; only while the array itself is held.
    (Counting takes longer than what most of them do.)"""

    def generate(context, builder, signature, arguments):
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        view.meminfo, view.parent = ir.Constant(view.meminfo.type, None), ir.Constant(view.parent.type, None)
        return view._getvalue()

    return array(array), generate


@intrinsic
def _bits_between(typing_context, array, index, low, high):
    """Which of the 64 bytes from a place on lie between two, both included, a bit each; the array must have them."""

    def generate(context, builder, signature, arguments):
        byte, bytes_ = ir.IntType(8), ir.VectorType(ir.IntType(8), 64)
        array, index, low, high = arguments
        data = context.make_array(signature.args[0])(context, builder, array).data
        place = builder.bitcast(builder.gep(data, [index]), bytes_.as_pointer())

        def everywhere(value):
            one = builder.insert_element(ir.Constant(bytes_, ir.Undefined), builder.trunc(value, byte), _FIRST)
            return builder.shuffle_vector(one, ir.Constant(bytes_, ir.Undefined), _FROM_FIRST)

        above = builder.sub(builder.load(place, align=1), everywhere(low))
        return builder.bitcast(builder.icmp_unsigned("<=", above, everywhere(builder.sub(high, low))), ir.IntType(64))

    return types.uint64(array, types.int64, types.int64, types.int64), generate


@intrinsic
def _first_bit(typing_context, bits):
    """Which bit is the lowest that is set: 64 where none is."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def _ones(typing_context, bits):
    """How many bits are set."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@intrinsic
def _bits_above(typing_context, bits):
    """How many of the highest bits are not set: 64 where none is."""

    def generate(context, builder, signature, arguments):
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def _load_16(typing_context, array, index, size):
    """So many bytes from a place on, at most 16, as two numbers with nothing behind them; the array must have 16."""

    def generate(context, builder, signature, arguments):
        byte, bytes_ = ir.IntType(8), ir.VectorType(ir.IntType(8), 16)
        array, index, size = arguments
        data = context.make_array(signature.args[0])(context, builder, array).data
        text = builder.load(builder.bitcast(builder.gep(data, [index]), bytes_.as_pointer()), align=1)
        one = builder.insert_element(ir.Constant(bytes_, ir.Undefined), builder.trunc(size, byte), _FIRST)
        sizes = builder.shuffle_vector(one, ir.Constant(bytes_, ir.Undefined), ir.Constant(_SIXTEEN, [0] * 16))
        is_within = builder.icmp_unsigned("<", ir.Constant(bytes_, list(range(16))), sizes)
        kept = builder.select(is_within, text, ir.Constant(bytes_, [0] * 16))
        halves = builder.bitcast(kept, ir.VectorType(ir.IntType(64), 2))
        parts = [builder.extract_element(halves, ir.Constant(ir.IntType(32), part)) for part in range(2)]
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(types.uint64, 2)(array, types.int64, types.int64), generate


_SIXTEEN = ir.VectorType(ir.IntType(32), 16)
_FIRST, _FROM_FIRST = ir.Constant(ir.IntType(32), 0), ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
# Which type checkers take for what is called while compiling.
load: Any = _load
load_16: Any = _load_16
at: Any = _at
borrow: Any = _borrow
bits_between: Any = _bits_between
first_bit: Any = _first_bit
bits_above: Any = _bits_above
ones: Any = _ones


@compiled
def between(word, low, high):
    """Which bytes lie between two, both included."""
    seven = word & _SEVEN
    from_low = seven + _LOW * np.uint64(0x80 - low)
    above = seven + _LOW * np.uint64(0x7F - high)
    return from_low & ~above & ~word & _HIGH


@compiled
def alphanumeric(word):
    """Which bytes are digits or small letters of ASCII; the other bits are set, so that its complement has none."""
    return between(word, 48, 57) | between(word, 97, 122) | _SEVEN


@compiled
def first_bits(bytes_):
    """All bits of so many bytes, none of fewer than one, all of more than eight."""
    whole = ~np.uint64(0)
    return whole if bytes_ >= 8 else np.uint64(0) if bytes_ <= 0 else ~(whole << np.uint64(8 * bytes_))


@compiled
def lowest(many):
    """So many of the lowest bits: none of fewer than one, all of more than 64."""
    whole = ~np.uint64(0)
    return whole if many >= 64 else ~(whole << np.uint64(max(many, 0)))


@compiled
def listed(places, made, position, found):
    """Add the places of bits to a list, four at a time, as there are seldom more; returns how long it is then."""
    count = made + ones(found)
    while found != np.uint64(0):
        for number in range(4):
            places[made + number] = position + first_bit(found)
            found &= found - _ONE
        made += 4
    return count
