# SPDX-License-Identifier: Apache-2.0
"""The stock SageMaker Python SDK v3 runs unmodified: examples/llm/submit_sdk3.py and a user's session."""
import re
import tarfile

import pytest
from hints import text_by_the_hint

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def user(sdk):
    return sdk.found("user3")


def test_train_shows_the_lines_of_both_instances(sdk):
    printed = sdk.printed("example3")
    assert re.search(r"starting: \S+ M parameters, 2 ranks", printed)
    assert "step 4 loss" in printed
    for rank in (0, 1):
        assert f"--master_addr=algo-1 --master_port=7777 --node_rank={rank} train.py" in printed


def test_train_leaves_a_model_that_the_downloader_brings_home(sdk):
    printed = sdk.printed("example3")
    with tarfile.open(sdk.folder / "example3/model.tar.gz") as model:
        assert "model.pt" in {name.removeprefix("./") for name in model.getnames()}
    assert text_by_the_hint(printed, sdk.folder / "example3").startswith("Train")


def test_get_all_finds_the_job_by_a_part_of_its_name(user):
    job = user["job"]
    assert job["status"] == "Completed"
    assert job["entrypoint"] == ["/bin/bash"]
    assert set(job["channels"]) == {"training", "code", "sm_drivers"}
    assert job["model"].endswith("/output/model.tar.gz")
    assert job["hyperparameters"]["steps"] == "4"


def test_the_job_shows_its_final_metrics(user):
    assert set(user["job"]["metrics"]) == {"train:loss", "train:tokens_per_second"}
    assert 0 < user["job"]["metrics"]["train:loss"] < 8


def test_torchrun_finds_the_backend_of_jobs_on_cpus(user):
    assert user["torchrun"]["status"] == "Completed"
    for rank in (0, 1):
        assert any(f"rank {rank} by default yard" in line for line in user["torchrun"]["lines"]), user["torchrun"]


def test_requirements_of_the_source_code_are_installed(user):
    assert user["package"]["status"] == "Completed", user["package"]
    assert "imported good morning" in user["package"]["lines"]


def test_a_failing_job_raises_with_the_reason(user):
    # The SDK's own driver writes the reason; the program's last words are in the log.
    assert "AlgorithmError: algo-1 exited with code 1" in user["fail"] and "'main.py'" in user["fail"], user["fail"]


def test_roles_are_found_without_asking_aws(user):
    assert user["role"].startswith("arn:aws:iam::123456789012:role/")
    assert user["account"] == "123456789012"


def test_what_is_not_served_is_an_error_that_the_sdk_can_read(user):
    assert "RoleAutoCreationError" in user["create_role"] and "iam:CreateRole" in user["create_role"]
    assert user["lambda"]["Code"] == "AccessDeniedException" and "lambda" in user["lambda"]["Message"]


def test_nothing_left_the_machine(sdk, user):
    sdk.printed("example3")
    assert sdk.server.left_the_machine() == ""
