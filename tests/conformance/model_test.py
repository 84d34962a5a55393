# SPDX-License-Identifier: Apache-2.0
"""Each constraint of AWS's models, of each operation that is served, violated once on a running server.

The cases are made from botocore's own model (tests/service_model.py); Trainyard's tables only say which
operations there are. Requests are signed by botocore but not checked by it, and go over one connection.
"""
import collections
import dataclasses
import http.client
import json
import re
import time
import urllib.parse

import botocore.model
import botocore.serialize
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from conftest import ROLE, ROOT, Server
from service_model import Model

SERVED = {service: list(about["operations"]) for service, about in
          json.loads((ROOT / "src/api/model/aws_model.json").read_text())["services"].items()}
PROTOCOL = {"sagemaker": "SageMaker", "logs": "Logs_20140328", "cloudwatch": "GraniteServiceVersion20100801"}
QUERY = ("sts", "iam")
SIGNING = {"cloudwatch": "monitoring"}
# What a broken constraint and an unreadable value are called.
CODES = {"sagemaker": ("ValidationException", "SerializationException"),
         "logs": ("InvalidParameterException", "SerializationException"),
         "cloudwatch": ("InvalidParameterValue", "SerializationException"),
         "iam": ("ValidationError", "MalformedInput")}

# Valid beginnings for what the models call optional and the services do not. The image is unknown, so that no
# valid request makes a job.
BASES = {
    "CreateTrainingJob": {
        "TrainingJobName": "model-test", "RoleArn": ROLE, "AlgorithmSpecification": {
            "TrainingImage": "example.com/none:1", "TrainingInputMode": "File"},
        "OutputDataConfig": {"S3OutputPath": "s3://test-bucket/out"},
        "ResourceConfig": {"InstanceType": "ml.c5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 10},
        "StoppingCondition": {"MaxRuntimeInSeconds": 600}},
    "UpdateTrainingJob": {"TrainingJobName": "model-test", "ResourceConfig": {"KeepAlivePeriodInSeconds": 60}},
    "Search": {"Resource": "TrainingJob"},
    "DescribeLogStreams": {"logGroupName": "/g"},
    "FilterLogEvents": {"logGroupName": "/g"},
    "GetLogEvents": {"logGroupName": "/g", "logStreamName": "s"},
}

# What rules between members may add about the very place that a fault is at.
RULES = re.compile("not supported by this server|Member must (start with s3|name a bucket|be an absolute path|"
                   "not overlap|not contain NUL)|must be a regular expression|must have a group|"
                   "The prefix aws:|Exactly one|must be unique|cannot be searched|excludes?|needs|is required with|"
                   "greater than or equal to (1|MaxRuntimeInSeconds)|less than or equal to (3600|2419200)")

METRIC = re.compile("Member of metric")


class Wire:
    """One connection, on which signed requests are sent."""

    def __init__(self, server):
        self.server, self.credentials = server, Credentials(*server.keys())
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.endpoint).netloc, timeout=20)
        self.sent = 0

    def ask(self, service, headers, body):
        request = AWSRequest("POST", self.server.endpoint + "/", data=body, headers=headers)
        SigV4Auth(self.credentials, SIGNING.get(service, service), "us-east-1").add_auth(request)
        self.connection.request("POST", "/", body, dict(request.headers))
        answer = self.connection.getresponse()
        self.sent += 1
        return answer.status, answer.read().decode()

    def json(self, service, operation, value):
        headers = {"X-Amz-Target": f"{PROTOCOL[service]}.{operation}", "Content-Type": "application/x-amz-json-1.1"}
        status, body = self.ask(service, headers, json.dumps(value).encode())
        answer = json.loads(body)
        return status, answer.get("__type", ""), answer.get("message", "")

    def query(self, model, operation, value):
        shape = botocore.model.ServiceModel(model.model).operation_model(operation)
        made = botocore.serialize.create_serializer("query", include_validation=False).serialize_to_request(value, shape)
        headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
        status, body = self.ask(model.model["metadata"]["endpointPrefix"], headers,
                                urllib.parse.urlencode(made["body"]).encode())
        code, message = (re.search(f"<{name}>(.*?)</{name}>", body, re.DOTALL) for name in ("Code", "Message"))
        text = message[1] if message else ""
        for name, sign in (("lt", "<"), ("gt", ">"), ("quot", '"'), ("apos", "'"), ("#39", "'"), ("amp", "&")):
            text = text.replace(f"&{name};", sign)
        return status, code[1] if code else "", text


def said(message):
    """The parts of one message that lists violations; none when it is about something else."""
    parts = re.sub(r"\d+ validation errors? detected: ", "", message).split("; ")
    return {part for part in parts if " at '" in part or "Exactly one" in part or "excludes" in part}


def whole(text, expected):
    """A long list of legal words may be cut; then the beginning counts."""
    head = text.removesuffix(", ...]")
    return next((e for e in expected if head != text and len(head) > 600 and e.startswith(head)), text)


def announced(message):
    found = re.search(r"(\d+) validation errors? detected: (.*)", message, re.DOTALL)
    return (int(found[1]), len(found[2].split("; "))) if found else (0, 0)


class Judge:
    """Sends faults and keeps what was answered wrongly."""

    def __init__(self, wire):
        self.wire, self.wrong, self.good, self.counts = wire, [], {}, collections.Counter()

    def send(self, model, service, operation, value):
        if service in QUERY:
            return self.wire.query(model, operation, value)
        return self.wire.json(service, operation, value)

    def base_of(self, model, service, operation, fault):
        """What the server says of the valid request that the fault was put into."""
        text = json.dumps([operation, fault.base], sort_keys=True)
        if text not in self.good:
            self.good[text] = said(self.send(model, service, operation, fault.base)[2])
        return self.good[text]

    def try_fault(self, model, service, operation, fault):
        self.counts[fault.constraint] += 1
        before = self.base_of(model, service, operation, fault)
        status, code, message = self.send(model, service, operation, fault.input)
        answered = {whole(text, fault.expected) for text in said(message)}
        if service in QUERY:  # XML has no word for control characters
            fault = dataclasses.replace(fault, expected=frozenset(e.replace("\x01", "\ufffd") for e in fault.expected))
        problems = []
        if fault.expected and code != CODES[service][fault.is_type]:
            problems.append(f"code {status} {code}")
        if fault.expected and not fault.expected <= answered:
            problems.append(f"not said: {sorted(fault.expected - answered)}")
        # Of a value that cannot be read no rule may say more; but another's text may name it.
        excuse = METRIC if fault.constraint == "type" else RULES
        extra = {text for text in answered - before - fault.expected if not excuse.search(text)}
        if extra:
            problems.append(f"said wrongly: {sorted(extra)}")
        refused = {text for text in before if f"at '{fault.path}'" in text and not RULES.search(text)}
        if refused:
            problems.append(f"the smallest valid value is refused, too: {sorted(refused)}")
        if len(set(announced(message))) > 1:
            problems.append(f"counted wrongly: {announced(message)}")
        if status >= 500:
            problems.append(f"status {status}")
        if problems:
            self.wrong.append(f"{operation} {fault.constraint} at '{fault.path}': {'; '.join(problems)}\n"
                              f"    sent {str(fault.input)[:300]}\n    answer {code}: {message[:400]}")


@pytest.fixture(scope="module")
def wire(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("model-home")).start()
    yield Wire(server)
    assert server.stop() == 0


def can_be_written(fault):
    """Whether the fault exists in a form of names and texts, which has neither types nor empty structures."""
    return fault.constraint not in ("null", "unknown", "size", "type") and not any(
        "[0 entries]" in text and "union" in text for text in fault.expected)


def faults_of(service, operation):
    model = Model(service)
    if "input" not in model.model["operations"][operation]:
        return model, []
    root = model.value(model.input_of(operation)) | BASES.get(operation, {})
    faults = model.faults(operation, root)
    return model, [fault for fault in faults if service not in QUERY or can_be_written(fault)]


def test_every_constraint_of_every_operation_is_refused_in_the_services_words(wire):
    judge, started = Judge(wire), time.monotonic()
    for service, operations in SERVED.items():
        for operation in operations:
            model, faults = faults_of(service, operation)
            for fault in faults:
                judge.try_fault(model, service, operation, fault)
    print(f"{sum(judge.counts.values())} faults, {wire.sent} requests in {time.monotonic() - started:.1f} s: "
          f"{dict(judge.counts)}")
    assert sum(judge.counts.values()) > 2000 and len(judge.counts) >= 12
    assert not judge.wrong, f"{len(judge.wrong)} wrong answers:\n" + "\n".join(judge.wrong[:40])
    assert wire.json("sagemaker", "ListTrainingJobs", {}) == (200, "", "")
