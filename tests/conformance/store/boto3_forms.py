# SPDX-License-Identifier: Apache-2.0
"""boto3: forms by which a browser uploads a file (generate_presigned_post), sent as requests sends them.

requests leaves the writing of a form to urllib3, and so does this.
"""
import urllib3
from boto3_place import BUCKET, chosen, script
from script import brief, noise


def posted(c, key, body=b"posted", name="a file.txt", tamper=None, also=(), headers=(), **members):
    """What the answer to a form shows: its status, with the code of an error, and the headers that are asked for."""
    form = c.s3.generate_presigned_post(BUCKET, key, ExpiresIn=300, **members)
    fields = list((form["fields"] | dict(tamper or {})).items())
    fields = [(k, v) for k, v in fields if v is not None] + [("file", (name, body)), *also]
    answer = urllib3.PoolManager(retries=False).request("POST", form["url"], fields=fields, timeout=20, redirect=False)
    code = answer.data.decode(errors="replace").partition("<Code>")[2].partition("</Code>")[0]
    return " ".join([str(answer.status), *filter(None, [code]), *(answer.headers.get(h, "none") for h in headers)])


@script
def upload_by_a_form_as_requests_writes_it(c):
    return [posted(c, "form/plain"), c.read("form/plain")]


@script
def upload_by_a_form_with_the_name_of_the_file(c):
    return [posted(c, "form/named/${filename}"), c.keys("form/named/")]


@script
def upload_by_a_form_with_headers_and_metadata(c):
    fields = {"Content-Type": "image/png", "Cache-Control": "no-store", "x-amz-meta-who": "me"}
    shown = posted(c, "form/meta", Fields=fields, Conditions=[
        {"Content-Type": "image/png"}, ["eq", "$Cache-Control", "no-store"], ["starts-with", "$x-amz-meta-who", ""]])
    return [shown, chosen(c.s3.head_object(Bucket=BUCKET, Key="form/meta"), "ContentType", "CacheControl", "Metadata")]


@script
def upload_by_a_form_of_3_mib(c):
    body = noise(3 << 20)
    return [posted(c, "form/large", body), c.read("form/large") == brief(body)]


@script
def upload_by_a_form_within_its_range(c):
    limits = [["content-length-range", 3, 6]]
    return [posted(c, "form/range", b"x" * size, Conditions=limits) for size in (2, 3, 6, 7)]


@script
def upload_by_a_form_and_choose_the_status(c):
    return [posted(c, "form/status", Fields={"success_action_status": status},
                   Conditions=[{"success_action_status": status}]) for status in ("200", "201", "204", "418")]


@script
def upload_by_a_form_and_go_elsewhere(c):
    page = "https://a.example/done"
    shown = posted(c, "form/page", Fields={"success_action_redirect": page}, headers=["Location"],
                   Conditions=[{"success_action_redirect": page}])
    url, _, query = shown.partition("?")
    return [url, sorted(query.split("&"))]


@script
def refuse_a_form_with_a_field_that_no_condition_names(c):
    return posted(c, "form/extra", tamper={"x-amz-meta-who": "me"})


@script
def refuse_a_form_for_another_key(c):
    return posted(c, "form/key", tamper={"key": "form/other"})


@script
def refuse_a_form_with_another_policy(c):
    return posted(c, "form/policy", tamper={"policy": c.s3.generate_presigned_post(BUCKET, "x")["fields"]["policy"]})


@script
def refuse_a_form_without_its_signature(c):
    return posted(c, "form/unsigned", tamper={"x-amz-signature": None})
