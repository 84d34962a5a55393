# SPDX-License-Identifier: Apache-2.0
"""s3fs (Debian's): a bucket as a file system, through the calls of the system.

run.py runs this script in a mount namespace of its own, so that no mount outlives it, whatever
becomes of it. What the file system made is also looked at from outside, as objects, by boto3.
"""
import errno
import filecmp
import mmap
import os
import shutil
import signal
import stat
import subprocess
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor

import boto3
import botocore.config
from script import MIB, Place, Script, brief, noise

BUCKET = "steps-s3fs"
TYPES = {stat.S_IFDIR: "folder", stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFIFO: "pipe"}
script = Script("s3fs")


class S3fsPlace(Place):
    refusals = (OSError,)

    def __init__(self, endpoint, folder):
        super().__init__(endpoint, folder)
        config = botocore.config.Config(retries={"max_attempts": 0}, signature_version="s3v4")
        self.objects = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", config=config,
                                    aws_access_key_id=self.key, aws_secret_access_key=self.secret)
        self.objects.create_bucket(Bucket=BUCKET)
        self.passwords = self.file("passwords", f"{self.key}:{self.secret}\n")
        self.passwords.chmod(0o600)
        self.top, self.mounts = self.folder / "mount", {}

    def mount(self, at, *options, passwords=None, folder=""):
        """Mounts the bucket; what s3fs says when it will not."""
        at.mkdir(exist_ok=True)
        chosen = ["use_path_request_style", "multipart_size=5", "endpoint=us-east-1", "retries=1", "sigv4", "use_xattr",
                  f"url={self.endpoint}", f"passwd_file={passwords or self.passwords}", f"tmpdir={self.folder}",
                  *options]
        words = [word for option in chosen for word in ("-o", option)]
        with (self.folder / "s3fs.log").open("ab") as log:
            self.mounts[at] = subprocess.Popen(["s3fs", BUCKET + folder, str(at), "-f", *words], stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while not os.path.ismount(at):
            if self.mounts[at].poll() is not None:
                return f"ended with {self.mounts.pop(at).returncode}"
            if time.monotonic() > deadline:
                return "no mount after 20 s"
            time.sleep(0.01)
        return "mounted"

    def unmount(self, at):
        process = self.mounts.pop(at)
        done = subprocess.run(["umount", str(at)], capture_output=True, timeout=20)
        try:
            return [done.returncode, process.wait(20), os.path.ismount(at)]
        except subprocess.TimeoutExpired:
            process.kill()
            return "did not end"

    def close(self):
        for at, process in list(self.mounts.items()):
            process.send_signal(signal.SIGKILL)
            process.wait()
            subprocess.run(["umount", "-l", str(at)], capture_output=True)

    def refusal(self, error):
        return errno.errorcode.get(error.errno, str(error.errno))

    def shown(self, value):
        return brief(value) if isinstance(value, bytes) else value

    def path(self, name):
        return self.top / name

    def write(self, name, body):
        self.path(name).write_bytes(body)

    def read(self, name):
        return brief(self.path(name).read_bytes())

    def object(self, key):
        return brief(self.objects.get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def keys(self, prefix):
        found = self.objects.list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return [o["Key"] for o in found.get("Contents", [])]

    def kind(self, name):
        """What a name is, or why it is nothing."""
        return self.ask(lambda: TYPES[stat.S_IFMT(self.path(name).lstat().st_mode)])


def open_place(endpoint, folder):
    return S3fsPlace(endpoint, folder)


# Mounts

@script
def mount_with_a_wrong_secret_is_refused(c):
    wrong = c.file("wrong", f"{c.key}:wrong\n")
    wrong.chmod(0o600)
    return c.mount(c.folder / "refused", passwords=wrong)


@script
def mount_an_empty_bucket(c):
    return [c.mount(c.top), os.listdir(c.top)]


@script
def a_mounted_bucket_has_room(c):
    room = os.statvfs(c.top)
    return [room.f_bavail > 0, room.f_namemax]


# Files

@script
def write_a_file_and_find_the_object(c):
    c.write("file", b"hello")
    return [c.read("file"), c.object("file"), c.path("file").stat().st_size]


@script
def write_an_empty_file(c):
    c.write("empty", b"")
    return [c.path("empty").stat().st_size, c.keys("empty")]


@script
def find_an_object_that_another_client_put(c):
    c.objects.put_object(Bucket=BUCKET, Key="foreign", Body=b"from outside")
    return [c.read("foreign"), "foreign" in os.listdir(c.top)]


@script
def find_a_folder_that_is_only_a_prefix(c):
    c.objects.put_object(Bucket=BUCKET, Key="prefix/in/file", Body=b"below")
    return [os.listdir(c.path("prefix")), c.kind("prefix/in"), c.read("prefix/in/file")]


@script
def miss_a_file(c):
    return c.read("absent")


@script
def append_to_a_file(c):
    with c.path("file").open("ab") as file:
        file.write(b" world")
    return [c.read("file"), c.object("file")]


@script
def overwrite_in_the_middle(c):
    with c.path("file").open("r+b") as file:
        file.seek(6)
        file.write(b"W")
    return c.object("file")


@script
def shorten_a_file(c):
    with c.path("file").open("r+b") as file:
        file.truncate(5)
    return c.object("file")


@script
def lengthen_a_file(c):
    with c.path("file").open("r+b") as file:
        file.truncate(8)
    return c.object("file")


@script
def write_behind_the_end(c):
    with c.path("gap").open("wb") as file:
        file.seek(10)
        file.write(b"end")
    return c.object("gap")


@script
def replace_a_file(c):
    c.write("file", b"anew")
    return c.object("file")


@script
def make_a_file_only_if_it_is_new(c):
    os.close(os.open(c.path("exclusive"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    return c.ask(lambda: os.open(c.path("exclusive"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))


@script
def a_synced_file_is_in_the_store_before_it_is_closed(c):
    with c.path("synced").open("wb") as file:
        file.write(b"synced")
        file.flush()
        os.fsync(file.fileno())
        return c.object("synced")


@script
def an_open_file_reads_what_it_wrote(c):
    with c.path("both").open("w+b") as file:
        file.write(b"0123456789")
        file.seek(3)
        return file.read(4).decode()


@script
def map_a_file_into_memory(c):
    c.write("mapped", noise(100_000, 31))
    with c.path("mapped").open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as found:
        return found[50_000:50_100] == noise(100_000, 31)[50_000:50_100]


@script
def read_ranges_of_a_file_as_they_come(c):
    with c.path("mapped").open("rb") as file:
        return [os.pread(file.fileno(), 4, at) == noise(100_000, 31)[at:at + 4] for at in (99_996, 0, 65_535)]


@script
def remove_a_file(c):
    c.path("both").unlink()
    return [c.kind("both"), c.keys("both")]


@script
def remove_an_absent_file(c):
    return c.path("absent").unlink()


@script
def go_on_reading_a_file_that_was_removed(c):
    with c.path("mapped").open("rb") as file:
        first = file.read(10)
        c.path("mapped").unlink()
        return (first + file.read()) == noise(100_000, 31)


# Large files

@script
def write_12_mib_in_parts(c):
    c.write("large", noise(12 * MIB + 1, 32))
    return [c.object("large") == brief(noise(12 * MIB + 1, 32)),
            c.objects.head_object(Bucket=BUCKET, Key="large")["ETag"].partition("-")[2]]


@script
def read_12_mib_back(c):
    return c.read("large") == brief(noise(12 * MIB + 1, 32))


@script
def append_to_a_large_file(c):
    with c.path("large").open("ab") as file:
        file.write(b"tail")
    return c.object("large") == brief(noise(12 * MIB + 1, 32) + b"tail")


@script
def change_the_middle_of_a_large_file(c):
    with c.path("large").open("r+b") as file:
        file.seek(6 * MIB)
        file.write(b"middle")
    found = bytearray(noise(12 * MIB + 1, 32) + b"tail")
    found[6 * MIB:6 * MIB + 6] = b"middle"
    return c.object("large") == brief(bytes(found))


@script
def rename_a_large_file(c):
    before = c.object("large")
    c.path("large").rename(c.path("larger"))
    return [c.object("larger") == before, c.keys("large")]


@script
def copy_a_large_file(c):
    shutil.copyfile(c.path("larger"), c.path("copy"))
    return [filecmp.cmp(c.path("larger"), c.path("copy"), shallow=False), c.object("copy") == c.object("larger")]


@script
def leave_no_unfinished_upload(c):
    return c.objects.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])


# Folders

@script
def make_a_folder(c):
    c.path("folder").mkdir()
    return [c.kind("folder"), c.keys("folder")]


@script
def make_a_folder_twice(c):
    return c.path("folder").mkdir()


@script
def make_a_file_in_a_folder(c):
    c.write("folder/file", b"in")
    return [os.listdir(c.path("folder")), c.keys("folder")]


@script
def refuse_to_remove_a_full_folder(c):
    return c.path("folder").rmdir()


@script
def remove_an_empty_folder(c):
    c.path("folder/file").unlink()
    c.path("folder").rmdir()
    return [c.kind("folder"), c.keys("folder")]


@script
def make_nested_folders(c):
    c.path("n/e/s/t").mkdir(parents=True)
    c.write("n/e/s/t/file", b"deep")
    return sorted(str(p.relative_to(c.top)) for p in c.path("n").rglob("*"))


@script
def rename_a_folder(c):
    c.path("n/e").rename(c.path("n/moved"))
    return [sorted(str(p.relative_to(c.top)) for p in c.path("n").rglob("*")), c.object("n/moved/s/t/file")]


@script
def rename_a_file(c):
    c.write("before", b"name")
    c.path("before").rename(c.path("after"))
    return [c.kind("before"), c.read("after")]


@script
def rename_over_another_file(c):
    c.write("winner", b"winner")
    c.path("winner").rename(c.path("after"))
    return [c.read("after"), c.keys("winner")]


@script
def remove_a_tree(c):
    shutil.rmtree(c.path("n"))
    return [c.kind("n"), c.keys("n/")]


@script
def list_a_folder_of_many_files(c):
    with ThreadPoolExecutor(8) as workers:
        list(workers.map(lambda n: c.objects.put_object(Bucket=BUCKET, Key=f"many/{n:04}", Body=b""), range(1010)))
    found = sorted(os.listdir(c.path("many")))
    return [len(found), found[0], found[-1]]


@script
def walk_a_tree(c):
    for name in ("walk/a/1", "walk/a/2", "walk/b/c/3"):
        c.path(name).parent.mkdir(parents=True, exist_ok=True)
        c.write(name, name.encode())
    return sorted([str(c.path(at).relative_to(c.top)), sorted(folders), sorted(files)]
                  for at, folders, files in os.walk(c.path("walk")))


@script
def copy_a_tree_in_and_out(c):
    shutil.copytree(c.path("walk"), c.folder / "walk.out")
    shutil.copytree(c.folder / "walk.out", c.path("walk.in"))
    same = filecmp.dircmp(c.folder / "walk.out", c.path("walk.in"))
    return [same.left_only, same.right_only, same.diff_files, c.keys("walk.in/b/")]


@script
def unpack_an_archive(c):
    with tarfile.open(c.folder / "archive.tar", "w") as archive:
        archive.add(c.folder / "walk.out", "packed")
    with tarfile.open(c.folder / "archive.tar") as archive:
        archive.extractall(c.top)
    return [c.object("packed/a/2"), sorted(os.listdir(c.path("packed")))]


# Attributes

@script
def keep_the_mode_of_a_file(c):
    c.path("after").chmod(0o640)
    return oct(c.path("after").stat().st_mode)


@script
def keep_the_owner_of_a_file(c):
    os.chown(c.path("after"), 12, 34)
    found = c.path("after").stat()
    return [found.st_uid, found.st_gid, c.read("after")]


@script
def keep_the_time_of_a_file(c):
    os.utime(c.path("after"), (1.5e9, 1.5e9))
    return int(c.path("after").stat().st_mtime)


@script
def keep_extended_attributes(c):
    os.setxattr(c.path("after"), "user.step", b"value")
    return [os.getxattr(c.path("after"), "user.step").decode(), os.listxattr(c.path("after"))]


@script
def take_extended_attributes_off(c):
    os.removexattr(c.path("after"), "user.step")
    return c.ask(os.getxattr, c.path("after"), "user.step")


@script
def attributes_are_metadata_of_the_object(c):
    found = c.objects.head_object(Bucket=BUCKET, Key="after")["Metadata"]
    return {name: found.get(name) for name in ("mode", "uid", "gid", "mtime")}


@script
def make_a_link(c):
    c.path("link").symlink_to("after")
    return [os.readlink(c.path("link")), c.read("link"), c.kind("link")]


@script
def make_a_link_to_nothing(c):
    c.path("broken").symlink_to("nowhere/at all")
    return [os.readlink(c.path("broken")), c.ask(c.read, "broken"), c.kind("broken")]


@script
def refuse_a_second_name_of_a_file(c):
    return os.link(c.path("after"), c.path("second"))


@script
def make_a_pipe(c):
    os.mkfifo(c.path("pipe"))
    return c.kind("pipe")


# Names

def named(name):
    def step(c):
        c.write(name, b"odd")
        listed = name in os.listdir(c.top)
        outside = c.object(name)
        c.path(name).unlink()
        return [listed, outside, c.kind(name)]
    return step


NAMES = {"a space": "a b", "a plus": "a+b", "a percent": "100%25 %zz", "a question mark and a hash": "a?b#c",
         "an ampersand and angles": "<a>&amp;'\"", "a backslash": "a\\b", "a colon and a pipe": "a:b|c*",
         "a tab": "a\tb", "a line feed": "a\nb", "a carriage return": "a\rb", "umlauts": "äöü",
         "four-byte characters": "\U0001f682", "only dots": "...", "a leading dot": ".hidden", "a trailing space": "a ", "a tilde": "~a~",
         "255 bytes": "n" * 255}
for what, odd in NAMES.items():
    script.add(f"write, list and remove a file with {what} in its name", named(odd))


@script
def write_a_file_with_256_bytes_in_its_name(c):
    c.write("n" * 256, b"long")  # more than other file systems take, since the kernel leaves it to s3fs
    return c.object("n" * 256)


@script
def tell_names_apart_by_case(c):
    c.write("Case", b"upper")
    c.write("case", b"lower")
    return [c.read("Case"), c.read("case")]


# Two mounts, and the end

@script
def a_second_mount_sees_the_files_of_the_first(c):
    other = c.folder / "other"
    return [c.mount(other), (other / "after").read_bytes().decode(), (other / "walk/b/c/3").read_bytes().decode()]


@script
def a_second_mount_sees_what_is_replaced(c):
    c.write("after", b"replaced by the first")
    fresh = c.folder / "fresh"
    return [c.mount(fresh), (fresh / "after").read_bytes().decode(), c.unmount(fresh)]


@script
def a_mount_that_may_not_be_written(c):
    fixed = c.folder / "fixed"
    c.mount(fixed, "ro")
    return [(fixed / "case").read_bytes().decode(), c.ask((fixed / "new").write_bytes, b"x"), c.unmount(fixed)]


@script
def a_mount_of_a_folder_of_the_bucket(c):
    at = c.folder / "below"
    return [c.mount(at, folder=":/walk"), sorted(os.listdir(at)), c.unmount(at)]


@script
def unmount_both(c):
    return [c.unmount(c.top), c.unmount(c.folder / "other")]


@script
def mount_again_and_find_everything(c):
    mounted = c.mount(c.top)
    return [mounted, c.read("after"), oct(c.path("after").stat().st_mode), os.readlink(c.path("broken")),
            c.kind("pipe"), sorted(os.listdir(c.path("walk")))]


@script
def remove_everything(c):
    for path in c.top.iterdir():
        (shutil.rmtree if path.is_dir() and not path.is_symlink() else os.unlink)(path)
    return [os.listdir(c.top), c.keys(""), c.unmount(c.top)]
