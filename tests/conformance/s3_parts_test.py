# SPDX-License-Identifier: Apache-2.0
"""What stock clients ask of an object's parts."""
import os

import boto3.s3.transfer


def test_boto3_reads_parts_by_number_and_the_attributes_of_an_object(jobs, tmp_path):
    body = os.urandom((10 << 20) + 7)
    transfer = boto3.s3.transfer.TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20)
    (tmp_path / "body").write_bytes(body)
    jobs.s3.upload_file(str(tmp_path / "body"), jobs.bucket, "parts", Config=transfer,
                        ExtraArgs={"ChecksumAlgorithm": "SHA256"})
    head = jobs.s3.head_object(Bucket=jobs.bucket, Key="parts", PartNumber=1)
    assert head["PartsCount"] == 3 and head["ContentLength"] == 5 << 20
    parts = [jobs.s3.get_object(Bucket=jobs.bucket, Key="parts", PartNumber=n)["Body"].read() for n in (1, 2, 3)]
    assert [len(part) for part in parts] == [5 << 20, 5 << 20, 7] and b"".join(parts) == body
    asked = {"Bucket": jobs.bucket, "Key": "parts",
             "ObjectAttributes": ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]}
    known = jobs.s3.get_object_attributes(**asked)
    assert known["ObjectSize"] == len(body) and known["StorageClass"] == "STANDARD"
    assert known["ETag"] == head["ETag"].strip('"')
    assert known["Checksum"]["ChecksumType"] == "COMPOSITE" and known["Checksum"]["ChecksumSHA256"].endswith("-3")
    assert known["ObjectParts"]["TotalPartsCount"] == 3
    assert [(part["PartNumber"], part["Size"]) for part in known["ObjectParts"]["Parts"]] == [
        (1, 5 << 20), (2, 5 << 20), (3, 7)]
    pages = jobs.s3.get_object_attributes(**asked, MaxParts=2)["ObjectParts"]
    assert pages["IsTruncated"] and pages["NextPartNumberMarker"] == 2
    rest = jobs.s3.get_object_attributes(**asked, MaxParts=2, PartNumberMarker=2)["ObjectParts"]
    assert not rest["IsTruncated"] and [part["PartNumber"] for part in rest["Parts"]] == [3]
