"""Flips one bit in the last quarter of a file."""

import sys

with open(sys.argv[1], "r+b") as file:
    content = bytearray(file.read())
    content[len(content) * 7 // 8] ^= 1
    file.seek(0)
    file.write(content)
