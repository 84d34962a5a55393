#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/install_packages and tools/python_env behind a proxy, or with a package index of one's own."""
import os
import pathlib
import subprocess
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
PROXIES = {"http_proxy": "http://proxy:3128", "https_proxy": "http://proxy:3128", "no_proxy": "corp"}


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, name, text):
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)

    def test_sudo_passes_on_what_apt_needs(self):
        self.program("id", "echo 1000\n")
        self.program("dpkg-query", "exit 1\n")
        self.program("sudo", 'exec env -i PATH="$PATH" "$@"\n')
        self.program("apt-get", f"env >>{self.folder}/seen\n")
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        subprocess.run([TOOLS / "install_packages", "run"], check=True, env={"PATH": path} | PROXIES, capture_output=True)
        seen = (self.folder / "seen").read_text().splitlines()
        for name, value in (PROXIES | {"DEBIAN_FRONTEND": "noninteractive"}).items():
            self.assertEqual(seen.count(f"{name}={value}"), 2, seen)  # of update and of install

    def test_uv_asks_the_index_that_pip_is_told_of(self):
        uv = pathlib.Path(subprocess.run([TOOLS / "python_env", "tools"], check=True, capture_output=True, text=True).stdout.strip())
        envs = self.folder / "envs"
        envs.mkdir()
        (envs / uv.name).symlink_to(uv)
        (envs / "tools").symlink_to(uv.name)
        nowhere = "http://127.0.0.1:9/simple"
        for told in ({"PIP_INDEX_URL": nowhere}, {"PIP_CONFIG_FILE": f"{self.folder}/pip.conf"}):
            (self.folder / "pip.conf").write_text(f"[global]\nindex-url = {nowhere}\n")
            done = subprocess.run([TOOLS / "python_env", "clients"], capture_output=True, text=True, check=False, env=os.environ | told | {
                "TRAINYARD_ENVS": str(envs), "XDG_CACHE_HOME": str(self.folder / "cache"), "UV_HTTP_RETRIES": "0"})
            self.assertNotEqual(done.returncode, 0, done)
            self.assertIn("127.0.0.1:9", done.stderr)


if __name__ == "__main__":
    unittest.main()
