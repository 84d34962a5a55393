# SPDX-License-Identifier: Apache-2.0
"""What bad input gets: one clear error in the service's own form, and nothing half-done."""
import datetime
import json
import threading
import urllib.error
import urllib.request

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest
from botocore.exceptions import ClientError


def refused(call, **request):
    """The (code, message) of the ClientError that a call gives."""
    with pytest.raises(ClientError) as caught:
        call(**request)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def exists(jobs, name):
    listed = jobs.sagemaker.list_training_jobs(NameContains=name)["TrainingJobSummaries"]
    return any(job["TrainingJobName"] == name for job in listed)


def test_two_violations_come_in_one_error_and_nothing_is_created(jobs):
    request = jobs.request("two-violations")
    request["ResourceConfig"]["VolumeSizeInGB"] = 10
    request["AlgorithmSpecification"]["TrainingInputMode"] = "Tape"
    request["RoleArn"] = "arn:aws:iam::1:role/short-account-number"
    code, message = refused(jobs.sagemaker.create_training_job, **request)
    assert code == "ValidationException"
    assert message.startswith("2 validation errors detected:"), message
    assert "trainingInputMode" in message and "roleArn" in message
    assert not exists(jobs, "two-violations")


@pytest.mark.parametrize("name", ["-a", "a-", "a_b", "a.b", "ä", "x" * 64])
def test_illegal_names_are_refused_with_field_value_and_pattern(jobs, name):
    code, message = refused(jobs.sagemaker.create_training_job, **jobs.request("x") | {"TrainingJobName": name})
    assert code == "ValidationException"
    assert "trainingJobName" in message and name[:20] in message


@pytest.mark.parametrize("name", ["a", "A-1", "a--b", "y" * 63])
def test_legal_names_pass_validation(jobs, name):
    # A missing S3 input is found after validation, so that no job has to run.
    request = jobs.request("x", channels={"t": ("s3://no-such-bucket/x", "FullyReplicated")})
    code, message = refused(jobs.sagemaker.create_training_job, **request | {"TrainingJobName": name})
    assert "s3://no-such-bucket/x" in message


def test_environment_violations_are_all_listed(jobs):
    environment = {"1A": "x", "A-B": "x", "LONG": "v" * 513}
    code, message = refused(jobs.sagemaker.create_training_job, **jobs.request("env", Environment=environment))
    assert code == "ValidationException" and message.startswith("3 validation errors")
    assert "1A" in message and "A-B" in message


def test_too_many_channels_and_a_bad_channel_name(jobs):
    channel = {"DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://some-bucket/x"}}}
    channels = [channel | {"ChannelName": "a/b"}] + [channel | {"ChannelName": f"c{i}"} for i in range(20)]
    code, message = refused(jobs.sagemaker.create_training_job, **jobs.request("ch", InputDataConfig=channels))
    assert code == "ValidationException" and message.startswith("2 validation errors")
    assert "a/b" in message


def test_duplicate_name_is_resource_in_use_even_after_the_end(jobs):
    name = jobs.create("duplicate", "print(1)")
    jobs.wait(name)
    code, message = refused(jobs.sagemaker.create_training_job, **jobs.request(name, "print(1)"))
    assert code == "ResourceInUse" and f"training-job/{name}" in message


def test_two_clients_creating_one_name_at_once_have_one_winner(jobs):
    request = jobs.request(jobs.new_name("race"), "print(1)")
    codes = []
    clients = [jobs.server.client("sagemaker") for _ in range(8)]

    def create(client):
        try:
            client.create_training_job(**request)
            codes.append("created")
        except ClientError as error:
            codes.append(error.response["Error"]["Code"])
    threads = [threading.Thread(target=create, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == ["ResourceInUse"] * 7 + ["created"]
    jobs.wait(request["TrainingJobName"])


def test_unknown_job(jobs):
    for call in (jobs.sagemaker.describe_training_job, jobs.sagemaker.stop_training_job):
        code, message = refused(call, TrainingJobName="no-such-job")
        assert (code, message) == ("ValidationException", "Requested resource not found.")


def test_prefix_without_objects_is_refused_naming_uri_and_role(jobs):
    uri = f"s3://{jobs.bucket}/nothing-here/"
    code, message = refused(jobs.sagemaker.create_training_job,
                            **jobs.request("empty", channels={"t": (uri, "FullyReplicated")}))
    assert code == "ValidationException"
    assert uri in message and "arn:aws:iam::123456789012:role/trainyard" in message
    assert not exists(jobs, "empty")


def test_image_without_a_mapping_lists_the_known_ones(jobs):
    request = jobs.request("image")
    request["AlgorithmSpecification"]["TrainingImage"] = "example.com/unknown:1"
    code, message = refused(jobs.sagemaker.create_training_job, **request)
    assert code == "ValidationException"
    assert "example.com/unknown:1" in message and "trainyard/pytorch" in message


def test_more_instances_than_the_machine_has_is_a_limit(jobs):
    code, message = refused(jobs.sagemaker.create_training_job, **jobs.request("huge", instances=5000))
    assert code == "ResourceLimitExceeded" and "5000" in message


def post(server, body, key=None, secret=None, target="SageMaker.DescribeTrainingJob", skew=0, alter=None):
    """A hand-signed request; gives (status, answer)."""
    known_key, known_secret = server.keys()
    request = botocore.awsrequest.AWSRequest("POST", server.endpoint + "/", data=body, headers={
        "X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.1"})
    credentials = botocore.credentials.Credentials(key or known_key, secret or known_secret)
    signer = botocore.auth.SigV4Auth(credentials, "sagemaker", "us-east-1")
    if skew:
        now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=skew)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(botocore.auth, "get_current_datetime", lambda: now.replace(tzinfo=None), raising=False)
            signer.add_auth(request)
        assert now.strftime("%Y%m%dT%H%M") in request.headers["X-Amz-Date"]
    else:
        signer.add_auth(request)
    prepared = request.prepare()
    wire = urllib.request.Request(prepared.url, data=(alter or body).encode(), headers=dict(prepared.headers))
    try:
        with urllib.request.urlopen(wire) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_malformed_json_is_a_serialization_error(server):
    status, answer = post(server, '{"TrainingJobName": ')
    assert status == 400 and answer["__type"].endswith("SerializationException")


def test_unknown_operation_is_named(server):
    status, answer = post(server, "{}", target="SageMaker.MakeCoffee")
    assert status == 400 and answer["__type"].endswith("UnknownOperationException")


def test_wrong_key_wrong_secret_altered_body_and_skew(server):
    good = '{"TrainingJobName": "no-such-job"}'
    assert post(server, good)[1]["__type"] == "ValidationException"
    _, unknown = post(server, good, key="AKIAIOSFODNN7EXAMPLE")
    assert unknown["__type"] == "UnrecognizedClientException"
    _, secret = post(server, good, secret="x" * 40)
    assert secret["__type"] == "InvalidSignatureException"
    _, altered = post(server, good, alter='{"TrainingJobName": "another-job"}')
    assert altered["__type"] == "InvalidSignatureException"
    for minutes in (20, -20):
        status, skewed = post(server, good, skew=minutes)
        assert skewed["__type"] == "InvalidSignatureException" and status in (400, 403)


def test_unsigned_requests_are_refused_by_every_service(server):
    for headers, body in (({"X-Amz-Target": "SageMaker.ListTrainingJobs"}, b"{}"), ({}, None)):
        request = urllib.request.Request(server.endpoint + "/", data=body, headers=headers)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request)
        assert caught.value.code in (400, 403)
