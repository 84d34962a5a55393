# SPDX-License-Identifier: Apache-2.0
"""What boto3 asks of the object store beyond objects and parts, on a `trainyard store` of its own."""
import json
import os
import re
import signal
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request

import botocore.config
import botocore.exceptions
import pytest
from conftest import BINARY, Server
from lone_store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    running = Store(tmp_path_factory.mktemp("store") / "root")
    running.client().create_bucket(Bucket="data")
    yield running
    assert running.stop() == 0


@pytest.fixture
def s3(store):
    return store.client()


def ask(method, url, headers=None, body=None):
    """Status, headers and body of a request that nobody signs, or whose URL is signed."""
    request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def code_of(call, **arguments):
    with pytest.raises(botocore.exceptions.ClientError) as raised:
        call(**arguments)
    return raised.value.response["Error"]["Code"]


def test_tags_of_objects_and_buckets(s3):
    s3.put_object(Bucket="data", Key="tagged", Body=b"x", Tagging="a=1&b=two%20words")
    tags = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "two words"}]
    assert s3.get_object_tagging(Bucket="data", Key="tagged")["TagSet"] == tags
    assert s3.head_object(Bucket="data", Key="tagged")["TagCount"] == 2
    s3.copy_object(Bucket="data", Key="copy", CopySource="data/tagged", TaggingDirective="REPLACE", Tagging="c=3")
    assert s3.get_object_tagging(Bucket="data", Key="copy")["TagSet"] == [{"Key": "c", "Value": "3"}]
    s3.put_object_tagging(Bucket="data", Key="copy", Tagging={"TagSet": tags})
    assert s3.get_object_tagging(Bucket="data", Key="copy")["TagSet"] == tags
    s3.delete_object_tagging(Bucket="data", Key="copy")
    assert s3.get_object_tagging(Bucket="data", Key="copy")["TagSet"] == []
    assert code_of(s3.get_bucket_tagging, Bucket="data") == "NoSuchTagSet"
    s3.put_bucket_tagging(Bucket="data", Tagging={"TagSet": tags})
    assert s3.get_bucket_tagging(Bucket="data")["TagSet"] == tags
    s3.delete_bucket_tagging(Bucket="data")


def test_what_a_plain_bucket_has_and_has_not(s3):
    assert "Status" not in s3.get_bucket_versioning(Bucket="data")
    assert s3.get_bucket_acl(Bucket="data")["Grants"][0]["Permission"] == "FULL_CONTROL"
    assert s3.get_bucket_location(Bucket="data")["LocationConstraint"] is None
    assert s3.get_bucket_request_payment(Bucket="data")["Payer"] == "BucketOwner"
    s3.get_bucket_notification_configuration(Bucket="data")
    s3.get_bucket_logging(Bucket="data")
    for call, code in ((s3.get_bucket_policy, "NoSuchBucketPolicy"),
                       (s3.get_bucket_policy_status, "NoSuchBucketPolicy"),
                       (s3.get_bucket_cors, "NoSuchCORSConfiguration"),
                       (s3.get_bucket_lifecycle_configuration, "NoSuchLifecycleConfiguration"),
                       (s3.get_bucket_website, "NoSuchWebsiteConfiguration"),
                       (s3.get_public_access_block, "NoSuchPublicAccessBlockConfiguration"),
                       (s3.get_object_lock_configuration, "ObjectLockConfigurationNotFoundError"),
                       (s3.list_bucket_inventory_configurations, "NotImplemented")):
        assert code_of(call, Bucket="data") == code
    assert code_of(s3.put_bucket_versioning, Bucket="data",
                   VersioningConfiguration={"Status": "Enabled"}) == "NotImplemented"


def test_cors_lets_a_page_of_another_origin_in(s3, store):
    s3.put_object(Bucket="data", Key="page", Body=b"x")
    s3.put_bucket_cors(Bucket="data", CORSConfiguration={"CORSRules": [
        {"AllowedOrigins": ["https://*.example.com"], "AllowedMethods": ["GET", "PUT"], "AllowedHeaders": ["*"],
         "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 60}]})
    assert s3.get_bucket_cors(Bucket="data")["CORSRules"][0]["MaxAgeSeconds"] == 60
    origin = {"Origin": "https://app.example.com"}
    status, headers, _ = ask("OPTIONS", f"{store.endpoint}/data/page",
                             origin | {"Access-Control-Request-Method": "PUT"})
    assert status == 200 and headers["Access-Control-Allow-Origin"] == "https://app.example.com"
    status, _, _ = ask("OPTIONS", f"{store.endpoint}/data/page",
                       origin | {"Access-Control-Request-Method": "DELETE"})
    assert status == 403
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "data", "Key": "page"})
    status, headers, body = ask("GET", url, origin)
    assert (status, body, headers["Access-Control-Expose-Headers"]) == (200, b"x", "ETag")
    s3.delete_bucket_cors(Bucket="data")
    assert code_of(s3.get_bucket_cors, Bucket="data") == "NoSuchCORSConfiguration"


def test_presigned_put_and_overrides(s3):
    url = s3.generate_presigned_url("put_object", Params={"Bucket": "data", "Key": "given", "ContentType": "a/b"})
    assert ask("PUT", url, {"Content-Type": "a/b"}, b"body")[0] == 200
    url = s3.generate_presigned_url("get_object", Params={
        "Bucket": "data", "Key": "given", "ResponseContentDisposition": "attachment"})
    status, headers, body = ask("GET", url)
    assert (status, body, headers["Content-Disposition"]) == (200, b"body", "attachment")
    assert ask("GET", url.replace("given", "other"))[0] == 403


def test_writes_under_conditions(s3):
    etag = s3.put_object(Bucket="data", Key="once", Body=b"1", IfNoneMatch="*")["ETag"]
    assert code_of(s3.put_object, Bucket="data", Key="once", Body=b"2", IfNoneMatch="*") == "PreconditionFailed"
    s3.put_object(Bucket="data", Key="once", Body=b"2", IfMatch=etag)
    assert code_of(s3.put_object, Bucket="data", Key="once", Body=b"3", IfMatch=etag) == "PreconditionFailed"
    assert s3.get_object(Bucket="data", Key="once")["Body"].read() == b"2"
    assert code_of(s3.delete_object, Bucket="data", Key="once", IfMatch=etag) == "PreconditionFailed"


def put_by_host(client, domain):
    """The object a//b +% of the bucket in the name of the host, which not every machine knows."""
    seen = []

    def find_it(request, **_):
        seen.append(request.url)
        request.headers["Host"] = urllib.parse.urlsplit(request.url).netloc
        request.url = request.url.replace(f"data.{domain}", "127.0.0.1")

    client.meta.events.register("before-send.s3", find_it)
    client.put_object(Bucket="data", Key="a//b +%", Body=b"virtual")
    assert seen and f"://data.{domain}:" in seen[0]


def test_buckets_in_the_name_of_the_host(s3, store):
    put_by_host(store.client(store.endpoint.replace("127.0.0.1", "localhost"), s3={"addressing_style": "virtual"}),
                "localhost")
    assert s3.get_object(Bucket="data", Key="a//b +%")["Body"].read() == b"virtual"


def test_buckets_below_a_domain_of_the_whole_server(tmp_path):
    server = Server(tmp_path, "--domain", "S3.Example.test").start()
    s3 = server.client("s3")
    s3.create_bucket(Bucket="data")
    put_by_host(server.client("s3", endpoint_url=server.endpoint.replace("127.0.0.1", "s3.example.test"),
                              config=botocore.config.Config(s3={"addressing_style": "virtual"})), "s3.example.test")
    assert s3.get_object(Bucket="data", Key="a//b +%")["Body"].read() == b"virtual"
    assert server.stop() == 0


def test_uploads_are_listed_by_pages_and_delimiter(s3):
    s3.create_bucket(Bucket="uploads")
    ids = {key: s3.create_multipart_upload(Bucket="uploads", Key=key)["UploadId"] for key in ("a", "d/x", "d/y", "e")}
    page = s3.list_multipart_uploads(Bucket="uploads", Delimiter="/", MaxUploads=2)
    assert [u["Key"] for u in page["Uploads"]] == ["a"] and page["CommonPrefixes"] == [{"Prefix": "d/"}]
    rest = s3.list_multipart_uploads(Bucket="uploads", Delimiter="/", KeyMarker=page["NextKeyMarker"])
    assert [u["Key"] for u in rest["Uploads"]] == ["e"] and not rest["IsTruncated"]
    for key, upload in ids.items():
        s3.abort_multipart_upload(Bucket="uploads", Key=key, UploadId=upload)


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA1", "SHA256"])
def test_checksums_in_trailers(s3, algorithm):
    s3.put_object(Bucket="data", Key=algorithm, Body=b"hello", ChecksumAlgorithm=algorithm)
    found = s3.head_object(Bucket="data", Key=algorithm, ChecksumMode="ENABLED")
    assert found[f"Checksum{algorithm}"] and found["ChecksumType"] == "FULL_OBJECT"
    assert s3.get_object(Bucket="data", Key=algorithm, ChecksumMode="ENABLED")["Body"].read() == b"hello"


# Of "hello", by another library: boto3 computes these two only with the package awscrt.
@pytest.mark.parametrize("algorithm, value", [("CRC32C", "mnG7TA=="), ("CRC64NVME", "M3eFcAZSQlc=")])
def test_checksums_that_the_client_brings(s3, algorithm, value):
    member = f"Checksum{algorithm}"
    s3.put_object(Bucket="data", Key=algorithm, Body=b"hello", **{member: value})
    assert s3.head_object(Bucket="data", Key=algorithm, ChecksumMode="ENABLED")[member] == value
    with pytest.raises(botocore.exceptions.ClientError, match="BadDigest"):
        s3.put_object(Bucket="data", Key=algorithm, Body=b"jello", **{member: value})
    assert s3.get_object(Bucket="data", Key=algorithm)["Body"].read() == b"hello"


def test_a_reader_sees_one_version_while_writers_replace_it(s3, store):
    bodies = [bytes([n]) * (3 << 20) for n in (1, 2)]
    s3.put_object(Bucket="data", Key="hot", Body=bodies[0])
    stop = threading.Event()

    def write():
        client = store.client()
        while not stop.is_set():
            for body in bodies:
                client.put_object(Bucket="data", Key="hot", Body=body)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(30):
            assert s3.get_object(Bucket="data", Key="hot")["Body"].read() in bodies
    finally:
        stop.set()
        writer.join()


def test_import_adopts_a_folder_and_goes_on(tmp_path):
    (tmp_path / "set/sub").mkdir(parents=True)
    (tmp_path / "set/a").write_bytes(os.urandom(70_000))
    (tmp_path / "set/sub/b c").write_text("b")
    (tmp_path / "set/out").symlink_to("/etc/hostname")
    command = [BINARY, "store", "import", tmp_path / "set", "s3://data/in", "--root", tmp_path / "root", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    first = json.loads(done.stdout)
    assert (first["files"], first["passed"], done.returncode) == (2, 0, 1)
    assert len(first["refused"]) == 1 and first["refused"][0].startswith("out: a link")
    (tmp_path / "set/out").unlink()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    again = json.loads(done.stdout)
    assert (again["files"], again["passed"], done.returncode) == (0, 2, 0)
    running = Store(tmp_path / "root")
    s3 = running.client()
    got = s3.get_object(Bucket="data", Key="in/a")["Body"].read()
    assert got == (tmp_path / "set/a").read_bytes()
    assert [o["Key"] for o in s3.list_objects_v2(Bucket="data")["Contents"]] == ["in/a", "in/sub/b c"]
    busy = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert busy.returncode == 1 and "stop the server" in busy.stderr
    assert running.stop() == 0


def test_import_stops_at_ctrl_c_and_goes_on(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    for name in "abc":
        (folder / name).write_text(name)
    with (folder / "long").open("wb") as sparse:
        sparse.truncate(64 << 30)  # minutes of hashing, no disk
    command = [BINARY, "store", "import", folder, "s3://data", "--root", tmp_path / "root", "--mode", "link", "--json"]
    ours, theirs = os.openpty()
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    try:
        shown = b""
        while not re.search(rb"[1-9].* GiB read, \d+ files/s", shown):
            shown += os.read(ours, 4096)
        running.send_signal(signal.SIGINT)
        done = json.loads(running.communicate(timeout=30)[0])
    finally:
        running.kill()
        running.wait()
        os.close(ours)
    assert running.returncode == 130 and done["stopped"] and done["files"] == 3
    os.truncate(folder / "long", 1000)
    again = subprocess.run(command, capture_output=True, text=True, timeout=60)
    found = json.loads(again.stdout)
    assert (again.returncode, found["passed"], found["files"], found["stopped"]) == (0, 3, 1, False)
    lone = Store(tmp_path / "root")
    assert [o["Size"] for o in lone.client().list_objects_v2(Bucket="data")["Contents"]] == [1, 1, 1, 1000]
    assert lone.stop() == 0


def test_import_leaves_out_homes_and_stores_below_the_folder(tmp_path):
    (tmp_path / "srv/home").mkdir(parents=True)
    home = Server(tmp_path / "srv/home").start()  # whatever such a home has today
    assert home.stop() == 0
    alone = Store(tmp_path / "srv/alone")
    assert alone.stop() == 0
    (tmp_path / "srv/data").write_text("data")
    done = subprocess.run([BINARY, "store", "import", tmp_path / "srv", "s3://data", "--root", tmp_path / "root"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "1 files are objects" in done.stdout, done.stderr
    assert "left out: home/: a Trainyard home" in done.stderr and "left out: alone/: a Trainyard store" in done.stderr
    lone = Store(tmp_path / "root")
    assert [o["Key"] for o in lone.client().list_objects_v2(Bucket="data")["Contents"]] == ["data"]
    assert lone.stop() == 0
    itself = subprocess.run([BINARY, "store", "import", tmp_path / "srv/home", "s3://data", "--root", tmp_path / "root"],
                            capture_output=True, text=True, timeout=60)
    assert itself.returncode == 2 and "is a Trainyard home" in itself.stderr
