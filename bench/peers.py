# SPDX-License-Identifier: Apache-2.0
"""The servers that Trainyard's object store is measured beside, each on a free port of 127.0.0.1.

A peer that cannot be had on this machine is None, with the reason: its bench then gives our figures alone.
"""
import os
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import boto3
import botocore.config

ROOT = Path(__file__).resolve().parent.parent


def program_of(name, fetch):
    """(path, None) or (None, why not)."""
    done = subprocess.run([ROOT / "tools/peers" / name, *([] if fetch else ["--cached"])], capture_output=True, text=True)
    if done.returncode == 0:
        return Path(done.stdout.strip()), None
    return None, (done.stderr.strip().splitlines() or [f"{name} cannot be had"])[-1]


class Peer:
    """A process that answers on `endpoint` once start() has returned."""

    keys = None

    def __init__(self, program, folder, port):
        self.program, self.folder, self.port = program, folder, port
        self.endpoint = f"http://127.0.0.1:{port}"
        folder.mkdir()

    def start(self):
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            env=os.environ | self.environment())
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                urllib.request.urlopen(self.endpoint, timeout=1)
                return self
            except urllib.error.HTTPError:
                return self
            except OSError:
                time.sleep(0.02)
        raise SystemExit(f"{self.program} does not answer: " + (self.folder / "log").read_text()[-2000:])

    def environment(self):
        return {}

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


class Versitygw(Peer):
    """The S3 gateway over a directory, with connections kept alive (its default is one request each)."""

    name = "versitygw 1.8.0"
    keys = ("bench", "bench-secret-key")

    def command(self):
        self.root = self.folder / "root"
        self.root.mkdir(exist_ok=True)
        return [self.program, "--port", f"127.0.0.1:{self.port}", "--region", "us-east-1", "--quiet", "--keep-alive",
                "posix", self.root]

    def environment(self):
        return {"ROOT_ACCESS_KEY": self.keys[0], "ROOT_SECRET_KEY": self.keys[1]}

    def make_bucket(self, bucket):
        boto3.client("s3", endpoint_url=self.endpoint, region_name="us-east-1", aws_access_key_id=self.keys[0],
                     aws_secret_access_key=self.keys[1],
                     config=botocore.config.Config(s3={"addressing_style": "path"})).create_bucket(Bucket=bucket)


class Nginx(Peer):
    """Files by sendfile, unsigned: what a server costs that does nothing else."""

    name = "nginx 1.22"

    def command(self):
        self.root = self.folder / "root"
        self.root.mkdir(exist_ok=True)
        settings = self.folder / "nginx.conf"
        settings.write_text(f"""
daemon off;
worker_processes auto;
pid {self.folder}/pid;
error_log {self.folder}/error.log;
{'user root;' if os.geteuid() == 0 else ''}
events {{ worker_connections 1024; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000000;
  open_file_cache max=10000;
  client_body_temp_path {self.folder}/body;
  proxy_temp_path {self.folder}/proxy;
  fastcgi_temp_path {self.folder}/fastcgi;
  uwsgi_temp_path {self.folder}/uwsgi;
  scgi_temp_path {self.folder}/scgi;
  server {{ listen 127.0.0.1:{self.port}; root {self.root}; }}
}}
""")
        return [self.program, "-p", self.folder, "-c", settings]
