# SPDX-License-Identifier: Apache-2.0
"""A `trainyard store` for tests."""
import signal
import subprocess

import boto3
import botocore.config
from conftest import BINARY


class Store:
    """One running `trainyard store`, and clients with its key."""

    def __init__(self, root):
        self.root = root
        self.process = subprocess.Popen([BINARY, "store", "--root", root, "--listen", "127.0.0.1:0"],
                                        stdout=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        self.endpoint = words[words.index("serves") + 1]
        lines = (root / "credentials").read_text().splitlines()
        found = dict(line.split(" = ") for line in lines if " = " in line)
        self.key, self.secret = found["aws_access_key_id"], found["aws_secret_access_key"]

    def client(self, endpoint=None, **settings):
        config = botocore.config.Config(retries={"max_attempts": 0}, signature_version="s3v4", **settings)
        return boto3.client("s3", endpoint_url=endpoint or self.endpoint, region_name="us-east-1", config=config,
                            aws_access_key_id=self.key, aws_secret_access_key=self.secret)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)
