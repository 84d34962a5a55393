#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reduces AWS's Signature Version 4 test suite to one text file for http_test.

usage: gen_sigv4_vectors.py BOTOCORE_SOURCE_DIR > tests/data/sigv4/vectors.txt

The suite lies in tests/unit/auth/aws4_testsuite of botocore's source archive (pinned: 1.44.8), one
folder a case. Output: a line "key<TAB>value" for each fact of a case, an empty line after each case;
backslash, CR, LF and TAB in values are written \\\\, \\r, \\n and \\t.
"""
import pathlib
import sys

PARTS = {"request": ".req", "canonical": ".creq", "to_sign": ".sts", "authorization": ".authz"}
HEADER = """\
# AWS Signature Version 4 Test Suite. Copyright 2019 Amazon.com, Inc. or its affiliates.
# Licensed under the Apache License, Version 2.0. Reduced by tools/gen_sigv4_vectors.py."""


def escape(text: str) -> str:
    for plain, written in (("\\", "\\\\"), ("\r", "\\r"), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(plain, written)
    return text


def main() -> None:
    suite = pathlib.Path(sys.argv[1]) / "tests/unit/auth/aws4_testsuite"
    print(HEADER)
    for request in sorted(suite.rglob("*.req")):
        print(f"name\t{request.stem}")
        for key, suffix in PARTS.items():
            content = request.with_suffix(suffix).read_bytes().decode()
            print(f"{key}\t{escape(content)}")
        print()


if __name__ == "__main__":
    main()
