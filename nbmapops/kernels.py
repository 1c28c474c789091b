"""Compiled kernels: arrays in, arrays out, a status returned (provisional).

These are the functions under the operators. They take plain arrays, never raise and hold no
Python object, so a user's own ``@njit`` function may call them: `lookup`, `vectorize_dense`,
`vectorize_csr` and `order_dense`. Names and arguments may still change.

A vocabulary reaches them as four arrays, ``(header, pilots, slots, table)``:

* ``header`` int64[8]: format number, kind, number of columns, smallest word, number of slots,
  bucket bits, multiplier (the bits of an odd uint64), 0;
* kind RANGE: the words are ``low, low + 1, ...`` in column order, no arrays needed;
* kind TABLE: ``table`` int32 holds the column of ``low + i``, -1 where there is no word;
* kind HASH: a perfect hash. A word's bucket has a pilot number (``pilots`` uint16) that sends
  all words of the bucket to slots of their own; ``slots`` int64 holds word, column, word, ...

A status is -1 when all went well, ``n >= 0`` when map ``n`` (or word ``n``) is the first bad
one, and one of these otherwise: `OTHER_FORMAT` (-2), the index was made for other kernels;
`NO_FIT` (-3), a hash could not be built; `MISMATCH` (-4), the arrays do not fit each other.

Offsets, keys and columns are loaded once, and what was loaded is checked before it becomes an
index: the owner of an array may change it while a kernel runs, and gets nonsense, not a crash.

Examples
--------
A kernel called from a compiled function of one's own:

>>> import numpy as np
>>> from numba import njit
>>> from nbmapops import kernels
>>> @njit
... def known(header, pilots, slots, table, keys):
...     columns = np.empty(keys.size, np.int64)
...     status = kernels.lookup(header, pilots, slots, table, keys, columns)
...     return (columns >= 0).sum() if status == -1 else status
>>> header = np.array([kernels.FORMAT, kernels.RANGE, 3, 10, 0, 0, 0, 0])  # words 10, 11, 12
>>> none = np.empty(0, np.int64)
>>> int(known(header, none.astype(np.uint16), none, none.astype(np.int32), np.array([12, 9, 10])))
2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numba import njit

from nbmapops._jit import check_interpreter, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]
    # Integers and flags are NumPy's or Python's, whether compiled or not.
    Int = Any
    Flag = Any
    Head = tuple[Int, Int, Int, Int, Int, Int, Int]

__all__ = ["lookup", "order_dense", "vectorize_csr", "vectorize_dense"]

check_interpreter()

# To be raised with any change of `_hash`, `_slot` or the header: pickles hold indexes.
FORMAT = 1
RANGE, TABLE, HASH = 0, 1, 2

OK, OTHER_FORMAT, NO_FIT, MISMATCH = -1, -2, -3, -4

# An unsigned number combined with an int literal is no unsigned number in Numba. Positions are
# unsigned in hot loops because Numba lets a negative index count from the end, which keeps loops
# from becoming vector code: the check for ascending keys took 0.49 ns an entry, not 0.15.
_U0, _U1, _U2, _U4, _U5, _U6 = (np.uint64(bits) for bits in (0, 1, 2, 4, 5, 6))
_U31, _U32, _U56, _U63, _U64 = (np.uint64(bits) for bits in (31, 32, 56, 63, 64))
_SIGN = np.uint64(1 << 63)
_K1, _K2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_PAIRS, _NIBBLES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_BYTES, _ONES = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)

_LARGEST_BUCKET = 64
_PILOTS = 65536

# Rows are looked up together up to this many entries: cache misses of a large index overlap,
# and the scratch stays in the first-level cache.
_GROUP_ENTRIES = 1024
_GROUP_ROWS = 256
# Up to here counting the smaller columns of a row beats ordering it in linear time.
_RANKED = 64
# Keys are narrow when they span less than 16 (2**4) times their number: then a bitmap orders
# them faster than a radix sort.
_NARROW = _U4

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def _inlined(function: _Function) -> _Function:
    """Compile into the callers: Numba's own calls cost reference counts, felt once a map."""
    return cast("_Function", njit(nogil=True, inline="always")(function))


# The index: build


@kernel
def _hash(key: Any, multiplier: Any) -> Any:
    # The multiplier is odd, so no two keys have the same hash. It multiplies twice: once left the
    # words of an arithmetic progression in buckets of very different sizes. The high half is added
    # first: words that differ only there took up to 42 times the steps to build an index.
    h = np.uint64(key)
    h = (h ^ (h >> _U32)) * multiplier
    return (h ^ (h >> _U32)) * multiplier


@kernel
def _slot(h: Any, pilot: Any, n_slots: Any) -> Any:
    return ((((h ^ (np.uint64(pilot) * _K2)) * _K1) >> _U32) * n_slots) >> _U32


@kernel
def _largest_first(sizes: Array, largest: Int) -> Array:
    """Bucket numbers by falling size (counting sort)."""
    first = np.zeros(largest + 2, np.int64)
    for b in range(sizes.size):
        first[largest - sizes[b] + 1] += 1
    for s in range(largest + 1):
        first[s + 1] += first[s]
    order = np.empty(sizes.size, np.int64)
    for b in range(sizes.size):
        s = largest - sizes[b]
        order[first[s]] = b
        first[s] += 1
    return order


@kernel
def _group_hashes(
    words: Array, multiplier: Any, to_bucket: Any, order: Array, ends: Array, hashes: Array
) -> None:
    """Put hashes of one bucket side by side, the buckets in this order; sizes become ends.

    The search for pilots reads them in that order, without a cache miss for each bucket.
    """
    start = np.int64(0)
    for k in range(order.size):
        size = np.int64(ends[order[k]])
        ends[order[k]] = start
        start += size
    for i in range(words.size):
        h = _hash(words[i], multiplier)
        b = h >> to_bucket
        place = ends[b]
        hashes[place] = h
        ends[b] = place + 1


@kernel
def _equal_at(items: Array, start: Int, stop: Int) -> Int:
    """Position of an item of ``items[start:stop]`` that stands there before, or -1."""
    for i in range(start + 1, stop):
        for j in range(start, i):
            if items[i] == items[j]:
                return i
    return -1


@kernel
def _second(words: Array, multiplier: Any, h: Any) -> Int:
    """Position of the second word that has the hash `h`."""
    before = 0
    for i in range(words.size):
        if _hash(words[i], multiplier) == h:
            if before > 0:
                return i
            before += 1
    return NO_FIT


@kernel
def _find_pilot(hashes: Array, lo: Int, hi: Int, n_slots: Any, taken: Array, places: Array) -> Int:
    """Smallest pilot that sends ``hashes[lo:hi]`` to free slots (set in `places`), or -1."""
    for pilot in range(_PILOTS):
        hit = _U0
        for i in range(lo, hi):
            s = _slot(hashes[i], pilot, n_slots)
            places[i - lo] = s
            hit |= taken[s >> _U6] >> (s & _U63)
        if hit & _U1 == _U0 and _equal_at(places, 0, hi - lo) < 0:
            return pilot
    return -1


@kernel
def build_hash(
    words: Array, n_slots: Int, bucket_bits: Int, multiplier: Int, pilots: Array, slots: Array
) -> Int:
    """Fill the arrays of a perfect hash of distinct words.

    Parameters
    ----------
    words : int64 array, shape (n,)
        The words in column order.
    n_slots : int
        More than `n`; below 2**32.
    bucket_bits : int
        There are ``2**bucket_bits`` buckets.
    multiplier : int64
        The bits of an odd uint64.
    pilots : uint16 array, shape (2**bucket_bits,)
        Written; zeros before.
    slots : int64 array, shape (2 * n_slots,)
        Written.

    Returns
    -------
    int
        -1; the number of a word that stands in `words` before; or `NO_FIT`, when another
        multiplier or more slots must be tried (also for many copies of one word).
    """
    factor, size = np.uint64(np.int64(multiplier)), np.uint64(n_slots)
    to_bucket = _U64 - np.uint64(bucket_bits)
    ends = np.zeros(pilots.size, np.int32)  # first the sizes of buckets
    for i in range(words.size):
        ends[_hash(words[i], factor) >> to_bucket] += 1
    largest = np.int64(ends.max())
    if largest > _LARGEST_BUCKET:
        return NO_FIT
    taken = np.zeros((n_slots >> 6) + 1, np.uint64)
    places = np.empty(_LARGEST_BUCKET, np.uint64)
    order = _largest_first(ends, largest)
    hashes = np.empty(words.size, np.uint64)
    _group_hashes(words, factor, to_bucket, order, ends, hashes)
    hi = np.int64(0)
    for k in range(order.size):
        b = order[k]
        lo, hi = hi, np.int64(ends[b])
        repeated = _equal_at(hashes, lo, hi)
        if repeated >= 0:
            return _second(words, factor, hashes[repeated])
        pilot = _find_pilot(hashes, lo, hi, size, taken, places)
        if pilot < 0:
            return NO_FIT
        pilots[b] = pilot
        for i in range(hi - lo):
            taken[places[i] >> _U6] |= _U1 << (places[i] & _U63)
    for s in range(n_slots):
        slots[2 * s] = 0
        slots[2 * s + 1] = -1
    for i in range(words.size):
        h = _hash(words[i], factor)
        s = _slot(h, pilots[h >> to_bucket], size) << _U1
        slots[s] = words[i]
        slots[s + _U1] = i
    return OK


# The index: look up


@kernel
def _head(header: Array, pilots: Array, slots: Array, table: Array) -> Head:
    """Load the header: status, kind, columns, smallest word, slots, bucket bits, multiplier."""
    if header.size != 8 or header[0] != FORMAT:
        return OTHER_FORMAT, 0, 0, 0, 0, 0, 0
    kind, columns, low = header[1], header[2], header[3]
    n_slots, bits, multiplier = header[4], header[5], header[6]
    fits = columns >= 0
    if kind == TABLE:
        fits &= table.size > 0
    elif kind == HASH:
        fits &= 1 <= n_slots <= slots.size // 2 and 1 <= bits <= 32
        fits = fits and pilots.size >= 1 << bits
    elif kind != RANGE:
        return OTHER_FORMAT, 0, 0, 0, 0, 0, 0
    return OK if fits else MISMATCH, kind, columns, low, n_slots, bits, multiplier


@kernel
def _find(
    head: Head, pilots: Array, slots: Array, table: Array,
    keys: Array, lo: Int, hi: Int, columns: Array,
) -> Flag:  # fmt: skip
    """Set ``columns[:hi - lo]``, -1 for a key that is no word; whether all keys are words."""
    kind, width, low = head[1], np.uint64(head[2]), np.uint64(head[3])
    at, n = np.uint64(lo), np.uint64(hi - lo)
    least = np.int64(0)
    if kind == RANGE:
        for i in range(n):
            place = np.uint64(keys[at + i]) - low
            column = np.int64(place) if place < width else np.int64(-1)
            columns[i] = column
            least |= column
    elif kind == TABLE:
        span = np.uint64(table.size)
        for i in range(n):
            place = np.uint64(keys[at + i]) - low
            inside = place < span
            column = np.int64(table[place if inside else _U0])
            column = column if inside and np.uint64(column) < width else np.int64(-1)
            columns[i] = column
            least |= column
    else:
        n_slots, to_bucket = np.uint64(head[4]), _U64 - np.uint64(head[5])
        multiplier = np.uint64(head[6])
        for i in range(n):
            key = keys[at + i]
            h = _hash(key, multiplier)
            s = _slot(h, pilots[h >> to_bucket], n_slots) << _U1
            column = slots[s + _U1]
            known = slots[s] == key and np.uint64(column) < width
            column = column if known else np.int64(-1)
            columns[i] = column
            least |= column
    return least >= 0


@kernel
def lookup(
    header: Array, pilots: Array, slots: Array, table: Array, keys: Array, columns: Array
) -> Int:
    """Find the column of every key.

    Parameters
    ----------
    header, pilots, slots, table : arrays
        The index of a vocabulary (see the module's description).
    keys : int64 or int32 array, shape (n,)
        The keys.
    columns : int64 array, shape (n,)
        Written: the column of each key, -1 for a key that is no word.

    Returns
    -------
    int
        -1, or a negative status (`OTHER_FORMAT`, `MISMATCH`).
    """
    head = _head(header, pilots, slots, table)
    if head[0] != OK:
        return head[0]
    if columns.size < keys.size:
        return MISMATCH
    _find(head, pilots, slots, table, keys, 0, keys.size, columns)
    return OK


@kernel
def _group(offsets: Array, first: Int, stop: Int, lo: Int, limit: Int, ends: Array) -> Any:
    """Copy the ends of the next maps; how many, and whether an offset that is none follows."""
    maps, hi = 0, lo
    while maps < ends.size and first + maps < stop:
        end = offsets[first + maps + 1]
        if end < hi or end > limit:
            return maps, True
        if maps > 0 and end - lo > _GROUP_ENTRIES:
            break
        ends[maps] = end
        hi = end
        maps += 1
    return maps, False


@kernel
def _reserve(array: Array, size: Int) -> Array:
    return array if array.size >= size else np.empty(size, array.dtype)


# Rows of a dense matrix


@kernel
def _write_rows(
    columns: Array, values: Array, lo: Int, ends: Array, maps: Int, fill: Any, prefilled: Flag,
    skip_unknown: Flag, first_wins: Flag, seen: Array, row: Int, out: Array,
) -> Int:  # fmt: skip
    """Write a group of maps; how many, up to a bad one. `seen` has a bit for each column."""
    at, entry = np.uint64(lo), _U0
    for m in range(maps):
        r = row + m
        if not prefilled:
            for c in range(out.shape[1]):
                out[r, c] = fill
        good = True
        first, entry = entry, np.uint64(ends[m]) - at
        for i in range(first, entry):
            column = columns[i]
            if column < 0:
                good &= skip_unknown
                continue
            place = np.uint64(column)
            bit = _U1 << (place & _U63)
            before = seen[place >> _U6]
            if before & bit != _U0:
                good &= first_wins
                continue
            seen[place >> _U6] = before | bit
            out[r, place] = values[at + i]
        if not good:
            return m
        for i in range(first, entry):
            seen[np.uint64(max(columns[i], 0)) >> _U6] = _U0
    return maps


@kernel
def vectorize_dense(
    header: Array, pilots: Array, slots: Array, table: Array,
    keys: Array, values: Array, offsets: Array, start: Int, stop: Int,
    fill: Any, prefilled: Flag, skip_unknown: Flag, first_wins: Flag, out: Array,
) -> Int:  # fmt: skip
    """Write maps ``start .. stop - 1`` into the same rows of a dense matrix.

    Parameters
    ----------
    header, pilots, slots, table : arrays
        The index of a vocabulary (see the module's description).
    keys : int64 or int32 array, shape (n,)
        The keys of all maps.
    values : array, shape (n,)
        Their values, of any dtype of 4 or 8 bytes: values are only moved.
    offsets : int64 array, shape (maps + 1,)
        Map ``i`` is the entries ``offsets[i] .. offsets[i + 1] - 1``.
    start, stop : int
        The maps to write.
    fill : scalar of the dtype of `out`
        Written to the positions without an entry.
    prefilled : bool
        Whether the rows hold `fill` already.
    skip_unknown : bool
        Whether to leave out entries whose key is no word; otherwise their map is bad.
    first_wins : bool
        Whether of entries with the same column the first counts; otherwise their map is bad.
    out : array, shape (maps, columns)
        Written.

    Returns
    -------
    int
        -1, the first bad map, or a negative status (`OTHER_FORMAT`, `MISMATCH`).
    """
    head = _head(header, pilots, slots, table)
    if head[0] != OK:
        return head[0]
    width = head[2]
    if start < 0 or stop > offsets.size - 1 or stop > out.shape[0] or width > out.shape[1]:
        return MISMATCH
    if start >= stop:
        return OK
    limit, lo = min(keys.size, values.size), offsets[start]
    if lo < 0 or lo > limit:
        return start
    ends = np.empty(_GROUP_ROWS, np.int64)
    columns = np.empty(_GROUP_ENTRIES, np.int64)
    seen = np.zeros((width >> 6) + 1, np.uint64)
    row = start
    while row < stop:
        maps, broken = _group(offsets, row, stop, lo, limit, ends)
        last = ends[maps - 1] if maps > 0 else lo
        columns = _reserve(columns, last - lo)
        _find(head, pilots, slots, table, keys, lo, last, columns)
        written = _write_rows(
            columns, values, lo, ends, maps, fill, prefilled,
            skip_unknown, first_wins, seen, row, out,
        )  # fmt: skip
        row += written
        if broken or written < maps:
            return row
        lo = last
    return OK


# Order: short rows by rank, narrow keys by a bitmap, wide keys by radix


@_inlined
def _ascends(items: Array, lo: Int, n: Int) -> Flag:
    at, ascending = np.uint64(lo), True
    for i in range(np.uint64(max(n, 1) - 1)):
        ascending &= items[at + i] < items[at + i + _U1]
    return ascending


@_inlined
def _rank(items: Array, lo: Int, n: Int, local: Array, ranks: Array) -> Flag:
    """Count for each of ``items[lo:lo + n]`` the smaller ones; whether no item repeats.

    Four items are compared with eight in one step, without branches or left-over items, which
    huge ones pad: 2.3 ns an entry for 20 entries, where one at a time takes 4.1.
    """
    at, padded = np.uint64(lo), (n + 7) // 8 * 8
    for i in range(np.uint64(n)):
        local[i] = items[at + i]
    for i in range(n, padded):
        local[i] = 2**31 - 1 if local.itemsize == 4 else 2**63 - 1
    for i in range(padded):
        ranks[i] = 0
    for j in range(0, n, 4):
        a, b, c, d = local[j], local[j + 1], local[j + 2], local[j + 3]
        for i in range(padded):
            item = local[i]
            ranks[i] += (
                np.int32(a < item) + np.int32(b < item) + np.int32(c < item) + np.int32(d < item)
            )
    total = np.int64(0)
    for i in range(n):
        total += ranks[i]
    # Each pair of different items adds 1, each pair of equal items 0.
    return total == n * (n - 1) // 2


@kernel
def _survey(keys: Array, lo: Int, n: Int) -> Any:
    """Smallest of ``keys[lo:lo + n]``, and the largest less the smallest."""
    at = np.uint64(lo)
    least, most = keys[at], keys[at]
    for i in range(np.uint64(n)):
        least, most = min(least, keys[at + i]), max(most, keys[at + i])
    return np.uint64(least), np.uint64(most) - np.uint64(least)


@kernel
def _count_bits(x: Any) -> Any:
    x = x - ((x >> _U1) & _PAIRS)
    x = (x & _NIBBLES) + ((x >> _U2) & _NIBBLES)
    return (((x + (x >> _U4)) & _BYTES) * _ONES) >> _U56


@kernel
def _mark(keys: Array, lo: Int, n: Int, least: Any, span: Any) -> Any:
    """Bitmap of the keys less `least`, 32 to a word, each word above it the number of bits before.

    Returns the bitmap, and whether no key repeats.
    """
    bitmap = np.zeros(np.int64(span >> _U5) + 1, np.uint64)
    at = np.uint64(lo)
    for i in range(np.uint64(n)):
        place = min(np.uint64(keys[at + i]) - least, span)
        bitmap[place >> _U5] |= _U1 << (place & _U31)
    total = _U0
    for w in range(bitmap.size):
        word = bitmap[w]
        bitmap[w] = word | (total << _U32)
        total += _count_bits(word)
    return bitmap, total == np.uint64(n)


@kernel
def _marked_before(bitmap: Array, place: Any) -> Any:
    word = bitmap[place >> _U5]
    return (word >> _U32) + _count_bits(word & ((_U1 << (place & _U31)) - _U1))


@kernel
def _bit_length(x: Any) -> Int:
    length = 0
    while x != _U0:
        x >>= _U1
        length += 1
    return length


@kernel
def _gaps(differing: Any, masks: Array, lifts: Array) -> Int:
    """Find the runs of bits that differ, from the top, and the shifts that close the gaps.

    The last run that there is room for takes all bits below. Returns the number of runs.
    """
    runs, lift, inside = 0, 0, False
    for b in range(64):
        bit = _SIGN >> np.uint64(b)
        if differing & bit != _U0 or runs == masks.size:
            if not inside:
                masks[runs], lifts[runs] = _U0, lift
                runs += 1
            masks[runs - 1] |= bit
            inside = True
        else:
            lift += 1
            inside = False
    return runs


@_inlined
def _closed(key: Any, least: Any, runs: Int, masks: Array, lifts: Array) -> Any:
    """Put the bits in which keys differ side by side, at the top."""
    above = np.uint64(key) - least
    closed = (above & masks[0]) << lifts[0]
    for run in range(1, runs):
        closed |= (above & masks[run]) << lifts[run]
    return closed


@kernel
def _part(keys: Array, lo: Int, least: Any, mask: Any, entries: Array, ends: Array) -> Flag:
    """Set entries, parted by their leading digit, and the end of each part.

    An entry is one number: the leading bits in which keys differ above the (masked) entry number.
    False when keys changed meanwhile, so that entries are missing.
    """
    at, n = np.uint64(lo), np.uint64(entries.size)
    differing = _U0
    for i in range(n):
        differing |= np.uint64(keys[at + i]) - least
    masks, lifts = np.empty(4, np.uint64), np.empty(4, np.uint64)
    runs = _gaps(differing, masks, lifts)
    if ends.size == 1:
        for i in range(n):
            entries[i] = np.uint64(i)
        for run in range(runs):  # vector code, 0.2 ns an entry less than `_closed`
            bits, lift = masks[run], lifts[run]
            for i in range(n):
                entries[i] |= (((np.uint64(keys[at + i]) - least) & bits) << lift) & ~mask
        ends[0] = entries.size
        return True
    shift = np.uint64(64 - _bit_length(np.uint64(ends.size - 1)))
    for i in range(n):
        ends[_closed(keys[at + i], least, runs, masks, lifts) >> shift] += 1
    _starts(ends)
    place = ends.copy()
    for i in range(n):
        closed = _closed(keys[at + i], least, runs, masks, lifts)
        part = closed >> shift
        to = np.uint64(place[part])
        if to < n:
            entries[to] = (closed & ~mask) | np.uint64(i)
        place[part] += 1
    whole = True
    for part in range(ends.size - 1):
        whole &= place[part] == ends[part + 1]
        ends[part] = place[part]
    whole &= place[ends.size - 1] == entries.size
    ends[ends.size - 1] = entries.size
    return whole


@kernel
def _starts(count: Array) -> None:
    """Turn the counts of digits into the places where they start."""
    start = np.int64(0)
    for digit in range(count.size):
        start, count[digit] = start + count[digit], start


@kernel
def _scatter(source: Array, target: Array, shift: Any, mask: Any, place: Array) -> None:
    for i in range(source.size):
        item = source[i]
        digit = (item >> shift) & mask
        target[np.uint64(place[digit])] = item
        place[digit] += 1


@kernel
def _order_part(entries: Array, other: Array, shift: Any, high: Array, low: Array) -> Flag:
    """Order a part by its next two digits; False when so many share both that more must be done."""
    below = shift - np.uint64(_bit_length(np.uint64(low.size - 1)))
    mask = np.uint64(low.size - 1)
    high[:] = 0
    low[:] = 0
    for i in range(entries.size):
        high[(entries[i] >> shift) & mask] += 1
        low[(entries[i] >> below) & mask] += 1
    if high.max() * low.max() > 64 * entries.size:
        return False
    _starts(low)
    _scatter(entries, other, below, mask, low)
    _starts(high)
    _scatter(other[: entries.size], entries, shift, mask, high)
    return True


@kernel
def _settle(keys: Array, lo: Int, entries: Array, mask: Any) -> Any:
    """Finish the order of entries that is right but for close keys (insertion sort).

    Returns whether a key repeats, and whether this was given up as too long.
    """
    repeated, moves, at = False, np.int64(0), np.uint64(lo)
    for i in range(1, entries.size):
        entry = entries[i]
        if entry | mask > entries[i - 1] | mask:
            continue
        key = keys[at + (entry & mask)]
        j = i
        while j > 0:
            before = entries[j - 1]
            if before | mask < entry | mask:
                break
            if before | mask == entry | mask:
                other = keys[at + (before & mask)]
                if other <= key:
                    repeated |= other == key
                    break
            entries[j] = before
            j -= 1
        entries[j] = entry
        moves += i - j
        if moves > 4 * entries.size:
            return False, True
    return repeated, False


@kernel
def _order_digits(keys: Array, lo: Int, n: Int, bits: Int) -> Any:
    """Entry numbers by ascending key, digit by digit from the last; whether a key repeats.

    Bits that all keys share take no time.
    """
    scratch = np.empty(4 * n, np.uint64)
    own, other = scratch[:n], scratch[n : 2 * n]
    entries, moved = scratch[2 * n : 3 * n], scratch[3 * n :]
    at, differing = np.uint64(lo), _U0
    for i in range(np.uint64(n)):
        key = np.uint64(keys[at + i]) ^ _SIGN
        own[i] = key
        entries[i] = i
        differing |= key ^ own[0]
    shift, mask = _U0, (_U1 << np.uint64(bits)) - _U1
    while differing != _U0:
        while differing & _U1 == _U0:
            differing >>= _U1
            shift += _U1
        place = np.zeros(1 << bits, np.int64)
        for i in range(n):
            place[(own[i] >> shift) & mask] += 1
        _starts(place)
        for i in range(n):
            digit = (own[i] >> shift) & mask
            to = np.uint64(place[digit])
            other[to] = own[i]
            moved[to] = entries[i]
            place[digit] += 1
        own, other = other, own
        entries, moved = moved, entries
        differing &= ~mask
    repeated = False
    for i in range(1, n):
        repeated |= own[i - 1] == own[i]
    return entries, repeated


@kernel
def _order_wide(keys: Array, lo: Int, n: Int, least: Any) -> Any:
    """Order entries by key, equal keys by entry.

    Entries are sorted by two leading digits; after that few neighbours are wrong. Many entries
    are parted by another digit before, so that these sort within the cache: 10 ns an entry for a
    million, where two large digits took 20.

    Returns an array that holds the entry numbers in its masked bits, the mask, and whether a
    key repeats.
    """
    mask = (_U1 << np.uint64(_bit_length(np.uint64(n)))) - _U1
    leading, bits = 0, 8
    if n >= 1 << 17:
        leading, bits = min(_bit_length(np.uint64(n)) - 12, 7), 9
    elif n >= 4096:
        bits = 10
    ends = np.zeros(1 << leading, np.int64)
    # One allocation: the C library keeps it, where it gives two of them back to the system,
    # whose fresh pages cost 4 ns an entry.
    scratch = np.empty(2 * n, np.uint64)
    entries, other = scratch[:n], scratch[n:]
    done = _part(keys, lo, least, mask, entries, ends)
    high, low = np.empty(1 << bits, np.int64), np.empty(1 << bits, np.int64)
    shift = np.uint64(64 - leading - bits)
    start = np.int64(0)
    for part in range(ends.size):
        end = ends[part]
        if done and end - start > 1:
            done = _order_part(entries[start:end], other, shift, high, low)
        start = end
    repeated, given_up = False, not done
    if done:
        repeated, given_up = _settle(keys, lo, entries, mask)
    if given_up:
        entries, repeated = _order_digits(keys, lo, n, 8 if n < 4096 else 11)
        return entries, ~_U0, repeated
    return entries, mask, repeated


# Rows of a CSR matrix


@kernel
def _take_known(columns: Array, held: Array, ends: Array, maps: Int, skip: Flag) -> Int:
    """Close the gaps of unknown keys; the number of maps up to one that must not have any."""
    kept, first, stop = _U0, _U0, _U0
    for m in range(maps):
        first, stop = stop, np.uint64(ends[m])
        for i in range(first, stop):
            column = columns[i]
            if column < 0 and not skip:
                return m
            columns[kept] = column
            held[kept] = held[i]
            kept += _U1 if column >= 0 else _U0
        ends[m] = np.int64(kept)
    return maps


@kernel
def _emit_long(
    columns: Array, held: Array, lo: Int, n: Int, first_wins: Flag,
    base: Int, indices: Array, data: Array,
) -> Int:  # fmt: skip
    """Write a row of many entries, or with repeated columns; how many entries, -1: a bad map."""
    room = min(indices.size, data.size)
    at, place = np.uint64(lo), np.uint64(base)
    least, span = _survey(columns, lo, n)
    if n > _RANKED and n <= room - base and span >> _NARROW < np.uint64(n):
        bitmap, single = _mark(columns, lo, n, least, span)
        if single:
            for i in range(np.uint64(n)):
                column = columns[at + i]
                to = place + _marked_before(bitmap, np.uint64(column) - least)
                indices[to] = column
                data[to] = held[at + i]
            return n
    entries, mask, repeated = _order_wide(columns, lo, n, least)
    if repeated and not first_wins:
        return -1
    last, end = np.int64(-1), np.uint64(room)
    for i in range(n):
        entry = at + (entries[i] & mask)
        column = np.int64(columns[entry])
        if column == last:
            continue
        if place >= end:
            return -1
        indices[place] = column
        data[place] = held[entry]
        place += _U1
        last = column
    return np.int64(place) - base


@kernel
def _emit_rows(
    columns: Array, held: Array, ends: Array, maps: Int, first_wins: Flag,
    local: Array, ranks: Array, row: Int, base: Int, indptr: Array, indices: Array, data: Array,
) -> Any:  # fmt: skip
    """Write a group of rows by ascending column; how many, up to a bad one, and their end."""
    room = min(indices.size, data.size)
    lo = np.int64(0)
    for m in range(maps):
        n = ends[m] - lo
        fits = n <= room - base
        at, to = np.uint64(lo), np.uint64(base)
        if fits and _ascends(columns, lo, n):
            for i in range(np.uint64(n)):
                indices[to + i] = columns[at + i]
                data[to + i] = held[at + i]
        elif fits and n <= _RANKED and _rank(columns, lo, n, local, ranks):
            for i in range(np.uint64(n)):
                place = to + np.uint64(ranks[i])
                indices[place] = local[i]
                data[place] = held[at + i]
        else:
            n = _emit_long(columns, held, lo, n, first_wins, base, indices, data)
            if n < 0:
                return m, base
        base += n
        indptr[row + m + 1] = base
        lo = ends[m]
    return maps, base


@kernel
def vectorize_csr(
    header: Array, pilots: Array, slots: Array, table: Array,
    keys: Array, values: Array, offsets: Array, start: Int, stop: Int,
    skip_unknown: Flag, first_wins: Flag, base: Int, indptr: Array, indices: Array, data: Array,
) -> tuple[Int, Int]:  # fmt: skip
    """Write maps ``start .. stop - 1`` as rows of a canonical CSR matrix.

    Parameters
    ----------
    header, pilots, slots, table : arrays
        The index of a vocabulary (see the module's description).
    keys : int64 or int32 array, shape (n,)
        The keys of all maps.
    values : array, shape (n,)
        Their values, of any dtype of 4 or 8 bytes: values are only moved.
    offsets : int64 array, shape (maps + 1,)
        Map ``i`` is the entries ``offsets[i] .. offsets[i + 1] - 1``.
    start, stop : int
        The maps to write.
    skip_unknown : bool
        Whether to leave out entries whose key is no word; otherwise their map is bad.
    first_wins : bool
        Whether of entries with the same column the first counts; otherwise their map is bad.
    base : int
        Where the first of these rows starts in `indices` and `data`.
    indptr : int32 or int64 array, shape (maps + 1,)
        Written: ``indptr[i + 1]`` is where row ``i`` ends.
    indices : array of the dtype of `indptr`
        Written: the columns, ascending in a row, none twice.
    data : array of the dtype of `values`
        Written: the values.

    Returns
    -------
    status : int
        -1, the first bad map (also when it does not fit in `indices` and `data`), or a negative
        status (`OTHER_FORMAT`, `MISMATCH`).
    end : int
        Where the last written row ends.
    """
    head = _head(header, pilots, slots, table)
    if head[0] != OK:
        return head[0], base
    if start < 0 or stop > offsets.size - 1 or stop > indptr.size - 1:
        return MISMATCH, base
    if not 0 <= base <= min(indices.size, data.size):
        return MISMATCH, base
    if indices.itemsize == 4 and head[2] > 1 << 31:
        return MISMATCH, base
    if start >= stop:
        return OK, base
    if indptr.itemsize == 4:  # a row that ends further is a row without room
        indices = indices[: (1 << 31) - 1]
    limit, lo = min(keys.size, values.size), offsets[start]
    if lo < 0 or lo > limit:
        return start, base
    ends = np.empty(_GROUP_ROWS, np.int64)
    columns = np.empty(_GROUP_ENTRIES, indices.dtype)
    held = np.empty(_GROUP_ENTRIES, values.dtype)
    local, ranks = np.empty(_RANKED, indices.dtype), np.empty(_RANKED, indices.dtype)
    row = start
    while row < stop:
        maps, broken = _group(offsets, row, stop, lo, limit, ends)
        last = ends[maps - 1] if maps > 0 else lo
        columns, held = _reserve(columns, last - lo), _reserve(held, last - lo)
        known = _find(head, pilots, slots, table, keys, lo, last, columns)
        at = np.uint64(lo)
        for i in range(np.uint64(last - lo)):
            held[i] = values[at + i]
        for m in range(maps):
            ends[m] -= lo
        if not known:
            whole = _take_known(columns, held, ends, maps, skip_unknown)
            broken |= whole < maps
            maps = whole
        written, base = _emit_rows(
            columns, held, ends, maps, first_wins, local, ranks, row, base, indptr, indices, data
        )
        row += written
        if broken or written < maps:
            return row, base
        lo = last
    return OK, base


# CastMap: values by ascending key


@kernel
def _order_long(
    keys: Array, values: Array, lo: Int, n: Int, first_wins: Flag, base: Int, out: Array
) -> Int:
    """Write a map of many entries, or with repeated keys; how many entries, -1: a bad map."""
    at, place = np.uint64(lo), np.uint64(base)
    least, span = _survey(keys, lo, n)
    fits = n <= out.size - base
    if fits and n > _RANKED and span >> _NARROW < np.uint64(n):
        bitmap, single = _mark(keys, lo, n, least, span)
        if single:
            last = np.uint64(n - 1)
            for i in range(np.uint64(n)):
                before = _marked_before(bitmap, min(np.uint64(keys[at + i]) - least, span))
                out[place + min(before, last)] = values[at + i]
            return n
    entries, mask, repeated = _order_wide(keys, lo, n, least)
    if fits and not repeated:
        for i in range(np.uint64(n)):
            out[place + i] = values[at + (entries[i] & mask)]
        return n
    if not first_wins:
        return -1
    end, previous = np.uint64(out.size), np.int64(0)
    for i in range(n):
        entry = at + (entries[i] & mask)
        key = keys[entry]
        if i > 0 and key == previous:
            continue
        if place >= end:
            return -1
        out[place] = values[entry]
        place += _U1
        previous = key
    return np.int64(place) - base


@kernel
def order_dense(
    keys: Array, values: Array, offsets: Array, start: Int, stop: Int, first_wins: Flag,
    base: Int, out_offsets: Array, out: Array,
) -> tuple[Int, Int]:  # fmt: skip
    """Write the values of maps ``start .. stop - 1`` by ascending key.

    Parameters
    ----------
    keys : int64 array, shape (n,)
        The keys of all maps.
    values : array, shape (n,)
        Their values, of any dtype of 4 or 8 bytes: values are only moved.
    offsets : int64 array, shape (maps + 1,)
        Map ``i`` is the entries ``offsets[i] .. offsets[i + 1] - 1``.
    start, stop : int
        The maps to write.
    first_wins : bool
        Whether of entries with the same key the first counts; otherwise their map is bad.
    base : int
        Where the values of the first of these maps start in `out`.
    out_offsets : int64 array, shape (maps + 1,)
        Written: ``out_offsets[i + 1]`` is where the values of map ``i`` end.
    out : array of the dtype of `values`
        Written.

    Returns
    -------
    status : int
        -1, the first bad map (also when it does not fit in `out`), or `MISMATCH`.
    end : int
        Where the last written map ends.
    """
    if start < 0 or stop > offsets.size - 1 or stop > out_offsets.size - 1:
        return MISMATCH, base
    if not 0 <= base <= out.size:
        return MISMATCH, base
    if start >= stop:
        return OK, base
    limit, lo = min(keys.size, values.size), offsets[start]
    if lo < 0 or lo > limit:
        return start, base
    local, ranks = np.empty(_RANKED, np.int64), np.empty(_RANKED, np.int64)
    for row in range(start, stop):
        hi = offsets[row + 1]
        if hi < lo or hi > limit:
            return row, base
        n = hi - lo
        at, to = np.uint64(lo), np.uint64(base)
        fits = n <= out.size - base
        if fits and _ascends(keys, lo, n):
            for i in range(np.uint64(n)):
                out[to + i] = values[at + i]
        elif fits and n <= _RANKED and _rank(keys, lo, n, local, ranks):
            for i in range(np.uint64(n)):
                out[to + np.uint64(ranks[i])] = values[at + i]
        else:
            n = _order_long(keys, values, lo, n, first_wins, base, out)
            if n < 0:
                return row, base
        base += n
        out_offsets[row + 1] = base
        lo = hi
    return OK, base


# Learning a vocabulary


@kernel
def _probe(table: Array, shift: Any, multiplier: Any, key: Any, empty: Any) -> Any:
    """Where `table` holds `key`, or the empty place where it belongs."""
    mask = np.uint64(table.size - 1)
    place = _hash(key, multiplier) >> shift
    while table[place] != key and table[place] != empty:
        place = (place + _U1) & mask
    return place


@kernel
def distinct(keys: Array, multiplier: Int) -> Array:
    """Find the distinct keys.

    Parameters
    ----------
    keys : int64 array, shape (n,)
        The keys.
    multiplier : int64
        The bits of an odd uint64; random, so that no keys can be chosen to be slow.

    Returns
    -------
    int64 array
        Every key once, in the order in which they are first seen.
    """
    found = np.empty(512, np.int64)
    if keys.size == 0:
        return found[:0]
    factor, bits = np.uint64(np.int64(multiplier)), 11
    # Places without a key hold the first key: it needs no place, and no key is set aside.
    first = keys[0]
    table = np.full(1 << bits, first, np.int64)
    found[0] = first
    n = 1
    for i in range(1, keys.size):
        key = keys[i]
        place = _probe(table, np.uint64(64 - bits), factor, key, first)
        if table[place] == key:
            continue
        table[place] = key
        if n == found.size:
            larger = np.empty(2 * n, np.int64)
            larger[:n] = found
            found = larger
        found[n] = key
        n += 1
        if 2 * n > table.size:
            bits += 2
            table = np.full(1 << bits, first, np.int64)
            for j in range(1, n):
                table[_probe(table, np.uint64(64 - bits), factor, found[j], first)] = found[j]
    return found[:n].copy()
