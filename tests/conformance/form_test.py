# SPDX-License-Identifier: Apache-2.0
"""Files that HTML forms upload to the store: as boto3 signs them, as browsers and curl send them, and as an attacker would."""
import base64
import http.client
import json
import re
import subprocess
import urllib.parse

import pytest
import urllib3
from lone_store import Store

MIB = 1 << 20


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    running = Store(tmp_path_factory.mktemp("forms") / "root")
    running.client().create_bucket(Bucket="data")
    yield running
    assert running.stop() == 0


@pytest.fixture
def s3(store):
    return store.client()


def form_of(s3, key="k", seconds=300, **members):
    return s3.generate_presigned_post("data", key, ExpiresIn=seconds, **members)


def outcome(status, body):
    code = re.search(rb"<Code>(\w+)</Code>", body)
    return f"{status} {code[1].decode()}" if code and status >= 300 else str(status)


def send(url, fields):
    answer = urllib3.PoolManager(retries=False).request("POST", url, fields=fields, timeout=30, redirect=False)
    return outcome(answer.status, answer.data), answer.data.decode()


def post(form, body=b"hello", **changed):
    """Sends the form with these fields changed, or left out for None."""
    fields = {k: v for k, v in (form["fields"] | changed).items() if v is not None}
    return send(form["url"], [*fields.items(), ("file", ("a.txt", body))])[0]


def raw(form, body, boundary="b0"):
    """Sends a body that nobody has put together for us."""
    url = urllib.parse.urlsplit(form["url"])
    connection = http.client.HTTPConnection(url.netloc, timeout=30)
    try:
        connection.request("POST", url.path, body, {"Content-Type": f"multipart/form-data; boundary={boundary}"})
        answer = connection.getresponse()
        return outcome(answer.status, answer.read())
    finally:
        connection.close()


def part(name, value, more=b""):
    return b'--b0\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % (name.encode(), more, value)


def fields_of(form):
    return b"".join(part(name, value.encode()) for name, value in form["fields"].items())


FILE = part("file", b"hello", b'; filename="a.txt"')
END = b"--b0--\r\n"


def objects(s3):
    return [o["Key"] for o in s3.list_objects_v2(Bucket="data").get("Contents", [])]


def test_curl_sends_a_form(store, s3, tmp_path):
    (tmp_path / "a b.txt").write_bytes(b"by curl" * 100_000)
    form = form_of(s3, "curl/${filename}", Conditions=[["content-length-range", 0, MIB]])
    words = [word for name, value in form["fields"].items() for word in ("-F", f"{name}={value}")]
    done = subprocess.run(["curl", "-sS", "-o", tmp_path / "out", "-w", "%{http_code}", "--noproxy", "*", *words,
                           "-F", f"file=@{tmp_path / 'a b.txt'}", form["url"]], capture_output=True, text=True, timeout=60)
    assert done.stdout == "204", done.stderr + (tmp_path / "out").read_text()
    assert s3.get_object(Bucket="data", Key="curl/a b.txt")["Body"].read() == b"by curl" * 100_000


def test_a_large_file_passes_through_without_being_held(store, s3):
    def memory():
        text = open(f"/proc/{store.process.pid}/status").read()
        return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) / 1024
    form, size = form_of(s3, "large"), 192 * MIB
    post(form_of(s3, "small"))
    before = memory()
    head = fields_of(form) + b'--b0\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    tail, piece = b"\r\n" + END, bytes(range(256)) * 4096
    url = urllib.parse.urlsplit(form["url"])
    connection = http.client.HTTPConnection(url.netloc, timeout=120)
    connection.putrequest("POST", url.path)
    connection.putheader("Content-Type", "multipart/form-data; boundary=b0")
    connection.putheader("Content-Length", str(len(head) + size + len(tail)))
    connection.endheaders(head)
    for _ in range(size // len(piece)):
        connection.send(piece)
    connection.send(tail)
    assert connection.getresponse().status == 204
    connection.close()
    assert memory() - before < 32
    assert s3.head_object(Bucket="data", Key="large")["ContentLength"] == size
    s3.delete_object(Bucket="data", Key="large")


def test_a_form_ends_with_its_time(s3):
    assert post(form_of(s3, seconds=-5)) == "403 AccessDenied"


def test_temporary_and_unknown_keys(store, s3):
    form = form_of(s3)
    other = form["fields"]["x-amz-credential"].replace(store.key, "AKIAUNKNOWN")
    assert post(form, **{"x-amz-credential": other}) == "403 InvalidAccessKeyId"
    assert post(form, **{"x-amz-security-token": "guessed"}) == "400 InvalidToken"


def tampered(form, change):
    policy = json.loads(base64.b64decode(form["fields"]["policy"]))
    change(policy)
    return base64.b64encode(json.dumps(policy).encode()).decode()


@pytest.mark.parametrize("change", [
    lambda policy: policy.update(expiration="2099-01-01T00:00:00Z"), lambda policy: policy["conditions"].clear(),
    lambda policy: policy["conditions"].append(["starts-with", "$x-amz-meta-a", ""]),
    lambda policy: policy["conditions"].append({"bucket": "other"})])
def test_a_policy_holds_as_it_was_signed_only(s3, change):
    form = form_of(s3)
    assert post(form, policy=tampered(form, change)) == "403 SignatureDoesNotMatch"


def test_a_policy_cannot_be_written_in_another_way(s3):
    form = form_of(s3)
    spaced = base64.b64encode(base64.b64decode(form["fields"]["policy"]) + b" ").decode()
    assert post(form, policy=spaced) == "403 SignatureDoesNotMatch"
    assert post(form, policy=form["fields"]["policy"] + "\n") == "403 SignatureDoesNotMatch"


@pytest.mark.parametrize("name", ["key", "policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature"])
def test_no_field_of_the_signature_may_be_missing(s3, name):
    assert post(form_of(s3), **{name: None}) == "400 InvalidArgument"


@pytest.mark.parametrize("name", ["acl", "Content-Type", "x-amz-meta-a", "x-amz-tagging", "success_action_redirect",
                                  "x-amz-checksum-crc32", "x-amz-storage-class", "submit", "AWSAccessKeyId2"])
def test_a_field_that_no_condition_names_is_denied(s3, name):
    form = form_of(s3)
    said = send(form["url"], [*form["fields"].items(), (name, "x"), ("file", ("f", b"x"))])
    assert said[0] == "403 AccessDenied" and f"Extra input fields: {name.lower()}" in said[1]


def test_the_policy_of_one_bucket_opens_no_other(store, s3):
    s3.create_bucket(Bucket="other")
    form = form_of(s3)
    form["url"] = form["url"].replace("/data", "/other")
    assert post(form) == "403 AccessDenied" and post(form, bucket="data") == "403 AccessDenied"
    assert "Contents" not in s3.list_objects_v2(Bucket="other")


def test_the_name_of_a_file_is_no_path(s3):
    form = form_of(s3, "up/${filename}")
    for name in ("../../x", "..\\..\\x", "/etc/x", "x"):
        assert send(form["url"], [*form["fields"].items(), ("file", (name, b"x"))])[0] == "204"
    assert [key for key in objects(s3) if key.startswith("up")] == ["up/x"]


@pytest.mark.parametrize("order", [
    lambda form: FILE + fields_of(form) + END,                              # the file first
    lambda form: part("key", b"k") + FILE + fields_of(form) + END,          # what signs it behind the file
    lambda form: fields_of(form) + END])                                    # no file
def test_fields_count_before_the_file_only(s3, order):
    before = objects(s3)
    assert raw(form_of(s3, "order"), order(form_of(s3, "order"))) in ("403 AccessDenied", "400 InvalidArgument")
    assert objects(s3) == before


@pytest.mark.parametrize("body", [
    lambda form: fields_of(form) + part("key", b"other") + FILE + END,      # a field twice
    lambda form: b"x\r\n" + fields_of(form) + FILE + END,                   # text before the first boundary
    lambda form: fields_of(form) + FILE.replace(b"hello", b"a\r\n--b0x\r\nb") + END,
    lambda form: fields_of(form) + FILE.replace(b"hello", b"a\r\n--b0 \r\nb") + END,
    lambda form: fields_of(form) + FILE,                                    # no end
    lambda form: (fields_of(form) + FILE + END).replace(b"\r\n", b"\n"),
    lambda form: fields_of(form) + FILE.replace(b'"file"', b'"file"; name="key"') + END,
    lambda form: fields_of(form) + FILE.replace(b"form-data;", b"form-data;\r\n ") + END,
    lambda form: fields_of(form) + FILE.replace(b'"a.txt"', b'"a.txt') + END])
def test_a_form_that_two_readers_could_read_differently_is_refused(s3, body):
    before = objects(s3)
    assert raw(form_of(s3, "trick"), body(form_of(s3, "trick"))) == "400 MalformedPOSTRequest"
    assert objects(s3) == before


@pytest.mark.parametrize("boundary", ["", '"b0', "b0; boundary=b1", "b" * 71, "\"b0 \""])
def test_a_boundary_that_is_none_is_refused(s3, boundary):
    form = form_of(s3)
    assert raw(form, fields_of(form) + FILE + END, boundary) == "400 MalformedPOSTRequest"


@pytest.mark.parametrize("body", [
    lambda: part("x-ignore-a", b"v" * MIB), lambda: b"".join(part(f"x-ignore-{n}", b"") for n in range(2_000)),
    lambda: b'--b0\r\nContent-Disposition: form-data; name="' + b"n" * MIB, lambda: b"--b0\r\nA: b\r\n" * 100_000])
def test_nobody_may_fill_the_servers_memory_with_fields(store, s3, body):
    form = form_of(s3)
    assert raw(form, body() + fields_of(form) + FILE + END) == "400 MaxPostPreDataLengthExceeded"


def test_bytes_of_the_file_may_look_like_a_boundary(s3):
    form = form_of(s3, "looks")
    content = b"\r\n--b\r\n--B0\r\n\r\n--\r--b0--\n--b0--"
    assert raw(form, fields_of(form) + FILE.replace(b"hello", content) + END) == "204"
    assert s3.get_object(Bucket="data", Key="looks")["Body"].read() == content


def test_a_form_does_nothing_but_upload(store, s3):
    s3.put_object(Bucket="data", Key="stays", Body=b"x")
    form = form_of(s3, "stays")
    for path in ("?delete", "/stays", "/stays?uploads", "?acl"):
        changed = dict(form, url=form["url"].rstrip("/") + path)
        assert post(changed) == "405 MethodNotAllowed"
    assert s3.get_object(Bucket="data", Key="stays")["Body"].read() == b"x"
