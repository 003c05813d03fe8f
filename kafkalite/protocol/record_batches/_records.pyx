# cython: language_level=3, binding=False, boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
# cython: embedsignature=False, always_allow_keywords=False
"""Records of format 2 between bytes and Python's objects, in compiled code: what `python_records` does, in a tenth of its time.

`record_code` says what each function does and chooses between the two; `record_walk` has the rules. Tests hold the three to one another
on generated and damaged bytes.

What keeps it safe with bytes that were made to harm:

- Memory is read through a buffer that is held for the call, and only between `position` and `end`, which must lie within it.
- A varint is read byte by byte, each after a comparison with the end of its record; it has five bytes at most, ten in a timestamp delta.
- A length is compared with the bytes that are left of its record before it is added to a position, so no sum can overflow.
- Nothing is allocated by a count that the bytes claim: lists grow with what was read, `find_starts` has no more records than bytes, and
  `find_places` no more than the smallest records that fit into them.
- Bytes may change under a reader in another thread. Each is read once into a variable that was compared, so the answer may be wrong
  then, but nothing outside the buffer is touched.

Only the stable ABI of Python 3.11 is used, so one wheel serves all later versions. The interpreter is let go where there is much to walk
over (`_RELEASED_FROM_BYTES`) and no object is made.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AsString, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, UINT64_MAX, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX
    ctypedef PyObject* (*PyCFunction)(PyObject*, PyObject*)
    ctypedef struct PyMethodDef:
        const char* ml_name
        PyCFunction ml_meth
        int ml_flags
        const char* ml_doc
    int METH_FASTCALL
    object PyCFunction_New(PyMethodDef* definition, object self)

cdef extern from "<time.h>" nogil:
    int TIME_UTC
    struct timespec:
        int64_t tv_sec
        long tv_nsec
    int timespec_get(timespec* moment, int base)

from array import array

cdef enum:
    _RELEASED_FROM_BYTES = 256 * 1024
    _KEYS = 1
    _VALUES = 2
    _HEADERS = 4
    _BATCH_HEADER_BYTES = 61
    _FIRST_BYTES = 16 * 1024
    _FIRST_TIMES = 64
    _VARINT_BYTES = 10
    _LEAST_RECORD_BYTES = 7
    _PLACES = 9
    _CODEC = 0x07
    _APPEND_TIME = 0x08
    _TRANSACTIONAL = 0x10
    _CONTROL = 0x20
    _CHECKED_FROM = 21

cdef tuple _NO_HEADERS = ()
cdef bytes _COUNT_OF_NO_HEADERS = b"\x00"
cdef bytes _NULL = b"\x01"
cdef object _ZERO = array("q", [0])


# Reading. A function returns the position behind what it read, -1 for what is malformed.

cdef struct Place:
    # As `record_walk.Places`; a key or value that begins at -1 is null.
    int64_t timestamp_delta
    bint is_beyond_64_bits
    int64_t offset_delta
    Py_ssize_t key
    Py_ssize_t key_end
    Py_ssize_t value
    Py_ssize_t value_end
    Py_ssize_t headers_count
    Py_ssize_t headers


cdef inline Py_ssize_t _read_varint32(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end, int64_t* number
) noexcept nogil:
    # Lengths have one byte or two, so only longer numbers are read by a loop.
    cdef uint64_t raw, byte
    cdef int shift = 14
    if position >= end:
        return -1
    raw = data[position]
    position += 1
    if raw < 0x80:
        number[0] = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
        return position
    if position >= end:
        return -1
    byte = data[position]
    position += 1
    raw = (raw & 0x7F) | (byte & 0x7F) << 7
    if byte >= 0x80:
        while True:
            if position >= end or shift > 28:
                return -1
            byte = data[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
    number[0] = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
    return position


cdef inline Py_ssize_t _read_varint64(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end, int64_t* number, bint* is_beyond
) noexcept nogil:
    # `number` has the lowest 64 bits of what ten bytes may hold more of.
    cdef uint64_t raw = 0, byte, half
    cdef int shift = 0
    is_beyond[0] = False
    while True:
        if position >= end or shift > 63:
            return -1
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    half = raw >> 1
    if shift == 63 and byte > 1:
        is_beyond[0] = True
        half |= (byte >> 1) << 63
    number[0] = <int64_t>(half ^ (0 - (raw & 1)))
    return position


cdef inline Py_ssize_t _skip_bytes(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end, Py_ssize_t* start
) noexcept nogil:
    # Pass over a length and so many bytes; `start` is -1 where the length is negative, which is null.
    cdef int64_t length
    position = _read_varint32(data, position, end, &length)
    if position < 0 or length > end - position:
        return -1
    if length < 0:
        start[0] = -1
        return position
    start[0] = position
    return position + length


cdef Py_ssize_t _skip_headers(const unsigned char* data, Py_ssize_t position, Py_ssize_t end, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t start
    while count > 0:
        position = _skip_bytes(data, position, end, &start)
        if position < 0 or start < 0:
            return -1
        position = _skip_bytes(data, position, end, &start)
        if position < 0:
            return -1
        count -= 1
    return position


cdef Py_ssize_t _find_parts(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end, Place* place, Py_ssize_t headers_max
) noexcept nogil:
    # Return where the record at `position` ends, all parts of which are within it and add up to it.
    cdef int64_t number
    position = _read_varint32(data, position, end, &number)
    if position < 0 or number < 1 or number > end - position:
        return -1
    end = position + number
    position = _read_varint64(data, position + 1, end, &place.timestamp_delta, &place.is_beyond_64_bits)  # behind the attributes
    if position < 0:
        return -1
    position = _read_varint32(data, position, end, &place.offset_delta)
    if position < 0:
        return -1
    position = _skip_bytes(data, position, end, &place.key)
    if position < 0:
        return -1
    place.key_end = position
    position = _skip_bytes(data, position, end, &place.value)
    if position < 0:
        return -1
    place.value_end = position
    position = _read_varint32(data, position, end, &number)
    if position < 0 or number < 0 or number > end - position or number > headers_max:
        return -1
    place.headers_count, place.headers = number, position
    if _skip_headers(data, position, end, number) != end:
        return -1
    return end


cdef inline int64_t _add(int64_t one, int64_t other) noexcept nogil:
    # As Java adds longs: behind the largest comes the smallest.
    return <int64_t>(<uint64_t>one + <uint64_t>other)


cdef object _offset_of(int64_t base, int64_t delta):
    if (delta > 0 and base > INT64_MAX - delta) or (delta < 0 and base < INT64_MIN - delta):
        return <object>base + <object>delta
    return base + delta


cdef list _headers_at(const unsigned char* data, Py_ssize_t position, Py_ssize_t end, Py_ssize_t count):
    cdef Py_ssize_t start, behind
    cdef list headers = []
    while count > 0:
        behind = _skip_bytes(data, position, end, &start)
        if behind < 0 or start < 0:  # changed under way
            raise ValueError("a header without a key, or longer than its record")
        name = PyUnicode_DecodeUTF8(<const char*>data + start, behind - start, "replace")
        position = _skip_bytes(data, behind, end, &start)
        if position < 0:
            raise ValueError("a header longer than its record")
        headers.append((name, None if start < 0 else PyBytes_FromStringAndSize(<const char*>data + start, position - start)))
        count -= 1
    return headers


cdef int _hold(object data, Py_buffer* view, Py_ssize_t position, Py_ssize_t end) except -1:
    PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
    if position < 0 or end < position or end > view.len:
        PyBuffer_Release(view)
        raise ValueError(f"no bytes {position} to {end} in a buffer of {len(data)}")
    return 0


def read_columns(
    data,
    Py_ssize_t position,
    Py_ssize_t end,
    Py_ssize_t limit,
    int64_t base_offset,
    int64_t base_timestamp,
    append_time,
    int wanted,
):
    cdef Py_buffer view
    cdef const unsigned char* octets
    cdef Place place
    cdef Py_ssize_t following
    cdef int64_t timestamp, last_timestamp = 0
    cdef list offsets = [], timestamps = [], keys = [], values = [], headers = []
    cdef object last = None if append_time is None else int(append_time)
    cdef bint is_by_producer = append_time is None
    _hold(data, &view, position, end)
    try:
        octets = <const unsigned char*>view.buf
        while limit > 0:
            following = _find_parts(octets, position, end, &place, PY_SSIZE_T_MAX)
            if following < 0:
                if not offsets:
                    raise ValueError(f"no well-formed record at position {position}")
                break
            offsets.append(_offset_of(base_offset, place.offset_delta))
            if is_by_producer:
                timestamp = _add(base_timestamp, place.timestamp_delta)
                if last is None or timestamp != last_timestamp:
                    last, last_timestamp = timestamp, timestamp
            timestamps.append(last)
            if wanted & _KEYS:
                if place.key < 0:
                    keys.append(None)
                else:
                    keys.append(PyBytes_FromStringAndSize(<const char*>octets + place.key, place.key_end - place.key))
            if wanted & _VALUES:
                if place.value < 0:
                    values.append(None)
                else:
                    values.append(PyBytes_FromStringAndSize(<const char*>octets + place.value, place.value_end - place.value))
            if wanted & _HEADERS:
                if place.headers_count:
                    headers.append(_headers_at(octets, place.headers, following, place.headers_count))
                else:
                    headers.append(_NO_HEADERS)
            position = following
            limit -= 1
    finally:
        PyBuffer_Release(&view)
    return position, (offsets, timestamps, keys, values, headers)


cdef Py_ssize_t _find_places(
    const unsigned char* data,
    Py_ssize_t* position,
    Py_ssize_t end,
    Py_ssize_t limit,
    int64_t base_offset,
    int64_t base_timestamp,
    int64_t** columns,
) noexcept nogil:
    cdef Py_ssize_t number = 0, following
    cdef Place place
    while number < limit:
        following = _find_parts(data, position[0], end, &place, PY_SSIZE_T_MAX)
        if following < 0:
            break
        columns[0][number] = _add(base_offset, place.offset_delta)
        columns[1][number] = _add(base_timestamp, place.timestamp_delta)
        columns[2][number] = place.key
        columns[3][number] = place.key_end
        columns[4][number] = place.value
        columns[5][number] = place.value_end
        columns[6][number] = place.headers_count
        columns[7][number] = place.headers
        columns[8][number] = following
        position[0] = following
        number += 1
    return number


def find_places(
    data,
    Py_ssize_t position,
    Py_ssize_t end,
    Py_ssize_t limit,
    int64_t base_offset,
    int64_t base_timestamp,
):
    cdef Py_buffer view
    cdef Py_buffer views[_PLACES]
    cdef int64_t* columns[_PLACES]
    cdef const unsigned char* octets
    cdef Py_ssize_t found, held = 0, begin = position
    cdef list arrays = []
    _hold(data, &view, position, end)
    try:
        limit = max(0, min(limit, (end - position) // _LEAST_RECORD_BYTES))
        for _ in range(_PLACES):
            arrays.append(_ZERO * limit)
        while held < _PLACES:
            PyObject_GetBuffer(arrays[held], &views[held], PyBUF_SIMPLE)
            columns[held] = <int64_t*>views[held].buf
            held += 1
        octets = <const unsigned char*>view.buf
        if end - position < _RELEASED_FROM_BYTES:
            found = _find_places(octets, &position, end, limit, base_offset, base_timestamp, columns)
        else:
            with nogil:
                found = _find_places(octets, &position, end, limit, base_offset, base_timestamp, columns)
    finally:
        while held > 0:
            held -= 1
            PyBuffer_Release(&views[held])
        PyBuffer_Release(&view)
    if not found:
        raise ValueError(f"no well-formed record at position {begin}")
    for column in arrays:
        del column[found:]
    return position, tuple(arrays)


cdef Py_ssize_t _skip_records(
    const unsigned char* data,
    Py_ssize_t* position,
    Py_ssize_t end,
    Py_ssize_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    int64_t from_offset,
    int64_t from_timestamp,
) noexcept nogil:
    cdef Py_ssize_t skipped = 0, following
    cdef Place place
    cdef bint is_before
    while skipped < count:
        following = _find_parts(data, position[0], end, &place, PY_SSIZE_T_MAX)
        if following < 0:
            break
        if place.offset_delta > 0 and base_offset > INT64_MAX - place.offset_delta:
            is_before = False
        elif place.offset_delta < 0 and base_offset < INT64_MIN - place.offset_delta:
            is_before = True
        else:
            is_before = base_offset + place.offset_delta < from_offset
        if not is_before and _add(base_timestamp, place.timestamp_delta) >= from_timestamp:
            break
        position[0] = following
        skipped += 1
    return skipped


def skip_records(
    data,
    Py_ssize_t position,
    Py_ssize_t end,
    Py_ssize_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    int64_t from_offset,
    int64_t from_timestamp,
):
    cdef Py_buffer view
    cdef const unsigned char* octets
    cdef Py_ssize_t skipped
    _hold(data, &view, position, end)
    octets = <const unsigned char*>view.buf
    if end - position < _RELEASED_FROM_BYTES:
        skipped = _skip_records(octets, &position, end, count, base_offset, base_timestamp, from_offset, from_timestamp)
    else:
        with nogil:
            skipped = _skip_records(octets, &position, end, count, base_offset, base_timestamp, from_offset, from_timestamp)
    PyBuffer_Release(&view)
    return position, skipped


cdef struct Facts:
    int64_t smallest
    int64_t largest
    bint all_have_keys


cdef bint _is_in_order(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end, Py_ssize_t count, Py_ssize_t headers_at_once, Facts* facts
) noexcept nogil:
    cdef Place place
    cdef Py_ssize_t number = 0
    facts.smallest, facts.largest, facts.all_have_keys = INT64_MAX, INT64_MIN, True
    while number < count:
        position = _find_parts(data, position, end, &place, headers_at_once)
        if position < 0 or place.offset_delta != number or place.is_beyond_64_bits:
            return False
        if place.timestamp_delta < facts.smallest:
            facts.smallest = place.timestamp_delta
        if place.timestamp_delta > facts.largest:
            facts.largest = place.timestamp_delta
        if place.key < 0:
            facts.all_have_keys = False
        number += 1
    return position == end and count > 0


def check_in_order(data, Py_ssize_t position, Py_ssize_t end, Py_ssize_t count, Py_ssize_t headers_at_once):
    cdef Py_buffer view
    cdef const unsigned char* octets
    cdef Facts facts
    cdef bint is_in_order
    _hold(data, &view, position, end)
    octets = <const unsigned char*>view.buf
    if end - position < _RELEASED_FROM_BYTES:
        is_in_order = _is_in_order(octets, position, end, count, headers_at_once, &facts)
    else:
        with nogil:
            is_in_order = _is_in_order(octets, position, end, count, headers_at_once, &facts)
    PyBuffer_Release(&view)
    return (facts.smallest, facts.largest, bool(facts.all_have_keys)) if is_in_order else None


cdef bint _find_starts(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end, Py_ssize_t count, int64_t* starts
) noexcept nogil:
    cdef int64_t length
    cdef Py_ssize_t number = 0
    while number < count:
        starts[number] = position
        position = _read_varint32(data, position, end, &length)
        if position < 0 or length < 0 or length > end - position:
            return False
        position += length
        number += 1
    return position == end


def find_starts(data, Py_ssize_t position, Py_ssize_t end, Py_ssize_t count):
    cdef Py_buffer view, starts_view
    cdef const unsigned char* octets
    cdef bint is_well_formed = False
    starts = array("q")
    _hold(data, &view, position, end)
    try:
        if 0 <= count <= end - position:
            starts.frombytes(bytes(8 * count))
            PyObject_GetBuffer(starts, &starts_view, PyBUF_SIMPLE)
            octets = <const unsigned char*>view.buf
            if end - position < _RELEASED_FROM_BYTES:
                is_well_formed = _find_starts(octets, position, end, count, <int64_t*>starts_view.buf)
            else:
                with nogil:
                    is_well_formed = _find_starts(octets, position, end, count, <int64_t*>starts_view.buf)
            PyBuffer_Release(&starts_view)
    finally:
        PyBuffer_Release(&view)
    if not is_well_formed:
        raise ValueError(f"no {count} records between positions {position} and {end}, or not as long as they say")
    return starts


# Digests.

cdef struct Murmur:
    # murmur3 (x64, 128 bits, seed 0) of bytes that come in parts. Those that fill no block of 16 yet are held, in order, as two numbers that
    # are little endian; what lies behind them is 0.
    uint64_t low
    uint64_t high
    uint64_t size
    Py_ssize_t held
    uint64_t first
    uint64_t second


cdef inline uint64_t _first_factor() noexcept nogil:
    return 0x87C37B91114253D5ULL


cdef inline uint64_t _second_factor() noexcept nogil:
    return 0x4CF5AD432745937FULL


cdef inline uint64_t _rotate(uint64_t number, int bits) noexcept nogil:
    return (number << bits) | (number >> (64 - bits))


cdef inline uint64_t _little_endian(const unsigned char* data) noexcept nogil:
    return (
        <uint64_t>data[0]
        | <uint64_t>data[1] << 8
        | <uint64_t>data[2] << 16
        | <uint64_t>data[3] << 24
        | <uint64_t>data[4] << 32
        | <uint64_t>data[5] << 40
        | <uint64_t>data[6] << 48
        | <uint64_t>data[7] << 56
    )


cdef inline uint64_t _few_little_endian(const unsigned char* data, Py_ssize_t size) noexcept nogil:
    # Of up to 8 bytes. They are not copied, because a processor waits where what it reads was just written in other parts.
    cdef uint64_t number = 0
    cdef int shift = 0
    if size & 8:
        return _little_endian(data)
    if size & 4:
        number = <uint64_t>data[0] | <uint64_t>data[1] << 8 | <uint64_t>data[2] << 16 | <uint64_t>data[3] << 24
        data += 4
        shift = 32
    if size & 2:
        number |= (<uint64_t>data[0] | <uint64_t>data[1] << 8) << shift
        data += 2
        shift += 16
    if size & 1:
        number |= <uint64_t>data[0] << shift
    return number


cdef inline uint64_t _swap_bytes(uint64_t number) noexcept nogil:
    # The number whose bytes are the same, in the other order.
    number = (number & 0x00FF00FF00FF00FFULL) << 8 | ((number >> 8) & 0x00FF00FF00FF00FFULL)
    number = (number & 0x0000FFFF0000FFFFULL) << 16 | ((number >> 16) & 0x0000FFFF0000FFFFULL)
    return number << 32 | number >> 32


cdef inline int64_t _number_at(const unsigned char* data, Py_ssize_t size) noexcept nogil:
    # Big endian, with a sign, of 4 or 8 bytes.
    cdef uint64_t number = _swap_bytes(_few_little_endian(data, size))
    return <int64_t>number if size == 8 else <int32_t>(number >> 32)


cdef inline void _mix_in(Murmur* state, uint64_t first, uint64_t second) noexcept nogil:
    state.low ^= _rotate(first * _first_factor(), 31) * _second_factor()
    state.high ^= _rotate(second * _second_factor(), 33) * _first_factor()


cdef inline void _mix_block(Murmur* state, uint64_t first, uint64_t second) noexcept nogil:
    state.low ^= _rotate(first * _first_factor(), 31) * _second_factor()
    state.low = (_rotate(state.low, 27) + state.high) * 5 + 0x52DCE729
    state.high ^= _rotate(second * _second_factor(), 33) * _first_factor()
    state.high = (_rotate(state.high, 31) + state.low) * 5 + 0x38495AB5


cdef inline void _hash_number(Murmur* state, uint64_t number, Py_ssize_t size) noexcept nogil:
    # Little endian, in 1 to 8 bytes; it has no others.
    cdef int bits = 8 * (state.held & 7)
    cdef uint64_t rest = number >> 1 >> (63 - bits)
    state.size += size
    state.held += size
    if state.held - size < 8:
        state.first |= number << bits
        state.second = rest
        return
    state.second |= number << bits
    if state.held >= 16:
        _mix_block(state, state.first, state.second)
        state.held -= 16
        state.first = rest
        state.second = 0


cdef struct Window:
    # The bytes that may be read around those that are hashed.
    const unsigned char* begin
    const unsigned char* behind


cdef inline uint64_t _part_little_endian(const unsigned char* data, Py_ssize_t size, const Window* window) noexcept nogil:
    # Of the first 8 bytes, or of all, by one read of eight where there are as many.
    if size >= 8:
        return _little_endian(data)
    if size <= 0:
        return 0
    if window.behind - data >= 8:
        return _little_endian(data) & UINT64_MAX >> (64 - 8 * size)
    if data + size - window.begin >= 8:
        return _little_endian(data + size - 8) >> (64 - 8 * size)
    return _few_little_endian(data, size)


cdef inline void _hash_bytes(
    Murmur* state, const unsigned char* data, Py_ssize_t size, const Window* window
) noexcept nogil:
    cdef uint64_t first
    cdef Murmur here
    cdef int bits = 8 * (state.held & 7)
    state.size += size
    if state.held:
        first = _part_little_endian(data, size, window)
        if state.held < 8:
            state.first |= first << bits
            state.second = first >> 1 >> (63 - bits) | _part_little_endian(data + 8, size - 8, window) << bits
        else:
            state.second |= first << bits
        if state.held + size < 16:
            state.held += size
            return
        _mix_block(state, state.first, state.second)
        data += 16 - state.held
        size -= 16 - state.held
    here.low, here.high = state.low, state.high
    while size >= 16:
        _mix_block(&here, _little_endian(data), _little_endian(data + 8))
        data += 16
        size -= 16
    state.low, state.high = here.low, here.high
    state.held = size
    state.first = _part_little_endian(data, size, window)
    state.second = _part_little_endian(data + 8, size - 8, window)


cdef inline uint64_t _avalanche(uint64_t number) noexcept nogil:
    number = (number ^ (number >> 33)) * 0xFF51AFD7ED558CCDULL
    number = (number ^ (number >> 33)) * 0xC4CEB9FE1A85EC53ULL
    return number ^ (number >> 33)


cdef inline void _end_hash(Murmur* state) noexcept nogil:
    if state.held:
        _mix_in(state, state.first, state.second)
    state.low ^= state.size
    state.high ^= state.size
    state.low += state.high
    state.high += state.low
    state.low = _avalanche(state.low)
    state.high = _avalanche(state.high)
    state.low += state.high
    state.high += state.low


cdef inline uint64_t _length(Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    # As 32 bits; those of -1, which is null, where the start is that.
    return 0xFFFFFFFFULL if start < 0 else <uint32_t>(end - start)


cdef inline void _hash_length(Murmur* state, uint64_t length) noexcept nogil:
    _hash_number(state, _swap_bytes(length) >> 32, 4)


cdef struct Digest:
    int64_t records
    int64_t first_offset
    int64_t last_offset
    int64_t least_timestamp
    int64_t largest_timestamp
    int64_t content_bytes
    uint64_t low
    uint64_t high


cdef void _empty(Digest* digest) noexcept:
    memset(digest, 0, sizeof(Digest))
    digest.first_offset = digest.last_offset = -1
    digest.least_timestamp, digest.largest_timestamp = INT64_MAX, INT64_MIN


cdef tuple _fields_of(const Digest* digest):
    return (
        digest.records,
        digest.first_offset,
        digest.last_offset,
        digest.least_timestamp,
        digest.largest_timestamp,
        digest.content_bytes,
        (<object>digest.high << 64) | digest.low,
    )


cdef Py_ssize_t _hash_headers(
    Murmur* state, const unsigned char* data, Py_ssize_t position, Py_ssize_t end, Py_ssize_t count, const Window* window
) noexcept nogil:
    # Return how many bytes the names and values of the headers have, -1 where a name is not ASCII, or the bytes changed under way.
    cdef Py_ssize_t start, place, content_bytes = 0
    while count > 0:
        position = _skip_bytes(data, position, end, &start)
        if position < 0 or start < 0:
            return -1
        for place in range(start, position):
            if data[place] >= 0x80:
                return -1
        _hash_length(state, position - start)
        _hash_bytes(state, data + start, position - start, window)
        content_bytes += position - start
        position = _skip_bytes(data, position, end, &start)
        if position < 0:
            return -1
        _hash_length(state, _length(start, position))
        if start >= 0:
            _hash_bytes(state, data + start, position - start, window)
            content_bytes += position - start
        count -= 1
    return content_bytes


cdef Py_ssize_t _digest_records(
    const unsigned char* data,
    Py_ssize_t position,
    Py_ssize_t end,
    Py_ssize_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    const int64_t* append_time,
    int64_t from_offset,
    int64_t to_offset,
    int64_t since,
    int64_t latest,
    Digest* digest,
) noexcept nogil:
    # Return the position behind the records, -1 for one that is left to `record_digest`.
    cdef Place place
    cdef Murmur state
    cdef int64_t offset, timestamp
    cdef uint64_t lengths
    cdef Py_ssize_t following, content_bytes, start, behind
    cdef int part
    cdef Window window
    window.begin, window.behind = data + position, data + end
    while count > 0:
        following = _find_parts(data, position, end, &place, PY_SSIZE_T_MAX)
        if following < 0 or (place.offset_delta > 0 and base_offset > INT64_MAX - place.offset_delta):
            return -1
        if place.offset_delta < 0 and base_offset < INT64_MIN - place.offset_delta:
            return -1
        offset = base_offset + place.offset_delta
        timestamp = _add(base_timestamp, place.timestamp_delta) if append_time == NULL else append_time[0]
        position = following
        count -= 1
        if offset < from_offset or offset >= to_offset or timestamp < since or timestamp > latest:
            continue
        memset(&state, 0, sizeof(Murmur))
        _mix_block(&state, _swap_bytes(offset), _swap_bytes(timestamp))
        lengths = _length(place.key, place.key_end) << 32 | _length(place.value, place.value_end)
        state.size, state.held, state.first = 24, 8, _swap_bytes(lengths)
        content_bytes = 0
        start, behind = place.key, place.key_end
        for part in range(2):  # so that the compiler makes the code of it once, here
            if start >= 0:
                _hash_bytes(&state, data + start, behind - start, &window)
                content_bytes += behind - start
            start, behind = place.value, place.value_end
        if place.headers_count:
            following = _hash_headers(&state, data, place.headers, following, place.headers_count, &window)
            if following < 0:
                return -1
            content_bytes += following
        _end_hash(&state)
        digest.low += state.low
        digest.high += state.high + (digest.low < state.low)
        digest.content_bytes += content_bytes
        if not digest.records or offset < digest.first_offset:
            digest.first_offset = offset
        if not digest.records or offset > digest.last_offset:
            digest.last_offset = offset
        if timestamp < digest.least_timestamp:
            digest.least_timestamp = timestamp
        if timestamp > digest.largest_timestamp:
            digest.largest_timestamp = timestamp
        digest.records += 1
    return position


def digest_records(
    data,
    Py_ssize_t position,
    Py_ssize_t end,
    Py_ssize_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    append_time,
    int64_t from_offset,
    int64_t to_offset,
    int64_t since,
    int64_t latest,
):
    cdef Py_buffer view
    cdef const unsigned char* octets
    cdef int64_t appended = 0 if append_time is None else append_time
    cdef const int64_t* appended_at = NULL if append_time is None else &appended
    cdef Digest digest
    _empty(&digest)
    _hold(data, &view, position, end)
    octets = <const unsigned char*>view.buf
    if end - position < _RELEASED_FROM_BYTES:
        position = _digest_records(
            octets, position, end, count, base_offset, base_timestamp, appended_at, from_offset, to_offset, since, latest, &digest
        )
    else:
        with nogil:
            position = _digest_records(
                octets, position, end, count, base_offset, base_timestamp, appended_at, from_offset, to_offset, since, latest, &digest
            )
    PyBuffer_Release(&view)
    return None if position < 0 else (position, _fields_of(&digest))


cdef Py_ssize_t _digest_batches(
    const unsigned char* data,
    Py_ssize_t position,
    Py_ssize_t end,
    int64_t from_offset,
    int64_t to_offset,
    int64_t since,
    int64_t latest,
    Digest* digest,
) noexcept nogil:
    # Return the position behind the batches, or that of the first one that is left to `record_digest`.
    cdef const unsigned char* header
    cdef Digest before
    cdef int64_t length, max_timestamp
    cdef Py_ssize_t following
    while position < end:
        if end - position < _BATCH_HEADER_BYTES:
            break
        header = data + position
        length = 12 + _number_at(header + 8, 4)
        if header[16] != 2 or header[22] & _CODEC or length < _BATCH_HEADER_BYTES or length > end - position:
            break
        before = digest[0]
        max_timestamp = _number_at(header + 35, 8)
        following = _digest_records(
            data,
            position + _BATCH_HEADER_BYTES,
            position + length,
            _number_at(header + 57, 4),
            _number_at(header, 8),
            _number_at(header + 27, 8),
            &max_timestamp if header[22] & _APPEND_TIME else NULL,
            from_offset,
            to_offset,
            since,
            latest,
            digest,
        )
        if following < 0:
            digest[0] = before
            break
        position += length
    return position


def digest_batches(
    data, Py_ssize_t position, Py_ssize_t end, int64_t from_offset, int64_t to_offset, int64_t since, int64_t latest
):
    cdef Py_buffer view
    cdef const unsigned char* octets
    cdef Digest digest
    _empty(&digest)
    _hold(data, &view, position, end)
    octets = <const unsigned char*>view.buf
    if end - position < _RELEASED_FROM_BYTES:
        position = _digest_batches(octets, position, end, from_offset, to_offset, since, latest, &digest)
    else:
        with nogil:
            position = _digest_batches(octets, position, end, from_offset, to_offset, since, latest, &digest)
    PyBuffer_Release(&view)
    return position, _fields_of(&digest)


def find_runs(
    data,
    Py_ssize_t position,
    Py_ssize_t end,
    Py_ssize_t within,
    int64_t behind_offset,
    int64_t records_max,
    int64_t bytes_max,
    Py_ssize_t batches_max,
):
    cdef Py_buffer view
    cdef const unsigned char* header
    cdef int64_t length, count, records = 0
    cdef Py_ssize_t begin = position, batches = 0
    cdef list runs = [], checks = []
    _hold(data, &view, position, end)
    try:
        while position < within and end - position >= _BATCH_HEADER_BYTES:
            header = <const unsigned char*>view.buf + position
            length = 12 + _number_at(header + 8, 4)
            count = _number_at(header + 57, 4)
            if header[16] != 2 or header[22] & (_CODEC | _TRANSACTIONAL | _CONTROL):
                return None
            if length < _BATCH_HEADER_BYTES or length > bytes_max or count < 1 or count > records_max:
                return None
            if length > end - position or _number_at(header, 8) >= behind_offset:
                break
            if records + count > records_max or batches == batches_max:
                runs.append((begin, position, records, checks))
                begin, records, batches, checks = position, 0, 0, []
            checks.append((position + _CHECKED_FROM, position + length, <uint32_t>_number_at(header + 17, 4)))
            records += count
            batches += 1
            position += length
    finally:
        PyBuffer_Release(&view)
    if not batches:
        return None
    runs.append((begin, position, records, checks))
    return runs


cdef struct Strings:
    # A column of bytes as Arrow has it: row n is from bounds[n] to bounds[n + 1], and null where nulls[n] is not 0.
    const int32_t* bounds
    const unsigned char* data
    Py_ssize_t size
    const unsigned char* nulls


cdef inline bint _hash_string(Murmur* state, const Strings* column, Py_ssize_t row) noexcept nogil:
    cdef int64_t start = column.bounds[row], end = column.bounds[row + 1]
    cdef Window window
    if column.nulls != NULL and column.nulls[row]:
        _hash_number(state, 0xFFFFFFFFULL, 4)
        return True
    if start < 0 or end < start or end > column.size:
        return False
    _hash_number(state, <uint32_t>(end - start), 4)
    window.begin, window.behind = column.data, column.data + column.size
    _hash_bytes(state, column.data + start, end - start, &window)
    return True


cdef Py_ssize_t _hash_rows(
    Py_ssize_t count,
    const int32_t* partitions,
    const int64_t* offsets,
    const int64_t* timestamps,
    const Strings* keys,
    const Strings* values,
    uint64_t* hashes,
) noexcept nogil:
    # Return how many rows were hashed: fewer than count where the bounds of the next one are wrong.
    cdef Murmur state
    cdef Py_ssize_t row
    for row in range(count):
        memset(&state, 0, sizeof(Murmur))
        _hash_number(&state, <uint32_t>partitions[row], 4)
        _hash_number(&state, offsets[row], 8)
        _hash_number(&state, timestamps[row], 8)
        if not _hash_string(&state, keys, row) or not _hash_string(&state, values, row):
            return row
        _end_hash(&state)
        hashes[2 * row], hashes[2 * row + 1] = state.low, state.high
    return count


def hash_rows(
    Py_ssize_t count, partitions, offsets, timestamps, key_bounds, key_data, key_nulls, value_bounds, value_data, value_nulls
):
    cdef Py_buffer views[9]
    cdef Py_ssize_t sizes[9]
    cdef Strings keys, values
    cdef Py_ssize_t held = 0, hashed
    if count < 0 or count > PY_SSIZE_T_MAX // 16 - 1:
        raise ValueError(f"{count} rows")
    hashes = bytearray(16 * count)
    cdef uint64_t* target = <uint64_t*>PyByteArray_AsString(hashes)
    columns = (partitions, offsets, timestamps, key_bounds, value_bounds, key_nulls, value_nulls, key_data, value_data)
    sizes[0], sizes[1], sizes[2], sizes[3], sizes[4] = 4 * count, 8 * count, 8 * count, 4 * (count + 1), 4 * (count + 1)
    sizes[5], sizes[6] = 0 if key_nulls is None else count, 0 if value_nulls is None else count
    sizes[7] = sizes[8] = 0
    try:
        while held < 9:
            PyObject_GetBuffer(b"" if columns[held] is None else columns[held], &views[held], PyBUF_SIMPLE)
            held += 1
            if views[held - 1].len < sizes[held - 1]:
                raise ValueError(f"a column of {views[held - 1].len} bytes for {count} rows")
        keys.bounds, keys.data, keys.size = <const int32_t*>views[3].buf, <const unsigned char*>views[7].buf, views[7].len
        keys.nulls = values.nulls = NULL
        if key_nulls is not None:
            keys.nulls = <const unsigned char*>views[5].buf
        if value_nulls is not None:
            values.nulls = <const unsigned char*>views[6].buf
        values.bounds, values.data, values.size = <const int32_t*>views[4].buf, <const unsigned char*>views[8].buf, views[8].len
        with nogil:
            hashed = _hash_rows(
                count,
                <const int32_t*>views[0].buf,
                <const int64_t*>views[1].buf,
                <const int64_t*>views[2].buf,
                &keys,
                &values,
                target,
            )
    finally:
        while held > 0:
            held -= 1
            PyBuffer_Release(&views[held])
    if hashed < count:
        raise ValueError(f"row {hashed} has a key or value that lies outside of the data")
    return hashes


# Partitions.

cdef inline uint32_t _murmur2(const unsigned char* data, Py_ssize_t size) noexcept nogil:
    # As `kafkalite.protocol.murmur2` has it.
    cdef uint32_t hashed = <uint32_t>0x9747B28C ^ <uint32_t>size, word
    while size >= 4:
        word = <uint32_t>data[0] | <uint32_t>data[1] << 8 | <uint32_t>data[2] << 16 | <uint32_t>data[3] << 24
        word *= <uint32_t>0x5BD1E995
        word ^= word >> 24
        hashed = (hashed * <uint32_t>0x5BD1E995) ^ (word * <uint32_t>0x5BD1E995)
        data += 4
        size -= 4
    if size:
        if size == 3:
            hashed ^= <uint32_t>data[2] << 16
        if size >= 2:
            hashed ^= <uint32_t>data[1] << 8
        hashed ^= <uint32_t>data[0]
        hashed *= <uint32_t>0x5BD1E995
    hashed ^= hashed >> 13
    hashed *= <uint32_t>0x5BD1E995
    return hashed ^ (hashed >> 15)


cdef Py_ssize_t _choose_partition(key, Py_ssize_t count) except -1:
    cdef bytes encoded = _as_bytes(key)
    if count <= 0:
        raise ValueError(f"{count} partitions")
    return (_murmur2(<const unsigned char*>PyBytes_AsString(encoded), len(encoded)) & 0x7FFFFFFF) % count


def choose_partition(key, Py_ssize_t count):
    return _choose_partition(key, count)


def choose_partitions(keys, Py_ssize_t count):
    cdef list found = []
    if count <= 0:
        raise ValueError(f"{count} partitions")
    for key in keys:
        found.append(None if key is None else _choose_partition(key, count))
    return found


# Writing.

cdef inline Py_ssize_t _varint_bytes(int64_t number) noexcept nogil:
    cdef uint64_t raw = (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)
    cdef Py_ssize_t size = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


cdef inline unsigned char* _write_varint(unsigned char* target, int64_t number) noexcept nogil:
    cdef uint64_t raw = (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)
    while raw > 0x7F:
        target[0] = <unsigned char>(raw & 0x7F | 0x80)
        target += 1
        raw >>= 7
    target[0] = <unsigned char>raw
    return target + 1


cdef inline unsigned char* _write_bytes(unsigned char* target, const void* content, Py_ssize_t size) noexcept nogil:
    # A size of -1 is null.
    target = _write_varint(target, size)
    if size > 0:
        memcpy(target, content, size)
        target += size
    return target


cdef bytes _as_bytes(content):
    # Return the bytes of what has any; TypeError for the rest.
    return content if type(content) is bytes else bytes(memoryview(content))


cdef bytes _varint(int64_t number):
    cdef unsigned char head[_VARINT_BYTES]
    return PyBytes_FromStringAndSize(<const char*>head, _write_varint(head, number) - head)


cdef bytes _encode_headers(headers):
    # Return the count of headers, and the headers, as they lie in a record.
    cdef list parts = []
    cdef bytes name, content
    cdef Py_ssize_t count = 0
    for text, given in headers:
        if not isinstance(text, str):
            raise TypeError(f"the key of a header is {type(text).__name__} where str is expected")
        name = text.encode()
        parts.append(_varint(len(name)))
        parts.append(name)
        if given is None:
            parts.append(_NULL)
        else:
            content = _as_bytes(given)
            parts.append(_varint(len(content)))
            parts.append(content)
        count += 1
    parts.insert(0, _varint(count))
    return b"".join(parts)


cdef int64_t _system_ms() except -1:
    # Return the machine's time in milliseconds since 1970 UTC.
    cdef timespec moment
    if timespec_get(&moment, TIME_UTC) != TIME_UTC:
        raise OSError("the machine tells no time")
    return moment.tv_sec * 1000 + moment.tv_nsec // 1000000


cdef class RecordMemory:
    cdef public int64_t used_bytes
    cdef readonly int64_t limit_bytes
    cdef int64_t _content_limit_bytes
    cdef object _now_ms

    def __init__(self, int64_t limit_bytes, int64_t content_limit_bytes, now_ms=None):
        self.used_bytes = 0
        self.limit_bytes = limit_bytes
        self._content_limit_bytes = content_limit_bytes
        self._now_ms = now_ms


cdef class RecordsWriter:
    cdef bytearray _batch
    cdef unsigned char* _octets
    cdef Py_ssize_t _used, _room, _target_bytes
    cdef readonly Py_ssize_t count
    cdef readonly int64_t base_timestamp, max_timestamp
    cdef RecordMemory _memory
    cdef int64_t* _times
    cdef Py_ssize_t _times_room

    def __init__(self, Py_ssize_t target_bytes, RecordMemory memory=None):
        self._target_bytes = target_bytes
        self._used = _BATCH_HEADER_BYTES
        self._batch = bytearray()
        self._make_room(max(_BATCH_HEADER_BYTES, min(target_bytes, _FIRST_BYTES)))
        self.count = 0
        self.base_timestamp = self.max_timestamp = -1
        self._memory = memory

    def __dealloc__(self):
        PyMem_Free(self._times)

    cdef int _make_room(self, Py_ssize_t size) except -1:
        # Nobody else has the batch before it is finished, so its bytes stay where they are until the next call.
        PyByteArray_Resize(self._batch, size)
        self._octets = <unsigned char*>PyByteArray_AsString(self._batch)
        self._room = size
        return 0

    cdef Py_ssize_t _append(self, int64_t timestamp, key, value, headers) except -1:
        cdef bytes encoded_key = None if key is None else _as_bytes(key)
        cdef bytes encoded_value = None if value is None else _as_bytes(value)
        return self._append_bytes(timestamp, encoded_key, encoded_value, headers)

    cdef Py_ssize_t _append_bytes(self, int64_t timestamp, bytes key, bytes value, headers) except -1:
        cdef bytes encoded_headers = _encode_headers(headers) if headers else _COUNT_OF_NO_HEADERS
        # Nothing below calls back into Python, so another call cannot come in between.
        cdef Py_ssize_t key_bytes = -1 if key is None else len(key)
        cdef Py_ssize_t value_bytes = -1 if value is None else len(value)
        cdef Py_ssize_t headers_bytes = len(encoded_headers)
        cdef int64_t delta = <int64_t>(<uint64_t>timestamp - <uint64_t>self.base_timestamp) if self.count else 0
        cdef Py_ssize_t body, size
        cdef unsigned char* target
        if self._batch is None:
            raise ValueError("a record for a batch that is finished")
        body = 1 + _varint_bytes(delta) + _varint_bytes(self.count) + _varint_bytes(key_bytes) + _varint_bytes(value_bytes)
        body += max(key_bytes, 0) + max(value_bytes, 0) + headers_bytes
        if body > INT32_MAX:
            raise OverflowError(f"a record of {body} bytes, where 2147483647 are the most")
        size = _varint_bytes(body) + body
        if self.count and (self.count == INT32_MAX or size > self._target_bytes - self._used):
            return 0
        if self._memory is not None:
            self._keep(timestamp)
        if size > self._room - self._used:
            self._make_room(max(2 * self._room, self._used + size))
        target = _write_varint(self._octets + self._used, body)
        target[0] = 0
        target = _write_varint(target + 1, delta)
        target = _write_varint(target, self.count)
        target = _write_bytes(target, NULL if key is None else PyBytes_AsString(key), key_bytes)
        target = _write_bytes(target, NULL if value is None else PyBytes_AsString(value), value_bytes)
        memcpy(target, PyBytes_AsString(encoded_headers), headers_bytes)
        self._used += size
        if self._memory is not None:
            self._memory.used_bytes += size if self.count else size + _BATCH_HEADER_BYTES
        if not self.count:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count += 1
        return size

    cdef int _keep(self, int64_t timestamp) except -1:
        # Keep the timestamp of the record that comes next.
        cdef Py_ssize_t room
        cdef void* moved
        if self.count == self._times_room:
            room = max(2 * self._times_room, _FIRST_TIMES)
            moved = PyMem_Realloc(self._times, room * sizeof(int64_t))
            if moved == NULL:
                raise MemoryError
            self._times = <int64_t*>moved
            self._times_room = room
        self._times[self.count] = timestamp
        return 0

    @property
    def size(self):
        return self._used

    def append(self, int64_t timestamp, key, value, headers):
        return self._append(timestamp, key, value, headers)

    @property
    def add(self):
        return PyCFunction_New(&_ADD, self)

    cdef Py_ssize_t _add(self, object timestamp, object key, object value, object headers) except -2:
        cdef RecordMemory memory = self._memory
        cdef bytes encoded_key = None if key is None else _as_bytes(key)
        cdef bytes encoded_value = None if value is None else _as_bytes(value)
        cdef Py_ssize_t content_bytes = 0
        cdef int64_t moment
        if memory is None:
            raise ValueError("a writer without a memory of its producer")
        if key is not None:
            content_bytes = len(encoded_key)
        if value is not None:
            content_bytes += len(encoded_value)
        if content_bytes > memory._content_limit_bytes or memory.used_bytes >= memory.limit_bytes:
            return -1
        if timestamp is not None:
            moment = timestamp
        elif memory._now_ms is None:
            moment = _system_ms()
        else:
            moment = memory._now_ms()
        return self.count - 1 if self._append_bytes(moment, encoded_key, encoded_value, headers) else -1

    def add_queued(self, records, topic, partition, int64_t now_ms, owner, make_callback):
        cdef Py_ssize_t index, content_bytes = 0, added = 0
        cdef tuple record
        take = records.popleft
        while records:
            record = <tuple?>records[0]
            if record[4] != partition or record[1] != topic or record[6]:
                break
            try:
                index = self._add(now_ms if record[5] is None else record[5], record[3], record[2], None)
            except Exception:
                if added:
                    break
                raise
            if index < 0:
                break
            delivery = record[0]
            delivery.batch = owner
            delivery.index = index
            if record[7] is not None:
                owner.callbacks.append((index, make_callback(record[7])))
            take()
            added += 1
            content_bytes += (0 if record[3] is None else len(record[3])) + (0 if record[2] is None else len(record[2]))
        return added, content_bytes

    def timestamp_at(self, Py_ssize_t index):
        if self._memory is None or not 0 <= index < self.count:
            raise IndexError(f"no timestamp of a record {index} was kept")
        return self._times[index]

    def extend(self, records):
        cdef Py_ssize_t taken = 0
        for timestamp, key, value, headers in records:
            if not self._append(timestamp, key, value, headers):
                break
            taken += 1
        return taken

    def finish(self):
        batch = self._batch
        if batch is None:
            raise ValueError("the batch is finished")
        self._batch = None
        PyByteArray_Resize(batch, self._used)
        return batch


cdef object _add_record(object writer, PyObject** arguments, Py_ssize_t count):
    if count != 4:
        raise TypeError(f"{count} arguments where a timestamp, a key, a value and headers are expected")
    return (<RecordsWriter>writer)._add(
        <object>arguments[0], <object>arguments[1], <object>arguments[2], <object>arguments[3]
    )


# A method of Cython's gets its arguments in a tuple before Python 3.12, which costs a quarter of adding a record.
cdef PyMethodDef _ADD = PyMethodDef(b"add", <PyCFunction>_add_record, METH_FASTCALL, NULL)
