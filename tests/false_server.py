# SPDX-License-Identifier: Apache-2.0
"""A program of another user of the machine, at the address at which instances look for their server
while that is down: what it hears, and what becomes of the job."""
import contextlib
import hashlib
import http.server
import json
import threading
import urllib.error
import urllib.parse
import urllib.request

from conftest import wait_for
from machines import Machine, finish

# Prints as long as it runs, so that there is always something to report.
TALKS = '''
import itertools, os, time
for n in itertools.count():
    print("line", n, flush=True)
    if os.path.exists("/opt/ml/finish"):
        break
    time.sleep(0.1)
'''
# What an instance would act upon, if it came from its server.
LIES = {"commands": (200, [{"seq": n, "kind": kind} for n, kind in enumerate(("stop", "release", "restart"), 1)]),
        "reports": (200, {"acknowledged": 1 << 40}),
        "assignment": (403, {"code": "Denied", "message": "over", "subject": "token"}),
        "credentials": (403, {"code": "Denied", "message": "over", "subject": "token"})}


class FalseServer(http.server.ThreadingHTTPServer):
    """Takes every request and answers with a lie, now and then with a refusal that would end the instance."""
    daemon_threads = True

    def __init__(self, url):
        self.heard = []  # (method, path, headers, body)
        parts = urllib.parse.urlsplit(url)
        super().__init__((parts.hostname, parts.port), Liar)

    def calls(self, name):
        return [request for request in list(self.heard) if request[1].startswith(f"/yard/v1/{name}")]

    @contextlib.contextmanager
    def serving(self):
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


class Liar(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.heard.append((self.command, self.path, dict(self.headers), body))
        name = urllib.parse.urlsplit(self.path).path.rsplit("/", 1)[-1]
        lie = LIES.get(name, (403, {}))
        status, said = lie if len(self.server.heard) % 2 else (403, LIES["assignment"][1])
        text = json.dumps(said).encode()
        self.send_response(status)
        for header, value in (("Content-Type", "application/json"), ("Yard-Protocol", "3"), ("Yard-Run", "0" * 32),
                              # What it has of a proof: the request's own.
                              ("Yard-Proof", self.headers.get("Authorization", "").rsplit("=", 1)[-1]),
                              ("Content-Length", str(len(text)))):
            self.send_header(header, value)
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = answer

    def log_message(self, *_):
        pass


def replay(url, request):
    method, path, headers, body = request
    again = urllib.request.Request(url + path, body or None, headers, method=method)
    try:
        with urllib.request.urlopen(again, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code


def outlives_a_false_server(jobs):
    """The server dies, a false one takes its place, and the real one comes back: kills and starts jobs.server."""
    name = jobs.create("lied-to", TALKS)
    wait_for(lambda: "line 5" in jobs.lines_so_far(name), 30, "the program's lines")
    machine = Machine(jobs.server, name)
    token, url, supervisor = machine.token(), machine.server_url(), machine.supervisor()
    log = machine.scratch / "supervisor.log"
    jobs.server.kill()
    with FalseServer(url).serving() as false:
        wait_for(lambda: len(false.calls("reports")) >= 4 and len(false.calls("commands")) >= 4, 30, "calls of the instance")
    assert machine.supervisor() == supervisor
    heard = [json.dumps(request[:3]).encode() + request[3] for request in false.heard]
    for secret in (token, token.partition(".")[2], hashlib.sha256(token.encode()).hexdigest(), "Bearer"):
        assert not any(secret.encode() in text for text in heard), "the false server has learned a secret"
    jobs.server.start()
    seen = len(jobs.lines(name))
    wait_for(lambda: len(jobs.lines(name)) > seen, 30, "lines after the server is back")
    told = log.read_text()
    # What it has heard opens nothing now that the real server is back.
    assert {replay(url, request) for request in false.heard if request[1].startswith("/yard/")} == {401}
    finish(jobs, name, [machine])
    assert told.count("ignoring what answers at " + url) == 1, told
    assert "our server answers again at " + url in told, told
    assert len(jobs.attempts(name)) == 1
    # A server that dies between a line and its acknowledgement hears it again.
    lines = list(dict.fromkeys(line for line in jobs.lines(name) if line.startswith("line ")))
    assert lines == [f"line {n}" for n in range(len(lines))], "a line is missing"
