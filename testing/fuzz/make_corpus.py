#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the seed corpora of the fuzz targets from requests as botocore builds them; needs the clients' environment.

    "$(tools/python_env clients)/bin/python" testing/fuzz/make_corpus.py

The result is in the repository: run this after changing what a target reads, and commit what it writes.
"""
import datetime
import gzip
import hashlib
import hmac
import io
import json
import tarfile
import zlib
from pathlib import Path
from unittest import mock

import botocore.auth
import botocore.session
import botocore.signers
import urllib3
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

HERE = Path(__file__).resolve().parent
KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
NOW = datetime.datetime.fromtimestamp(1_764_500_000, datetime.timezone.utc)
ENDPOINT = "http://127.0.0.1:8321"
SERVICES = json.loads((HERE.parent.parent / "src/api/model/aws_model.json").read_text())["services"]
# In the order of api::operations().
OPERATIONS = [(service, name) for service, about in SERVICES.items() for name in about["operations"]]


def put(target, name, content):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


class Wire:
    """Catches what a client would send, with the clock at NOW."""

    def __init__(self):
        self.session = botocore.session.Session()
        self.session.set_credentials(KEY, SECRET)

    def client(self, service, **options):
        client = self.session.create_client(service, "us-east-1", endpoint_url=ENDPOINT, config=Config(
            retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, **options))
        client.meta.events.register("before-send", self.catch)
        return client

    def catch(self, request, **_):
        self.caught = request
        raise StopIteration

    def sent(self, client, operation, **members):
        try:
            getattr(client, operation)(**members)
        except Exception:  # the request is caught before it would be sent
            pass
        return self.caught


# They differ from run to run and from machine to machine, and nothing reads them.
DROPPED = ("user-agent", "amz-sdk-invocation-id", "amz-sdk-request", "expect")


def kept(headers):
    return {k: text_of(v) for k, v in headers.items() if k.lower() not in DROPPED}


def text_of(value):
    return value.decode() if isinstance(value, bytes) else value


def head_of(request):
    """METHOD target, then headers, as target_sigv4.cc reads them."""
    target = request.url.removeprefix(ENDPOINT)
    lines = [f"{request.method} {target}", *(f"{k}: {v}" for k, v in kept(request.headers).items())]
    if "Host" not in request.headers:
        lines.append("Host: 127.0.0.1:8321")
    return "\n".join(lines).encode()


def http_of(request):
    target = request.url.removeprefix(ENDPOINT) or "/"
    body = request.body or b""
    body = body if isinstance(body, bytes) else body.read() if hasattr(body, "read") else body.encode()
    headers = kept(request.headers) | {"Host": "127.0.0.1:8321"}
    if "Transfer-Encoding" not in headers:
        headers["Content-Length"] = str(len(body))
    lines = [f"{request.method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def signatures(wire):
    s3, sagemaker = wire.client("s3"), wire.client("sagemaker")
    requests = {
        "get": wire.sent(s3, "get_object", Bucket="data", Key="a b/ü+c", Range="bytes=0-9"),
        "put": wire.sent(s3, "put_object", Bucket="data", Key="x", Body=b"hello", Metadata={"m": " two  words "}),
        "list": wire.sent(s3, "list_objects_v2", Bucket="data", Prefix="a/", Delimiter="/")}
    for name, request in requests.items():
        put("sigv4", name, head_of(request))
        put("http", name, b"\x10" + http_of(request))
    describe = AWSRequest("POST", ENDPOINT + "/", data=b"{}", headers={
        "X-Amz-Target": "SageMaker.ListTrainingJobs", "Content-Type": "application/x-amz-json-1.1"})
    botocore.auth.SigV4Auth(Credentials(KEY, SECRET), "sagemaker", "us-east-1").add_auth(describe)
    put("sigv4", "json", head_of(describe))
    put("http", "json", b"\x00" + http_of(wire.sent(sagemaker, "list_training_jobs")))
    for version in ("s3v4", "s3"):
        url = wire.client("s3", signature_version=version).generate_presigned_url(
            "get_object", Params={"Bucket": "data", "Key": "a b"}, ExpiresIn=600)
        put("sigv4", f"presigned-{version}", head_of(AWSRequest("GET", url)))
    put("sigv4", "plain", b"GET /data/a%20b/../c//d?prefix=a&list-type=2&x")
    put("sigv4", "malformed", b"GET /a?%zz=%\nAuthorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE//a/s3/aws4_request, "
        b"SignedHeaders=;host, Signature=\nHost: x\nx-amz-date: 20251199T256199Z")


def framing():
    get = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
    chunked = (b"PUT /b?x=1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
               b"5;ext=1\r\nhello\r\n0\r\nTrailer: 1\r\n\r\n")
    put("http", "pipelined", b"\x1d" + get + chunked + get)
    put("http", "length", b"\x40POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello" + get)
    put("http", "both", b"\x05POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get)
    put("http", "lengths", b"\x05POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd" + get)
    put("http", "oddities", b"\x20GET http://x/p HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nA:\tb \r\n\r\n"
        b"get / HTTP/1.1\r\nHost : x\r\n folded\r\n\r\n")
    put("http", "continue", b"\x30PUT /c HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc")


def chunked_bodies():
    """aws-chunked as the S3 reference describes it, signed with the key of its example."""
    date, scope = "20130524T000000Z", "20130524/us-east-1/s3/aws4_request"
    key = b"AWS4wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    for part in scope.encode().split(b"/"):
        key = hmac.new(key, part, hashlib.sha256).digest()
    empty = hashlib.sha256().hexdigest()

    def signed(chunks, trailer=None):
        previous, out = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9", b""
        for chunk in [*chunks, b""]:
            text = f"AWS4-HMAC-SHA256-PAYLOAD\n{date}\n{scope}\n{previous}\n{empty}\n{hashlib.sha256(chunk).hexdigest()}"
            previous = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
            out += f"{len(chunk):x};chunk-signature={previous}\r\n".encode() + chunk + (b"\r\n" if chunk else b"")
        if trailer:
            digest = hashlib.sha256(trailer + b"\n").hexdigest()
            text = f"AWS4-HMAC-SHA256-TRAILER\n{date}\n{scope}\n{previous}\n{digest}"
            signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
            out += trailer + b"\r\nx-amz-trailer-signature:" + signature.encode() + b"\r\n"
        return out + b"\r\n"
    put("aws_chunked", "signed", b"\x00\x07" + signed([b"hello", b"w" * 40]))
    put("aws_chunked", "signed-trailer", b"\x01\x03" + signed([b"hello"], b"x-amz-checksum-crc32:NhCmhg=="))
    put("aws_chunked", "unsigned-trailer", b"\x02\x0b5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n")
    put("aws_chunked", "plain", b"\x03\x01a\r\n0123456789\r\n0\r\n\r\n")
    put("aws_chunked", "huge", b"\x02\x00ffffffffffffffff\r\nx\r\n-1\r\n")


def xml_bodies(wire):
    s3 = wire.client("s3")
    parts = {"Parts": [{"ETag": '"a"', "PartNumber": 1, "ChecksumCRC32": "NhCmhg=="}]}
    requests = {
        "complete": wire.sent(s3, "complete_multipart_upload", Bucket="b", Key="k", UploadId="u", MultipartUpload=parts),
        "delete": wire.sent(s3, "delete_objects", Bucket="b", Delete={"Objects": [{"Key": "a<&>\r\n b"}], "Quiet": True}),
        "tagging": wire.sent(s3, "put_object_tagging", Bucket="b", Key="k", Tagging={"TagSet": [{"Key": "a", "Value": ""}]}),
        "create": wire.sent(s3, "create_bucket", Bucket="b", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})}
    for name, request in requests.items():
        put("xml", name, request.body if isinstance(request.body, bytes) else request.body.encode())
    put("xml", "bomb", b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><x>&b;&#0;&#x10FFFF;&lt;</x>')
    put("xml", "odd", b"<?xml version='1.0'?><!-- c --><s:a xmlns:s='u' b='1'><![CDATA[<]]]]><![CDATA[>]]> t <e/></s:a>")
    put("xml", "deep", b"<a>" * 18 + b"</a>" * 18)


def forms(wire):
    """A form of boto3, as urllib3 writes it, and what its reader has to tell apart."""
    post = wire.client("s3").generate_presigned_post("data", "up/${filename}", Fields={"x-amz-meta-a": "ü"}, Conditions=[
        ["starts-with", "$x-amz-meta-a", ""], ["content-length-range", 1, 100]], ExpiresIn=600)
    fields = [*post["fields"].items(), ("file", ("C:\\a \"b\".txt", b"hello\r\n--b\r\n"))]
    body, content_type = urllib3.encode_multipart_formdata(fields, boundary="b0")
    put("form_data", "boto3", b"\x07" + content_type.encode() + b"\n" + body)

    def form(*parts, kind=b"multipart/form-data; boundary=b0", end=b"--b0--\r\n"):
        head = b"--b0\r\nContent-Disposition: form-data; name="
        return b"\x03" + kind + b"\n" + b"".join(head + part + b"\r\n" for part in parts) + end
    put("form_data", "quoted", form(b"key\r\n\r\nk", b"\"file\"; filename=\"a\\\"b\"\r\nA: b\r\n\r\n",
                                    kind=b"Multipart/Form-Data ; charset=x; boundary=\"b0\""))
    put("form_data", "behind", form(b"file\r\n\r\n\r\n--b0-\r\n", b"key\r\n\r\nk"))
    put("form_data", "no-file", form(b"a\r\n\r\n", b"b\r\n\r\nc"))
    put("form_data", "twice", form(b"a\r\n\r\n", b"A\r\n\r\nc"))
    put("form_data", "lines", form(b"file\r\n\r\n" + b"\r\n--b\r\r\n-" * 20, end=b"--b0 --\r\n"))


def json_bodies():
    def choose(service, operation, form=False):
        return bytes([OPERATIONS.index((service, operation)) | (0x80 if form else 0)])
    job = {"TrainingJobName": "j", "RoleArn": "arn:aws:iam::123456789012:role/r", "HyperParameters": {"a": "b"},
           "AlgorithmSpecification": {"TrainingImage": "i", "TrainingInputMode": "File",
                                      "MetricDefinitions": [{"Name": "loss", "Regex": "loss=([0-9.]+)"}]},
           "InputDataConfig": [{"ChannelName": "c", "DataSource": {"S3DataSource": {
               "S3DataType": "S3Prefix", "S3Uri": "s3://bucket/x"}}}],
           "OutputDataConfig": {"S3OutputPath": "s3://bucket/o"}, "Tags": [{"Key": "k", "Value": "v"}],
           "ResourceConfig": {"InstanceType": "ml.c5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1},
           "StoppingCondition": {"MaxRuntimeInSeconds": 60}, "CheckpointConfig": {"S3Uri": "s3://bucket/c"}}
    put("json", "create", choose("sagemaker", "CreateTrainingJob") + json.dumps(job).encode())
    put("json", "search", choose("sagemaker", "Search") + json.dumps({
        "Resource": "TrainingJob", "SearchExpression": {"SubExpressions": [{"Filters": [
            {"Name": "Tags.a", "Operator": "Equals", "Value": "1"}]}]}}).encode())
    put("json", "metric-data", choose("cloudwatch", "GetMetricData") + json.dumps({
        "StartTime": 1.7e9, "EndTime": 1700000060, "MetricDataQueries": [{"Id": "a", "Expression": "b"}]}).encode())
    put("json", "wrong", choose("sagemaker", "CreateTrainingJob") + b'{"TrainingJobName":[{"\\ud800":-1e999}],"Tags":null}')
    put("json", "form", choose("iam", "SimulatePrincipalPolicy", True) +
        b"Action=SimulatePrincipalPolicy&PolicySourceArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&ActionNames.member.1=s3:Get"
        b"&ContextEntries.member.1.ContextKeyName=a&MaxItems=5")


def archives():
    def tar(*members, mode="w"):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode=mode, format=tarfile.PAX_FORMAT) as archive:
            for name, kind, link, data in members:
                info = tarfile.TarInfo(name)
                info.type, info.linkname, info.size = kind, link, len(data)
                archive.addfile(info, io.BytesIO(data))
        return out.getvalue()[:4096] if mode == "w" else out.getvalue()
    file, directory, link, hard = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
    put("tar", "plain", tar(("d", directory, "", b""), ("d/f", file, "", b"hello")))
    put("tar", "links", tar(("d", directory, "", b""), ("d/l", link, "../f", b""), ("h", hard, "d/l", b"")))
    put("tar", "slip", tar(("../beside", file, "", b"x"), ("/abs", file, "", b"")))
    put("tar", "through", tar(("l", link, "..", b""), ("l/beside", file, "", b"x")))
    put("tar", "long", tar(("n" * 120, file, "", b""), ("ü", file, "", b"1")))
    put("tar", "gzip", gzip.compress(tar(("f", file, "", b"0" * 600)), mtime=0))
    put("tar", "bomb", gzip.compress(tar(("f", file, "", b""))[:512] + zlib.compress(b"0" * 100_000), mtime=0))


def texts():
    put("log_lines", "bar", b"\x03\x00step 1\rstep 2\rstep 3\nloss=0.5\r\n")
    put("log_lines", "colours", "\x06\x00\x1b[31mred\x1b[0m \x1b]0;title\x07日本語😀\n".encode())
    put("log_lines", "bytes", b"\x01\x00\xff\xfe\x00half \xe6\x97")
    put("log_lines", "long", "\x1e\xff".encode("latin-1") + "日本語 0123456789 \r".encode() * 8)
    for name, expression, line in (
            ("loss", r"loss[=:]\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)", "step 3 loss=1.5e-3"),
            ("named", r"(?P<a>\w+)=(?P=a)(?i:X)?", "é=é"), ("look", r"(?<=acc )(\d+)(?=%)", "acc 93%"),
            ("catastrophe", r"(a+)+$", "a" * 40 + "b"), ("odd", r"[]^\-\]\d\s]{2,3}?(?#c)\Z\x41\101\N", "A]"),
            ("verbose", "(?x) ( a # c\n | b ) \\ ", "ab"), ("flags", r"(?ms)^.*?(?:(b)|c)(?(1)d|e)$", "a\nbd")):
        put("regex", name, expression.encode() + b"\0" + line.encode())
    put("config", "all", b"capacity: {instances: 8, gpus: [0, 1]}\nimages:\n  'my/*:#': mine\nenvironments: {mine: /srv/e}\n"
        b"stop_grace_seconds: 5\nupload_limit_seconds: 60\n\0my/image:3")
    put("config", "anchors", b"a: &a [*a]\ncapacity: *a\n")
    put("config", "stars", b"images: {'" + b"*a" * 20 + b"b': torch}\n\0" + b"a" * 255)
    put("config", "wrong", b"capacity: [1\n  instances: 99999999999999\n\ttab: !!binary x\n--- \n")


def main():
    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return NOW if tz else NOW.replace(tzinfo=None)

        @classmethod
        def utcnow(cls):
            return NOW.replace(tzinfo=None)

    wire = Wire()
    with mock.patch.object(botocore.auth, "get_current_datetime", lambda: NOW.replace(tzinfo=None)), \
            mock.patch.object(botocore.auth.time, "time", NOW.timestamp):
        signatures(wire)
    with mock.patch.object(botocore.signers, "get_current_datetime", lambda *_: NOW.replace(tzinfo=None)), \
            mock.patch.object(botocore.auth, "get_current_datetime", lambda: NOW.replace(tzinfo=None)):
        forms(wire)
    framing()
    chunked_bodies()
    xml_bodies(wire)
    json_bodies()
    archives()
    texts()


if __name__ == "__main__":
    main()
