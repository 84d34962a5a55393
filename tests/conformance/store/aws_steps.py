# SPDX-License-Identifier: Apache-2.0
"""aws CLI: what a shell user types, and what is printed, left on disk and returned.

One process has loaded the CLI and its models; each command runs in a process of its own, forked
from there. So it is the whole CLI with its exit codes, without half a second of loading each time.
"""
import contextlib
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request

import awscli.clidriver
from script import MIB, ODD_KEYS, Place, Script, brief, noise

BUCKET = "steps-aws"
S3 = f"s3://{BUCKET}"
script = Script("aws")


class Refused(Exception):
    """A command that ended with another code than 0."""


class AwsPlace(Place):
    refusals = (Refused,)

    def __init__(self, endpoint, folder):
        super().__init__(endpoint, folder)
        transfer = "s3 =\n  multipart_threshold = 5MB\n  multipart_chunksize = 5MB\n  max_concurrent_requests = 4\n"
        settings = self.file("etc/config", f"[default]\nregion = us-east-1\n{transfer}")
        os.environ |= {"AWS_CONFIG_FILE": str(settings), "AWS_ENDPOINT_URL": endpoint, "AWS_PAGER": "", "TZ": "UTC",
                       "AWS_MAX_ATTEMPTS": "1", "AWS_SHARED_CREDENTIALS_FILE": os.devnull, "LC_ALL": "C.UTF-8"}
        os.chdir(self.folder)
        self.driver = awscli.clidriver.create_clidriver()
        with open(os.devnull, "w") as null, contextlib.redirect_stdout(null), contextlib.redirect_stderr(null):
            for words in (["s3", "ls"], ["s3api", "list-buckets"]):
                self.driver.main(words)  # loads what each command would load

    def aws(self, *words, stdin=b"", anew=False):
        """What `aws WORDS` prints; Refused with its code and its error when that is not 0. `anew`: by a
        CLI that reads its settings again."""
        paths = [self.file(f"etc/{name}", stdin if name == "stdin" else b"") for name in ("stdin", "stdout", "stderr")]
        child = os.fork()
        if child == 0:
            for number, path in enumerate(paths):
                os.dup2(os.open(path, os.O_RDWR), number)
            code = 99
            try:
                driver = awscli.clidriver.create_clidriver() if anew else self.driver
                code = driver.main(list(words))
                sys.stdout.flush()
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        printed, said = (path.read_bytes() for path in paths[1:])
        if code != 0:
            text = said.decode(errors="replace")
            found = re.search(r"\(([\w.]+)\) when calling the (\w+)", text)
            raise Refused(f"{code} {found[2]}: {found[1]}" if found else f"{code} {text.strip()}")
        return printed

    def s3(self, *words, **options):
        """Lines of `aws s3`, sorted (transfers end in any order), without times."""
        quiet = ["--no-progress"] if words[0] in ("cp", "mv", "sync") else []
        text = self.aws("s3", *words, *quiet, **options).decode()
        return sorted(re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", line) for line in text.splitlines())

    def api(self, operation, *words, query=None):
        """The answer of `aws s3api` about the bucket of this script."""
        asked = ["--query", query] if query else []
        text = self.aws("s3api", operation, "--bucket", BUCKET, "--output", "json", *words, *asked)
        return json.loads(text) if text.strip() else None

    def keys(self, prefix):
        return self.api("list-objects-v2", "--prefix", prefix, query="Contents[].Key")

    def local(self, folder):
        """The files below a folder, and what is in them."""
        top = self.folder / folder
        return {str(p.relative_to(top)): brief(p.read_bytes()) for p in sorted(top.rglob("*")) if p.is_file()}


def open_place(endpoint, folder):
    return AwsPlace(endpoint, folder)


# Buckets

@script
def mb_makes_a_bucket(c):
    return c.s3("mb", S3)


@script
def mb_of_the_own_bucket_again(c):
    return c.s3("mb", S3)


@script
def ls_shows_the_bucket(c):
    return [line for line in c.s3("ls") if line.endswith(BUCKET)]


@script
def ls_of_an_absent_bucket(c):
    return c.s3("ls", "s3://steps-absent")


@script
def ls_of_an_empty_bucket(c):
    return c.s3("ls", S3)


@script
def wait_for_a_bucket(c):
    return c.aws("s3api", "wait", "bucket-exists", "--bucket", BUCKET).decode()


@script
def head_a_bucket_tells_its_region(c):
    return c.api("head-bucket", query="BucketRegion")


# Files: cp, mv, rm

@script
def cp_sends_a_file(c):
    c.file("one.txt", "one")
    return c.s3("cp", "one.txt", f"{S3}/files/one.txt")


@script
def cp_fetches_a_file(c):
    return [c.s3("cp", f"{S3}/files/one.txt", "back/one.txt"), c.local("back")]


@script
def cp_guesses_the_type_of_a_file(c):
    return c.api("head-object", "--key", "files/one.txt", query="ContentType")


@script
def cp_from_standard_input(c):
    c.s3("cp", "-", f"{S3}/files/piped", stdin=b"from a pipe")
    return c.aws("s3", "cp", f"{S3}/files/piped", "-").decode()


@script
def cp_of_nothing_from_standard_input(c):
    c.s3("cp", "-", f"{S3}/files/nothing", stdin=b"")
    return c.api("head-object", "--key", "files/nothing", query="[ContentLength, ETag]")


@script
def cp_of_7_mib_from_standard_input_in_parts(c):
    c.s3("cp", "-", f"{S3}/files/piped-parts", "--expected-size", str(7 * MIB), stdin=noise(7 * MIB, 11))
    return c.api("head-object", "--key", "files/piped-parts", query="[ContentLength, ETag]")


@script
def cp_of_an_absent_object(c):
    return c.s3("cp", f"{S3}/absent", "absent")


@script
def cp_of_an_absent_file(c):
    return c.ask(c.s3, "cp", "absent", f"{S3}/absent")


@script
def cp_of_12_mib_in_parts_both_ways(c):
    c.file("big", noise(12 * MIB + 1, 12))
    c.s3("cp", "big", f"{S3}/files/big")
    c.s3("cp", f"{S3}/files/big", "big.back")
    same = (c.folder / "big.back").read_bytes() == noise(12 * MIB + 1, 12)
    return [same, c.api("head-object", "--key", "files/big", query="ETag")]


@script
def cp_with_metadata_and_headers(c):
    c.s3("cp", "one.txt", f"{S3}/files/described", "--metadata", "a=1,b=zwei", "--content-type", "text/x-odd",
         "--cache-control", "no-store", "--content-disposition", "inline", "--content-language", "de",
         "--expires", "2030-01-02T03:04:05Z", "--storage-class", "STANDARD")
    return c.api("head-object", "--key", "files/described",
                 query="[ContentType, CacheControl, ContentDisposition, ContentLanguage, Expires, Metadata]")


@script
def cp_from_object_to_object_keeps_metadata(c):
    c.s3("cp", f"{S3}/files/described", f"{S3}/files/copied")
    return c.api("head-object", "--key", "files/copied", query="[ContentType, CacheControl, Metadata]")


@script
def cp_from_object_to_object_replaces_metadata(c):
    c.s3("cp", f"{S3}/files/described", f"{S3}/files/replaced", "--metadata-directive", "REPLACE",
         "--metadata", "c=3", "--content-type", "text/plain")
    return c.api("head-object", "--key", "files/replaced", query="[ContentType, CacheControl, Metadata]")


@script
def cp_from_object_to_object_in_parts(c):
    c.s3("cp", f"{S3}/files/big", f"{S3}/files/big-copy")
    return c.api("head-object", "--key", "files/big-copy", query="[ContentLength, ETag]")


@script
def cp_with_a_checksum_of_each_algorithm(c):
    for name in ("CRC32", "SHA1", "SHA256"):
        c.s3("cp", "one.txt", f"{S3}/sums/{name}", "--checksum-algorithm", name)
    return [c.api("head-object", "--key", f"sums/{name}", "--checksum-mode", "ENABLED", query=f"Checksum{name}")
            for name in ("CRC32", "SHA1", "SHA256")]


@script
def cp_of_parts_with_sha256(c):
    c.s3("cp", "big", f"{S3}/sums/parts", "--checksum-algorithm", "SHA256")
    return c.api("head-object", "--key", "sums/parts", "--checksum-mode", "ENABLED",
                 query="[ChecksumSHA256, ChecksumType]")


@script
def cp_says_nothing_but_errors_when_asked_to(c):
    return [c.s3("cp", "one.txt", f"{S3}/files/once", "--only-show-errors"), c.keys("files/once")]


@script
def cp_in_silence(c):
    return [c.s3("cp", f"{S3}/files/once", "once.back", "--quiet"), (c.folder / "once.back").read_text()]


@script
def cp_of_a_tree_with_filters(c):
    for name in ("a.txt", "a.bin", "sub/b.txt", "sub/b.bin", "sub/deep/c.txt"):
        c.file(f"tree/{name}", name)
    sent = c.s3("cp", "tree", f"{S3}/tree", "--recursive", "--exclude", "*", "--include", "*.txt")
    return [sent, c.keys("tree/")]


@script
def cp_of_a_tree_back(c):
    return [len(c.s3("cp", f"{S3}/tree", "tree.back", "--recursive")), c.local("tree.back")]


@script
def cp_dry_run_does_nothing(c):
    return [c.s3("cp", "tree", f"{S3}/dry", "--recursive", "--dryrun"), c.keys("dry/")]


@script
def mv_takes_the_file_away(c):
    c.file("moved", "moved")
    return [c.s3("mv", "moved", f"{S3}/moved/1"), (c.folder / "moved").exists()]


@script
def mv_from_object_to_object(c):
    return [c.s3("mv", f"{S3}/moved/1", f"{S3}/moved/2"), c.keys("moved/")]


@script
def mv_of_objects_to_files(c):
    return [c.s3("mv", f"{S3}/moved/", "moved.back", "--recursive"), c.local("moved.back"), c.keys("moved/")]


@script
def rm_takes_one_object(c):
    return [c.s3("rm", f"{S3}/files/once"), c.keys("files/once")]


@script
def rm_of_an_absent_object(c):
    return c.s3("rm", f"{S3}/absent")


@script
def rm_of_a_tree_with_filters(c):
    return [c.s3("rm", f"{S3}/tree", "--recursive", "--exclude", "*", "--include", "*/deep/*"), c.keys("tree/")]


# Listings

@script
def ls_shows_folders_and_objects(c):
    return c.s3("ls", f"{S3}/tree/")


@script
def ls_of_a_tree_in_figures_for_people(c):
    return c.s3("ls", f"{S3}/files/big", "--recursive", "--human-readable", "--summarize")


@script
def ls_by_small_pages(c):
    return [len(c.s3("ls", S3, "--recursive", "--page-size", "2")), len(c.s3("ls", S3, "--recursive"))]


@script
def list_by_tokens(c):
    first = c.api("list-objects-v2", "--prefix", "files/", "--max-items", "2")
    rest = c.api("list-objects-v2", "--prefix", "files/", "--max-items", "2", "--starting-token", first["NextToken"])
    return [[o["Key"] for o in page["Contents"]] for page in (first, rest)]


@script
def list_by_the_first_version_of_the_call(c):
    return c.api("list-objects", "--prefix", "tree/", "--delimiter", "/",
                 query="[Contents[].Key, CommonPrefixes[].Prefix]")


# Sync

@script
def sync_sends_a_tree(c):
    for name in ("1", "2", "d/3", "d/e/4"):
        c.file(f"sync/{name}", name)
    return c.s3("sync", "sync", f"{S3}/sync")


@script
def sync_again_has_nothing_to_do(c):
    return c.s3("sync", "sync", f"{S3}/sync")


@script
def sync_sends_what_has_another_size(c):
    c.file("sync/1", "longer")
    return c.s3("sync", "sync", f"{S3}/sync")


@script
def sync_sends_what_is_newer(c):
    later = time.time() + 3600
    os.utime(c.folder / "sync/2", (later, later))
    return c.s3("sync", "sync", f"{S3}/sync")


@script
def sync_by_size_only_leaves_what_is_newer(c):
    return c.s3("sync", "sync", f"{S3}/sync", "--size-only")


@script
def sync_takes_away_what_is_gone(c):
    (c.folder / "sync/d/3").unlink()
    return [c.s3("sync", "sync", f"{S3}/sync", "--delete", "--size-only"), c.keys("sync/")]


@script
def sync_with_filters_spares_what_is_excluded(c):
    c.file("sync/skip.log", "x")
    c.file("sync/send.txt", "x")
    return c.s3("sync", "sync", f"{S3}/sync", "--exclude", "*.log", "--size-only")


@script
def sync_fetches_a_tree(c):
    return [c.s3("sync", f"{S3}/sync", "sync.back"), c.local("sync.back")]


@script
def sync_fetches_nothing_twice(c):
    return c.s3("sync", f"{S3}/sync", "sync.back")


@script
def sync_goes_on_where_it_was_broken_off(c):
    (c.folder / "sync.back/d/e/4").unlink()
    c.file("sync.back/1", "cut")
    return [c.s3("sync", f"{S3}/sync", "sync.back"), c.local("sync.back")]


@script
def sync_from_prefix_to_prefix(c):
    return [c.s3("sync", f"{S3}/sync", f"{S3}/sync2"), c.keys("sync2/")]


@script
def sync_from_prefix_to_prefix_takes_away(c):
    c.s3("rm", f"{S3}/sync/send.txt")
    return [c.s3("sync", f"{S3}/sync", f"{S3}/sync2", "--delete"), c.keys("sync2/")]


# Keys

def file_round_trip(key):
    def step(c):
        c.s3("cp", "-", f"{S3}/{key}", stdin=b"odd")
        read = c.aws("s3", "cp", f"{S3}/{key}", "-").decode()
        listed = c.keys(key)
        c.s3("rm", f"{S3}/{key}")
        return [read, listed, c.keys(key)]
    return step


AWKWARD = ("a space", "a plus", "a percent", "a question mark and a hash", "an ampersand and angles", "a backslash",
           "umlauts", "an ideographic space", "four-byte characters", "a double slash", "a dot segment", "two dots",
           "a trailing space", "a segment of 300 bytes")
for what in AWKWARD:
    script.add(f"cp a key with {what} both ways", file_round_trip(ODD_KEYS[what]))


@script
def cp_of_files_with_odd_names(c):
    for name in ("a b", "a+b", "ü", "100%", "#1", "a&b", "sub dir/x"):
        c.file(f"odd/{name}", name)
    c.s3("cp", "odd", f"{S3}/odd-names", "--recursive")
    c.s3("cp", f"{S3}/odd-names", "odd.back", "--recursive")
    return [c.local("odd.back"), c.s3("sync", "odd", f"{S3}/odd-names")]


# Presigned URLs

def fetched(url):
    try:
        with urllib.request.urlopen(url.decode().strip(), timeout=20) as answer:
            return brief(answer.read())
    except urllib.error.HTTPError as error:
        return error.code


@script
def presign_by_version_2_of_signatures(c):
    url = c.aws("s3", "presign", f"{S3}/files/one.txt")
    return [b"AWSAccessKeyId=" in url, fetched(url)]


@script
def presign_by_version_4_of_signatures(c):
    c.aws("configure", "set", "default.s3.signature_version", "s3v4")
    url = c.aws("s3", "presign", f"{S3}/files/one.txt", "--expires-in", "60", anew=True)
    return [b"X-Amz-Expires=60" in url, fetched(url)]


@script
def presign_an_odd_key(c):
    c.s3("cp", "-", f"{S3}/odd url/+ %41", stdin=b"odd")
    return fetched(c.aws("s3", "presign", f"{S3}/odd url/+ %41", anew=True))


# The calls themselves

@script
def put_and_get_by_s3api(c):
    tag = c.api("put-object", "--key", "api/1", "--body", "one.txt", query="ETag")
    return [tag, c.api("get-object", "--key", "api/1", "--range", "bytes=1-", "api.back",
                       query="[ContentRange, ContentLength]"), (c.folder / "api.back").read_text()]


@script
def put_where_something_is_by_s3api(c):
    return c.api("put-object", "--key", "api/1", "--body", "one.txt", "--if-none-match", "*")


@script
def get_if_changed_by_s3api(c):
    tag = c.api("head-object", "--key", "api/1", query="ETag")
    return c.api("get-object", "--key", "api/1", "--if-none-match", tag, "api.back")


@script
def an_upload_is_resumed_by_hand(c):
    c.file("part1", noise(5 * MIB, 13))
    c.file("part2", "tail")
    begun = ["--key", "api/parts", "--upload-id",
             c.api("create-multipart-upload", "--key", "api/parts", query="UploadId")]
    c.api("upload-part", *begun, "--part-number", "1", "--body", "part1")
    sizes = c.api("list-parts", *begun, query="Parts[].Size")
    c.api("upload-part", *begun, "--part-number", "2", "--body", "part2")
    parts = c.api("list-parts", *begun, query="{Parts: Parts[].{PartNumber: PartNumber, ETag: ETag}}")
    tag = c.api("complete-multipart-upload", *begun, "--multipart-upload", json.dumps(parts), query="ETag")
    return [sizes, tag, c.api("head-object", "--key", "api/parts", "--part-number", "2",
                              query="[PartsCount, ContentLength]")]


@script
def an_upload_is_found_and_aborted(c):
    c.api("create-multipart-upload", "--key", "api/lost")
    found = c.api("list-multipart-uploads", "--prefix", "api/", query="Uploads[].[Key, UploadId]")
    c.api("abort-multipart-upload", "--key", "api/lost", "--upload-id", found[0][1])
    return [[key for key, _ in found], c.api("list-multipart-uploads", "--prefix", "api/", query="Uploads")]


@script
def abort_of_an_unknown_upload(c):
    return c.api("abort-multipart-upload", "--key", "api/lost", "--upload-id", "unknown")


@script
def attributes_by_s3api(c):
    return c.api("get-object-attributes", "--key", "api/1", "--object-attributes", "ETag", "ObjectSize",
                 "StorageClass", query="[ETag, ObjectSize, StorageClass]")


@script
def delete_several_by_s3api(c):
    wanted = json.dumps({"Objects": [{"Key": "api/1"}, {"Key": "api/parts"}, {"Key": "api/absent"}]})
    return [sorted(c.api("delete-objects", "--delete", wanted, query="Deleted[].Key")), c.keys("api/")]


@script
def tags_by_s3api(c):
    tags = json.dumps({"TagSet": [{"Key": "k", "Value": "v w"}]})
    c.api("put-object-tagging", "--key", "files/one.txt", "--tagging", tags)
    return c.api("get-object-tagging", "--key", "files/one.txt", query="TagSet")


@script
def wait_until_an_object_is_there(c):
    c.aws("s3api", "wait", "object-exists", "--bucket", BUCKET, "--key", "files/one.txt")
    return c.aws("s3api", "wait", "object-not-exists", "--bucket", BUCKET, "--key", "absent").decode()


@script
def a_wrong_secret_is_told(c):
    kept = os.environ["AWS_SECRET_ACCESS_KEY"]
    os.environ["AWS_SECRET_ACCESS_KEY"] = "wrong"
    try:
        return c.s3("ls", S3, anew=True)
    finally:
        os.environ["AWS_SECRET_ACCESS_KEY"] = kept


# The end

@script
def rb_of_a_bucket_that_is_not_empty(c):
    return c.s3("rb", S3)


@script
def rb_by_force_empties_it_first(c):
    return [c.s3("rb", S3, "--force")[-1], c.ask(c.s3, "ls", S3)]
