#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the script of one client against one endpoint and writes what it saw as JSON.

    AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… run.py boto3 http://127.0.0.1:9000 FOLDER OUT [STEP]

Each run wants a store without the script's buckets, and an empty FOLDER.
"""
import importlib
import json
import pathlib
import sys

# The modules of each client: its place and script first, then what adds steps to the script.
CLIENTS = {
    "boto3": ("boto3_place", "boto3_objects", "boto3_forms", "boto3_uploads"),
    "aws": ("aws_steps",),
    "rclone": ("rclone_steps",),
    "s3fs": ("s3fs_steps",),
}


def main():
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    client, endpoint, folder, out = sys.argv[1:5]
    modules = [importlib.import_module(name) for name in CLIENTS[client]]
    place = modules[0].open_place(endpoint, folder)
    try:
        seen = modules[0].script.run(place, *sys.argv[5:])
    finally:
        place.close()
    pathlib.Path(out).write_text(json.dumps(seen, indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
