# SPDX-License-Identifier: Apache-2.0
"""boto3: buckets, objects, conditions, keys and listings."""
import datetime
import threading

import botocore.exceptions
import botocore.handlers
from boto3_place import BUCKET, chosen, script, status
from script import MIB, ODD_KEYS, brief, noise

# Buckets

@script
def create_a_bucket(c):
    return chosen(c.s3.create_bucket(Bucket=BUCKET), "Location")


@script
def create_the_own_bucket_again(c):
    return status(c.s3.create_bucket(Bucket=BUCKET))


@script
def create_a_bucket_with_a_name_that_is_not_allowed(c):
    lax = c.client()
    lax.meta.events.unregister("before-parameter-build.s3", botocore.handlers.validate_bucket_name)
    return lax.create_bucket(Bucket="Under_Score")


@script
def find_a_bucket_and_miss_another(c):
    found = status(c.s3.head_bucket(Bucket=BUCKET))
    return [found, c.ask(c.s3.head_bucket, Bucket="steps-absent")]


@script
def list_own_buckets_by_prefix(c):
    def names(prefix):
        return [bucket["Name"] for bucket in c.s3.list_buckets(Prefix=prefix)["Buckets"]]
    return [names(BUCKET[:-1]) == [BUCKET], names("steps-none")]


@script
def ask_where_a_bucket_is(c):
    return chosen(c.s3.get_bucket_location(Bucket=BUCKET), "LocationConstraint")


@script
def ask_for_the_policy_status_of_a_bucket_without_a_policy(c):
    return c.s3.get_bucket_policy_status(Bucket=BUCKET)


@script
def ask_for_versioning_of_a_bucket_that_never_had_it(c):
    return chosen(c.s3.get_bucket_versioning(Bucket=BUCKET), "Status")


# Objects: put, read, describe

@script
def put_an_object(c):
    return chosen(c.put("plain", b"hello"), "ETag", "ChecksumCRC32", "ChecksumType")


@script
def read_an_object_with_its_checksum(c):
    answer = c.get("plain", ChecksumMode="ENABLED")
    return chosen(answer, "ETag", "ContentLength", "ContentType", "AcceptRanges", "ChecksumCRC32", "Metadata") | {
        "Body": brief(answer["Body"].read())}


@script
def put_an_empty_object(c):
    c.put("empty", b"")
    return [c.read("empty"), chosen(c.s3.head_object(Bucket=BUCKET, Key="empty"), "ETag", "ContentLength")]


@script
def miss_an_object_by_get(c):
    return c.get("absent")


@script
def miss_an_object_by_head(c):
    return c.s3.head_object(Bucket=BUCKET, Key="absent")


@script
def miss_a_bucket_by_get(c):
    return c.s3.get_object(Bucket="steps-absent", Key="k")


@script
def keep_headers_and_metadata(c):
    c.put("described", ContentType="text/x-odd; charset=utf-8", CacheControl="no-cache",
          ContentDisposition='attachment; filename="a b"', ContentEncoding="gzip", ContentLanguage="de",
          Expires=datetime.datetime(2030, 1, 2, 3, 4, 5), Metadata={"Step": "1", "empty": "", "spaced": "a  b"})
    return chosen(c.s3.head_object(Bucket=BUCKET, Key="described"), "ContentType", "CacheControl",
                  "ContentDisposition", "ContentEncoding", "ContentLanguage", "ExpiresString", "Metadata")


@script
def refuse_metadata_of_more_than_2_kib(c):
    return c.put("described-long", Metadata={"long": "m" * 2100})


@script
def override_headers_of_an_answer(c):
    answer = c.get("plain", ResponseContentType="text/csv", ResponseContentDisposition="inline",
                   ResponseCacheControl="max-age=1", ResponseContentLanguage="fr", ResponseContentEncoding="x")
    return chosen(answer, "ContentType", "ContentDisposition", "CacheControl", "ContentLanguage", "ContentEncoding")


@script
def read_an_old_object_whole_while_it_is_replaced(c):
    old, new = noise(8 * MIB, 2), noise(8 * MIB, 3)
    c.put("replaced", old)
    body = c.get("replaced")["Body"]
    first = body.read(65536)
    c.put("replaced", new)
    return [first + body.read() == old, c.read("replaced") == brief(new)]


@script
def read_ranges(c):
    c.put("digits", b"0123456789")
    asked = ("bytes=0-3", "bytes=7-", "bytes=-2", "bytes=5-99", "bytes=-99")
    return [[answer["Body"].read().decode(), answer["ContentRange"], status(answer)]
            for answer in (c.get("digits", Range=text) for text in asked)]


@script
def refuse_a_range_behind_the_end(c):
    return c.get("digits", Range="bytes=10-")


@script
def ignore_a_range_that_is_none(c):
    return c.read("digits", Range="lines=1-2")


@script
def read_a_range_of_an_empty_object(c):
    return c.get("empty", Range="bytes=0-1")


# Conditions

@script
def read_if_it_is_still_the_same(c):
    tag = c.put("condition", b"one")["ETag"]
    return [c.read("condition", IfMatch=tag), c.ask(c.read, "condition", IfMatch='"0"')]


@script
def resume_a_download_only_of_the_same_version(c):
    first = c.put("resumed-read", noise(100_000, 7))["ETag"]
    begun = c.get("resumed-read", Range="bytes=0-49999", IfMatch=first)["Body"].read()
    whole = begun + c.get("resumed-read", Range="bytes=50000-", IfMatch=first)["Body"].read()
    c.put("resumed-read", noise(100_000, 8))
    return [whole == noise(100_000, 7), c.ask(c.read, "resumed-read", Range="bytes=50000-", IfMatch=first)]


@script
def read_only_what_is_new(c):
    head = c.s3.head_object(Bucket=BUCKET, Key="condition")
    return c.get("condition", IfNoneMatch=head["ETag"])


@script
def read_only_what_was_changed_since(c):
    head = c.s3.head_object(Bucket=BUCKET, Key="condition")
    day = datetime.timedelta(days=1)
    return [c.read("condition", IfModifiedSince=head["LastModified"] - day),
            c.ask(c.read, "condition", IfModifiedSince=head["LastModified"])]


@script
def read_only_what_was_not_changed_since(c):
    head = c.s3.head_object(Bucket=BUCKET, Key="condition")
    day = datetime.timedelta(days=1)
    return [c.ask(c.read, "condition", IfUnmodifiedSince=head["LastModified"]),
            c.ask(c.read, "condition", IfUnmodifiedSince=head["LastModified"] - day)]


@script
def put_only_where_nothing_is(c):
    first = status(c.put("once", b"first", IfNoneMatch="*"))
    return [first, c.ask(c.put, "once", b"second", IfNoneMatch="*"), c.read("once")]


@script
def one_of_eight_that_put_at_once_wins(c):
    codes = []

    def put(number):
        try:
            codes.append(status(c.put("race", str(number).encode(), IfNoneMatch="*")))
        except botocore.exceptions.ClientError as error:
            codes.append(status(error.response))
    threads = [threading.Thread(target=put, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [codes.count(200), set(codes) <= {200, 409, 412}]


@script
def put_over_the_version_that_was_read(c):
    tag = c.put("swap", b"one")["ETag"]
    swapped = status(c.put("swap", b"two", IfMatch=tag))
    return [swapped, c.ask(c.put, "swap", b"three", IfMatch=tag), c.read("swap")]


@script
def put_over_a_version_where_there_is_none(c):
    return c.put("absent", b"two", IfMatch='"0"')


# Keys

def round_trip(key):
    def step(c):
        c.put(key, key.encode())
        same = c.get(key)["Body"].read() == key.encode()
        found = c.keys(key)
        c.s3.delete_object(Bucket=BUCKET, Key=key)
        return {"read": same, "listed": found == [key], "left": len(c.keys(key))}
    return step


for what, odd in ODD_KEYS.items():
    script.add(f"put, read, list and delete a key with {what}", round_trip(odd))


@script
def refuse_a_key_of_more_than_1024_bytes(c):
    return c.put("k" * 1025)


@script
def keep_a_key_beside_one_that_has_it_as_its_folder(c):
    c.put("tree/x", b"file")
    c.put("tree/x/y", b"below")
    return [c.read("tree/x"), c.read("tree/x/y"), c.keys("tree/")]


@script
def keep_a_folder_object_beside_what_is_in_it(c):
    c.put("marked/", b"")
    c.put("marked/in", b"in")
    c.s3.delete_object(Bucket=BUCKET, Key="marked/in")
    return c.keys("marked/")


@script
def leave_no_folder_behind_the_last_key(c):
    c.put("gone/a/b", b"")
    c.s3.delete_object(Bucket=BUCKET, Key="gone/a/b")
    return c.keys("gone")


@script
def tell_keys_apart_by_case(c):
    c.put("Case/k", b"upper")
    c.put("case/k", b"lower")
    return [c.read("Case/k"), c.read("case/k")]


# Listings

LISTED = ["list/a.b", "list/a/1", "list/a/2", "list/b/1", "list/b0", "list/c", "list/\u00fc"]


@script
def list_in_the_order_of_bytes(c):
    for key in reversed(LISTED):
        c.put(key)
    return c.keys("list/")


@script
def list_folders(c):
    answer = c.s3.list_objects_v2(Bucket=BUCKET, Prefix="list/", Delimiter="/")
    return [[o["Key"] for o in answer["Contents"]], [p["Prefix"] for p in answer["CommonPrefixes"]],
            chosen(answer, "KeyCount", "IsTruncated", "Delimiter", "MaxKeys", "Prefix")]


@script
def list_folders_by_pages_of_two(c):
    pages = c.s3.get_paginator("list_objects_v2").paginate(
        Bucket=BUCKET, Prefix="list/", Delimiter="/", PaginationConfig={"PageSize": 2})
    return [[o["Key"] for o in page.get("Contents", [])] + [p["Prefix"] for p in page.get("CommonPrefixes", [])]
            for page in pages]


@script
def list_from_a_key_on(c):
    return c.keys("list/", StartAfter="list/a/1", MaxKeys=3)


@script
def list_by_a_delimiter_of_several_letters(c):
    answer = c.s3.list_objects_v2(Bucket=BUCKET, Prefix="list/", Delimiter="/1")
    return [[o["Key"] for o in answer["Contents"]], [p["Prefix"] for p in answer.get("CommonPrefixes", [])]]


@script
def list_no_keys(c):
    return chosen(c.s3.list_objects_v2(Bucket=BUCKET, MaxKeys=0), "KeyCount", "IsTruncated", "Contents")


@script
def list_by_the_first_version_of_the_call(c):
    first = c.s3.list_objects(Bucket=BUCKET, Prefix="list/", Delimiter="/", MaxKeys=2)
    then = c.s3.list_objects(Bucket=BUCKET, Prefix="list/", Delimiter="/", MaxKeys=9, Marker=first["NextMarker"])
    return [first["NextMarker"], [o["Key"] for o in then["Contents"]], [p["Prefix"] for p in then["CommonPrefixes"]]]


@script
def refuse_a_token_that_is_not_ours(c):
    return c.s3.list_objects_v2(Bucket=BUCKET, Prefix="list/", ContinuationToken="\u00a7 no token")


@script
def list_who_owns_and_what_it_is(c):
    found = c.s3.list_objects_v2(Bucket=BUCKET, Prefix="list/c", FetchOwner=True)["Contents"][0]
    return chosen(found, "ETag", "Size", "StorageClass", "ChecksumAlgorithm") | {
        "Owner": "ID" in found.get("Owner", {})}


@script
def list_what_checksums_objects_have(c):
    c.put("sums/crc", ChecksumAlgorithm="CRC32")
    c.put("sums/sha", ChecksumAlgorithm="SHA256")
    first = c.s3.list_objects(Bucket=BUCKET, Prefix="sums/")["Contents"]
    second = c.s3.list_objects_v2(Bucket=BUCKET, Prefix="sums/")["Contents"]
    return [[chosen(o, "Key", "ChecksumAlgorithm", "ChecksumType") for o in found] for found in (first, second)]
