# SPDX-License-Identifier: Apache-2.0
"""The stock SageMaker Python SDK v2 runs unmodified: examples/llm/submit_sdk2.py and a user's session."""
import math
import re
import tarfile

import pytest
from hints import text_by_the_hint

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def user(sdk):
    return sdk.found("user2")


def test_fit_shows_the_lines_of_the_job_and_its_end(sdk):
    printed = sdk.printed("example2")
    assert re.search(r"starting: \S+ M parameters, 2 ranks", printed)
    assert "step 4 loss" in printed
    assert "Completed - Training job completed" in printed and "Billable seconds:" in printed


def test_fit_leaves_a_model_that_the_downloader_brings_home(sdk):
    printed = sdk.printed("example2")
    with tarfile.open(sdk.folder / "example2/model.tar.gz") as model:
        assert {"model.pt", "config.json", "tokenizer.json"} <= {name.removeprefix("./") for name in model.getnames()}
    assert text_by_the_hint(printed, sdk.folder / "example2").startswith("Train")


def test_the_default_bucket_is_made_on_first_use(sdk, user):
    assert user["bucket"] == "sagemaker-us-east-1-123456789012"
    assert [b["Name"] for b in sdk.server.client("s3").list_buckets()["Buckets"]] == [user["bucket"]]


def test_get_execution_role_gives_a_role_that_jobs_may_have(user):
    assert user["attach"]["role"].startswith("arn:aws:iam::123456789012:role/")


def test_attach_finds_the_job_again_as_it_was_sent(user):
    attached = user["attach"]
    assert attached["instances"] == 2
    assert attached["hyperparameters"]["steps"] == "4"
    assert attached["model_data"].endswith(f"/{attached['name']}/output/model.tar.gz")


def test_checkpoints_are_in_the_bucket_under_the_uri_that_was_given(user):
    uri = user["attach"]["description"]["CheckpointConfig"]["S3Uri"]
    names = {found.removeprefix(uri + "/") for found in user["attach"]["checkpoints"]}
    assert names == {f"step-{step:08d}.pt" for step in (1, 2, 3, 4)}


def test_analytics_give_the_metrics_that_were_defined(user):
    metrics = user["attach"]["metrics"]
    assert {row["metric_name"] for row in metrics} == {"train:loss", "train:tokens_per_second"}
    assert all(math.isfinite(row["value"]) and row["value"] > 0 for row in metrics)


def test_a_failing_job_raises_with_the_reason(user):
    assert user["fail"]["status"] == "Failed"
    assert "AlgorithmError" in user["fail"]["message"] and "the vocabulary is empty" in user["fail"]["message"]


def test_stop_ends_the_job_as_stopped(user):
    assert user["stop"]["status"] == "Stopped"


def test_distribution_mpi_starts_all_ranks_on_all_instances(user):
    assert user["mpi"]["job"]["TrainingJobStatus"] == "Completed", user["mpi"]["job"].get("FailureReason")
    for rank in range(4):
        assert f"rank {rank} of 4 on algo-{rank // 2 + 1}" in user["mpi"]["lines"]


def test_the_example_trains_under_mpi_and_its_lines_metrics_and_model_are_read_back(sdk, user):
    example = user["example"]
    assert example["job"]["TrainingJobStatus"] == "Completed", example["job"].get("FailureReason")
    assert re.search(r"starting: \S+ M parameters, 2 ranks", example["lines"]) and "step 6 loss" in example["lines"]
    final = {metric["MetricName"]: metric["Value"] for metric in example["job"]["FinalMetricDataList"]}
    first, *_ = (float(loss) for loss in re.findall(r"step 1 loss (\S+)", example["lines"]))
    assert 0 < final["train:loss"] < first and final["train:tokens_per_second"] > 0
    assert {row["metric_name"] for row in example["metrics"]} == set(final)
    with tarfile.open(sdk.folder / "user2/model-of-mpi/model.tar.gz") as model:
        assert {"model.pt", "config.json", "tokenizer.json"} <= {name.removeprefix("./") for name in model.getnames()}


# The SDK sends pytorchddp as smdistributed's dataparallel.
@pytest.mark.parametrize("distribution, level", [("smdistributed", "INFO"), ("pytorchddp", "WARN")])
def test_the_data_parallel_library_starts_its_ranks_with_its_variables(user, distribution, level):
    job = user[distribution]["job"]
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert f"algo-1 ml.p4d.24xlarge {level} smddp" in user[distribution]["lines"]


def test_a_role_by_name_becomes_its_arn(user):
    assert user["mpi"]["job"]["RoleArn"] == "arn:aws:iam::123456789012:role/trainyard"


def test_nothing_left_the_machine(sdk, user):
    sdk.printed("example2")
    assert sdk.server.left_the_machine() == ""
