# SPDX-License-Identifier: Apache-2.0
"""The API over https: stock clients, the certificate that `trainyard certificate` makes, and peers
that misbehave before a connection is theirs."""
import hashlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import warnings

import boto3.s3.transfer
import pytest
from botocore.exceptions import SSLError
from conftest import BINARY, ROOT, Jobs, Server, wait_for
from tls_server import TlsServer

SIZE = 64 << 20


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    running = TlsServer(tmp_path_factory.mktemp("tls-home"))
    made = running.make_certificate("--name", "yard.test", "--name", "10.1.2.3")
    assert made.returncode == 0, made.stderr
    running.start()
    running.stuck = [running.connect() for _ in range(300)]
    for peer in running.stuck:
        peer.sendall(b"\x16\x03\x01\x02")
    running.client("s3").create_bucket(Bucket="tls-bucket")
    yield running
    for peer in running.stuck:
        peer.close()
    assert running.stop() == 0


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "large.bin"
    path.write_bytes(os.urandom(1 << 20) * (SIZE >> 20))
    return path


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_handshakes_that_never_end_hold_nobody_up(tls):
    assert tls.client("sagemaker").list_training_jobs()["TrainingJobSummaries"] == []


def test_boto3_puts_and_gets_64_mib_in_one_request_and_in_parts(tls, large, tmp_path):
    s3 = tls.client("s3")
    with large.open("rb") as body:
        s3.put_object(Bucket="tls-bucket", Key="whole", Body=body)
    parts = boto3.s3.transfer.TransferConfig(multipart_threshold=8 << 20, multipart_chunksize=8 << 20)
    s3.upload_file(str(large), "tls-bucket", "parts", Config=parts)
    for key in ("whole", "parts"):
        s3.download_file("tls-bucket", key, str(tmp_path / key), Config=parts)
        assert digest(tmp_path / key) == digest(large)
    body = s3.get_object(Bucket="tls-bucket", Key="whole")["Body"].read()
    assert hashlib.sha256(body).hexdigest() == digest(large)


def test_the_aws_command_works_after_yard_env(tls, large, tmp_path):
    env = tls.environment()
    assert env["AWS_ENDPOINT_URL"].startswith("https://127.0.0.1:")
    assert env["AWS_CA_BUNDLE"] == str(tls.certificate)

    def aws(*args):
        return subprocess.run(["aws", *args], env=env, capture_output=True, text=True, timeout=120)

    up = aws("s3", "cp", "--no-progress", str(large), "s3://tls-bucket/cli")
    assert up.returncode == 0, up.stderr
    down = aws("s3", "cp", "--no-progress", "s3://tls-bucket/cli", str(tmp_path / "cli"))
    assert down.returncode == 0, down.stderr
    assert digest(tmp_path / "cli") == digest(large)
    listed = aws("sagemaker", "list-training-jobs", "--output", "json")
    assert listed.returncode == 0 and json.loads(listed.stdout) == {"TrainingJobSummaries": []}, listed.stderr


@pytest.mark.root
def test_a_job_runs_and_is_followed_over_https(tls):
    jobs = Jobs(tls)
    name = jobs.create("tls", 'print("said over https")')
    followed = subprocess.run([BINARY, "logs", "-f", name], env=tls.environment(), capture_output=True, text=True, timeout=60)
    assert followed.returncode == 0 and "said over https" in followed.stdout, followed.stderr
    assert jobs.wait(name)["TrainingJobStatus"] == "Completed"


def test_our_own_verbs_find_the_certificate_by_the_environment_and_by_the_home(tls):
    env = tls.environment()
    home_only = {k: v for k, v in env.items() if not k.startswith("AWS_")}
    for case in (env, home_only):
        done = subprocess.run([BINARY, "list"], env=case, capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, done.stderr


def test_a_client_that_does_not_know_the_certificate_refuses_the_server(tls):
    with pytest.raises(SSLError):
        tls.client("sagemaker", verify=True).list_training_jobs()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "yard.test", "bucket.yard.test", "10.1.2.3"])
def test_the_certificate_is_good_for_every_name_under_strict_rules(tls, name):
    context = tls.context()
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with context.wrap_socket(tls.connect(), server_hostname=name) as connection:
        assert connection.version() == "TLSv1.3"


def test_the_certificate_is_good_for_no_other_name(tls):
    with pytest.raises(ssl.SSLCertVerificationError):
        tls.context().wrap_socket(tls.connect(), server_hostname="elsewhere.test")


@pytest.mark.parametrize("garbage", [b"\0" * 400, b"\xff" * 400, b"SSH-2.0-x\r\n", b"\x16\x03\x01\xff\xff" + b"a" * 400])
def test_garbage_instead_of_a_handshake_ends_the_connection(tls, garbage):
    with tls.connect() as peer:
        peer.sendall(garbage)
        peer.shutdown(socket.SHUT_WR)
        received = b""
        while piece := peer.recv(4096):
            received += piece
    assert len(received) < 16  # an alert at most
    tls.client("sagemaker").list_training_jobs()


def test_plain_http_is_told_to_use_https(tls):
    with tls.connect() as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = peer.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 400 ") and answer.endswith(b"use an https:// address\n")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_a_client_that_offers_old_versions_only_is_refused(tls, version):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version
    with pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(tls.connect())


def test_alpn_agrees_on_http_1_1_or_on_nothing(tls):
    context = tls.context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with context.wrap_socket(tls.connect(), server_hostname="localhost") as connection:
        assert connection.selected_alpn_protocol() == "http/1.1"
    context.set_alpn_protocols(["h2"])
    with pytest.raises(ssl.SSLError):
        context.wrap_socket(tls.connect(), server_hostname="localhost")


def test_a_new_certificate_is_shown_after_sighup_and_a_bad_one_never(tmp_path):
    server = TlsServer(tmp_path)
    server.make_certificate()
    server.start()
    try:
        first = server.shown()
        client = server.client("sagemaker")
        client.list_training_jobs()
        assert server.make_certificate().returncode == 1  # clients trust the old one
        assert server.make_certificate("--force").returncode == 0
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: _shown_now(server) not in (None, first), 10, "the new certificate")
        client.list_training_jobs()  # its connection goes on
        second = server.shown()
        server.key.write_text("no key")
        server.process.send_signal(signal.SIGHUP)
        log = server.home / "server.log"
        wait_for(lambda: "the old certificate stays in use" in log.read_text(), 10, "the complaint")
        assert server.shown() == second
    finally:
        assert server.stop() == 0


def test_handshakes_that_never_end_are_given_up(tls):
    for peer in tls.stuck:
        assert peer.recv(100) == b""  # 10 s after they began


def _shown_now(server):
    try:
        return server.shown()
    except ssl.SSLError:
        return None  # between the replacement of the files and the reload


def _start(home, *flags):
    return subprocess.run([BINARY, "server", "--home", home, "--listen", "127.0.0.1:0", *flags],
                          capture_output=True, text=True, timeout=20)


def test_what_is_wrong_with_the_files_is_said_before_anything_is_made(tmp_path):
    server = TlsServer(tmp_path / "one")
    other = TlsServer(tmp_path / "two")
    for one in (server, other):
        one.home.mkdir()
        assert one.make_certificate().returncode == 0
    encrypted, home = tmp_path / "encrypted.pem", tmp_path / "home"
    subprocess.run(["openssl", "pkey", "-in", server.key, "-aes256", "-passout", "pass:x", "-out", encrypted], check=True)
    cases = [((server.certificate, other.key), "is not that of the first certificate"),
             ((server.certificate, encrypted), "is encrypted"),
             ((server.key, server.key), "holds no certificate"),
             ((server.certificate, tmp_path / "none"), "none")]
    for (certificate, key), complaint in cases:
        done = _start(home, "--tls-cert", certificate, "--tls-key", key)
        assert done.returncode != 0 and complaint in done.stderr, done.stderr
    assert not (home / "trainyard.db").exists()


@pytest.mark.root
def test_a_machine_whose_name_no_certificate_can_hold_gets_one_without_it(tmp_path):
    script = 'import socket, subprocess, sys; socket.sethostname("my_laptop"); sys.exit(subprocess.call(sys.argv[1:]))'
    done = subprocess.run(["unshare", "--uts", sys.executable, "-c", script, BINARY, "certificate", "--out", tmp_path / "tls"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_address_that_others_reach_needs_tls_or_the_flag(tmp_path):
    done = subprocess.run([BINARY, "server", "--home", tmp_path, "--listen", "0.0.0.0:0"],
                          capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "--tls-cert" in done.stderr and "--insecure-http" in done.stderr


@pytest.mark.skipif(BINARY != ROOT / "build/release/bin/trainyard", reason="./yard runs its own build")
def test_yard_up_makes_a_certificate_once_and_env_names_it(tmp_path):
    env = os.environ | {"TRAINYARD_HOME": str(tmp_path / "home")}

    def yard(*args):
        return subprocess.run([ROOT / "yard", *args], env=env, capture_output=True, text=True, timeout=120)

    shown = []
    for _ in range(2):
        up = yard("up", "--tls", "--listen", "127.0.0.1:0")
        assert up.returncode == 0 and "https://127.0.0.1:" in up.stderr, up.stderr
        try:
            exports = yard("env").stdout
            assert f'export AWS_CA_BUNDLE="{tmp_path}/home/tls/tls-cert.pem"' in exports
            shown.append((tmp_path / "home/tls/tls-cert.pem").read_bytes())
        finally:
            assert yard("down").returncode == 0
    assert shown[0] == shown[1]
