"""Writes a model with `pipe.stage` on the calls of its layers: a number for each, or nothing."""

import re
import sys


def main():
    stages = iter(sys.argv[2].split(","))
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    # @hidden calls the layers; what follows calls @hidden.
    begin = text.index("@hidden(")
    end = text.index("\n  }", begin)

    def mark(match):
        stage = next(stages)
        return f"{match[1]} {{pipe.stage = {stage} : i64}}{match[2]}" if stage else match[0]

    body = re.sub(r"(call @block\([^)]*\))( :)", mark, text[begin:end])
    sys.stdout.write(text[:begin] + body + text[end:])


if __name__ == "__main__":
    main()
