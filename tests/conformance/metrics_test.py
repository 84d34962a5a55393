# SPDX-License-Identifier: Apache-2.0
"""Metrics by regular expression, written by real jobs and read back with the stock boto3 and aws CLI."""
import datetime
import json
import math
import subprocess
import sys

import botocore.exceptions
import pytest
from conftest import Jobs, Server, wait_for

NAMESPACE = "/aws/sagemaker/TrainingJobs"
LOSS = {"Name": "train:loss", "Regex": r"loss=(\S+)"}


@pytest.fixture(scope="module")
def cloudwatch(server):
    return server.client("cloudwatch")


def algorithm(*definitions):
    return {"AlgorithmSpecification": {"TrainingImage": "trainyard/pytorch", "TrainingInputMode": "File",
                                       "MetricDefinitions": list(definitions)}}


def final(job):
    return {metric["MetricName"]: metric["Value"] for metric in job["FinalMetricDataList"]}


def dimensions(name):
    return [{"Name": "TrainingJobName", "Value": name}]


def later(job, **time):
    return job["TrainingEndTime"] + datetime.timedelta(**time)


def statistics(cloudwatch, job, metric, statistic="Average", period=60):
    """The values of all periods, asked for as TrainingJobAnalytics of the SageMaker SDK does."""
    points = cloudwatch.get_metric_statistics(
        Namespace=NAMESPACE, MetricName=metric, Dimensions=dimensions(job["TrainingJobName"]), Period=period,
        StartTime=job["TrainingStartTime"], EndTime=later(job, minutes=1), Statistics=[statistic])["Datapoints"]
    return [point[statistic] for point in sorted(points, key=lambda point: point["Timestamp"])]


def aws(server, *arguments):
    done = subprocess.run([sys.executable, "-m", "awscli", *arguments, "--output", "json"],
                          env=server.environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


SCRIPT = '''
import sys
for step in range(1, 11):
    print(f"step {step} loss={10 - step} acc{step}:0.{step}", flush=True)
sys.stdout.write("1/2 loss=\\r" + "2/2 loss=0.5\\n")
'''


@pytest.fixture(scope="module")
def measured(jobs):
    """A job with eleven values of train:loss, of which the sum is 45.5, and ten of val:step."""
    step = {"Name": "val:step", "Regex": r"acc(?P<step>\d+):(?P<value>[0-9.]+?)"}
    job = jobs.run("metrics", SCRIPT, **algorithm(LOSS, step))
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    return job


@pytest.mark.root
def test_describe_shows_the_last_value_of_each_metric(measured):
    assert final(measured) == {"train:loss": 0.5, "val:step": 10}
    times = [metric["Timestamp"] for metric in measured["FinalMetricDataList"]]
    assert all(measured["TrainingStartTime"] <= time <= measured["TrainingEndTime"] for time in times)


@pytest.mark.root
def test_boto3_reads_statistics(cloudwatch, measured):
    assert sum(statistics(cloudwatch, measured, "train:loss", "Sum")) == 45.5
    assert sum(statistics(cloudwatch, measured, "train:loss", "SampleCount", period=1)) == 11
    assert min(statistics(cloudwatch, measured, "val:step", "Minimum", period=1)) == 1
    assert statistics(cloudwatch, measured, "none") == []


@pytest.mark.root
def test_boto3_pages_through_metrics_and_their_data(cloudwatch, measured):
    name = measured["TrainingJobName"]
    pages = cloudwatch.get_paginator("list_metrics").paginate(Namespace=NAMESPACE, Dimensions=dimensions(name))
    assert [m["MetricName"] for page in pages for m in page["Metrics"]] == ["train:loss", "val:step"]
    queries = [{"Id": f"q{i}", "MetricStat": {"Period": 1, "Stat": "SampleCount", "Metric": {
        "Namespace": NAMESPACE, "MetricName": metric, "Dimensions": dimensions(name)}}}
        for i, metric in enumerate(["train:loss", "val:step"])]
    pages = list(cloudwatch.get_paginator("get_metric_data").paginate(
        MetricDataQueries=queries, StartTime=measured["TrainingStartTime"], EndTime=later(measured, minutes=1),
        PaginationConfig={"PageSize": 1}))
    counts = {}
    for result in (result for page in pages for result in page["MetricDataResults"]):
        counts[result["Id"]] = counts.get(result["Id"], 0) + sum(result["Values"])
    assert counts == {"q0": 11, "q1": 10} and len(pages) >= 2


@pytest.mark.root
def test_cli_reads_statistics(server, measured):
    common = ["--namespace", NAMESPACE, "--metric-name", "train:loss",
              "--dimensions", f"Name=TrainingJobName,Value={measured['TrainingJobName']}"]
    points = aws(server, "cloudwatch", "get-metric-statistics", *common, "--period", "60", "--statistics", "Sum",
                 "--start-time", measured["TrainingStartTime"].isoformat(),
                 "--end-time", later(measured, minutes=1).isoformat())["Datapoints"]
    assert sum(point["Sum"] for point in points) == 45.5
    assert len(aws(server, "cloudwatch", "list-metrics", *common)["Metrics"]) == 1


def test_typed_errors_of_cloudwatch(cloudwatch):
    now = datetime.datetime.now(datetime.timezone.utc)
    question = dict(Namespace=NAMESPACE, MetricName="m", Period=60, Statistics=["Average"],
                    StartTime=now - datetime.timedelta(hours=1), EndTime=now)
    with pytest.raises(cloudwatch.exceptions.InvalidParameterValueException):
        cloudwatch.get_metric_statistics(**question | {"Period": 7})
    with pytest.raises(cloudwatch.exceptions.InvalidParameterCombinationException, match="limit of 1440"):
        cloudwatch.get_metric_statistics(**question | {"Period": 1})
    with pytest.raises(cloudwatch.exceptions.MissingRequiredParameterException):
        cloudwatch.get_metric_statistics(**{k: v for k, v in question.items() if k != "Statistics"})


@pytest.mark.root
def test_not_a_number_is_kept_and_text_is_named_once(server, jobs, cloudwatch):  # cases 174, 175
    script = 'for text in ["3", "nan", "high", "higher", "-inf", "nan"]: print(f"loss={text}")'
    job = jobs.run("nan", script, **algorithm(LOSS))
    assert isinstance(final(job)["train:loss"], float) and math.isnan(final(job)["train:loss"])
    # The command line prints JSON for whatever reads it: there it is text.
    printed = aws(server, "sagemaker", "describe-training-job", "--training-job-name", job["TrainingJobName"])
    assert final(printed) == {"train:loss": "NaN"}
    assert sum(statistics(cloudwatch, job, "train:loss", "SampleCount")) == 1
    notes = [line for line in jobs.lines(job["TrainingJobName"]) if "is no number" in line]
    assert notes == ['Metric "train:loss": "high" is no number; where that stands there is no value.']


@pytest.mark.root
def test_a_hostile_expression_stops_neither_log_nor_other_metrics(jobs):  # case 177
    script = 'for i in range(20_000): print("a" * 200 + f"! loss={i}")'
    evil = {"Name": "evil", "Regex": "(a+)+$"}
    job = jobs.run("hostile", script, **algorithm(evil, LOSS))
    assert job["TrainingJobStatus"] == "Completed"
    assert final(job) == {"train:loss": 19_999}
    lines = jobs.lines(job["TrainingJobName"])
    assert len([line for line in lines if "! loss=" in line]) == 20_000
    assert len([line for line in lines if line.startswith('Metric "evil" is switched off')]) == 1


@pytest.mark.parametrize("definitions, says", [
    ([{"Name": "m", "Regex": "loss=("}], "Member of metric m must be a regular expression as Python reads it"),
    ([LOSS, {"Name": "m", "Regex": "loss"}], "metricDefinitions.2.member.regex"),
    ([{"Name": f"m{i}", "Regex": "(a)"} for i in range(41)], "Member must have length less than or equal to 40"),
])
def test_definitions_that_cannot_work_are_refused(jobs, definitions, says):  # case 177
    request = jobs.request(jobs.new_name("bad"), "pass", **algorithm(*definitions))
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        jobs.sagemaker.create_training_job(**request)
    assert refused.value.response["Error"]["Code"] == "ValidationException"
    assert says in str(refused.value)


@pytest.mark.root
def test_values_show_while_the_job_runs_and_outlive_the_server(tmp_path):
    server = Server(tmp_path).start()
    jobs = Jobs(server)
    name = jobs.create("live", 'import time; print("loss=2", flush=True); time.sleep(60)', **algorithm(LOSS))
    wait_for(lambda: jobs.describe(name).get("FinalMetricDataList"), 30, "a value while it runs")
    assert server.stop() == 0
    server.start()
    sagemaker = server.client("sagemaker")
    assert final(sagemaker.describe_training_job(TrainingJobName=name)) == {"train:loss": 2}
    sagemaker.stop_training_job(TrainingJobName=name)
    jobs.sagemaker = sagemaker
    assert final(jobs.wait(name)) == {"train:loss": 2}
    assert server.stop() == 0
