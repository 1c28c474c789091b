"""Compiled: the entries of a row are put in order by rank, by a bitmap or by radix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nbmapops._jit import inlined, kernel
from nbmapops.kernels.index import zeros64

if TYPE_CHECKING:
    from nbmapops._constants import Array, Integer

__all__ = ["RANKED", "ascends", "rank", "write_ordered"]

# Positions are unsigned in hot loops because Numba lets a negative index count from the end, which
# keeps loops from becoming vector code: the check for ascending keys took three times as
# long (asv: castmap.DenseOneMap).
_U0, _U1, _U2, _U3, _U4, _U5 = (np.uint64(bits) for bits in range(6))
_U31, _U32, _U56 = (np.uint64(bits) for bits in (31, 32, 56))
_SIGN = np.uint64(1 << 63)
_PAIRS, _NIBBLES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_BYTES, _ONES = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)

# Up to here counting the smaller columns of a row beats ordering it in linear time.
RANKED = 64
# Keys are narrow when they span less than 16 (2**4) times their number: then a bitmap orders
# them faster than a radix sort.
NARROW = _U4


@inlined
def ascends(items: Array, lo: Integer, n: Integer) -> bool:
    """Tell whether each of ``items[lo:lo + n]`` is larger than the one before.

    The first 64 entries mostly decide for a long row, so that one in no order is not read to its
    end by each kernel that it passes (compare.py: S10).
    """
    return (n <= RANKED or _all_ascend(items, lo, RANKED)) and _all_ascend(items, lo, n)


@inlined
def _all_ascend(items: Array, lo: Integer, n: Integer) -> bool:
    at, ascending = np.uint64(lo), True
    for i in range(np.uint64(max(n, 1) - 1)):
        ascending &= items[at + i] < items[at + i + _U1]
    return ascending


@inlined
def rank(items: Array, lo: Integer, n: Integer, local: Array, ranks: Array) -> bool:
    """Count for each of ``items[lo:lo + n]`` the smaller ones; whether no item repeats.

    Each item is compared with four in one step, which stay in registers with their counts, without
    branches or left-over items, which huge ones pad: 1.8 ns an entry for 20 entries, 2.8 where the
    counts are in memory (asv: dictvectorizer.Csr).
    """
    at, padded = np.uint64(lo), np.uint64((n + 7) // 8 * 8)
    for i in range(np.uint64(n)):
        local[i] = items[at + i]
    for i in range(np.uint64(n), padded):
        local[i] = 2**31 - 1 if local.itemsize == 4 else 2**63 - 1
    for i in range(_U0, np.uint64(n), _U4):
        a, b, c, d = local[i], local[i + _U1], local[i + _U2], local[i + _U3]
        below_a = below_b = below_c = below_d = np.int32(0)
        for j in range(padded):
            item = local[j]
            below_a += np.int32(item < a)
            below_b += np.int32(item < b)
            below_c += np.int32(item < c)
            below_d += np.int32(item < d)
        ranks[i], ranks[i + _U1] = below_a, below_b
        ranks[i + _U2], ranks[i + _U3] = below_c, below_d
    total = np.int64(0)
    for i in range(n):
        total += ranks[i]
    # Each pair of different items adds 1, each pair of equal items 0.
    return bool(total == n * (n - 1) // 2)


@inlined
def survey(keys: Array, lo: Integer, n: Integer) -> tuple[np.uint64, np.uint64]:
    """Smallest of ``keys[lo:lo + n]``, and the largest less the smallest."""
    at = np.uint64(lo)
    least, most = keys[at], keys[at]
    for i in range(np.uint64(n)):
        least, most = min(least, keys[at + i]), max(most, keys[at + i])
    return np.uint64(least), np.uint64(most) - np.uint64(least)


@inlined
def _popcount(x: np.uint64) -> np.uint64:
    x = x - ((x >> _U1) & _PAIRS)
    x = (x & _NIBBLES) + ((x >> _U2) & _NIBBLES)
    return (((x + (x >> _U4)) & _BYTES) * _ONES) >> _U56


@inlined
def bit_vector(
    keys: Array, lo: Integer, n: Integer, least: np.uint64, span: np.uint64
) -> tuple[Array, bool]:
    """Bit vector of the keys less `least`: 32 bits, and above them how many are set before.

    With these counts the rank of a bit is one popcount. Returns the vector, and whether no key
    repeats.
    """
    bitmap = zeros64(np.int64(span >> _U5) + 1)
    at = np.uint64(lo)
    for i in range(np.uint64(n)):
        place = min(np.uint64(keys[at + i]) - least, span)
        bitmap[place >> _U5] |= _U1 << (place & _U31)
    total = _U0
    for w in range(bitmap.size):
        word = bitmap[w]
        bitmap[w] = word | (total << _U32)
        total += _popcount(word)
    return bitmap, total == np.uint64(n)


@inlined
def rank_of_bit(bitmap: Array, place: np.uint64) -> np.uint64:
    """Return the rank of a bit: how many bits before it are set."""
    word = bitmap[place >> _U5]
    before: np.uint64 = (word >> _U32) + _popcount(word & ((_U1 << (place & _U31)) - _U1))
    return before


@inlined
def _bit_length(x: np.uint64) -> int:
    length = 0
    while x != _U0:
        x >>= _U1
        length += 1
    return length


@inlined
def _runs_of_bits(differing: np.uint64, masks: Array, lifts: Array) -> Integer:
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


@inlined
def _compacted(
    key: Integer, least: np.uint64, runs: Integer, masks: Array, lifts: Array
) -> np.uint64:
    """Put the bits in which keys differ side by side, at the top: bit compaction."""
    above = np.uint64(key) - least
    closed: np.uint64 = (above & masks[0]) << lifts[0]
    for run in range(1, runs):
        closed |= (above & masks[run]) << lifts[run]
    return closed


@kernel
def _partition(
    keys: Array, lo: Integer, least: np.uint64, mask: np.uint64, entries: Array, ends: Array
) -> bool:
    """Set entries, partitioned by their leading digit (MSD), and the end of each part.

    An entry is one number: the leading bits in which keys differ above the (masked) entry number.
    False when keys changed meanwhile, so that entries are missing.
    """
    at, n = np.uint64(lo), np.uint64(entries.size)
    differing = _U0
    for i in range(n):
        differing |= np.uint64(keys[at + i]) - least
    masks, lifts = np.empty(np.int64(4), np.uint64), np.empty(np.int64(4), np.uint64)
    runs = _runs_of_bits(differing, masks, lifts)
    if ends.size == 1:
        for i in range(n):
            entries[i] = np.uint64(i)
        for run in range(runs):  # vector code, which `_compacted` is not
            bits, lift = masks[run], lifts[run]
            for i in range(n):
                entries[i] |= (((np.uint64(keys[at + i]) - least) & bits) << lift) & ~mask
        ends[0] = n
        return True
    shift = np.uint64(64 - _bit_length(np.uint64(ends.size - 1)))
    for i in range(n):
        ends[_compacted(keys[at + i], least, runs, masks, lifts) >> shift] += _U1
    _prefix_sum(ends)
    place = np.empty(ends.size, np.uint64)
    for part in range(ends.size):
        place[part] = ends[part]
    for i in range(n):
        closed = _compacted(keys[at + i], least, runs, masks, lifts)
        digit = closed >> shift
        to = place[digit]
        if to < n:
            entries[to] = (closed & ~mask) | np.uint64(i)
        place[digit] += _U1
    whole = True
    for part in range(ends.size - 1):
        whole &= place[part] == ends[part + 1]
        ends[part] = place[part]
    whole &= place[ends.size - 1] == n
    ends[ends.size - 1] = n
    return bool(whole)


@inlined
def _prefix_sum(count: Array) -> None:
    """Turn counts of digits into the places where they start: an exclusive prefix sum."""
    start = _U0
    for digit in range(count.size):
        size = count[digit]
        count[digit] = start
        start += size


@inlined
def _scatter(source: Array, target: Array, shift: np.uint64, mask: np.uint64, place: Array) -> None:
    for i in range(source.size):
        item = source[i]
        digit = (item >> shift) & mask
        target[place[digit]] = item
        place[digit] += _U1


@kernel
def _radix_sort_part(
    entries: Array, other: Array, shift: np.uint64, high: Array, low: Array
) -> bool:
    """Sort a part by its next two digits, the lower one first (LSD radix sort).

    Returns False when so many entries share both digits that more must be done.
    """
    below = shift - np.uint64(_bit_length(np.uint64(low.size - 1)))
    mask = np.uint64(low.size - 1)
    for digit in range(low.size):
        high[digit] = _U0
        low[digit] = _U0
    for i in range(entries.size):
        high[(entries[i] >> shift) & mask] += _U1
        low[(entries[i] >> below) & mask] += _U1
    most_high, most_low = _U0, _U0
    for digit in range(low.size):
        most_high = max(most_high, high[digit])
        most_low = max(most_low, low[digit])
    if most_high * most_low > np.uint64(64 * entries.size):
        return False
    _prefix_sum(low)
    _scatter(entries, other, below, mask, low)
    _prefix_sum(high)
    _scatter(other[: entries.size], entries, shift, mask, high)
    return True


@inlined
def _insertion_sort(keys: Array, lo: Integer, entries: Array, mask: np.uint64) -> tuple[bool, bool]:
    """Finish by an insertion sort the order of entries, which is right but for close keys.

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
def _radix_sort(keys: Array, lo: Integer, n: Integer, bits: Integer) -> tuple[Array, bool]:
    """Sort the entries by key, digit by digit from the last (LSD radix sort).

    Bits that all keys share take no time. Returns the entry numbers, and whether a key repeats.
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
        place = zeros64(1 << bits)
        for i in range(n):
            place[(own[i] >> shift) & mask] += _U1
        _prefix_sum(place)
        for i in range(n):
            digit = (own[i] >> shift) & mask
            to = place[digit]
            other[to] = own[i]
            moved[to] = entries[i]
            place[digit] += _U1
        own, other = other, own
        entries, moved = moved, entries
        differing &= ~mask
    repeated = False
    for i in range(1, n):
        repeated |= own[i - 1] == own[i]
    return entries, repeated


@kernel
def order_entries(
    keys: Array, lo: Integer, n: Integer, least: np.uint64
) -> tuple[Array, np.uint64, bool]:
    """Order entries by key, equal keys by entry: MSD partition, LSD radix sort, insertion sort.

    Entries are sorted by two leading digits; after that few neighbours are wrong. Many entries
    are partitioned by another digit before, so that these sort within the cache: 10 ns an entry
    for a million, where two large digits took 20 (compare.py: S11).

    Returns an array that holds the entry numbers in its masked bits, the mask, and whether a
    key repeats.
    """
    mask = (_U1 << np.uint64(_bit_length(np.uint64(n)))) - _U1
    leading: Integer = 0
    bits = 8
    if n >= 1 << 17:
        bits = 9
        leading = min(_bit_length(np.uint64(n)) - 12, 7)
    elif n >= 4096:
        bits = 10
    ends = zeros64(1 << leading)
    # One allocation: the C library keeps it, where it gives two of them back to the system,
    # whose fresh pages cost 4 ns an entry (asv: castmap.DenseOneMap).
    scratch = np.empty(2 * n, np.uint64)
    entries, other = scratch[:n], scratch[n:]
    done = _partition(keys, lo, least, mask, entries, ends)
    high, low = np.empty(1 << bits, np.uint64), np.empty(1 << bits, np.uint64)
    shift = np.uint64(64 - leading - bits)
    start = np.int64(0)
    for part in range(ends.size):
        end = np.int64(ends[part])
        if done and end - start > 1:
            done = _radix_sort_part(entries[start:end], other, shift, high, low)
        start = end
    repeated, given_up = False, not done
    if done:
        repeated, given_up = _insertion_sort(keys, lo, entries, mask)
    if given_up:
        entries, repeated = _radix_sort(keys, lo, n, 8 if n < 4096 else 11)
        return entries, ~_U0, repeated
    return entries, mask, repeated


@kernel
def write_ordered(
    items: Array, held: Array, lo: Integer, n: Integer, first_wins: bool,
    base: Integer, out_items: Array | None, out: Array,
) -> Integer:  # fmt: skip
    """Write a row of many entries, or with repeated items, by ascending item.

    Parameters
    ----------
    items, held : arrays
        The row is their entries ``lo .. lo + n - 1``.
    lo, n : int
        Where it stands.
    first_wins : bool
        Whether of entries with the same item the first counts; otherwise the row is bad.
    base : int
        Where it starts in `out`.
    out_items : array or None
        Written: the items, where they are wanted.
    out : array
        Written: what is held.

    Returns
    -------
    int
        The number of entries written; -1 for a row that is bad, or for which there is no room.
    """
    room = out.size
    if out_items is not None:
        room = min(room, out_items.size)
    at, place = np.uint64(lo), np.uint64(base)
    least, span = survey(items, lo, n)
    if RANKED < n <= room - base and span >> NARROW < np.uint64(n):
        bitmap, single = bit_vector(items, lo, n, least, span)
        if single:
            last = np.uint64(n - 1)
            for i in range(np.uint64(n)):
                before = rank_of_bit(bitmap, min(np.uint64(items[at + i]) - least, span))
                to = place + min(before, last)
                if out_items is not None:
                    out_items[to] = items[at + i]
                out[to] = held[at + i]
            return n
    entries, mask, repeated = order_entries(items, lo, n, least)
    if not repeated and n <= room - base:
        for i in range(np.uint64(n)):
            entry = at + (entries[i] & mask)
            if out_items is not None:
                out_items[place + i] = items[entry]
            out[place + i] = held[entry]
        return n
    if not first_wins:
        return np.int64(-1)
    previous, end = np.int64(0), np.uint64(room)
    for i in range(np.uint64(n)):
        entry = at + (entries[i] & mask)
        item = np.int64(items[entry])
        if i > _U0 and item == previous:
            continue
        if place >= end:
            return np.int64(-1)
        if out_items is not None:
            out_items[place] = item
        out[place] = held[entry]
        place += _U1
        previous = item
    return np.int64(place) - base
