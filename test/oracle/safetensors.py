"""An independent reader and writer of the safetensors format.

The reader is strict: it accepts a file only if every rule of the format holds
(eight bytes of little-endian header length, a JSON object that starts with a
brace and may end in spaces, no name twice, offsets that match shape and type,
tensors that cover the data without a hole or an overlap). A file that some
lenient reader would still open is an error here, because this reader is what
the files of `sheaf-run --save` are checked with.

Format: https://github.com/huggingface/safetensors, section "Format".
"""

import json
import os
import struct

import numpy as np

# Types of the format that numpy has.
PLAIN = {
    "F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"), "I32": np.dtype("<i4"), "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"), "U64": np.dtype("<u8"), "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"), "U8": np.dtype("u1"), "BOOL": np.dtype("?"),
}
# Types that numpy lacks; they are widened to f32 when read.
WIDENED = {"BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1}

HEADER_LIMIT = 100_000_000


class FormatError(Exception):
    """The file breaks a rule of the format; the text says which one."""


def itemsize(dtype):
    """Bytes of one element of the format's type `dtype`."""
    return PLAIN[dtype].itemsize if dtype in PLAIN else WIDENED[dtype]


def bf16_to_f32(bits):
    """The f32 values of bf16 bit patterns (uint16)."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def f32_to_bf16(values):
    """Bit patterns (uint16) of f32 values rounded to the nearest, ties to even.
    Takes finite values only."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def f8_to_f32(bits, exponent_bits):
    """The f32 values of E4M3 (FN) or E5M2 bit patterns (uint8)."""
    mantissa_bits = 7 - exponent_bits
    bias = (1 << (exponent_bits - 1)) - 1
    table = np.zeros(256, np.float32)
    for code in range(256):
        sign = -1.0 if code & 0x80 else 1.0
        exponent = (code & 0x7F) >> mantissa_bits
        mantissa = code & ((1 << mantissa_bits) - 1)
        fraction = mantissa / (1 << mantissa_bits)
        if exponent == 0:
            value = fraction * 2.0 ** (1 - bias)
        else:
            value = (1 + fraction) * 2.0 ** (exponent - bias)
        if exponent_bits == 4 and (code & 0x7F) == 0x7F:
            value = np.nan
        if exponent_bits == 5 and exponent == 31:
            value = np.nan if mantissa else np.inf
        table[code] = sign * value
    return table[bits]


def e8m0_to_f32(codes):
    """The f32 values of E8M0 codes (uint8): powers of two."""
    return np.where(codes == 255, np.nan, np.ldexp(1.0, codes.astype(int) - 127)).astype(np.float32)


def _object_without_duplicates(pairs):
    result = {}
    for key, value in pairs:
        if key in result:
            raise FormatError(f"the key {key!r} occurs twice")
        result[key] = value
    return result


def _is_size(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def read_header(path):
    """(entries, metadata, offset of the data). `entries` maps a name to
    {"dtype", "shape", "data_offsets"}. Raises FormatError."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        prefix = file.read(8)
        if len(prefix) != 8:
            raise FormatError(f"{size} bytes, fewer than the 8 of the header length")
        (length,) = struct.unpack("<Q", prefix)
        if length > HEADER_LIMIT:
            raise FormatError(f"header of {length} bytes, more than {HEADER_LIMIT}")
        if 8 + length > size:
            raise FormatError(f"header of {length} bytes in a file of {size}")
        raw = file.read(length)
    if raw[:1] != b"{":
        raise FormatError("the header does not start with a brace")
    if raw.rstrip(b" ")[-1:] != b"}":
        raise FormatError("the header is followed by something other than spaces")
    try:
        header = json.loads(raw.decode("utf-8"),
                            object_pairs_hook=_object_without_duplicates)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FormatError(f"the header is not JSON in UTF-8: {error}") from error
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or \
            not all(isinstance(value, str) for value in metadata.values()):
        raise FormatError("__metadata__ is not a map of strings to strings")

    data = 8 + length
    spans = []
    for name, entry in header.items():
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise FormatError(f"{name}: expected dtype, shape, data_offsets, found {entry!r}")
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if dtype not in PLAIN and dtype not in WIDENED:
            raise FormatError(f"{name}: unknown type {dtype!r}")
        if not isinstance(shape, list) or not all(map(_is_size, shape)):
            raise FormatError(f"{name}: bad shape {shape!r}")
        if not isinstance(offsets, list) or len(offsets) != 2 or \
                not all(map(_is_size, offsets)):
            raise FormatError(f"{name}: bad data_offsets {offsets!r}")
        begin, end = offsets
        elements = 1
        for extent in shape:
            elements *= extent
        if end - begin != elements * itemsize(dtype):
            raise FormatError(f"{name}: {end - begin} bytes for shape {shape} of {dtype}, "
                              f"expected {elements * itemsize(dtype)}")
        spans.append((begin, end, name))
    position = 0
    for begin, end, name in sorted(spans):
        if begin != position:
            raise FormatError(f"{name} starts at byte {begin} of the data, expected {position}")
        position = end
    if position != size - data:
        raise FormatError(f"tensors cover {position} bytes of {size - data} bytes of data")
    return header, metadata, data


def dtypes(path):
    """The format's type of each tensor."""
    return {name: entry["dtype"] for name, entry in read_header(path)[0].items()}


def read(path):
    """All tensors of a file, as arrays; BF16 and the 8-bit floats become f32."""
    header, _, data = read_header(path)
    with open(path, "rb") as file:
        file.seek(data)
        blob = file.read()
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = blob[begin:end]
        dtype, shape = entry["dtype"], tuple(entry["shape"])
        if dtype in PLAIN:
            if dtype == "BOOL" and any(byte > 1 for byte in raw):
                raise FormatError(f"{name}: a BOOL is neither 0 nor 1")
            array = np.frombuffer(raw, PLAIN[dtype]).copy()
        elif dtype == "BF16":
            array = bf16_to_f32(np.frombuffer(raw, "<u2"))
        elif dtype == "F8_E8M0":
            array = e8m0_to_f32(np.frombuffer(raw, "u1"))
        else:
            array = f8_to_f32(np.frombuffer(raw, "u1"), 4 if dtype == "F8_E4M3" else 5)
        tensors[name] = array.reshape(shape)
    return tensors


def write(path, tensors, metadata=None, bf16=(), codes=None):
    """Writes a map of name to array. Names in `bf16` are rounded to that type; `codes`
    maps names of uint8 arrays, which are the codes of an 8-bit float, to its type.
    The data starts at a multiple of eight bytes, as the reference library's."""
    by_numpy = {dtype: name for name, dtype in PLAIN.items()}
    header, parts, position = {}, [], 0
    if metadata:
        header["__metadata__"] = dict(metadata)
    for name, array in tensors.items():
        array = np.asarray(array)
        shape = list(array.shape)  # ascontiguousarray turns a scalar into a vector
        if name in bf16:
            dtype, raw = "BF16", f32_to_bf16(array).astype("<u2").tobytes()
        elif codes and name in codes:
            dtype, raw = codes[name], np.ascontiguousarray(array, np.uint8).tobytes()
        else:
            dtype = by_numpy[array.dtype.newbyteorder("<") if array.itemsize > 1
                             else array.dtype]
            raw = np.ascontiguousarray(array).astype(PLAIN[dtype]).tobytes()
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [position, position + len(raw)]}
        parts.append(raw)
        position += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for raw in parts:
            file.write(raw)
