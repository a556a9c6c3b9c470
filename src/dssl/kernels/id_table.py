"""A growing hash table of node ids: blocks of ids go in, positions in order of first appearance come out.

Arrow's and pandas' encoders need all values at once, or restart with every block. These tables (Numba) keep one
state, hold each id once, and take about half the time. Integers and text have a table each, with the same three
methods; the compiled code is cached on disk.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dssl.kernels.compile import Indices, compiled

Words = NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: Fibonacci hashing (Knuth, TAOCP 3, section 6.4)
HALF = np.uint64(32)
ONE = np.uint64(1)
EIGHT = np.uint64(8)
BATCH = 128


@compiled
def _mix(state: np.uint64, word: np.uint64) -> np.uint64:
    state = (state ^ word) * GOLDEN
    return state ^ (state >> HALF)


@compiled
def parse_integers(
    text: NDArray[np.uint8], delimiter: int, width: int, columns: tuple[int, int], out: NDArray[np.int64]
) -> int:
    """Read two columns of integers from plain lines of text; return the number of rows, or −1 if in doubt.

    It is in doubt about everything but plain integers: quotes, spaces, missing values, leading zeros, more than 18
    digits, or a line with another number of values. On supported input it takes half of Arrow's time.

    Args:
        text: whole lines, the last one closed by a newline.
        delimiter: code of the delimiter.
        width: number of columns.
        columns: places of the two columns.
        out: the integers, shape ``(2, at least the number of rows)``.
    """
    row = 0
    at = 0
    while at < text.shape[0]:
        if text[at] == 10 or text[at] == 13:  # an empty line, or the rest of the end of a line
            at += 1
            continue
        if row == out.shape[1]:
            return -1
        for column in range(width):
            if column == columns[0] or column == columns[1]:
                sign = 1
                if text[at] == 45:  # minus
                    sign = -1
                    at += 1
                begin = at
                value = np.int64(0)
                while 48 <= text[at] <= 57:  # digits; the newline at the end stops it
                    value = 10 * value + (np.int64(text[at]) - 48)
                    at += 1
                digits = at - begin
                if digits == 0 or digits > 18 or (text[begin] == 48 and (digits > 1 or sign < 0)):
                    return -1
                out[0 if column == columns[0] else 1, row] = sign * value
            else:
                while text[at] != delimiter and text[at] != 10 and text[at] != 13:
                    if text[at] == 34:  # a quote
                        return -1
                    at += 1
            last = column == width - 1
            if (last and text[at] != 10 and text[at] != 13) or (not last and text[at] != delimiter):
                return -1
            at += 1
        row += 1
    return row


@compiled
def _add_integers(
    values: NDArray[np.int64], codes: Indices, begin: int, keys: NDArray[np.int64], slots: Indices, count: int
) -> tuple[int, int]:
    """Look up values from ``begin`` on; return where it stopped, since the table is half full, and the new count."""
    mask = np.uint64(slots.shape[0] - 1)
    limit = slots.shape[0] // 2
    for e in range(begin, values.shape[0]):
        value = values[e]
        at = _mix(np.uint64(0), np.uint64(value)) & mask
        while slots[at] >= 0 and keys[at] != value:
            at = (at + ONE) & mask
        if slots[at] < 0:
            if count == limit:
                return e, count
            keys[at] = value
            slots[at] = count
            count += 1
        codes[e] = slots[at]
    return values.shape[0], count


class IntegerTable:
    """Positions of int64 ids: open addressing, key and position side by side."""

    def __init__(self) -> None:
        self._count = 0
        self._reserve(1 << 12)

    def _reserve(self, size: int) -> None:
        self._keys, self._slots = np.empty(size, np.int64), np.full(size, -1, np.int32)

    def __len__(self) -> int:
        return self._count

    def add(self, values: pa.Array) -> Indices:
        """Return the position of each id, shape ``(n,)``; ids that are new get the next positions."""
        keys = values.to_numpy()
        codes = np.empty(keys.size, np.int32)
        done, self._count = _add_integers(keys, codes, 0, self._keys, self._slots, self._count)
        while done < keys.size:
            self._grow()
            done, self._count = _add_integers(keys, codes, done, self._keys, self._slots, self._count)
        return codes

    def _grow(self) -> None:
        kept = self._in_order()
        self._reserve(2 * self._slots.size)
        _add_integers(kept, np.empty(kept.size, np.int32), 0, self._keys, self._slots, 0)

    def _in_order(self) -> NDArray[np.int64]:
        used = np.flatnonzero(self._slots >= 0)
        kept = np.empty(self._count, np.int64)
        kept[self._slots[used]] = self._keys[used]
        kept.flags.writeable = False  # as the arrays from Arrow are: one compiled version serves both
        return kept

    def ids(self) -> pa.Array:
        """All ids in the order of their positions."""
        return pa.array(self._in_order())


@compiled
def _pack(data: NDArray[np.uint8], begin: int, end: int, words: Words, place: int) -> np.uint64:
    """Write a text as 64-bit words, closed by a byte 1 and zeros (so that different texts differ); return its hash."""
    state = np.uint64(0)
    at, stop = np.uint64(begin), np.uint64(end)
    while at + EIGHT <= stop:
        word = np.uint64(0)
        for k in range(8):  # a loop of fixed length over unsigned places: the compiler makes it one load
            word |= np.uint64(data[at + np.uint64(k)]) << np.uint64(8 * k)
        words[place] = word
        place += 1
        state = _mix(state, word)
        at += EIGHT
    word = ONE
    while stop > at:
        stop -= ONE
        word = (word << EIGHT) | np.uint64(data[stop])
    words[place] = word
    return _mix(state, word)


@compiled
def _add_texts(
    data: NDArray[np.uint8],
    offsets: Indices,
    codes: Indices,
    begin: int,
    slots: NDArray[np.int64],
    store: Words,
    used: int,
    count: int,
) -> tuple[int, int, int, np.uint64]:
    """Look up texts from ``begin`` on; return where it stopped for lack of room, the new count and words in use.

    A slot holds 31 bits of the hash and where in ``store`` the text is: a word with its position and number of
    words, then the words. Each batch first touches the memory it will need, so that the waits for memory overlap; one
    text at a time takes five times as long.
    """
    mask = np.uint64(slots.shape[0] - 1)
    limit = slots.shape[0] // 2
    hashes = np.empty(BATCH, np.uint64)
    first = np.empty(BATCH + 1, np.int64)
    words = np.empty(8 * BATCH, np.uint64)
    touched = np.uint64(0)  # returned, so that the compiler does not leave the touching out
    while begin < codes.shape[0]:
        size = 0
        first[0] = 0
        while size < BATCH and begin + size < codes.shape[0]:
            low, high = offsets[begin + size], offsets[begin + size + 1]
            need = (high - low) // 8 + 1
            if first[size] + need > words.shape[0]:
                if size > 0:
                    break
                words = np.empty(2 * need, np.uint64)
            hashes[size] = _pack(data, low, high, words, first[size])
            first[size + 1] = first[size] + need
            size += 1
        for j in range(size):
            touched ^= np.uint64(slots[hashes[j] & mask])
        for j in range(size):
            touched ^= store[max(slots[hashes[j] & mask], 0) & 0xFFFFFFFF]
        for j in range(size):
            at = hashes[j] & mask
            tag = np.int64(hashes[j] >> np.uint64(33))
            need = first[j + 1] - first[j]
            while True:
                slot = slots[at]
                if slot < 0:
                    if count == limit or used + need + 1 > store.shape[0]:
                        return begin + j, count, used, touched
                    slots[at] = (tag << 32) | used
                    store[used] = (np.uint64(need) << HALF) | np.uint64(count)
                    for k in range(need):  # Numba compiles the assignment of a slice for a second
                        store[used + 1 + k] = words[first[j] + k]
                    used += need + 1
                    codes[begin + j] = count
                    count += 1
                    break
                if slot >> 32 == tag:
                    text = slot & 0xFFFFFFFF
                    same = store[text] >> HALF == np.uint64(need)
                    k = 0
                    while same and k < need:
                        same = store[text + 1 + k] == words[first[j] + k]
                        k += 1
                    if same:
                        codes[begin + j] = store[text] & np.uint64(0xFFFFFFFF)
                        break
                at = (at + ONE) & mask
        begin += size
    return begin, count, used, touched


@compiled
def _refill(slots: NDArray[np.int64], store: Words, used: int) -> None:
    """Enter every text of ``store`` into empty slots."""
    mask = np.uint64(slots.shape[0] - 1)
    text = np.int64(0)
    while text < used:
        need = np.int64(store[text] >> HALF)
        state = np.uint64(0)
        for k in range(need):
            state = _mix(state, store[text + 1 + k])
        at = state & mask
        while slots[at] >= 0:
            at = (at + ONE) & mask
        slots[at] = (np.int64(state >> np.uint64(33)) << 32) | text
        text += need + 1


@compiled
def _unpack(store: Words, used: int, offsets: Indices, data: NDArray[np.uint8]) -> int:
    """Write the texts one after the other to ``data``, their ends to ``offsets``; return the number of bytes."""
    text = np.int64(0)
    write = 0
    row = 0
    while text < used:
        need = np.int64(store[text] >> HALF)
        for k in range(1, need + 1):
            word = store[text + k]
            # In the last word, the highest byte that is not zero is the closing 1.
            while (k < need and word != 0) or word > ONE:
                data[write] = word & np.uint64(0xFF)
                write += 1
                word >>= np.uint64(8)
            if k < need:
                write = offsets[row] + 8 * k  # the zeros that the loop has not seen are there already
        row += 1
        offsets[row] = write
        text += need + 1
    return write


class TextTable:
    """Positions of text ids; every text is kept once, as UTF-8 in 64-bit words."""

    def __init__(self) -> None:
        self._count = 0
        self._used = 0
        self._slots = np.full(1 << 12, -1, np.int64)
        self._store = np.zeros(1 << 14, np.uint64)

    def __len__(self) -> int:
        return self._count

    def add(self, values: pa.Array) -> Indices:
        """Return the position of each id; see `IntegerTable.add`."""
        data, offsets = _text_buffers(values)
        codes = np.empty(len(values), np.int32)
        done = self._add(data, offsets, codes, 0)
        while done < codes.size:
            self._grow(int(offsets[done + 1] - offsets[done]) // 8 + 2)
            done = self._add(data, offsets, codes, done)
        return codes

    def _add(self, data: NDArray[np.uint8], offsets: Indices, codes: Indices, begin: int) -> int:
        done, self._count, self._used, _ = _add_texts(
            data, offsets, codes, begin, self._slots, self._store, self._used, self._count
        )
        return done

    def _grow(self, need: int) -> None:
        if self._used + need > self._store.size:
            larger = np.zeros(max(self._store.size * 2, self._used + need), np.uint64)
            larger[: self._used] = self._store[: self._used]
            self._store = larger
        if self._count == self._slots.size // 2:
            self._slots = np.full(2 * self._slots.size, -1, np.int64)
            _refill(self._slots, self._store, self._used)

    def ids(self) -> pa.Array:
        """All ids in the order of their positions."""
        offsets = np.zeros(self._count + 1, np.int32)
        data = np.zeros(8 * self._used, np.uint8)
        data.resize(_unpack(self._store, self._used, offsets, data), refcheck=False)
        return pa.Array.from_buffers(pa.string(), self._count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


IdTable = IntegerTable | TextTable


def _text_buffers(values: pa.Array) -> tuple[NDArray[np.uint8], Any]:
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return np.frombuffer(b"" if data is None else data, np.uint8), bounds
