# SPDX-License-Identifier: Apache-2.0
"""rclone (Debian's): what it prints, which files it moved and why, and how it ends."""
import json
import os
import re
import subprocess
import urllib.error
import urllib.request

import boto3
from script import MIB, ODD_KEYS, Place, Script, brief, noise

BUCKET = "steps-rclone"
TOP = f"st:{BUCKET}"
script = Script("rclone")


class Refused(Exception):
    """A command that ended with another code than 0."""


class RclonePlace(Place):
    refusals = (Refused,)

    def __init__(self, endpoint, folder):
        super().__init__(endpoint, folder)
        settings = {"TYPE": "s3", "PROVIDER": "Other", "ACCESS_KEY_ID": self.key, "SECRET_ACCESS_KEY": self.secret,
                    "ENDPOINT": endpoint, "REGION": "us-east-1", "FORCE_PATH_STYLE": "true", "CHUNK_SIZE": "5Mi",
                    "UPLOAD_CUTOFF": "5Mi", "COPY_CUTOFF": "6Mi"}
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("RCLONE_", "AWS_"))}
        self.env |= {f"RCLONE_CONFIG_ST_{name}": value for name, value in settings.items()} | {
            "RCLONE_CONFIG": os.devnull, "RCLONE_RETRIES": "1", "RCLONE_LOW_LEVEL_RETRIES": "1", "TZ": "UTC",
            "RCLONE_STATS": "0", "HOME": str(self.folder)}

    def rclone(self, *words, stdin=b"", env=None):
        """What `rclone WORDS` prints and, on stderr, says; Refused with its code and reason when that is not 0."""
        done = subprocess.run(["rclone", *words], input=stdin, env=self.env | (env or {}), cwd=self.folder,
                              capture_output=True, timeout=60)
        if done.returncode != 0:
            text = done.stderr.decode(errors="replace")
            found = re.search(r"\b([A-Z][a-z]+[A-Z]\w+|Forbidden|NotFound|BadRequest): ", text)
            raise Refused(f"{done.returncode} {found[1] if found else ' / '.join(told(text))}".strip())
        return done.stdout, done.stderr.decode()

    def lines(self, *words, **options):
        text = self.rclone(*words, **options)[0].decode()
        return sorted(re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", "TIME", line) for line in text.splitlines())

    def moves(self, *words, **options):
        """What it says that it did to which file."""
        return told(self.rclone(*words, "-v", **options)[1])

    def keys(self, path):
        return self.lines("lsf", "-R", "--files-only", f"{TOP}/{path}")

    def read(self, path):
        return brief(self.rclone("cat", f"{TOP}/{path}")[0])

    def write(self, path, body):
        return self.rclone("rcat", f"{TOP}/{path}", stdin=body)


def told(text):
    """Lines of the log without times, sorted: transfers end in any order."""
    found = (re.match(r"\S+ \S+ (?:INFO|NOTICE|ERROR) *: (.*)", line) for line in text.splitlines())
    said = [match[1] for match in found if match and match[1].strip()]
    return sorted(line for line in said if "created with ACL" not in line)  # is told of existing buckets as well


def open_place(endpoint, folder):
    return RclonePlace(endpoint, folder)


# Buckets

@script
def mkdir_makes_a_bucket(c):
    return c.lines("mkdir", TOP)


@script
def mkdir_of_the_own_bucket_again(c):
    return c.lines("mkdir", TOP)


@script
def lsd_shows_the_bucket(c):
    return [line.split()[-1] for line in c.lines("lsd", "st:") if line.endswith(BUCKET)]


@script
def ls_of_an_absent_bucket(c):
    return c.lines("ls", "st:steps-absent")


@script
def ls_of_an_empty_bucket(c):
    return c.lines("ls", TOP)


# Files

@script
def copy_sends_a_tree(c):
    for name in ("1.txt", "2.txt", "d/3.txt", "d/e/4.bin"):
        c.file(f"tree/{name}", name)
    return c.moves("copy", "tree", f"{TOP}/tree")


@script
def copy_again_has_nothing_to_do(c):
    return c.moves("copy", "tree", f"{TOP}/tree")


@script
def modification_times_are_kept(c):
    found = json.loads(c.rclone("lsjson", "-R", "--files-only", f"{TOP}/tree")[0])
    return sorted([f["Path"], f["Size"], f["ModTime"][:19], f["MimeType"]] for f in found)


@script
def copy_sends_what_has_another_time(c):
    os.utime(c.folder / "tree/1.txt", (1.6e9, 1.6e9))
    return [c.moves("copy", "tree", f"{TOP}/tree"),
            json.loads(c.rclone("lsjson", f"{TOP}/tree/1.txt")[0])[0]["ModTime"][:19]]


@script
def copy_sends_what_has_another_size(c):
    c.file("tree/1.txt", "longer")
    return [c.moves("copy", "tree", f"{TOP}/tree"), c.read("tree/1.txt")]


@script
def copy_by_checksum_sends_what_has_another_content(c):
    c.file("tree/2.txt", "2.TXT")
    return [c.moves("copy", "--checksum", "tree", f"{TOP}/tree"), c.read("tree/2.txt")]


@script
def copy_with_filters(c):
    return c.moves("copy", "--include", "*.bin", "tree", f"{TOP}/filtered")


@script
def copy_fetches_a_tree(c):
    c.moves("copy", f"{TOP}/tree", "tree.back")
    top = c.folder / "tree.back"
    return {str(p.relative_to(top)): [brief(p.read_bytes()), int(p.stat().st_mtime)]
            for p in sorted(top.rglob("*")) if p.is_file()}


@script
def copy_of_an_absent_folder(c):
    return c.moves("copy", f"{TOP}/absent", "absent")


@script
def copyto_gives_another_name(c):
    return [c.moves("copyto", "tree/1.txt", f"{TOP}/named/other"), c.read("named/other")]


@script
def cat_of_an_absent_object(c):
    return c.read("absent")


@script
def cat_of_ranges(c):
    c.write("digits", b"0123456789")
    return [c.rclone("cat", *words, f"{TOP}/digits")[0].decode()
            for words in (["--offset", "3", "--count", "4"], ["--head", "2"], ["--tail", "2"])]


@script
def rcat_of_nothing(c):
    c.write("nothing", b"")
    return c.lines("ls", f"{TOP}/nothing")


@script
def rcat_of_a_stream_in_parts(c):
    c.write("stream", noise(11 * MIB, 21))
    return c.read("stream") == brief(noise(11 * MIB, 21))


@script
def copy_of_12_mib_in_parts_both_ways(c):
    c.file("big/big", noise(12 * MIB + 1, 22))
    c.moves("copy", "big", f"{TOP}/big")
    c.moves("copy", f"{TOP}/big", "big.back")
    return (c.folder / "big.back/big").read_bytes() == noise(12 * MIB + 1, 22)


@script
def a_file_sent_in_parts_keeps_its_md5(c):
    return c.lines("md5sum", f"{TOP}/big")


@script
def copy_with_several_streams_for_one_file(c):
    c.moves("copy", "--multi-thread-cutoff", "6Mi", "--multi-thread-streams", "4", f"{TOP}/big", "streams.back")
    return (c.folder / "streams.back/big").read_bytes() == noise(12 * MIB + 1, 22)


@script
def copy_inside_the_store(c):
    return [c.moves("copyto", f"{TOP}/tree/1.txt", f"{TOP}/inside/1.txt"), c.read("inside/1.txt")]


@script
def copy_inside_the_store_in_parts(c):
    c.moves("copyto", f"{TOP}/big/big", f"{TOP}/inside/big")
    return c.lines("check", f"{TOP}/big/big", f"{TOP}/inside", "--combined", "-")


@script
def move_takes_files_away(c):
    c.file("away/1", "one")
    return [c.moves("move", "away", f"{TOP}/moved"), sorted(p.name for p in (c.folder / "away").iterdir())]


@script
def moveto_inside_the_store(c):
    return [c.moves("moveto", f"{TOP}/moved/1", f"{TOP}/moved/2"), c.keys("moved")]


@script
def move_a_folder_inside_the_store(c):
    c.moves("copy", f"{TOP}/tree", f"{TOP}/from")
    c.moves("move", f"{TOP}/from", f"{TOP}/to")
    return [c.keys("to"), c.keys("from")]


@script
def touch_makes_an_object(c):
    c.lines("touch", "-t", "2020-01-02T03:04:05", f"{TOP}/touched")
    return [f["ModTime"][:19] for f in json.loads(c.rclone("lsjson", f"{TOP}/touched")[0])]


@script
def touch_changes_only_the_time(c):
    c.lines("touch", "-t", "2021-01-02T03:04:05", f"{TOP}/digits")
    return [[f["ModTime"][:19] for f in json.loads(c.rclone("lsjson", f"{TOP}/digits")[0])], c.read("digits")]


@script
def deletefile_takes_one(c):
    return [c.lines("deletefile", f"{TOP}/touched"), c.keys("")]


@script
def deletefile_of_an_absent_object(c):
    return c.lines("deletefile", f"{TOP}/absent")


@script
def delete_with_filters(c):
    return [c.moves("delete", "--include", "*.bin", f"{TOP}/to"), c.keys("to")]


@script
def purge_takes_a_folder(c):
    c.moves("purge", f"{TOP}/to")
    return c.keys("to")


# Sums and comparisons

@script
def md5sum_of_a_tree(c):
    return c.lines("md5sum", f"{TOP}/tree")


@script
def sha1sum_by_reading(c):
    return c.lines("hashsum", "sha1", "--download", f"{TOP}/tree")


@script
def check_finds_no_difference(c):
    return c.lines("check", "tree", f"{TOP}/tree", "--combined", "-")


@script
def check_finds_differences(c):
    c.file("tree/2.txt", "2.two")
    c.file("tree/new", "new")
    c.rclone("deletefile", f"{TOP}/tree/d/3.txt")
    done = subprocess.run(["rclone", "check", "tree", f"{TOP}/tree", "--combined", "-"], env=c.env, cwd=c.folder,
                          capture_output=True, timeout=60)
    return [done.returncode, sorted(done.stdout.decode().splitlines())]


@script
def check_by_reading(c):
    return c.lines("check", "--download", f"{TOP}/big", "big", "--combined", "-")


@script
def size_of_a_tree(c):
    return json.loads(c.rclone("size", "--json", f"{TOP}/big")[0])


# Listings

@script
def lsf_shows_folders_and_files(c):
    return c.lines("lsf", f"{TOP}/tree")


@script
def lsl_shows_times(c):
    return c.lines("lsl", "--include", "4.bin", f"{TOP}/tree")


@script
def lsjson_of_one_object(c):
    found = json.loads(c.rclone("lsjson", "--stat", "--hash", "-M", f"{TOP}/tree/1.txt")[0])
    return [found["Path"], found["Size"], found["Hashes"]["md5"], found.get("Tier"),
            sorted(found.get("Metadata", {}).keys())]


@script
def lsf_with_small_pages(c):
    pages = {"RCLONE_CONFIG_ST_LIST_CHUNK": "2"}
    return c.lines("lsf", "-R", f"{TOP}/tree", env=pages)


@script
def lsf_by_version_2_of_the_call(c):
    return c.lines("lsf", "-R", f"{TOP}/tree", env={"RCLONE_CONFIG_ST_LIST_VERSION": "2",
                                                     "RCLONE_CONFIG_ST_LIST_CHUNK": "2"})


@script
def fast_list_walks_all_at_once(c):
    return c.lines("lsf", "-R", "--fast-list", f"{TOP}/tree")


@script
def lsd_shows_folders(c):
    return [line.split()[-1] for line in c.lines("lsd", f"{TOP}/tree")]


@script
def tree_draws_a_tree(c):
    return c.rclone("tree", f"{TOP}/tree")[0].decode().splitlines()[1:]


# Sync

@script
def sync_makes_the_store_the_same(c):
    return [c.moves("sync", "tree", f"{TOP}/tree"), c.keys("tree")]


@script
def sync_takes_away_what_is_gone(c):
    (c.folder / "tree/new").unlink()
    return [c.moves("sync", "tree", f"{TOP}/tree"), c.keys("tree")]


@script
def sync_keeps_what_it_would_lose_when_asked_to(c):
    (c.folder / "tree/d/3.txt").unlink()
    c.moves("sync", "tree", f"{TOP}/tree", "--backup-dir", f"{TOP}/kept")
    return [c.keys("tree"), c.keys("kept")]


@script
def sync_dry_run_does_nothing(c):
    c.file("tree/dry", "dry")
    return [c.moves("sync", "--dry-run", "tree", f"{TOP}/tree"), c.keys("tree")]


@script
def sync_fetches_and_goes_on_where_it_was_broken_off(c):
    c.moves("sync", f"{TOP}/tree", "sync.back")
    c.file("sync.back/1.txt", "cut")
    (c.folder / "sync.back/d/e/4.bin").unlink()
    return [c.moves("sync", f"{TOP}/tree", "sync.back"),
            c.lines("check", "sync.back", f"{TOP}/tree", "--combined", "-")]


@script
def copy_by_immutable_refuses_a_change(c):
    c.file("tree/1.txt", "changed")
    return [c.ask(c.moves, "copy", "--immutable", "tree", f"{TOP}/tree"), c.read("tree/1.txt")]


# Keys

def odd_round_trip(key):
    def step(c):
        c.write(key, b"odd")
        listed = c.keys(key.partition("/")[0])
        read = c.read(key)
        c.rclone("deletefile", f"{TOP}/{key}")
        return [read, listed, c.keys("odd")]
    return step


AWKWARD = ("a space", "a plus", "a percent", "a question mark and a hash", "an ampersand and angles", "a backslash",
           "a colon and a pipe", "umlauts", "composed and decomposed letters", "an ideographic space",
           "four-byte characters", "only dots", "a trailing space", "a trailing dot", "a segment of 300 bytes")
for what in AWKWARD:
    script.add(f"write, list, read and delete a key with {what}", odd_round_trip(ODD_KEYS[what]))


@script
def a_file_beside_a_folder_of_its_name(c):
    c.write("same/x", b"file")
    c.write("same/x/y", b"below")
    return [c.keys("same"), c.read("same/x"), c.read("same/x/y")]


@script
def a_hidden_file_keeps_its_folder(c):
    c.write("marked/.keep", b"")
    return [c.lines("lsf", f"{TOP}/marked"), c.lines("lsf", "--dirs-only", "--include", "/marked/", TOP)]


# Links and uploads

@script
def link_lets_anybody_read(c):
    url = c.rclone("link", "--expire", "5m", f"{TOP}/digits")[0].decode().strip()
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read().decode()


@script
def link_is_bound_to_its_key(c):
    url = c.rclone("link", "--expire", "5m", f"{TOP}/digits")[0].decode().strip()
    try:
        urllib.request.urlopen(url.replace("/digits?", "/stream?"), timeout=20)
    except urllib.error.HTTPError as error:
        return error.code
    return "not refused"


@script
def unfinished_uploads_are_listed_and_cleaned_up(c):
    boto3.client("s3", endpoint_url=c.endpoint, region_name="us-east-1", aws_access_key_id=c.key,
                 aws_secret_access_key=c.secret).create_multipart_upload(Bucket=BUCKET, Key="lost/1")
    found = json.loads(c.rclone("backend", "list-multipart-uploads", TOP)[0])
    c.rclone("backend", "cleanup", TOP, "-o", "max-age=0s")
    left = json.loads(c.rclone("backend", "list-multipart-uploads", TOP)[0])
    return [[u["Key"] for u in found[BUCKET]], left[BUCKET]]


@script
def metadata_is_kept(c):
    c.file("meta", "m")
    c.rclone("copy", "meta", f"{TOP}/meta", "--metadata", "--metadata-set", "step=one", "--header-upload",
             "Cache-Control: no-store", "--header-upload", "Content-Language: de")
    found = json.loads(c.rclone("lsjson", "--stat", "-M", f"{TOP}/meta/meta")[0])["Metadata"]
    return {name: found.get(name) for name in ("step", "cache-control", "content-language")}


@script
def a_wrong_secret_is_told(c):
    return c.lines("ls", TOP, env={"RCLONE_CONFIG_ST_SECRET_ACCESS_KEY": "wrong"})


@script
def cleanup_of_the_bucket(c):
    return c.lines("cleanup", TOP)


# The end

@script
def rmdir_of_a_bucket_that_is_not_empty(c):
    return c.lines("rmdir", TOP)


@script
def purge_takes_the_bucket(c):
    return [c.ask(c.lines, "purge", TOP), c.ask(c.lines, "ls", TOP)]
