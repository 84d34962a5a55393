# SPDX-License-Identifier: Apache-2.0
"""A whole job of a server that serves https: everything that a job takes and gives goes by its gateway, which
is plain HTTP on this machine, and asks for no certificate."""
import pytest
from conftest import Jobs, wait_for
from machines import processes_with
from tls_server import OrdinaryTlsServer, TlsServer

WHOLE = '''
import os, sys, boto3
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
data, rank = os.environ["SM_CHANNEL_DATA"], os.environ["RANK"]
print("channel", *(open(os.path.join(data, name)).read() for name in sorted(os.listdir(data))))
print("endpoint", os.environ["AWS_ENDPOINT_URL"].split("//")[0])
for name in ("AWS_CA_BUNDLE", "SSL_CERT_FILE"):
    print(name, "holds certificates:", "BEGIN CERTIFICATE" in open(os.environ[name]).read())
print("identity", boto3.client("sts").get_caller_identity()["Arn"].split(":")[-1].split("/")[0])
s3 = boto3.client("s3")
s3.put_object(Bucket=arguments["--bucket"], Key="by-rank-" + rank, Body=b"written inside")
print("read", s3.get_object(Bucket=arguments["--bucket"], Key="tls/a.txt")["Body"].read().decode())
if arguments["--https"] != "no":
    direct = boto3.client("s3", endpoint_url=arguments["--https"])
    print("read over https", direct.get_object(Bucket=arguments["--bucket"], Key="tls/b.txt")["Body"].read().decode())
print("loss=0.25;")
for place in ("/opt/ml/checkpoints/step-" + rank, os.environ["SM_MODEL_DIR"] + "/weights-" + rank,
              os.environ["SM_OUTPUT_DATA_DIR"] + "/notes-" + rank):
    with open(place, "w") as file:
        file.write("of rank " + rank)
'''


def runs_a_whole_job(server, monkeypatch, reaches_the_api=False):
    made = server.make_certificate()
    assert made.returncode == 0, made.stderr
    # As after `eval "$(./yard env)"` in the shell that starts it: the file lies where no job sees it, but is shown.
    for name in ("AWS_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, str(server.certificate))
    server.start()
    jobs = Jobs(server)
    for name in ("a", "b"):
        jobs.s3.put_object(Bucket=jobs.bucket, Key=f"tls/{name}.txt", Body=name.encode())
    request = jobs.request(name := jobs.new_name("over-tls"), WHOLE, instances=2, torchrun=True,
                           hyperparameters={"bucket": jobs.bucket, "https": server.endpoint if reaches_the_api else "no"},
                           channels={"data": (f"s3://{jobs.bucket}/tls/", "FullyReplicated")},
                           CheckpointConfig={"S3Uri": f"s3://{jobs.bucket}/kept"})
    request["AlgorithmSpecification"]["MetricDefinitions"] = [{"Name": "loss", "Regex": "loss=([0-9.]+);"}]
    jobs.sagemaker.create_training_job(**request)
    job = jobs.wait(name, 120)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert [metric["Value"] for metric in job["FinalMetricDataList"]] == [0.25]
    for host in ("algo-1", "algo-2"):
        lines = jobs.lines(name, host)
        for line in ("channel a b", "endpoint http:", "AWS_CA_BUNDLE holds certificates: True",
                     "SSL_CERT_FILE holds certificates: True", "identity assumed-role", "read a"):
            assert line in lines, lines
        assert ("read over https b" in lines) == reaches_the_api, lines
    bodies = {key: jobs.s3.get_object(Bucket=jobs.bucket, Key=key)["Body"].read()
              for key in ("by-rank-0", "by-rank-1", "kept/step-0", "kept/step-1")}
    assert bodies == {"by-rank-0": b"written inside", "by-rank-1": b"written inside",
                      "kept/step-0": b"of rank 0", "kept/step-1": b"of rank 1"}
    assert jobs.artifact(name) == {"weights-0": b"of rank 0", "weights-1": b"of rank 1"}
    assert jobs.artifact(name, "output")["notes-1"] == b"of rank 1"
    wait_for(lambda: not any((server.home / "run").iterdir()), 10, "clean-up")
    assert not processes_with(str(server.home / "run"))
    assert server.stop() == 0


@pytest.mark.root
def test_a_whole_job_runs_under_a_server_of_https(tmp_path, monkeypatch):
    runs_a_whole_job(TlsServer(tmp_path), monkeypatch)


@pytest.mark.ordinary
def test_a_whole_job_of_an_ordinary_user_runs_under_a_server_of_https(ordinary_user, monkeypatch):
    server = OrdinaryTlsServer(ordinary_user, "secured")
    environment = ordinary_user.environment() | {"AWS_CA_BUNDLE": str(server.certificate)}
    monkeypatch.setattr(ordinary_user, "environment", lambda: environment | {"SSL_CERT_FILE": str(server.certificate)})
    # On the network that they share the job can ask at the other address, too.
    runs_a_whole_job(server, monkeypatch, reaches_the_api=True)
