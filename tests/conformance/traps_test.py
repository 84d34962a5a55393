# SPDX-License-Identifier: Apache-2.0
"""What the SDKs stumble over when a server answers almost like AWS: one test for each trap."""
import datetime
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import botocore.auth
import botocore.config
import pytest
from botocore.exceptions import ClientError
from conftest import GROUP, ROOT

ADMIN = "arn:aws:iam::123456789012:user/admin"


@pytest.fixture(scope="module")
def job(jobs):
    """A job of two instances, described and ended; nothing optional is in its request."""
    request = jobs.request(jobs.new_name("trap"), 'print("one\\ntwo")', instances=2)
    jobs.sagemaker.create_training_job(**request)
    return jobs.wait(request["TrainingJobName"])


def code_of(call, **request):
    with pytest.raises(ClientError) as caught:
        call(**request)
    return caught.value.response["Error"]["Code"], caught.value.response["Error"]["Message"]


@pytest.mark.root
def test_describe_carries_every_member_that_the_sdk_indexes(job):
    assert job["OutputDataConfig"]["KmsKeyId"] == ""
    assert job["ResourceConfig"]["InstanceCount"] == 2
    assert job["ResourceConfig"]["InstanceType"] == "ml.c5.xlarge"
    assert job["ResourceConfig"]["VolumeSizeInGB"] == 10
    assert job["StoppingCondition"]["MaxRuntimeInSeconds"] == 600
    assert job["ModelArtifacts"]["S3ModelArtifacts"].endswith("/output/model.tar.gz")
    assert job["SecondaryStatusTransitions"][-1]["StatusMessage"]
    assert job["TrainingTimeInSeconds"] >= 1 and job["BillableTimeInSeconds"] >= 1


@pytest.mark.root
def test_describe_log_streams_has_no_token_when_the_limit_is_what_there_is(jobs, job):
    ask = {"logGroupName": GROUP, "logStreamNamePrefix": job["TrainingJobName"] + "/", "orderBy": "LogStreamName"}
    whole = jobs.logs.describe_log_streams(**ask, limit=2)
    assert len(whole["logStreams"]) == 2 and "nextToken" not in whole
    assert "nextToken" in jobs.logs.describe_log_streams(**ask, limit=1)


@pytest.mark.root
def test_get_log_events_gives_the_same_token_and_nothing_at_the_end(jobs, job):
    stream = jobs.streams(job["TrainingJobName"])[0]
    assert stream.split("/")[1].startswith("algo-1-")
    first = jobs.logs.get_log_events(logGroupName=GROUP, logStreamName=stream, startFromHead=True)
    assert [event["message"] for event in first["events"]] == ["one", "two"]
    again = jobs.logs.get_log_events(logGroupName=GROUP, logStreamName=stream, nextToken=first["nextForwardToken"])
    assert again["events"] == [] and again["nextForwardToken"] == first["nextForwardToken"]


def test_a_log_group_that_is_not_there_yet_is_a_resource_not_found(jobs):
    assert code_of(jobs.logs.describe_log_streams, logGroupName="/none")[0] == "ResourceNotFoundException"


def test_get_role_trusts_sagemaker_and_knows_the_arn_of_a_name(server):
    role = server.client("iam").get_role(RoleName="MyRole")["Role"]
    assert role["Arn"] == "arn:aws:iam::123456789012:role/MyRole"
    statement = role["AssumeRolePolicyDocument"]["Statement"][0]
    assert statement["Principal"]["Service"] == "sagemaker.amazonaws.com"
    assert statement["Action"] == "sts:AssumeRole" and statement["Effect"] == "Allow"


def test_simulate_principal_policy_allows_all_in_pages(server):
    actions = [f"s3:Action{i}" for i in range(250)]
    pages = server.client("iam").get_paginator("simulate_principal_policy").paginate(
        PolicySourceArn="arn:aws:iam::123456789012:role/MyRole", ActionNames=actions)
    results = [result for page in pages for result in page["EvaluationResults"]]
    assert [result["EvalActionName"] for result in results] == actions
    assert {result["EvalDecision"] for result in results} == {"allowed"}


@pytest.mark.parametrize("service, call, request_members, action", [
    ("iam", "create_role", {"RoleName": "x", "AssumeRolePolicyDocument": "{}"}, "iam:CreateRole"),
    ("iam", "list_attached_role_policies", {"RoleName": "x"}, "iam:ListAttachedRolePolicies"),
    ("sts", "assume_role", {"RoleArn": "arn:aws:iam::123456789012:role/x", "RoleSessionName": "xy"}, "sts:AssumeRole"),
    ("cloudformation", "list_stacks", {}, "cloudformation:ListStacks"),
    ("sns", "list_topics", {}, "sns:ListTopics"),
])
def test_a_query_service_denies_by_its_own_name(server, service, call, request_members, action):
    code, message = code_of(getattr(server.client(service), call), **request_members)
    assert code == "AccessDenied"
    assert message == f"User: {ADMIN} is not authorized to perform: {action} because Trainyard does not serve it"


def test_ec2_ecr_and_lambda_deny_in_the_form_of_their_clients(server):
    code, message = code_of(server.client("ec2").describe_vpcs)
    assert code == "UnauthorizedOperation" and "ec2:DescribeVpcs" in message
    code, message = code_of(server.client("ecr").get_authorization_token)
    assert code == "UnknownOperationException" and "ecr:GetAuthorizationToken is not served by Trainyard" in message
    code, message = code_of(server.client("lambda").list_functions)
    assert code == "AccessDeniedException" and "lambda" in message and "not served by Trainyard" in message


@pytest.mark.parametrize("method, path, headers, body", [
    ("GET", "/", {}, None),
    ("GET", "/no/such/thing?x=<b>", {}, None),
    ("POST", "/", {}, b"nonsense"),
    ("POST", "/", {"X-Amz-Target": "<html>.x", "Content-Type": "text/html"}, b"{}"),
    ("POST", "/", {"Content-Type": "application/x-www-form-urlencoded"}, b"Action=<html>"),
    ("BREW", "/coffee", {}, None),
    ("POST", "/yard/v1/reports", {}, b"{"),
    ("GET", "/yard/v1/nothing", {}, None),
])
def test_no_answer_is_html(server, method, path, headers, body):
    request = urllib.request.Request(server.endpoint + path, method=method, headers=headers, data=body)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    kind = caught.value.headers["Content-Type"].split(";")[0]
    assert kind in ("application/json", "application/xml", "text/xml", "application/x-amz-json-1.1"), kind
    assert caught.value.code < 500
    assert b"<html" not in caught.value.read().lower()


def test_bytes_that_are_no_http_are_not_answered_in_html(server):
    host = urllib.parse.urlsplit(server.endpoint)
    with socket.create_connection((host.hostname, host.port), 5) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(4096):
            answer += part
    assert b"<html" not in answer.lower()


def opened(url):
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.mark.parametrize("version, parameter", [("s3", "AWSAccessKeyId"), ("s3v4", "X-Amz-Signature")])
def test_presigned_urls_of_both_versions_open_and_end(server, jobs, monkeypatch, version, parameter):
    jobs.s3.put_object(Bucket=jobs.bucket, Key="pre signed+ä", Body=b"shown")
    client = server.client("s3", config=botocore.config.Config(signature_version=version))
    place = {"Bucket": jobs.bucket, "Key": "pre signed+ä"}
    url = client.generate_presigned_url("get_object", Params=place, ExpiresIn=60)
    assert parameter in url
    assert opened(url) == (200, b"shown")
    assert opened(url.replace("signed", "signeD"))[0] == 403
    hour_ago = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: hour_ago.replace(tzinfo=None))
    monkeypatch.setattr(botocore.auth.time, "time", hour_ago.timestamp)
    status, body = opened(client.generate_presigned_url("get_object", Params=place, ExpiresIn=60))
    assert status == 403 and b"expired" in body, body


def test_a_download_that_goes_on_gets_no_bytes_of_another_version(jobs):
    """If-Range, by which browsers and caches go on."""
    place = {"Bucket": jobs.bucket, "Key": "resumed"}

    def go_on(etag):
        url = jobs.s3.generate_presigned_url("get_object", Params=place)
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Range": "bytes=3-", "If-Range": etag})) as got:
            return got.status, got.read()

    etag = jobs.s3.put_object(**place, Body=b"first one")["ETag"]
    assert go_on(etag) == (206, b"st one")
    jobs.s3.put_object(**place, Body=b"another")
    assert go_on(etag) == (200, b"another")


def test_a_thousand_of_the_longest_keys_are_deleted_by_one_request(jobs):
    wanted = [{"Key": f"{i:04}" + "&" * 1020, "VersionId": "null"} for i in range(1000)]
    jobs.s3.put_object(Bucket=jobs.bucket, Key=wanted[7]["Key"], Body=b"x")
    done = jobs.s3.delete_objects(Bucket=jobs.bucket, Delete={"Objects": wanted})
    assert len(done["Deleted"]) == 1000 and "Errors" not in done
    assert code_of(jobs.s3.head_object, Bucket=jobs.bucket, Key=wanted[7]["Key"])[0] == "404"


def test_uploads_may_ask_for_aws_kms_without_a_key(jobs):
    jobs.s3.put_object(Bucket=jobs.bucket, Key="kms", Body=b"x", ServerSideEncryption="aws:kms")
    assert jobs.s3.get_object(Bucket=jobs.bucket, Key="kms")["Body"].read() == b"x"


def test_a_bucket_of_another_account_is_not_the_one_that_was_meant(jobs):
    jobs.s3.head_bucket(Bucket=jobs.bucket, ExpectedBucketOwner="123456789012")
    assert code_of(jobs.s3.head_bucket, Bucket=jobs.bucket, ExpectedBucketOwner="999999999999")[0] == "403"


def test_yard_env_replaces_what_would_lead_elsewhere_and_can_be_repeated(server):
    elsewhere = {"AWS_PROFILE": "work", "AWS_SESSION_TOKEN": "x", "AWS_ENDPOINT_URL_S3": "https://s3.amazonaws.com",
                 "HTTP_PROXY": "http://192.0.2.1:3128", "NO_PROXY": "example.org", "AWS_DATA_PATH": "/models"}
    again = 'for i in 1 2 3; do eval "$("$0" env)"; done; exec env -0'
    done = subprocess.run(["bash", "-c", again, ROOT / "yard"], env=server.environment() | elsewhere,
                          stdout=subprocess.PIPE, check=True)
    found = dict(pair.split("=", 1) for pair in done.stdout.decode().rstrip("\0").split("\0"))
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"} & set(found)
    assert found["NO_PROXY"] == found["no_proxy"] == "127.0.0.1,example.org"
    assert found["AWS_DATA_PATH"] == f"{server.home}/client/botocore:/models"
    identity = "import boto3; print(boto3.client('sts').get_caller_identity()['Arn'])"
    asked = subprocess.run([sys.executable, "-c", identity], env=found, stdout=subprocess.PIPE, text=True, check=True)
    assert asked.stdout.strip() == ADMIN


def test_sts_by_its_public_name_is_this_server(server):
    identity = ("import boto3; print(boto3.client('sts', endpoint_url='https://sts.us-east-1.amazonaws.com')"
                ".get_caller_identity()['Account'])")
    asked = subprocess.run([sys.executable, "-c", identity], env=server.environment(), stdout=subprocess.PIPE,
                           text=True, check=True)
    assert asked.stdout.strip() == "123456789012"


@pytest.mark.parametrize("statement", [
    'socket.create_connection(("192.0.2.1", 80), 1)', 'socket.getaddrinfo("sts.us-east-1.amazonaws.com", 443)',
    'socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53))'])
def test_the_guard_sees_what_would_leave_the_machine(server, tmp_path, statement):
    log = tmp_path / "guard.log"
    env = server.environment() | {"YARD_GUARD_LOG": str(log)}
    done = subprocess.run([sys.executable, "-c", f"import socket; {statement}"], env=env, capture_output=True, text=True)
    assert "PermissionError" in done.stderr
    assert log.read_text().split()[1] in ("192.0.2.1", "sts.us-east-1.amazonaws.com")
