#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reduces AWS's service model, as published in botocore, to what Trainyard serves.

Takes the botocore wheel (downloaded when no path is given), keeps the shapes that the operations
below reach, drops all prose, and writes src/api/model/aws_model.json with the wheel's version and
digest inside. To serve one more operation, add its name to OPERATIONS and run this again.

    tools/gen_api.py [path/to/botocore-VERSION-py3-none-any.whl]
"""

import gzip
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

VERSION = "1.44.8"
OUTPUT = Path(__file__).resolve().parent.parent / "src/api/model/aws_model.json"

OPERATIONS = {
    "sagemaker": [
        "AddTags",
        "CreateTrainingJob",
        "DeleteTags",
        "DeleteTrainingJob",
        "DescribeTrainingJob",
        "ListTags",
        "ListTrainingJobs",
        "Search",
        "StopTrainingJob",
        "UpdateTrainingJob",
    ],
    "logs": [
        "DescribeLogGroups",
        "DescribeLogStreams",
        "FilterLogEvents",
        "GetLogEvents",
    ],
    "cloudwatch": [
        "GetMetricData",
        "GetMetricStatistics",
        "ListMetrics",
    ],
    "sts": [
        "GetCallerIdentity",
    ],
    "iam": [
        "GetRole",
        "SimulatePrincipalPolicy",
    ],
}

# Of these structures only some members can occur here; the others lead to half of the service.
KEPT_MEMBERS = {"SearchRecord": ["TrainingJob"]}

# The protocols that are spoken here, in order of preference.
PROTOCOLS = ["json", "query"]

# Patterns are Java's and apply to the whole value. These do not mean the same, or nothing, to
# PCRE2; the left side is still what a client is shown.
REWRITES = {
    # "Any text". Java's dot stops at line ends, but multi-line hyperparameters, arguments and
    # metric expressions are legal and must arrive intact.
    r".*": r"[\s\S]*",
    r".+": r"[\s\S]+",
    # Java's POSIX class is ASCII only; PCRE2 has no property of that name.
    r"arn:[\p{Alnum}\-]+:lambda:[\p{Alnum}\-]+:[0-9]{12}:function:.*":
        r"arn:[A-Za-z0-9\-]+:lambda:[A-Za-z0-9\-]+:[0-9]{12}:function:.*",
    # PCRE2 has no \u; and Java reads \u10000 as U+1000 and a zero. Meant is what XML 1.0 can hold.
    r"[\u0009\u000A\u000D\u0020-\u007E\u0085\u00A0-\uD7FF\uE000-\uFFFD\u10000-\u10FFFF]+":
        r"[\x{9}\x{A}\x{D}\x{20}-\x{7E}\x{85}\x{A0}-\x{D7FF}\x{E000}-\x{FFFD}\x{10000}-\x{10FFFF}]+",
}

JAVA_CHARACTER = re.compile(r"\\u([0-9A-Fa-f]{4})")  # PCRE2 writes it \x{...}

SHAPE_KEYS = ("type", "required", "min", "max", "pattern", "enum", "sensitive", "union")


def fetch_wheel(folder):
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
         "--only-binary", ":all:", "--dest", folder, f"botocore=={VERSION}"],
        check=True)
    return next(Path(folder).glob("botocore-*.whl"))


def latest_model(wheel, service):
    """The path of the newest dated model of a service, and the model."""
    form = re.compile(rf"botocore/data/{service}/[^/]+/service-2\.json\.gz")
    path = max(name for name in wheel.namelist() if form.fullmatch(name))
    return path, json.loads(gzip.decompress(wheel.read(path)))


def prune(shapes):
    for name, kept in KEPT_MEMBERS.items():
        if name in shapes:
            members = shapes[name]["members"]
            shapes[name]["members"] = {member: members[member] for member in kept}


def references(shape):
    """Names of the shapes that a shape is made of."""
    parts = list(shape.get("members", {}).values())
    parts += [shape[key] for key in ("member", "key", "value") if key in shape]
    return [part["shape"] for part in parts]


def reach(shapes, roots):
    seen = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += references(shapes[name])
    return sorted(seen)


def reduce_shape(shape):
    reduced = {key: shape[key] for key in SHAPE_KEYS if key in shape}
    pattern = shape.get("pattern", "")
    rewritten = REWRITES.get(pattern) or JAVA_CHARACTER.sub(r"\\x{\1}", pattern)
    if rewritten != pattern:
        reduced["pcre"] = rewritten
    if "members" in shape:
        # The order is the service's own, and that of its error messages.
        reduced["members"] = {name: part["shape"] for name, part in shape["members"].items()}
    for key in ("member", "key", "value"):
        if key in shape:
            reduced[key] = shape[key]["shape"]
    return reduced


def reduce_operation(operation):
    reduced = {key: operation[key]["shape"] for key in ("input", "output") if key in operation}
    reduced["errors"] = sorted(error["shape"] for error in operation.get("errors", []))
    return reduced


def reduce_service(model, names):
    prune(model["shapes"])
    operations = {name: reduce_operation(model["operations"][name]) for name in sorted(names)}
    roots = [op[key] for op in operations.values() for key in ("input", "output") if key in op]
    metadata = model["metadata"]
    offered = metadata.get("protocols", [metadata["protocol"]])
    return {
        "protocol": next(protocol for protocol in PROTOCOLS if protocol in offered),
        "target_prefix": metadata.get("targetPrefix", ""),
        "api_version": metadata["apiVersion"],
        "operations": operations,
        "shapes": {name: reduce_shape(model["shapes"][name])
                   for name in reach(model["shapes"], roots)},
    }


def compact(value):
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def render(source, services):
    """Compact JSON with one operation or shape a line, so that a change of version can be read."""
    lines = ['{"source":' + compact(source) + ',', '"services":{']
    for index, (name, service) in enumerate(services.items()):
        head = {key: service[key] for key in ("protocol", "target_prefix", "api_version")}
        lines.append(compact(name) + ":" + compact(head)[:-1] + ",")
        for part, end in (("operations", "},"), ("shapes", "}")):
            lines.append(compact(part) + ":{")
            entries = [compact(key) + ":" + compact(value) for key, value in service[part].items()]
            lines.append(",\n".join(entries) + end)
        lines.append("}," if index + 1 < len(services) else "}")
    return "\n".join(lines + ["}}"]) + "\n"


def main(arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(arguments[0]) if arguments else fetch_wheel(folder)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        with zipfile.ZipFile(path) as wheel:
            models = {service: latest_model(wheel, service) for service in OPERATIONS}
    source = {
        "package": "botocore",
        "version": path.name.split("-")[1],
        "file": path.name,
        "sha256": digest,
        "license": "Apache-2.0",
        "models": {service: where for service, (where, _) in models.items()},
    }
    services = {service: reduce_service(model, OPERATIONS[service])
                for service, (_, model) in models.items()}
    OUTPUT.write_text(render(source, services))
    print(f"{OUTPUT}: {sum(len(s['shapes']) for s in services.values())} shapes")


if __name__ == "__main__":
    main(sys.argv[1:])
