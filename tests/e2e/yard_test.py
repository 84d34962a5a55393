# SPDX-License-Identifier: Apache-2.0
"""./yard itself: what is asked for wrongly does nothing, and a home keeps its server apart from others."""
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest
from conftest import BINARY, ROOT, Server, wait_for, withheld
from yard_command import environment, yard


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "a home"
    yield folder
    yard("down", home=folder)


@pytest.mark.parametrize("arguments, words", [
    (["quickstart", "--foo"], "no '--foo'"),
    (["quickstart", "--steps", "many"], "a number"),
    (["quickstart", "--corpus"], "which file"),
    (["test", "bogus"], "no such label: bogus"),
    (["bench", "bogus"], "one of api"),
    (["bench"], "one of api"),
    (["down", "--foo"], "takes --jobs"),
    (["up", "--tls-cert"], "which file"),
    (["up", "--listen"], "which address"),
    (["env", "now"], "takes no 'now'"),
    (["clean", "all"], "takes no 'all'"),
    (["fly"], "no such verb: fly"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_a_mistake_is_told_before_anything_is_done(home, arguments, words):
    done = yard(*arguments, home=home)
    assert (done.returncode, done.stdout) == (2, "") and words in done.stderr, done
    assert not home.exists()


@pytest.mark.parametrize("bytes_in_it, words", [(None, "no file"), (5, "too short")])
def test_a_corpus_that_nobody_can_learn_from_is_refused_first(home, tmp_path, bytes_in_it, words):
    if bytes_in_it is not None:
        (tmp_path / "corpus.txt").write_text("x" * bytes_in_it)
    done = yard("quickstart", "--corpus", "corpus.txt", home=home, folder=tmp_path)
    assert done.returncode == 1 and words in done.stderr and str(tmp_path) in done.stderr, done


def test_help_starts_nothing(home):
    for verb in ("quickstart", "up", "down", "env", "build"):
        done = yard(verb, "--help", home=home)
        assert done.returncode == 0 and "./yard quickstart" in done.stdout, done
    assert not home.exists()


def test_verbs_speak_of_the_server_of_this_home(home, tmp_path):
    other = tmp_path / "other"
    assert yard("up", home=home).returncode == 0
    port = (home / "client" / "port").read_text().strip()
    up = yard("status", home=home, AWS_ENDPOINT_URL="http://127.0.0.1:1")
    assert up.returncode == 0 and f"127.0.0.1:{port}" in up.stderr, up
    down = yard("status", home=other, AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}")
    assert down.returncode == 1 and str(other) in down.stderr, down
    again = yard("up", "--tls", home=home)
    assert again.returncode == 1 and "without `--tls`" in again.stderr, again
    as_it_is = yard("up", "--no-tls", home=home)
    assert as_it_is.returncode == 0 and "up already" in as_it_is.stderr, as_it_is
    cleaned = yard("clean", home=home)
    assert cleaned.returncode == 1 and "./yard down" in cleaned.stderr and (ROOT / "build").exists(), cleaned


def test_a_home_keeps_its_port_while_that_is_free(home):
    assert yard("up", home=home).returncode == 0
    port = (home / "client" / "port").read_text()
    assert yard("down", "--jobs", home=home).stderr.endswith("its jobs have ended\n")
    assert yard("up", home=home).returncode == 0
    assert (home / "client" / "port").read_text() == port
    assert yard("down", home=home).returncode == 0
    with socket.create_server(("127.0.0.1", int(port))):
        moved = yard("up", home=home)
        assert moved.returncode == 0 and f"Port {port.strip()} belongs to another program" in moved.stderr, moved


def about(home):
    return json.loads((home / "server.json").read_text())


def test_an_address_in_a_file_of_a_server_that_was_killed_is_nobodys(home, tmp_path):
    """Somebody else's server may have it by then."""
    assert yard("up", home=home).returncode == 0
    os.kill(about(home)["pid"], signal.SIGKILL)
    wait_for(lambda: yard("status", home=home).returncode == 1, what="the server's end")
    (tmp_path / "other").mkdir()
    other = Server(tmp_path / "other").start()
    try:
        (home / "server.json").write_text((tmp_path / "other" / "server.json").read_text())
        assert "No server is running" in yard("down", home=home).stderr
        up = yard("up", home=home)
        assert up.returncode == 0 and "is up: " in up.stderr, up
        assert about(home)["endpoint"] != other.endpoint and about(home)["pid"] != other.process.pid
    finally:
        assert other.stop() == 0


def test_a_server_of_another_checkout_is_the_homes_as_well(home, tmp_path):
    (tmp_path / "old").mkdir()
    program = tmp_path / "old" / "trainyard"
    shutil.copy(BINARY, program)
    with subprocess.Popen([program, "server", "--home", home, "--listen", "127.0.0.1:0"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, env=environment(home)) as old:
        wait_for(lambda: yard("status", home=home).returncode == 0, what="the old server being up")
        assert "up already" in yard("up", home=home).stderr
        down = yard("down", home=home)
        assert down.returncode == 0 and "The server is down" in down.stderr, down
        assert old.wait(10) == 0


def test_a_start_that_takes_long_is_waited_for_and_can_be_stopped(home):
    assert yard("up", home=home).returncode == 0
    assert yard("down", home=home).returncode == 0
    words = dict(stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment(home))
    with withheld(home / "trainyard.db"):
        with subprocess.Popen([ROOT / "yard", "up"], **words) as starting:
            wait_for(lambda: "is starting" in yard("up", "--tls", home=home).stderr, what="the server having begun")
            down = yard("down", home=home)
            assert down.returncode == 0 and "The server is down" in down.stderr, down
            assert "did not start" in starting.communicate(timeout=30)[1] and starting.returncode == 1


@pytest.mark.slow
def test_a_start_may_take_longer_than_most(home):
    """Each of two databases is withheld for a while; one alone would be given up after 10 s."""
    assert yard("up", home=home).returncode == 0
    assert yard("down", home=home).returncode == 0
    began = time.monotonic()
    with withheld(home / "trainyard.db"):
        with withheld(home / "objects" / "index.db"):
            starting = subprocess.Popen([ROOT / "yard", "up"], stderr=subprocess.PIPE, text=True, env=environment(home))
            time.sleep(7)
        time.sleep(7)
    told = starting.communicate(timeout=30)[1]
    assert starting.returncode == 0 and "is still starting" in told and time.monotonic() - began > 14, told


def test_a_certificate_that_this_machine_cannot_check_hides_no_server(home, tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                    "/CN=corp", "-addext", "subjectAltName=DNS:*.corp.example", "-keyout", tmp_path / "key.pem", "-out",
                    tmp_path / "cert.pem"], check=True, capture_output=True)
    up = yard("up", "--tls-cert", tmp_path / "cert.pem", "--tls-key", tmp_path / "key.pem", home=home)
    assert up.returncode == 0 and "It serves https" in up.stderr, up
    assert "The server is up: https" in yard("status", home=home).stderr
    stopping = yard("down", "--jobs", home=home)
    assert stopping.returncode == 1 and "nothing was stopped" in stopping.stderr, stopping
    os.kill(about(home)["pid"], 0)
    assert yard("down", home=home).returncode == 0


def test_env_trusts_this_servers_certificate_and_no_earlier_one(home, tmp_path):
    (tmp_path / "corp.pem").write_text("not for this server")
    assert yard("up", "--tls", home=home).returncode == 0
    status = yard("status", home=home, AWS_CA_BUNDLE=str(tmp_path / "corp.pem"))
    assert status.returncode == 0, status
    bundle = about(home)["ca_bundle"]
    assert f'export AWS_CA_BUNDLE="{bundle}"' in yard("env", home=home).stdout
    assert yard("down", home=home).returncode == 0
    assert yard("up", "--no-tls", home=home).returncode == 0
    assert "unset AWS_CA_BUNDLE" in yard("env", home=home, AWS_CA_BUNDLE=bundle).stdout
    assert "AWS_CA_BUNDLE" not in yard("env", home=home, AWS_CA_BUNDLE=str(tmp_path / "corp.pem")).stdout


def test_a_home_keeps_its_region(home):
    for asked in (["--region", "eu-west-1"], []):
        assert yard("up", *asked, home=home).returncode == 0
        shown = yard("env", home=home).stdout
        assert "export AWS_REGION=eu-west-1\n" in shown and "us-east-1" not in shown, shown
        defaults = (home / "client" / "sagemaker.yaml").read_text()
        assert "sagemaker-eu-west-1-123456789012" in defaults, defaults
        assert yard("down", home=home).returncode == 0


def certify(folder, *flags):
    subprocess.run([BINARY, "certificate", "--out", folder, *flags], check=True, capture_output=True)


def endpoint(home):
    return about(home)["endpoint"]


def address(home):
    host, port = endpoint(home).removeprefix("https://").split(":")
    return host, int(port)


def test_a_home_keeps_its_tls_until_it_is_told_otherwise(home):
    certify(home / "tls", "--name", "127.0.0.2")
    listen = ["--listen", "127.0.0.2:0"]
    for asked, place in ((["--tls", *listen], "https://127.0.0.2"),
                         (["--insecure-http"], "http://127.0.0.1"), ([], "https://127.0.0.2"),
                         (["--no-tls"], "http://127.0.0.1"), ([], "http://127.0.0.1")):
        up = yard("up", *asked, home=home)
        assert up.returncode == 0 and endpoint(home).startswith(f"{place}:"), up
        status = yard("status", home=home)
        for told in (up, status):
            assert ("./yard up --no-tls" in told.stderr) == place.startswith("https"), told
        assert status.returncode == 0 and yard("down", home=home).returncode == 0, status


def test_a_home_keeps_a_certificate_of_its_users_wherever_a_link_leads(home, tmp_path):
    for name in ("old", "new"):
        certify(tmp_path / name)
    link = tmp_path / "live"
    link.symlink_to("old")
    files = ["--tls-cert", "live/tls-cert.pem", "--tls-key=live/tls-key.pem"]
    assert yard("up", *files, home=home, folder=tmp_path).returncode == 0
    shown = [ssl.get_server_certificate(address(home))]
    assert yard("down", home=home).returncode == 0
    link.unlink()
    link.symlink_to("new")
    again = yard("up", home=home)
    assert again.returncode == 0, again
    shown.append(ssl.get_server_certificate(address(home)))
    for name, certificate in zip(("old", "new"), shown):
        assert certificate in (tmp_path / name / "tls-cert.pem").read_text(), name
    assert yard("down", home=home).returncode == 0
    plain = yard("up", "--insecure-http", home=home)
    assert plain.returncode == 0 and endpoint(home).startswith("http://"), plain


def test_a_home_may_be_relative_and_the_users_own_may_be_unknown(tmp_path):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_") and name != "HOME"}
    done = subprocess.run([ROOT / "yard", "status"], capture_output=True, text=True, timeout=60, cwd=tmp_path,
                          env=clean | {"TRAINYARD_HOME": "mine"})
    assert done.returncode == 1 and str(tmp_path / "mine") in done.stderr, done


def test_a_failed_start_shows_its_own_reasons_only(home):
    first = yard("up", "--listen", "nowhere", home=home)
    assert first.returncode == 1 and "nowhere" in first.stderr, first
    second = yard("up", "--foo", home=home)
    assert second.returncode == 1 and "nowhere" not in second.stderr, second
