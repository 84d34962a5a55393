# SPDX-License-Identifier: Apache-2.0
"""Texts that fit, or do not fit, the patterns of AWS's service models: made from the patterns alone.

A pattern is Java's and holds for the whole value: short classes are ASCII, and the dot of ".*" alone is any
text (docs of the services show values of several lines there). `\\p{...}` is judged for ASCII texts only, and
only such are made.
"""
import re
import re._constants as op
import re._parser as parser

ANYTHING = (".*", ".+", r"[\S\s]*")
# Tried in this order as the odd character of a text that must not fit.
ODD = "!\x01\n *ä:/-~"
PROPERTIES = {r"\p{L}": "a-zA-Z", r"\p{Z}": " ", r"\p{N}": "0-9", r"\p{Alnum}": "a-zA-Z0-9"}


def python_form(pattern):
    for name, characters in PROPERTIES.items():
        pattern = pattern.replace(name, characters)
    return pattern


def fits(pattern, text):
    flags = re.ASCII | (re.DOTALL if pattern in ANYTHING else 0)
    return re.fullmatch(python_form(pattern), text, flags) is not None


class Writer:
    """Writes a text for a pattern. Each repetition is as short as allowed, but `chosen` repeats `times`."""

    def __init__(self, chosen=-1, times=0):
        self.chosen, self.times, self.seen, self.limits = chosen, times, 0, []

    def write(self, items):
        return "".join(self.one(kind, value) for kind, value in items)

    def one(self, kind, value):
        if kind is op.LITERAL:
            return chr(value)
        if kind is op.IN:
            return self.member_of(value)
        if kind in (op.ANY, op.NOT_LITERAL):
            return "a" if kind is op.ANY or value != ord("a") else "b"
        if kind is op.SUBPATTERN:
            return self.write(value[3])
        if kind is op.BRANCH:
            return self.write(value[1][-1])  # of (https|s3): s3
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            return self.repeated(*value)
        assert kind in (op.AT, op.ASSERT_NOT), kind
        return ""

    def repeated(self, least, most, items):
        number, self.seen = self.seen, self.seen + 1
        self.limits.append((least, most))
        part = self.write(items)  # also counts the repetitions inside
        return part * (self.times if number == self.chosen else least)

    @staticmethod
    def member_of(value):
        negated = value[0][0] is op.NEGATE
        for candidate in "a0 -" + ("" if negated else "".join(chr(v) for k, v in value if k is op.LITERAL)):
            if Writer.is_member(candidate, value[negated:]) != negated:
                return candidate
        kind, first = value[0]
        assert kind is op.RANGE, value
        return chr(first[0])

    @staticmethod
    def is_member(character, items):
        code = ord(character)
        classes = {op.CATEGORY_DIGIT: character.isdigit(), op.CATEGORY_WORD: character.isalnum() or character == "_",
                   op.CATEGORY_SPACE: character.isspace(), op.CATEGORY_NOT_SPACE: not character.isspace()}
        return any((kind is op.LITERAL and code == value) or (kind is op.RANGE and value[0] <= code <= value[1]) or
                   (kind is op.CATEGORY and classes[value]) for kind, value in items)


def fitting(pattern, least=0, most=None):
    """A text of `least` to `most` characters that fits, or None."""
    tree = parser.parse(python_form(pattern), re.ASCII)
    shortest = Writer()
    text = shortest.write(tree)
    if len(text) >= least and (most is None or len(text) <= most) and fits(pattern, text):
        return text
    for chosen, (low, high) in enumerate(shortest.limits):
        unit = len(Writer(chosen, low + 1).write(tree)) - len(text)
        times = low + (-(-(least - len(text)) // unit) if unit > 0 else 1)
        for wanted in (times, times + 1, 1):
            longer = Writer(chosen, wanted).write(tree)
            if low <= wanted <= high and fits(pattern, longer) and least <= len(longer) <= (most or len(longer)):
                return longer
    return None


def unfitting(pattern, least=0, most=None):
    """A text of a legal length that does not fit, or None when all do."""
    base = fitting(pattern, max(least, 1), most) or "a" * max(least, 1)
    for odd in ODD:
        for text in (base[:-1] + odd, odd + base[1:], odd * max(least, 1)):
            if not fits(pattern, text) and least <= len(text) <= (most or len(text)):
                return text
    return None
