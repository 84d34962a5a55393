# SPDX-License-Identifier: Apache-2.0
"""Search and UpdateTrainingJob as the stock boto3 and aws CLI call them."""
import json
import subprocess
import sys

import botocore.exceptions
import pytest
from conftest import wait_for

WORDS = {"red": "0.1", "green": "0.25", "blue": "0.5"}


@pytest.fixture(scope="module")
def found(jobs):
    """Three ended jobs that only these tests know, by their hyperparameter."""
    names = {}
    for word, rate in WORDS.items():
        name = names[word] = jobs.new_name(f"search-{word}")
        request = jobs.request(name, f"print('loss={rate}')", hyperparameters={"rate": rate, "word": word})
        request["AlgorithmSpecification"]["MetricDefinitions"] = [{"Name": "loss", "Regex": "loss=(.*)"}]
        request["Tags"] = [{"Key": "suite", "Value": "search"}, {"Key": "word", "Value": word}]
        if word != "red":
            request["InputDataConfig"] = [channel(jobs, "train", word), channel(jobs, "test", "common")]
        jobs.sagemaker.create_training_job(**request)
    for name in names.values():
        assert jobs.wait(name)["TrainingJobStatus"] == "Completed"
    return names


def channel(jobs, name, prefix):
    jobs.s3.put_object(Bucket=jobs.bucket, Key=f"search/{prefix}/x", Body=b"x")
    return {"ChannelName": name, "DataSource": {"S3DataSource": {
        "S3DataType": "S3Prefix", "S3Uri": f"s3://{jobs.bucket}/search/{prefix}/"}}}


def words(jobs, *filters, **members):
    """Which of the three a search finds, in its order."""
    expression = {"Filters": [{"Name": "Tags.suite", "Value": "search"}, *filters]} | members
    pages = jobs.sagemaker.get_paginator("search").paginate(
        Resource="TrainingJob", SearchExpression=expression, SortBy="HyperParameters.rate", SortOrder="Ascending",
        PaginationConfig={"PageSize": 2})
    results = [result["TrainingJob"] for page in pages for result in page["Results"]]
    return [job["HyperParameters"]["word"] for job in results]


def where(name, operator, value=None):
    return {"Name": name, "Operator": operator} | ({"Value": value} if value is not None else {})


@pytest.mark.root
@pytest.mark.parametrize("condition, expected", [
    (where("HyperParameters.word", "Equals", "red"), ["red"]),
    (where("HyperParameters.word", "NotEquals", "red"), ["green", "blue"]),
    (where("HyperParameters.rate", "GreaterThan", "0.2"), ["green", "blue"]),
    (where("HyperParameters.rate", "LessThanOrEqualTo", "0.25"), ["red", "green"]),
    (where("TrainingJobName", "Contains", "search-g"), ["green"]),
    (where("Tags.word", "In", "red,blue"), ["red", "blue"]),
    (where("Metrics.loss", "GreaterThanOrEqualTo", "0.25"), ["green", "blue"]),
    (where("TrainingJobStatus", "Equals", "Completed"), ["red", "green", "blue"]),
    (where("InputDataConfig", "Exists"), ["green", "blue"]),
    (where("FailureReason", "NotExists"), ["red", "green", "blue"]),
    (where("CreationTime", "LessThan", "2020-01-01T00:00:00"), []),
    (where("ResourceConfig.InstanceCount", "Equals", "1"), ["red", "green", "blue"]),
])
def test_search_by_one_filter(jobs, found, condition, expected):
    assert words(jobs, condition) == expected


@pytest.mark.root
def test_search_by_expressions_and_elements_of_lists(jobs, found):
    either = {"Filters": [where("HyperParameters.word", "Equals", "red"),
                          where("HyperParameters.word", "Equals", "blue")], "Operator": "Or"}
    assert words(jobs, SubExpressions=[either]) == ["red", "blue"]

    def nested(name, uri):
        return [{"NestedPropertyName": "InputDataConfig", "Filters": [
            where("InputDataConfig.ChannelName", "Equals", name),
            where("InputDataConfig.DataSource.S3DataSource.S3Uri", "Contains", uri)]}]
    assert words(jobs, NestedFilters=nested("train", "green")) == ["green"]
    assert words(jobs, NestedFilters=nested("test", "green")) == []


@pytest.mark.root
def test_search_shows_the_job_with_its_tags(jobs, found):
    answer = jobs.sagemaker.search(Resource="TrainingJob", SearchExpression={
        "Filters": [where("TrainingJobName", "Equals", found["red"])]})
    job = answer["Results"][0]["TrainingJob"]
    assert {tag["Key"]: tag["Value"] for tag in job["Tags"]} == {"suite": "search", "word": "red"}
    assert job["FinalMetricDataList"][0]["Value"] == 0.1
    assert answer["TotalHits"] == {"Value": 1, "Relation": "EqualTo"}


def aws(server, *arguments):
    done = subprocess.run([sys.executable, "-m", "awscli", "sagemaker", *arguments, "--output", "json"],
                          env=server.environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.root
def test_cli_searches(server, found):
    expression = {"Filters": [where("Tags.word", "Equals", "blue")]}
    results = aws(server, "search", "--resource", "TrainingJob", "--search-expression", json.dumps(expression))
    assert [r["TrainingJob"]["TrainingJobName"] for r in results["Results"]] == [found["blue"]]


@pytest.mark.parametrize("request_, says", [
    ({"Resource": "Experiment"}, "it serves TrainingJob"),
    ({"Resource": "TrainingJob", "SearchExpression": {"Filters": [where("Color", "Exists")]}},
     "Unknown property name: 'Color'"),
    ({"Resource": "TrainingJob", "SortBy": "Color"}, "Unknown property name: 'Color'"),
])
def test_searches_that_cannot_be_are_refused(jobs, request_, says):
    with pytest.raises(botocore.exceptions.ClientError, match=says) as refused:
        jobs.sagemaker.search(**request_)
    assert refused.value.response["Error"]["Code"] == "ValidationException"


@pytest.mark.root
def test_update_training_job(server, jobs):
    sagemaker = jobs.sagemaker
    name = jobs.create("update", "import time; print('here', flush=True); time.sleep(60)")
    wait_for(lambda: jobs.describe(name)["SecondaryStatus"] == "Training", 30, "training")
    arn = sagemaker.update_training_job(
        TrainingJobName=name, ResourceConfig={"KeepAlivePeriodInSeconds": 600},
        ProfilerConfig={"DisableProfiler": True}, RemoteDebugConfig={"EnableRemoteDebug": False})["TrainingJobArn"]
    aws(server, "update-training-job", "--training-job-name", name,
        "--profiler-config", json.dumps({"S3OutputPath": f"s3://{jobs.bucket}/profile"}))
    job = jobs.describe(name)
    assert arn == job["TrainingJobArn"] and job["TrainingJobStatus"] == "InProgress"
    assert job["ResourceConfig"] == {"InstanceType": "ml.c5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 10,
                                     "KeepAlivePeriodInSeconds": 600}
    assert job["ProfilerConfig"] == {"DisableProfiler": True, "S3OutputPath": f"s3://{jobs.bucket}/profile"}
    assert job["RemoteDebugConfig"] == {"EnableRemoteDebug": False}
    for change, says in [({}, "At least one of"), ({"RemoteDebugConfig": {"EnableRemoteDebug": True}}, "not supported")]:
        with pytest.raises(botocore.exceptions.ClientError, match=says):
            sagemaker.update_training_job(TrainingJobName=name, **change)
    sagemaker.stop_training_job(TrainingJobName=name)
    jobs.wait(name)
    with pytest.raises(botocore.exceptions.ClientError, match="it is Stopped already"):
        sagemaker.update_training_job(TrainingJobName=name, ProfilerConfig={"DisableProfiler": True})
    with pytest.raises(sagemaker.exceptions.ResourceNotFound):
        sagemaker.update_training_job(TrainingJobName="none", ProfilerConfig={"DisableProfiler": True})
