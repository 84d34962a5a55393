# SPDX-License-Identifier: Apache-2.0
"""boto3 as a script uses it, and what its answers show."""
import socket
import urllib.error
import urllib.request

import boto3
import botocore.config
import botocore.exceptions
from botocore import UNSIGNED
from script import Place, Script, brief

BUCKET = "steps-boto3"
script = Script("boto3")


class BotoPlace(Place):
    refusals = (botocore.exceptions.ClientError,)

    def __init__(self, endpoint, folder):
        super().__init__(endpoint, folder)
        self.s3 = self.client()

    def client(self, **options):
        settings = {"signature_version": "s3v4", "retries": {"max_attempts": 0}, "read_timeout": 20}
        config = botocore.config.Config(**settings | options.pop("config", {}))
        return boto3.client("s3", **{
            "endpoint_url": self.endpoint, "region_name": "us-east-1", "aws_access_key_id": self.key,
            "aws_secret_access_key": self.secret, "config": config} | options)

    def by_host(self):
        """A client that names the bucket in the host's name; each such name leads to this machine."""
        port = self.endpoint.rpartition(":")[2]
        return self.client(endpoint_url=f"http://localhost:{port}", config={"s3": {"addressing_style": "virtual"}})

    def refusal(self, error):
        answer = error.response
        return f"{error.operation_name}: {answer['ResponseMetadata']['HTTPStatusCode']} {answer['Error']['Code']}"

    def shown(self, value):
        """Steps that expect a refusal return the whole answer when there is none."""
        return f"not refused: {status(value)}" if isinstance(value, dict) and "ResponseMetadata" in value else value

    def put(self, key, body=b"x", **members):
        return self.s3.put_object(Bucket=BUCKET, Key=key, Body=body, **members)

    def get(self, key, **members):
        return self.s3.get_object(Bucket=BUCKET, Key=key, **members)

    def read(self, key, **members):
        return brief(self.get(key, **members)["Body"].read())

    def keys(self, prefix="", **members):
        return [o["Key"] for o in self.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix, **members).get("Contents", [])]

    def begin(self, key, parts=(), **members):
        """An upload with these parts: its id, and what CompleteMultipartUpload wants of them."""
        upload = self.s3.create_multipart_upload(Bucket=BUCKET, Key=key, **members)["UploadId"]
        return upload, [self.part(key, upload, number, body) for number, body in parts]

    def part(self, key, upload, number, body, **members):
        answer = self.s3.upload_part(Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=number, Body=body, **members)
        return {"PartNumber": number, "ETag": answer["ETag"]}

    def complete(self, key, upload, parts, **members):
        return self.s3.complete_multipart_upload(
            Bucket=BUCKET, Key=key, UploadId=upload, MultipartUpload={"Parts": parts}, **members)

    def presign(self, operation, key, method=None, **members):
        return self.s3.generate_presigned_url(
            operation, {"Bucket": BUCKET, "Key": key, **members}, ExpiresIn=300, HttpMethod=method)


def open_place(endpoint, folder):
    resolve = socket.getaddrinfo

    def local(host, *arguments, **members):  # not every machine resolves what is below localhost
        return resolve("127.0.0.1" if str(host).endswith("localhost") else host, *arguments, **members)
    socket.getaddrinfo = local
    return BotoPlace(endpoint, folder)


def chosen(answer, *names):
    """These members of an answer, or null for those that it lacks."""
    return {name: answer.get(name) for name in names}


def status(answer):
    return answer["ResponseMetadata"]["HTTPStatusCode"]


def fetch(url, method="GET", body=None, **headers):
    """What a program without an SDK gets from a URL: status and content, or the code of the error."""
    request = urllib.request.Request(url, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return f"{answer.status} {brief(answer.read())}"
    except urllib.error.HTTPError as error:
        text = error.read().decode()
        return f"{error.code} {text.partition('<Code>')[2].partition('</Code>')[0]}"
