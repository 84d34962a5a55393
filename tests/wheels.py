# SPDX-License-Identifier: Apache-2.0
"""Small packages for the installers, made without any: wheels are zip files with a list of what they hold."""
import base64
import hashlib
import io
import zipfile


def wheel(name, version, files):
    """The file name and the bytes of a pure Python wheel that holds `files`, path by path."""
    info = f"{name}-{version}.dist-info"
    held = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = "".join(f"{path},sha256={digest(text)},{len(text.encode())}\n" for path, text in held.items())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in (held | {f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}).items():
            archive.writestr(path, text)
    return f"{name}-{version}-py3-none-any.whl", packed.getvalue()


def digest(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
