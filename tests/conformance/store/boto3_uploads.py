# SPDX-License-Identifier: Apache-2.0
"""boto3: uploads in parts, checksums, presigned URLs, copies, tags and deletions."""
import base64
import datetime
import hashlib
import io
import urllib.error
import urllib.request
import zlib
from unittest import mock

from boto3.s3.transfer import TransferConfig
from boto3_place import BUCKET, UNSIGNED, BotoPlace, chosen, fetch, script, status
from script import MIB, brief, noise


def now():
    return datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)


# Uploads in parts

HEAD, TAIL = noise(5 * MIB, 4), noise(1000, 5)
TWO = ((1, HEAD), (2, TAIL))


@script
def upload_in_parts(c):
    upload, parts = c.begin("parts", TWO, Metadata={"kept": "yes"}, ContentType="text/x-parts")
    tag = c.complete("parts", upload, parts)["ETag"]
    head = c.s3.head_object(Bucket=BUCKET, Key="parts")
    return [tag, c.read("parts") == brief(HEAD + TAIL), chosen(head, "ContentType", "Metadata", "ContentLength")]


@script
def read_one_part(c):
    answer = c.get("parts", PartNumber=2)
    return chosen(answer, "PartsCount", "ContentRange", "ContentLength") | {"Body": brief(answer["Body"].read())}


@script
def refuse_a_part_that_is_not_there(c):
    return c.get("parts", PartNumber=3)


@script
def resume_an_upload_by_what_is_listed(c):
    upload, _ = c.begin("resumed", TWO[:1])
    other = BotoPlace(c.endpoint, c.folder)  # nothing but the key is known to it
    found = other.s3.list_multipart_uploads(Bucket=BUCKET, Prefix="resumed")["Uploads"]
    there = other.s3.list_parts(Bucket=BUCKET, Key="resumed", UploadId=found[0]["UploadId"])["Parts"]
    parts = [{"PartNumber": p["PartNumber"], "ETag": p["ETag"]} for p in there]
    parts.append(other.part("resumed", upload, 2, TAIL))
    other.complete("resumed", upload, parts)
    return [found[0]["UploadId"] == upload, len(found), [p["Size"] for p in there],
            c.read("resumed") == brief(HEAD + TAIL)]


@script
def list_uploads_and_their_parts_with_what_checksum_they_have(c):
    seen = []
    for key, members in (("sum/composite", {"ChecksumAlgorithm": "SHA1"}),
                         ("sum/whole", {"ChecksumAlgorithm": "CRC32", "ChecksumType": "FULL_OBJECT"})):
        upload, _ = c.begin(key, **members)
        c.part(key, upload, 1, b"part", ChecksumAlgorithm=members["ChecksumAlgorithm"])
        listed = c.s3.list_multipart_uploads(Bucket=BUCKET, Prefix=key)["Uploads"][0]
        parts = c.s3.list_parts(Bucket=BUCKET, Key=key, UploadId=upload)
        seen += [chosen(listed, "ChecksumAlgorithm", "ChecksumType"), chosen(parts, "ChecksumAlgorithm", "ChecksumType"),
                 chosen(parts["Parts"][0], "ChecksumSHA1", "ChecksumCRC32")]
        c.s3.abort_multipart_upload(Bucket=BUCKET, Key=key, UploadId=upload)
    return seen


@script
def take_the_last_of_two_parts_with_one_number(c):
    upload, parts = c.begin("again", ((1, b"old"), (1, b"new")))
    c.complete("again", upload, parts[1:])
    return c.read("again")


@script
def complete_with_gaps_in_the_numbers(c):
    upload, parts = c.begin("gaps", ((3, HEAD), (9999, TAIL)))
    c.complete("gaps", upload, parts)
    return c.read("gaps") == brief(HEAD + TAIL)


@script
def list_parts_by_pages(c):
    upload, _ = c.begin("paged", [(n, b"p") for n in (1, 2, 5)])
    asked = {"Bucket": BUCKET, "Key": "paged", "UploadId": upload, "MaxParts": 2}
    first = c.s3.list_parts(**asked)
    rest = c.s3.list_parts(**asked, PartNumberMarker=first["NextPartNumberMarker"])
    return [[p["PartNumber"] for p in page["Parts"]] + [page["IsTruncated"]] for page in (first, rest)]


@script
def list_uploads_with_folders(c):
    for key in ("up/a/1", "up/a/2", "up/b"):
        c.begin(key)
    found = c.s3.list_multipart_uploads(Bucket=BUCKET, Prefix="up/", Delimiter="/")
    return [[u["Key"] for u in found["Uploads"]], [p["Prefix"] for p in found.get("CommonPrefixes", [])]]


@script
def refuse_parts_out_of_order(c):
    upload, parts = c.begin("wrong", TWO)
    return c.complete("wrong", upload, parts[::-1])


@script
def refuse_a_part_with_another_etag(c):
    upload, parts = c.begin("wrong", TWO)
    return c.complete("wrong", upload, [parts[0], {"PartNumber": 2, "ETag": parts[0]["ETag"]}])


@script
def refuse_a_part_that_was_never_sent(c):
    upload, parts = c.begin("wrong", TWO)
    return c.complete("wrong", upload, parts + [{"PartNumber": 3, "ETag": parts[0]["ETag"]}])


@script
def refuse_a_small_part_that_is_not_the_last(c):
    upload, parts = c.begin("wrong", ((1, TAIL), (2, TAIL)))
    return c.complete("wrong", upload, parts)


@script
def refuse_a_part_with_the_number_10001(c):
    upload, _ = c.begin("wrong")
    return c.part("wrong", upload, 10001, b"x")


@script
def refuse_parts_of_an_upload_that_was_aborted(c):
    upload, _ = c.begin("aborted", TWO[1:])
    gone = status(c.s3.abort_multipart_upload(Bucket=BUCKET, Key="aborted", UploadId=upload))
    left = c.s3.list_multipart_uploads(Bucket=BUCKET, Prefix="aborted").get("Uploads", [])
    return [gone, len(left), c.ask(c.part, "aborted", upload, 1, b"x")]


@script
def refuse_to_complete_where_something_is(c):
    upload, parts = c.begin("plain", TWO[1:])
    return c.complete("plain", upload, parts, IfNoneMatch="*")


@script
def put_parts_together_from_other_objects(c):
    upload, _ = c.begin("copied-parts")
    parts = []
    for number, span in ((1, f"bytes=0-{5 * MIB - 1}"), (2, f"bytes={5 * MIB}-{5 * MIB + 9}")):
        answer = c.s3.upload_part_copy(Bucket=BUCKET, Key="copied-parts", UploadId=upload, PartNumber=number,
                                       CopySource=f"{BUCKET}/parts", CopySourceRange=span)
        parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
    c.complete("copied-parts", upload, parts)
    return c.read("copied-parts") == brief(HEAD + TAIL[:10])


@script
def move_a_file_of_12_mib_both_ways(c):
    body = noise(12 * MIB + 1, 6)
    transfer = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=4)
    c.s3.upload_file(str(c.file("up", body)), BUCKET, "file", Config=transfer)
    c.s3.download_file(BUCKET, "file", str(c.folder / "down"), Config=transfer)
    return [(c.folder / "down").read_bytes() == body, c.s3.head_object(Bucket=BUCKET, Key="file")["ETag"]]


@script
def upload_a_stream_of_unknown_length(c):
    class Pipe(io.RawIOBase):
        left = 6 * MIB

        def readable(self):
            return True

        def read(self, size=-1):
            size = self.left if size < 0 else min(size, self.left)
            self.left -= size
            return b"s" * size
    c.s3.upload_fileobj(Pipe(), BUCKET, "stream", Config=TransferConfig(multipart_chunksize=5 * MIB))
    return c.read("stream")


# Checksums

@script
def keep_a_checksum_of_each_algorithm(c):
    found = {}
    for name in ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"):
        if name in ("CRC32", "SHA1", "SHA256"):  # the others need a library that boto3 does not bring
            c.put(f"sum-{name}", b"summed", ChecksumAlgorithm=name)
            answer = c.get(f"sum-{name}", ChecksumMode="ENABLED")
            found[name] = [answer.get(f"Checksum{name}"), answer.get("ChecksumType"), brief(answer["Body"].read())]
    return found


@script
def take_checksums_that_the_client_gives(c):
    given = {"ChecksumCRC32C": "4waSgw==", "ChecksumCRC64NVME": "rosUhgp5mIg="}  # of 123456789, the CRCs' check values
    found = {}
    for name, value in given.items():
        c.put(f"given-{name}", b"123456789", **{name: value})
        found[name] = c.s3.head_object(Bucket=BUCKET, Key=f"given-{name}", ChecksumMode="ENABLED").get(name)
    return found


def wrong_checksum(name, size):
    def step(c):
        return c.put("wrong-sum", b"summed", **{name: base64.b64encode(bytes(size)).decode()})
    return step


for algorithm, length in (("CRC32", 4), ("CRC32C", 4), ("CRC64NVME", 8), ("SHA1", 20), ("SHA256", 32)):
    script.add(f"refuse a wrong {algorithm}", wrong_checksum(f"Checksum{algorithm}", length))


@script
def refuse_a_wrong_md5(c):
    return c.put("wrong-sum", b"summed", ContentMD5=base64.b64encode(bytes(16)).decode())


@script
def refuse_an_md5_that_is_none(c):
    return c.put("wrong-sum", b"summed", ContentMD5="bm9uZQ==")


@script
def leave_nothing_of_what_a_checksum_refused(c):
    return c.keys("wrong-sum")


@script
def sum_parts_by_sha256(c):
    upload, _ = c.begin("composite", ChecksumAlgorithm="SHA256")
    parts = []
    for number, body in TWO:
        tag = c.part("composite", upload, number, body, ChecksumAlgorithm="SHA256")
        parts.append(tag | {"ChecksumSHA256": base64.b64encode(hashlib.sha256(body).digest()).decode()})
    c.complete("composite", upload, parts)
    return chosen(c.s3.head_object(Bucket=BUCKET, Key="composite", ChecksumMode="ENABLED"),
                  "ChecksumSHA256", "ChecksumType")


@script
def sum_the_whole_of_parts_by_crc32(c):
    upload, _ = c.begin("full", ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
    parts = [c.part("full", upload, number, body, ChecksumAlgorithm="CRC32") for number, body in TWO]
    value = base64.b64encode(zlib.crc32(HEAD + TAIL).to_bytes(4, "big")).decode()
    answer = c.complete("full", upload, parts, ChecksumCRC32=value, ChecksumType="FULL_OBJECT")
    return chosen(answer, "ChecksumCRC32", "ChecksumType") | {"right": answer.get("ChecksumCRC32") == value}


@script
def refuse_parts_whose_whole_has_another_checksum(c):
    upload, _ = c.begin("full-wrong", ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
    parts = [c.part("full-wrong", upload, 1, TAIL, ChecksumAlgorithm="CRC32")]
    return c.complete("full-wrong", upload, parts, ChecksumCRC32="AAAAAA==", ChecksumType="FULL_OBJECT")


@script
def describe_the_parts_of_an_object(c):
    wanted = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]
    found = c.s3.get_object_attributes(Bucket=BUCKET, Key="composite", ObjectAttributes=wanted)
    parts = found.get("ObjectParts", {})
    return chosen(found, "ETag", "Checksum", "StorageClass", "ObjectSize") | chosen(parts, "TotalPartsCount") | {
        "Sizes": [part["Size"] for part in parts.get("Parts", [])]}


# Presigned URLs

@script
def read_by_a_presigned_url(c):
    return fetch(c.presign("get_object", "plain", ResponseContentType="text/plain"))


@script
def write_by_a_presigned_url(c):
    return [fetch(c.presign("put_object", "by-url"), "PUT", b"sent"), c.read("by-url")]


@script
def presign_an_odd_key(c):
    c.put("odd url/+ %41 ü", b"odd")
    return fetch(c.presign("get_object", "odd url/+ %41 ü"))


@script
def ask_for_headers_by_a_presigned_url(c):
    return fetch(c.presign("head_object", "plain"), "HEAD")


@script
def send_a_part_by_a_presigned_url(c):
    upload, _ = c.begin("url-part")
    sent = fetch(c.presign("upload_part", "url-part", UploadId=upload, PartNumber=1), "PUT", b"part")
    tag = c.s3.list_parts(Bucket=BUCKET, Key="url-part", UploadId=upload)["Parts"][0]["ETag"]
    c.complete("url-part", upload, [{"PartNumber": 1, "ETag": tag}])
    return [sent, c.read("url-part")]


@script
def refuse_a_presigned_url_for_another_key(c):
    return fetch(c.presign("get_object", "plain").replace("/plain?", "/digits?"))


@script
def refuse_a_presigned_url_with_another_method(c):
    return fetch(c.presign("get_object", "plain"), "DELETE")


@script
def refuse_a_presigned_url_with_another_expiry(c):
    return fetch(c.presign("get_object", "plain").replace("X-Amz-Expires=300", "X-Amz-Expires=301"))


@script
def refuse_a_presigned_url_that_is_too_old(c):
    with mock.patch("botocore.auth.get_current_datetime", lambda: now() - datetime.timedelta(seconds=301)):
        url = c.presign("get_object", "plain")
    return fetch(url)


@script
def refuse_a_presigned_url_from_the_future(c):
    with mock.patch("botocore.auth.get_current_datetime", lambda: now() + datetime.timedelta(hours=1)):
        url = c.presign("get_object", "plain")
    return fetch(url)[:3]


@script
def upload_by_a_form(c):
    form = c.s3.generate_presigned_post(BUCKET, "by-form", ExpiresIn=300)
    edge = "edge-of-form"
    body = "".join(f'--{edge}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
                   for name, value in form["fields"].items())
    body += f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nformed\r\n--{edge}--\r\n'
    sent = fetch(form["url"], "POST", body.encode(), **{"Content-Type": f"multipart/form-data; boundary={edge}"})
    return [sent, c.keys("by-form")]


# Buckets in the names of hosts

@script
def name_the_bucket_in_the_host(c):
    named = c.by_host()
    named.put_object(Bucket=BUCKET, Key="by host/+ü", Body=b"named")
    found = named.list_objects_v2(Bucket=BUCKET, Prefix="by host")["Contents"]
    return [status(named.head_bucket(Bucket=BUCKET)), [o["Key"] for o in found], c.read("by host/+ü")]


@script
def presign_with_the_bucket_in_the_host(c):
    url = c.by_host().generate_presigned_url("get_object", {"Bucket": BUCKET, "Key": "plain"})
    return [url.startswith(f"http://{BUCKET}.localhost:"), fetch(url)]


@script
def miss_a_bucket_in_the_host(c):
    return c.by_host().get_object(Bucket="steps-absent", Key="k")


# Who may

@script
def refuse_a_request_without_a_signature(c):
    return c.client(config={"signature_version": UNSIGNED}).get_object(Bucket=BUCKET, Key="plain")


@script
def refuse_a_wrong_secret(c):
    return c.client(aws_secret_access_key="wrong").get_object(Bucket=BUCKET, Key="plain")


@script
def refuse_an_unknown_key_id(c):
    return c.client(aws_access_key_id="AKIAUNKNOWN").get_object(Bucket=BUCKET, Key="plain")


@script
def take_a_signature_for_another_region(c):
    return c.client(region_name="eu-west-3").get_object(Bucket=BUCKET, Key="plain")


@script
def refuse_a_request_by_a_clock_that_is_wrong(c):
    with mock.patch("botocore.auth.get_current_datetime", lambda: now() - datetime.timedelta(hours=1)):
        return c.get("plain")


# Copies

@script
def copy_an_object_with_its_metadata(c):
    c.s3.copy_object(Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": "described"})
    return chosen(c.s3.head_object(Bucket=BUCKET, Key="copy"), "ContentType", "Metadata", "CacheControl")


@script
def copy_an_object_with_other_metadata(c):
    c.s3.copy_object(Bucket=BUCKET, Key="copy", CopySource=f"{BUCKET}/described", MetadataDirective="REPLACE",
                     Metadata={"other": "1"}, ContentType="text/other")
    return chosen(c.s3.head_object(Bucket=BUCKET, Key="copy"), "ContentType", "Metadata", "CacheControl")


@script
def refuse_a_copy_onto_itself_that_changes_nothing(c):
    return c.s3.copy_object(Bucket=BUCKET, Key="plain", CopySource=f"{BUCKET}/plain")


@script
def copy_from_an_odd_key(c):
    c.put("odd copy/+ %41 ü?x", b"odd")
    c.s3.copy_object(Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": "odd copy/+ %41 ü?x"})
    return c.read("copy")


@script
def copy_only_what_is_still_the_same(c):
    return c.s3.copy_object(Bucket=BUCKET, Key="copy", CopySource=f"{BUCKET}/plain", CopySourceIfMatch='"0"')


@script
def refuse_a_copy_of_nothing(c):
    return c.s3.copy_object(Bucket=BUCKET, Key="copy", CopySource=f"{BUCKET}/absent")


# Tags and rules of buckets

@script
def tag_an_object_as_it_is_put(c):
    c.put("tagged", Tagging="kind=a%20b&empty=")
    found = c.s3.get_object_tagging(Bucket=BUCKET, Key="tagged")["TagSet"]
    return [sorted((t["Key"], t["Value"]) for t in found), c.get("tagged").get("TagCount")]


@script
def change_and_take_off_tags(c):
    c.s3.put_object_tagging(Bucket=BUCKET, Key="tagged", Tagging={"TagSet": [{"Key": "new", "Value": "ü"}]})
    changed = c.s3.get_object_tagging(Bucket=BUCKET, Key="tagged")["TagSet"]
    c.s3.delete_object_tagging(Bucket=BUCKET, Key="tagged")
    return [changed, c.s3.get_object_tagging(Bucket=BUCKET, Key="tagged")["TagSet"]]


@script
def refuse_eleven_tags(c):
    tags = [{"Key": f"k{n}", "Value": "v"} for n in range(11)]
    return c.s3.put_object_tagging(Bucket=BUCKET, Key="tagged", Tagging={"TagSet": tags})


@script
def miss_the_tags_of_nothing(c):
    return c.s3.get_object_tagging(Bucket=BUCKET, Key="absent")


@script
def copy_an_object_with_its_tags(c):
    c.put("tagged", Tagging="kind=old")
    c.s3.copy_object(Bucket=BUCKET, Key="tagged-copy", CopySource=f"{BUCKET}/tagged")
    kept = c.s3.get_object_tagging(Bucket=BUCKET, Key="tagged-copy")["TagSet"]
    c.s3.copy_object(Bucket=BUCKET, Key="tagged-copy", CopySource=f"{BUCKET}/tagged", TaggingDirective="REPLACE",
                     Tagging="kind=new")
    return [kept, c.s3.get_object_tagging(Bucket=BUCKET, Key="tagged-copy")["TagSet"]]


@script
def miss_the_cors_rules_of_a_bucket(c):
    return c.s3.get_bucket_cors(Bucket=BUCKET)


@script
def answer_a_browser_by_cors_rules(c):
    rule = {"AllowedOrigins": ["https://a.example"], "AllowedMethods": ["GET", "PUT"], "AllowedHeaders": ["*"],
            "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 60}
    c.s3.put_bucket_cors(Bucket=BUCKET, CORSConfiguration={"CORSRules": [rule]})
    url = f"{c.endpoint}/{BUCKET}/plain"

    def preflight(origin):
        headers = {"Origin": origin, "Access-Control-Request-Method": "PUT"}
        request = urllib.request.Request(url, headers=headers, method="OPTIONS")
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return [answer.status] + [answer.headers.get(f"Access-Control-{name}")
                                          for name in ("Allow-Origin", "Allow-Methods", "Max-Age")]
        except urllib.error.HTTPError as error:
            return [error.code]
    kept = c.s3.get_bucket_cors(Bucket=BUCKET)["CORSRules"] == [rule]
    found = [kept, preflight("https://a.example"), preflight("https://b.example")]
    c.s3.delete_bucket_cors(Bucket=BUCKET)
    return found


# Deletions

@script
def delete_an_object_that_is_not_there(c):
    return status(c.s3.delete_object(Bucket=BUCKET, Key="absent"))


@script
def delete_several_objects(c):
    odd = ["del/a b", "del/<&>", "del/ü", "del/a\rb"]
    for key in odd:
        c.put(key)
    answer = c.s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": k} for k in odd + ["del/absent"]]})
    return [sorted(d["Key"] for d in answer.get("Deleted", [])), answer.get("Errors"), c.keys("del/")]


@script
def delete_several_objects_in_silence(c):
    c.put("del/quiet")
    answer = c.s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "del/quiet"}], "Quiet": True})
    return [answer.get("Deleted"), answer.get("Errors"), c.keys("del/")]


@script
def refuse_to_delete_1001_objects(c):
    objects = [{"Key": f"del/{n}"} for n in range(1001)]
    return c.s3.delete_objects(Bucket=BUCKET, Delete={"Objects": objects})


@script
def refuse_to_delete_a_bucket_that_is_not_empty(c):
    return c.s3.delete_bucket(Bucket=BUCKET)


@script
def empty_and_delete_the_bucket(c):
    for upload in c.s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []):
        c.s3.abort_multipart_upload(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])
    left = [{"Key": key} for key in c.keys()]
    errors = c.s3.delete_objects(Bucket=BUCKET, Delete={"Objects": left, "Quiet": True}).get("Errors", [])
    gone = status(c.s3.delete_bucket(Bucket=BUCKET))
    return [errors, gone, c.ask(c.s3.head_bucket, Bucket=BUCKET)]
