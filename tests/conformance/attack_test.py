# SPDX-License-Identifier: Apache-2.0
"""What a hostile client sends over the wire, and that it gains nothing; docs/security.md names each of these."""
import base64
import hashlib
import http.client
import json
import re
import socket
import subprocess
import threading
import time
import urllib.parse

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from conftest import wait_for

SECRET_OBJECT = b"the whole object, 26 bytes"


@pytest.fixture(scope="module")
def store(jobs):
    jobs.s3.put_object(Bucket=jobs.bucket, Key="attack/object", Body=SECRET_OBJECT)
    return jobs


def address(server):
    parts = urllib.parse.urlsplit(server.endpoint)
    return parts.hostname, parts.port


def signed(server, method, path, body=b"", headers=None, service="s3"):
    """The headers of a request that botocore has signed as it stands."""
    request = AWSRequest(method, server.endpoint + path, data=body, headers=headers or {})
    kind = botocore.auth.S3SigV4Auth if service == "s3" else botocore.auth.SigV4Auth
    kind(Credentials(*server.keys()), service, "us-east-1").add_auth(request)
    return dict(request.headers)


def send(server, method, path, headers, body=b""):
    """(status, body) of a request whose path is sent exactly so."""
    connection = http.client.HTTPConnection(*address(server), timeout=10)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def ask(server, method, path, body=b"", headers=None):
    return send(server, method, path, signed(server, method, path, body, headers), body)


def ask_json(server, operation, body):
    headers = {"X-Amz-Target": f"SageMaker.{operation}", "Content-Type": "application/x-amz-json-1.1"}
    status, answer = send(server, "POST", "/", signed(server, "POST", "/", body, headers, "sagemaker"), body)
    return status, json.loads(answer)


def memory(server):
    """Resident memory of the server in MiB."""
    text = open(f"/proc/{server.process.pid}/status").read()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024


def is_well(server):
    return send(server, "GET", "/yard/health", {})[0] == 200


# --- Path traversal ---

TRAVERSALS = ["../credentials", "..%2fcredentials", "%2e%2e/credentials", "%2e%2e%2fcredentials", "a/../../../credentials",
              "....//credentials", "..%5ccredentials", "%2fetc%2fpasswd", "/etc/passwd", "..%00/credentials",
              "..;/credentials", "%252e%252e%252fcredentials", "a/./../..//../credentials"]


@pytest.mark.parametrize("place", TRAVERSALS)
def test_no_key_leads_out_of_the_store(server, store, place):
    path = f"/{store.bucket}/{place}"
    status, body = ask(server, "GET", path)
    assert status in (400, 403, 404), (status, body)
    before = sorted(p.name for p in server.home.iterdir())
    credentials = (server.home / "credentials").read_bytes()
    status, body = ask(server, "PUT", path, b"planted")
    assert status in (200, 400, 403), (status, body)
    if status == 200:
        assert ask(server, "GET", path) == (200, b"planted")
        assert ask(server, "DELETE", path)[0] == 204
    assert sorted(p.name for p in server.home.iterdir()) == before
    assert (server.home / "credentials").read_bytes() == credentials


@pytest.mark.parametrize("bucket", ["..", ".", "%2e%2e", "..%2f..", "a%2fb", "127.0.0.1", "a..b", "-ab", "%00", "x" * 64, "A_B"])
def test_no_bucket_leads_out_of_the_store(server, bucket):
    status, body = ask(server, "PUT", f"/{bucket}")
    assert status in (400, 403, 404, 405), (status, body)
    assert is_well(server)


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "a%2fb", "a\u0000b"])
def test_no_job_name_is_a_path(server, name):
    for operation in ("DescribeTrainingJob", "StopTrainingJob", "DeleteTrainingJob"):
        status, answer = ask_json(server, operation, json.dumps({"TrainingJobName": name}).encode())
        assert status == 400 and answer["__type"] == "ValidationException", answer


# --- Bodies that grow ---

def test_entities_of_xml_are_not_expanded_and_depth_is_bounded(server, store):
    levels = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10))
    bombs = [
        f'<!DOCTYPE x [<!ENTITY e0 "ha">{levels}]><Delete><Object><Key>&e9;</Key></Object></Delete>',
        '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><Delete><Object><Key>&f;</Key></Object></Delete>',
        '<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd"><Delete/>',
        "<a>" * 200_000, "<a>" * 50_000 + "</a>" * 50_000, "<Delete>" + "<Object/>" * 110_000 + "</Delete>"]
    before = memory(server)
    for bomb in bombs:
        started = time.monotonic()
        status, body = ask(server, "POST", f"/{store.bucket}?delete", bomb.encode())
        assert time.monotonic() - started < 2
        assert b"root:" not in body and b"haha" not in body
        assert status == 400 or b"&amp;" in body, (bomb[:80], status, body[:300])
    assert memory(server) - before < 64
    assert is_well(server)


def test_json_may_neither_be_deep_nor_endless(server):
    before = memory(server)
    bodies = [b"[" * 1_000_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000, b'{"TrainingJobName":' + b"[" * 65 + b"]" * 65 + b"}",
              b'{"Tags":[' + b"{}," * 1_000_000 + b"{}]}", b'{"a":1' + b"0" * 1_000_000 + b"}", b'{"a":"\\ud800"}',
              b'{"a":1e99999}', b'{"a":"' + b"\\u0000" * 100_000 + b'"}', b"\xff\xfe{}", b'{"a":1}{"b":2}', b""]
    for body in bodies:
        started = time.monotonic()
        status, answer = ask_json(server, "CreateTrainingJob", body)
        assert status == 400 and answer["__type"] in ("SerializationException", "ValidationException"), answer
        assert len(json.dumps(answer)) < 100_000
        assert time.monotonic() - started < 2, body[:40]
    assert memory(server) - before < 96
    status, answer = ask_json(server, "CreateTrainingJob", b" " * (11 << 20))
    assert (status, answer["__type"]) == (413, "RequestEntityTooLargeException")
    assert is_well(server)


def test_a_form_of_bytes_that_are_no_text_is_answered(server):
    query = "MetricDataQueries.member.1."
    forms = ["Action=ListMetrics&MetricName=%FF", "Action=ListMetrics&Dimensions.member.1.Name=%C3%28&%FF=%FF",
             f"Action=GetMetricData&StartTime=2026-11-29T00:00:00Z&EndTime=2026-11-29T01:00:00Z&{query}Id=%FF&{query}Label=%FE%FF&"
             f"{query}MetricStat.Metric.Namespace=%FF&{query}MetricStat.Metric.MetricName=%ED%A0%80&"
             f"{query}MetricStat.Period=60&{query}MetricStat.Stat=Sum"]
    for form in forms:
        body = f"{form}&Version=2010-08-01".encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        status, answer = send(server, "POST", "/", signed(server, "POST", "/", body, headers, "monitoring"), body)
        assert status in (200, 400), (form, status, answer)
        answer.decode()
        assert is_well(server)


# --- Request smuggling ---

HEALTH = b"GET /yard/health HTTP/1.1\r\nHost: x\r\n\r\n"
SMUGGLERS = {
    "length-and-chunks": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks-and-length": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two-lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 42\r\n\r\n",
    "list-of-lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0, 42\r\n\r\n",
    "signed-length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +0\r\n\r\n",
    "negative-length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "length-beyond-64-bits": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551616\r\n\r\n",
    "blank-before-colon": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "unknown-coding": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "identity-coding": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunked-twice": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "tab-in-coding": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunked-in-http-1.0": b"POST / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "nul-in-header": b"POST / HTTP/1.1\r\nHost: x\r\nA: \0\r\n\r\n",
    "bare-cr-in-header": b"POST / HTTP/1.1\r\nHost: x\r\nA: b\rTransfer-Encoding: chunked\r\n\r\n",
    "no-host": b"POST / HTTP/1.1\r\n\r\n",
    "two-hosts": b"POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "chunk-size-sign": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n+0\r\n\r\n",
    "chunk-size-0x": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
    "chunk-bare-lf": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\n\n",
    "chunk-too-long": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    "chunk-size-overflow": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n0\r\n\r\n",
    "line-feed-in-target": b"GET /a\nHost: x HTTP/1.1\r\n\r\n",
}


def answers_to(server, data):
    """The status lines of all answers until the server closes; what is sent is not followed by an end of input."""
    with socket.create_connection(address(server), 10) as connection:
        connection.sendall(data)
        received = b""
        try:
            while part := connection.recv(65536):
                received += part
        except ConnectionResetError:
            pass
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3})", received)]


@pytest.mark.parametrize("name", SMUGGLERS)
def test_framing_that_two_readers_could_read_differently_ends_the_connection(server, name):
    statuses = answers_to(server, SMUGGLERS[name] + HEALTH)
    assert len(statuses) <= 1, f"what was smuggled has been answered: {statuses}"
    assert all(400 <= status <= 501 for status in statuses), statuses


def test_the_probe_itself_sees_a_second_answer(server):
    data = b"GET /yard/health HTTP/1.1\r\nHost: x\r\n\r\n" + HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert answers_to(server, data) == [200, 200]


def test_no_input_reaches_the_head_of_an_answer(server, store):
    for value in ("a%0D%0ASet-Cookie%3A%20x%3D1", "a%0AX-Injected%3A%201", "%0D%0A%0D%0A%3Cscript%3E"):
        path = f"/{store.bucket}/attack/object?response-content-type={value}"
        connection = http.client.HTTPConnection(*address(server), timeout=10)
        connection.request("GET", path, headers=signed(server, "GET", path))
        answer = connection.getresponse()
        assert answer.getheader("Set-Cookie") is None and answer.getheader("X-Injected") is None
        assert answer.read() == SECRET_OBJECT or answer.status == 400


# --- Ranges ---

@pytest.mark.parametrize("wanted", [
    "bytes=0-" + ",0-" * 2000, "bytes=-0", "bytes=5-2", "bytes=26-", "bytes=99999999999999999999-", "bytes=0-99999999999999999999",
    "bytes=-99999999999999999999", "bytes=--5", "bytes=0x0-1", "bytes= 0 - 1", "bytes=-", "bytes", "lines=0-1", "bytes=1-1,2-2",
    "bytes=18446744073709551615-18446744073709551616", "bytes=+1-2", "bytes=\u0661-2"])
def test_a_range_gives_bytes_of_the_object_or_none(server, store, wanted):
    path = f"/{store.bucket}/attack/object"
    headers = signed(server, "GET", path)
    status, body = send(server, "GET", path, headers | {"Range": wanted.encode()})
    assert status in (200, 206, 400, 416), (status, body)
    if status in (200, 206):
        assert body in SECRET_OBJECT and len(body) <= len(SECRET_OBJECT)


def test_copy_of_a_range_beyond_the_source_is_refused(store):
    upload = store.s3.create_multipart_upload(Bucket=store.bucket, Key="attack/copy")["UploadId"]
    for wanted in ("bytes=0-26", "bytes=26-30", "bytes=-5", "bytes=0-", "bytes=3-1", "bytes=0-1,3-4"):
        with pytest.raises(ClientError) as caught:
            store.s3.upload_part_copy(Bucket=store.bucket, Key="attack/copy", UploadId=upload, PartNumber=1,
                                      CopySource=f"{store.bucket}/attack/object", CopySourceRange=wanted)
        assert caught.value.response["Error"]["Code"] in ("InvalidArgument", "InvalidRange"), wanted
    store.s3.abort_multipart_upload(Bucket=store.bucket, Key="attack/copy", UploadId=upload)


# --- Signatures ---

ADDED = {"x-amz-copy-source": "/test-bucket/attack/object", "x-amz-tagging": "a=b", "x-amz-meta-a": "b",
         "x-amz-acl": "public-read", "x-amz-storage-class": "GLACIER", "x-amz-security-token": "t",
         "x-amz-expected-bucket-owner": "1", "x-amz-copy-source-range": "bytes=0-1", "x-amz-date": "20200101T000000Z",
         "x-amz-content-sha256": "UNSIGNED-PAYLOAD", "Host": "elsewhere", "x-amz-decoded-content-length": "1"}


@pytest.mark.parametrize("name", ADDED)
def test_a_signature_holds_for_no_other_header(server, store, name):
    path = f"/{store.bucket}/attack/reuse"
    headers = signed(server, "PUT", path, b"mine")
    headers = {k: v for k, v in headers.items() if k.lower() != name.lower()} | {name: ADDED[name]}
    status, body = send(server, "PUT", path, headers, b"mine")
    assert status in (400, 403), (status, body)
    assert ask(server, "GET", path)[0] == 404


def test_a_signature_holds_for_no_other_method_path_query_body_or_service(server, store):
    path, body = f"/{store.bucket}/attack/object", b"other"
    headers = signed(server, "GET", path)
    for method, target in (("DELETE", path), ("PUT", path), ("GET", path + "x"), ("GET", path + "?acl"),
                           ("GET", path.replace("attack", "attac%6b") + "/"), ("GET", "/" + store.bucket), ("GET", "/")):
        assert send(server, method, target, headers)[0] == 403, (method, target)
    put = signed(server, "PUT", path, b"signed")
    assert send(server, "PUT", path, put, body)[0] in (400, 403)
    target = {"X-Amz-Target": "SageMaker.ListTrainingJobs", "Content-Type": "application/x-amz-json-1.1"}
    for service in ("s3", "logs", "sts"):
        status, _ = send(server, "POST", "/", signed(server, "POST", "/", b"{}", target, service), b"{}")
        assert status in (400, 403), service
    stop = signed(server, "POST", "/", b"{}", target, "sagemaker") | {"X-Amz-Target": "SageMaker.StopTrainingJob"}
    assert b"InvalidSignatureException" in send(server, "POST", "/", stop, b"{}")[1]
    assert ask(server, "GET", path) == (200, SECRET_OBJECT)


def test_a_header_that_comes_twice_is_part_of_the_signature(server, store):
    path = f"/{store.bucket}/attack/object"
    headers = signed(server, "GET", path)
    for name in ("x-amz-date", "x-amz-content-sha256", "Authorization", "Host"):
        lines = [f"GET {path} HTTP/1.1", *(f"{k}: {v}" for k, v in ({"Host": ":".join(map(str, address(server)))} | headers).items())]
        value = next(line.split(": ", 1)[1] for line in lines[1:] if line.lower().startswith(name.lower()))
        lines.insert(1, f"{name}: {value[:-1]}{1 if value[-1] == '0' else 0}")
        lines.append("Connection: close")
        statuses = answers_to(server, "\r\n".join(lines).encode() + b"\r\n\r\n")
        assert statuses and statuses[0] in (400, 403), (name, statuses)


def presigned(server, store, version, **options):
    client = server.client("s3", config=Config(signature_version=version))
    return client.generate_presigned_url("get_object", Params={"Bucket": store.bucket, "Key": "attack/object"}, **options)


def fetch(server, url, method="GET"):
    return send(server, method, url.removeprefix(server.endpoint), {})


@pytest.mark.parametrize("version", ["s3v4", "s3"])
def test_a_presigned_url_opens_one_thing_in_one_way_until_its_end(server, store, version):
    url = presigned(server, store, version, ExpiresIn=60)
    assert fetch(server, url) == (200, SECRET_OBJECT)
    expires = "X-Amz-Expires=60" if version == "s3v4" else re.search(r"Expires=\d+", url)[0]
    longer = "X-Amz-Expires=6000" if version == "s3v4" else "Expires=" + str(int(expires.split("=")[1]) + 1000)
    for changed in (url.replace("attack/object", "attack/other"), url.replace(expires, longer),
                    url + "&response-content-type=text/html", url + "&uploadId=x", url.replace("Signature=", "Signature=0"),
                    url.replace(store.bucket, "other-bucket"), url.replace("?", "?versionId=null&")):
        assert changed != url
        assert fetch(server, changed)[0] in (400, 403), changed
    for method in ("DELETE", "PUT"):
        assert fetch(server, url, method)[0] == 403
    assert send(server, "GET", url.removeprefix(server.endpoint), {"x-amz-meta-a": "b"})[0] in (400, 403)
    both = signed(server, "GET", f"/{store.bucket}/attack/object")
    assert send(server, "GET", url.removeprefix(server.endpoint), both)[0] in (400, 403)


def test_a_presigned_url_of_version_2_opens_no_other_bucket(server, store):
    """The signature says nothing about the host, by which a bucket may be named; nor of what is to be changed in one."""
    other = f"{store.bucket}-private"
    store.s3.create_bucket(Bucket=other)
    store.s3.put_object(Bucket=other, Key=f"{store.bucket}/attack/object", Body=b"of somebody else")
    url = presigned(server, store, "s3", ExpiresIn=60).removeprefix(server.endpoint)
    assert send(server, "GET", url, {}) == (200, SECRET_OBJECT)
    status, body = send(server, "GET", url, {"Host": f"{other}.localhost"})
    assert status == 403 and b"s3v4" in body, (status, body)
    client = server.client("s3", config=botocore.config.Config(signature_version="s3"))
    empty = client.generate_presigned_url("delete_bucket", Params={"Bucket": other}, ExpiresIn=60)
    assert fetch(server, empty, "DELETE")[0] == 403
    assert fetch(server, client.generate_presigned_url("head_bucket", Params={"Bucket": other}), "HEAD")[0] == 200
    status, body = fetch(server, client.generate_presigned_url("list_objects_v2", Params={"Bucket": other}))
    assert status == 200 and b"attack/object" in body, body
    beyond = re.sub(r"Expires=\d+", "Expires=9999999999999999", url)
    assert send(server, "GET", beyond, {})[0] in (400, 403)


@pytest.mark.parametrize("expires", [0, -1, 604801, 10**20])
def test_a_presigned_url_cannot_live_longer_than_a_week(server, store, expires):
    key, secret = server.keys()
    request = AWSRequest("GET", f"{server.endpoint}/{store.bucket}/attack/object")
    botocore.auth.S3SigV4QueryAuth(Credentials(key, secret), "s3", "us-east-1", expires=expires).add_auth(request)
    assert fetch(server, request.url)[0] in (400, 403)


# --- Requests that the server or a job would make for a stranger ---

class Trap:
    """A listener that counts who connects."""

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port, self.visits = self.socket.getsockname()[1], []
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()
        return self

    def listen(self):
        try:
            while True:
                connection, peer = self.socket.accept()
                self.visits.append(peer)
                connection.close()
        except OSError:
            pass

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(5)


def test_no_uri_makes_the_server_ask_another(server, store):
    with Trap() as trap:
        host = f"127.0.0.1:{trap.port}"
        uris = [f"http://{host}/x", f"https://{host}/x", f"s3://{host}/x", f"s3://user@{host}/x", f"s3://x@127.0.0.1/{host}",
                "s3://169.254.169.254/latest/meta-data", "s3://[::1]/x", "file:///etc/passwd", f"s3://bucket\\@{host}/x",
                f"s3://bucket#{host}/x", "s3://../x", f"s3:////{host}/x", "gopher://x/", f"S3://{host}/x"]
        for uri in uris:
            request = store.request("ssrf", channels={"c": (uri, "FullyReplicated")})
            status, answer = ask_json(server, "CreateTrainingJob", json.dumps(request).encode())
            assert status == 400 and answer["__type"] == "ValidationException", (uri, answer)
            for member in ({"OutputDataConfig": {"S3OutputPath": uri}}, {"CheckpointConfig": {"S3Uri": uri}}):
                status, answer = ask_json(server, "CreateTrainingJob", json.dumps(store.request("ssrf") | member).encode())
                assert status == 400 and answer["__type"] == "ValidationException", (uri, answer)
        for source in (f"http://{host}/x", f"//{host}/x", f"{host}/x", f"127.0.0.1:{trap.port}", "../../x/y"):
            status, _ = ask(server, "PUT", f"/{store.bucket}/copied", b"", {"x-amz-copy-source": source})
            assert status in (400, 403, 404), source
        absolute = f"GET http://{host}/yard/health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
        assert answers_to(server, absolute) == [200]  # it is no proxy: the path alone counts
        assert answers_to(server, f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())[:1] != [200]
        assert trap.visits == []


@pytest.mark.root
def test_a_source_from_elsewhere_is_fetched_by_nobody(store):
    with Trap() as trap:
        parameters = {"sagemaker_submit_directory": f"http://127.0.0.1:{trap.port}/x.tar.gz", "sagemaker_program": "t.py"}
        job = store.run("ssrf-source", **{"HyperParameters": parameters})
        assert job["TrainingJobStatus"] == "Failed" and job["FailureReason"].startswith("ClientError")
        assert trap.visits == []


# --- Expressions ---

def test_no_expression_costs_more_than_a_moment(server, store):
    bad = "a" * 5_000
    request = store.request("regex")
    hostile = [("TrainingJobName", "a" + "-" * 5_000), ("RoleArn", "arn:aws:iam::123456789012:role/" + "_/" * 3_000 + "!"),
               ("HyperParameters", {bad: bad}), ("Environment", {"_" * 5_000 + "-": bad}),
               ("Tags", [{"Key": "é " * 3_000 + "\x01", "Value": "= " * 3_000 + "\x01"}])]
    for member, value in hostile:
        started = time.monotonic()
        status, answer = ask_json(server, "CreateTrainingJob", json.dumps(request | {member: value}).encode())
        assert status == 400 and time.monotonic() - started < 1, member
    metrics = [{"Name": "m", "Regex": regex} for regex in ("(a+)+$", "(a|a)*b", "(.*)*x", "((a{1,99}){1,99}){1,99}b", "(?:(?:a*)*)*(b)")]
    request["AlgorithmSpecification"] = request["AlgorithmSpecification"] | {"MetricDefinitions": metrics, "TrainingImage": "none/x"}
    started = time.monotonic()
    assert ask_json(server, "CreateTrainingJob", json.dumps(request).encode())[0] == 400
    assert time.monotonic() - started < 1
    for pattern in ("%(a+)+$%", "{ $.a = " + "(" * 1_000, "*" * 1_000, '"' + "\\" * 999, "?a " * 400):
        started = time.monotonic()
        try:
            store.logs.filter_log_events(logGroupName="/aws/sagemaker/TrainingJobs", filterPattern=pattern[:1_024])
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 400
        assert time.monotonic() - started < 2, pattern[:40]


# --- Tokens that no answer has given ---

def forged(scope, state):
    """A page token for these positions; nothing in it is secret."""
    content = json.dumps(state, separators=(",", ":"))
    digest = hashlib.sha256(f"{len(scope)}:{scope}{content}".encode()).digest()[:12]
    return base64.b64encode(digest + content.encode()).decode()


@pytest.mark.root
def test_a_forged_token_gives_whole_events_or_an_error(server, store):
    job = store.run("tokens", "for i in range(50): print('line', i)")
    stream = store.streams(job["TrainingJobName"])[0]
    group = "/aws/sagemaker/TrainingJobs"
    given = set(store.lines(job["TrainingJobName"]))
    positions = [1, 7, 100, 101, 2**31, 2**53, 2**63 - 1]
    for position in positions + [2**64 - 1]:
        for token in (f"f/{position}", f"b/{position}"):
            check_page(store.logs.get_log_events, given, logGroupName=group, logStreamName=stream, nextToken=token)
        for state in ({"after": "", "at": {stream: position}}, {"after": stream, "at": {stream: -position}},
                      {"after": "../../x", "at": {"../../x": position}}, {"after": 1, "at": []}, [position], position):
            check_page(store.logs.filter_log_events, given, logGroupName=group, logStreamNamePrefix=stream,
                       nextToken=forged(f"FilterLogEvents {group} {stream}", state))
    for state in ([], {}, None, ["x"], [1e300, "x"], [-1, "../x"], "x", {"last": "x'--"}):
        for scope, call in (("ListTrainingJobs", store.sagemaker.list_training_jobs), ("DescribeLogGroups", store.logs.describe_log_groups)):
            check_page(call, given, **{"NextToken" if scope[0] == "L" else "nextToken": forged(scope, state)})
    assert is_well(server)


def check_page(call, given, **members):
    try:
        events = call(**members).get("events", [])
    except ClientError as error:
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 400, (members, error)
        return
    assert {event["message"] for event in events} <= given, members


# --- Who may ask what ---

def test_the_protocol_of_instances_wants_a_token_of_theirs(server):
    key, secret = server.keys()
    for path in ("assignment", "credentials", "reports", "commands", "ready", "../credentials", "..%2f..%2fcredentials"):
        for token in (None, "", "x", key, secret, "' OR 1=1 --", "A" * 10_000):
            for method in ("GET", "POST"):
                proof = f"Yard-HMAC-SHA256 Id={'0' * 32}, Run=, Number=1, Proof={(token or '')[:64]:0>64}"
                for version, claim in (("1", f"Bearer {token}"), ("2", proof), ("3", proof), ("3", f"Bearer {token}"), ("4", proof)):
                    headers = {} if token is None else {"Authorization": claim, "Yard-Protocol": version}
                    status, body = send(server, method, f"/yard/v1/{path}", headers, b"{}" if method == "POST" else b"")
                    assert status in (400, 403, 404, 405), (path, version, claim, status, body)
                    assert secret.encode() not in body


def test_no_secret_is_in_a_log_or_an_answer(server, store):
    key, secret = server.keys()
    path = f"/{store.bucket}/attack/object"
    good = signed(server, "GET", path)
    url = presigned(server, store, "s3v4", ExpiresIn=60)
    answers = [send(server, "GET", path, good | {"Host": "x"})[1], fetch(server, url + "0")[1], fetch(server, url.replace("&", "&&"))[1],
               send(server, "GET", "/yard/v1/assignment", {"Authorization": f"Bearer {secret}"})[1],
               send(server, "POST", "/", {"X-Amz-Target": "SageMaker.X", "Authorization": f"AWS4-HMAC-SHA256 {secret}"}, b"{}")[1]]
    assert not any(secret.encode() in answer for answer in answers)
    for log in (server.home / "server.log", *server.home.glob("run/*/*/*/supervisor.log")):
        text = log.read_text(errors="replace")
        assert secret not in text and "Signature=" not in text and "Bearer " not in text, log
    for private in ("credentials", "server.json"):
        assert (server.home / private).stat().st_mode & 0o077 == 0, private
    assert server.home.stat().st_mode & 0o077 == 0


def test_the_server_listens_on_this_machine_only(server):
    inodes = set()
    fds = subprocess.run(["ls", "-l", f"/proc/{server.process.pid}/fd"], stdout=subprocess.PIPE, text=True, check=True).stdout
    inodes |= set(re.findall(r"socket:\[(\d+)\]", fds))
    listening = []
    for table in ("tcp", "tcp6"):
        for line in open(f"/proc/{server.process.pid}/net/{table}").readlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                listening.append(fields[1].split(":")[0])
    assert "0100007F" in listening  # 127.0.0.1, and beside it gateways of running jobs alone
    assert "00000000" not in listening and "0" * 32 not in listening
    wait_for(lambda: is_well(server), 5, "the server after all of this")


