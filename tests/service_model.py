# SPDX-License-Identifier: Apache-2.0
"""AWS's service models as botocore ships them, read for tests: valid inputs, and inputs with one fault.

Nothing of Trainyard's own tables is used here. A fault knows the words in which the services report it:
"Value '...' at 'path' failed to satisfy constraint: ...".
"""
import copy
import dataclasses
import re

import botocore.loaders
from pattern_samples import fits, fitting, unfitting

INSTANCE_TYPE = re.compile(r"ml\.[a-z0-9-]+\.[a-z0-9]+")
INTEGERS = {"integer": 2**31, "long": 2**63}
# One value of each JSON type under the service's name for it, and which of them a shape can be read from.
JSON_VALUES = {"STRING_VALUE": "much", "NUMBER_VALUE": 5, "DECIMAL_VALUE": 1.5, "TRUE_VALUE": True,
               "START_ARRAY": [], "START_OBJECT": {}}
NUMBERS = ("NUMBER_VALUE", "DECIMAL_VALUE")
READABLE = {"string": ("STRING_VALUE",), "boolean": ("TRUE_VALUE",), "integer": NUMBERS[:1], "long": NUMBERS[:1],
            "float": NUMBERS, "double": NUMBERS, "timestamp": NUMBERS, "structure": ("START_OBJECT",),
            "list": ("START_ARRAY",), "map": ("START_OBJECT",)}
TYPE_NAME = {"double": "Float"}


@dataclasses.dataclass
class Fault:
    """An input with one thing wrong. `expected` is what the answer must say beyond what it says of `base`."""
    constraint: str
    path: str
    base: dict
    input: dict
    expected: frozenset
    is_type: bool = False


def violation(shape, path, value, constraint):
    shown = f"[{len(value)} entries]" if isinstance(value, (list, dict)) else str(value)
    shown = shown[:100] + "..." if len(shown) > 100 else shown
    return f"Value {'' if shape.get('sensitive') else repr_(shown) + ' '}at '{path}' failed to satisfy constraint: {constraint}"


def repr_(text):
    return f"'{text}'"


def missing(path):
    return f"Value null at '{path}' failed to satisfy constraint: Member must not be null"


def bounds(shape, size, what):
    if size > shape.get("max", size):
        yield f"Member must have {what} less than or equal to {shape['max']}"
    if size < shape.get("min", size):
        yield f"Member must have {what} greater than or equal to {shape['min']}"


def text_constraints(name, shape, text):
    """All that is wrong with a text, in the service's words."""
    broken = list(bounds(shape, len(text), "length"))
    if "enum" in shape and text not in shape["enum"]:
        if not (name.endswith("InstanceType") and INSTANCE_TYPE.fullmatch(text)):
            broken.append("Member must satisfy enum value set: " + "[" + ", ".join(shape["enum"]) + "]")
    if "pattern" in shape and not fits(shape["pattern"], text):
        broken.append("Member must satisfy regular expression pattern: " + shape["pattern"])
    return broken


class Model:
    def __init__(self, service):
        self.model = botocore.loaders.Loader().load_service_model(service, "service-2")
        self.shapes = self.model["shapes"]

    def input_of(self, operation):
        return self.model["operations"][operation]["input"]["shape"]

    # --- Valid values ---

    def text(self, shape):
        if "enum" in shape:
            return shape["enum"][0]
        least, most = shape.get("min", 0), shape.get("max")
        if "pattern" not in shape:
            return "a" * max(least, 1)
        made = fitting(shape["pattern"], max(least, 1), most) or fitting(shape["pattern"], least, most)
        assert made is not None, shape["pattern"]
        return made

    def value(self, name):
        """The smallest valid value of a shape."""
        shape = self.shapes[name]
        kind = shape["type"]
        if kind == "structure":
            members = shape["members"]
            wanted = list(members)[:1] if shape.get("union") else shape.get("required", [])
            return {member: self.value(members[member]["shape"]) for member in wanted}
        if kind == "list":
            return [self.value(shape["member"]["shape"]) for _ in range(shape.get("min", 0))]
        if kind == "map":
            return self.entries(shape, shape.get("min", 0))
        if kind == "string":
            return self.text(shape)
        return {"boolean": True, "timestamp": 1700000000}.get(kind, shape.get("min", 0))

    def entries(self, shape, count):
        """A map of `count` entries with valid keys; fewer when there are not as many keys."""
        key, made = self.shapes[shape["key"]["shape"]], {}
        names = key.get("enum") or [f"{self.text(key)}{number}" for number in range(count)]
        for name in names[:count]:
            made[name] = self.value(shape["value"]["shape"])
        return made

    # --- Places: how to get from the input to a value ---

    def places(self, name, steps=(), above=()):
        """(shape name, steps) of every value below an input; a shape that holds itself is entered once."""
        yield name, steps
        if name in above:
            return
        shape, above = self.shapes[name], above + (name,)
        if shape["type"] == "structure":
            for member, part in shape["members"].items():
                yield from self.places(part["shape"], steps + (member,), above)
        elif shape["type"] == "list":
            yield from self.places(shape["member"]["shape"], steps + (0,), above)
        elif shape["type"] == "map":
            key = next(iter(self.entries(shape, 1)))
            yield from self.places(shape["value"]["shape"], steps + (("key", key),), above)

    def put(self, root, base, steps, value):
        """A copy of `base` in which `value` stands at the end of the steps; what is between is made valid."""
        made = copy.deepcopy(base)
        here, name = made, root
        for number, step in enumerate(steps):
            shape = self.shapes[name]
            step, name = self.follow(shape, step)
            if number == len(steps) - 1:
                break
            if isinstance(here, list) and len(here) <= step:
                here.append(self.value(name))
            elif isinstance(here, dict) and step not in here:
                if shape.get("union"):
                    here.clear()
                here[step] = self.value(name)
            here = here[step]
        if isinstance(here, list):
            here[step:step + 1] = [value]
        else:
            if shape.get("union"):
                here.clear()
            here[step] = value
        return made

    @staticmethod
    def follow(shape, step):
        if isinstance(step, tuple):
            return step[1], shape["value"]["shape"]
        return step, shape["member"]["shape"] if isinstance(step, int) else shape["members"][step]["shape"]

    # --- Faults ---

    def faults(self, operation, base):
        root = self.input_of(operation)
        for name, steps in self.places(root):
            if steps:
                yield from self.faults_at(root, base, name, steps)
            yield from self.missing_at(root, base, name, steps)

    def faults_at(self, root, base, name, steps):
        """Each way in which the value at one place can be wrong."""
        shape, path = self.shapes[name], path_of(steps)
        good = self.put(root, base, steps, self.filled(name, steps, base))
        wanted = TYPE_NAME.get(shape["type"], shape["type"].capitalize())
        for kind, wrong in JSON_VALUES.items():
            if kind not in READABLE[shape["type"]]:
                yield Fault("type", path, good, self.put(root, good, steps, wrong),
                            frozenset([f"{kind} can not be converted to a {wanted} at '{path}'"]), True)
        if shape["type"] in INTEGERS:
            for number in (INTEGERS[shape["type"]], -INTEGERS[shape["type"]] - 1):
                shown = number if -2**63 <= number < 2**64 else float(number)  # as JSON readers keep it
                yield Fault("size", path, good, self.put(root, good, steps, number),
                            frozenset([f"Numeric value ({shown}) out of range of {wanted} at '{path}'"]), True)
        for constraint, value in self.bad_values(name, shape):
            said = frozenset(violation(shape, path, value, text) for text in self.constraints(name, shape, value))
            yield Fault(constraint, path, good, self.put(root, good, steps, value), said)
        if shape["type"] == "map":
            yield from self.bad_keys(root, good, shape, steps)

    def filled(self, name, steps, base):
        """What the base has there already, or the smallest value."""
        here = base
        for step in steps:
            step = step[1] if isinstance(step, tuple) else step
            try:
                here = here[step]
            except (KeyError, IndexError, TypeError):
                return self.value(name)
        return here

    def constraints(self, name, shape, value):
        if isinstance(value, str):
            return text_constraints(name, shape, value)
        return list(bounds(shape, len(value), "length") if isinstance(value, (list, dict)) else
                    bounds(shape, value, "value"))

    def bad_values(self, name, shape):
        kind, least, most = shape["type"], shape.get("min"), shape.get("max")
        if kind == "string":
            yield from self.bad_texts(shape)
        elif kind in INTEGERS:
            if most is not None and most + 1 < INTEGERS[kind]:
                yield "max", most + 1
            if least is not None:
                yield "min", least - 1
        elif kind == "list":
            item = self.value(shape["member"]["shape"])
            if most is not None:
                yield "max", [item] * (most + 1)
            if least:
                yield "min", [item] * (least - 1)
        elif kind == "map":
            if most is not None and len(too_many := self.entries(shape, most + 1)) > most:
                yield "max", too_many
            if least:
                yield "min", self.entries(shape, least - 1)

    @staticmethod
    def bad_texts(shape):
        least, most, pattern = shape.get("min", 0), shape.get("max"), shape.get("pattern")
        if most is not None:
            yield "max", (pattern and fitting(pattern, most + 1, most + 1)) or "a" * (most + 1)
            if not pattern or fits(pattern, "ä" * (most + 1)):
                yield "max in characters", "ä" * (most + 1)
        if least > 0:
            yield "min", "a" * (least - 1)
        if "enum" in shape:
            yield "enum", "no-such-word"
        if pattern and (text := unfitting(pattern, least, most)) is not None:
            yield "pattern", text

    def bad_keys(self, root, good, shape, steps):
        key = self.shapes[shape["key"]["shape"]]
        for constraint, text in self.bad_texts(key):
            entry = {text: self.value(shape["value"]["shape"])}
            broken = ", ".join(text_constraints(shape["key"]["shape"], key, text))
            said = violation(key, path_of(steps), text, f"Map keys must satisfy constraint: [{broken}]")
            yield Fault(f"key {constraint}", path_of(steps), good, self.put(root, good, steps, entry), frozenset([said]))

    def missing_at(self, root, base, name, steps):
        shape = self.shapes[name]
        if shape["type"] != "structure":
            return
        whole = self.filled(name, steps, base)
        good = self.put(root, base, steps, whole) if steps else base
        for member in [] if shape.get("union") else shape.get("required", []):
            for constraint, left in (("required", {k: v for k, v in whole.items() if k != member}),
                                     ("null", whole | {member: None})):
                yield Fault(constraint, path_of(steps + (member,)), good,
                            self.put(root, good, steps, left) if steps else left,
                            frozenset([missing(path_of(steps + (member,)))]))
        if shape.get("union"):
            both = {m: self.value(part["shape"]) for m, part in list(shape["members"].items())[:2]}
            for value in ({}, both):
                yield Fault("union", path_of(steps), good, self.put(root, good, steps, value), frozenset(
                    [violation(shape, path_of(steps), value, "Exactly one member of the union must be set")]))
        unknown = dict(whole, NoSuchMember={"a": [1]})
        yield Fault("unknown", path_of(steps), good, self.put(root, good, steps, unknown) if steps else unknown,
                    frozenset())


def path_of(steps):
    """(\"Tags\", 0, \"Key\") is 'tags.1.member.key'."""
    parts = [f"{s + 1}.member" if isinstance(s, int) else s[1] if isinstance(s, tuple) else s[:1].lower() + s[1:]
             for s in steps]
    return ".".join(parts)
