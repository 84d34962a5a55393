# SPDX-License-Identifier: Apache-2.0
"""What the four scripts have in common: steps with names, and the place that a script works in.

A step does something through its client and returns what a user would have noticed, as plain JSON
without anything that differs from run to run: no times, no request ids, no random names. What a
client raises is an observation too, so a step never hides a failure.
"""
import hashlib
import os
import random
from pathlib import Path

MIB = 1 << 20


class Script:
    """Steps in their order; the name of a step is its function's, in words."""

    def __init__(self, client):
        self.client, self.steps = client, {}

    def __call__(self, step):
        self.add(step.__name__.replace("_", " "), step)
        return step

    def add(self, name, step):
        assert name not in self.steps, f"two steps are called {name}"
        self.steps[name] = step

    def run(self, place, only=None):
        """The observation of each step by its name. `only`: words of the steps that are wanted."""
        seen = {}
        for name, step in self.steps.items():
            if only is None or only in name:
                seen[name] = observed(step, place)
        return seen


def observed(step, place):
    try:
        return place.shown(step(place))
    except place.refusals as error:
        return place.refusal(error)
    except Exception as error:  # any other end of a step is what it shows
        return f"raised {type(error).__name__}: {error}".replace(str(place.folder), "FOLDER")


class Place:
    """An endpoint, its keys, and a folder of this script alone."""
    refusals = ()

    def __init__(self, endpoint, folder):
        self.endpoint, self.folder = endpoint, Path(folder)
        self.key, self.secret = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]

    def refusal(self, error):
        return str(error)

    def shown(self, value):
        """What a step returned, as plain JSON."""
        return value

    def ask(self, call, *arguments, **members):
        """What one call shows, be it a refusal; for steps that show more than one call."""
        try:
            return self.shown(call(*arguments, **members))
        except self.refusals as error:
            return self.refusal(error)

    def close(self):
        """Ends what the script has started."""

    def file(self, name, body):
        """Makes a file of this content, with its folders, in the script's folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body if isinstance(body, bytes) else body.encode())
        os.utime(path, (1.5e9, 1.5e9))  # before anything that a store has: none of both is newer by chance
        return path


def noise(size, seed=1):
    """The same bytes in each run, which no compression makes smaller."""
    return random.Random(seed).randbytes(size)


def brief(body):
    """Contents as they are when short, else their size and a digest."""
    if len(body) <= 64:
        return body.decode(errors="backslashreplace")
    return f"{len(body)} bytes, md5 {hashlib.md5(body).hexdigest()}"


# Keys that S3 allows and that a store, a listing or a URL can get wrong: what is odd about each.
ODD_KEYS = {
    "a space": "odd/a b",
    "a plus": "odd/a+b",
    "a percent": "odd/100%25 %zz",
    "a question mark and a hash": "odd/a?b#c",
    "an ampersand and angles": "odd/<a>&amp;'\"",
    "a backslash": "odd/a\\b",
    "a colon and a pipe": "odd/a:b|c*",
    "a tab": "odd/a\tb",
    "a line feed": "odd/a\nb",
    "a carriage return": "odd/a\rb",
    "a control character": "odd/a\x01b",
    "a delete character": "odd/a\x7fb",
    "umlauts": "odd/äöü-ß",
    "composed and decomposed letters": "odd/\u00e9-e\u0301",
    "an ideographic space": "odd/a\u3000b",
    "four-byte characters": "odd/\U0001f682\U0001f683",
    "a noncharacter": "odd/a\ufffeb",
    "a double slash": "odd/a//b",
    "a leading slash": "/odd/a",
    "a trailing slash": "odd/a/",
    "a dot segment": "odd/./a",
    "two dots": "odd/../a",
    "only dots": "odd/...",
    "a trailing space": "odd/a ",
    "a trailing dot": "odd/a.",
    "a leading dash": "-odd/-a",
    "a segment of 300 bytes": "odd/" + "s" * 300,
    "1024 bytes": "odd/" + "k/" * 509 + "kk",
}
