"""A server of two processes for ablations: a heap that full passes walk, and a load that makes them.

    paused.py PORT FILE

The engine (``Engine``) answers over a pipe; the front end (``Front``) serves HTTP. Each request makes the
engine allocate, so that full passes come. FILE gets a line when a process starts. PAUSED_BROKEN=1: the server
ends at its first request and leaves a child that has left its group. PAUSED_WORK: the number that each answer
tells, 100 unless set.

PAUSED_ERRORS=1: each answer is an error. PAUSED_SLOW: what each answer takes at least, s. PAUSED_FACTS: a
file that gets lines of JSON: the front end's CPUs when it starts, when it was told to end, ns, and the pid of
the child that it leaves.
"""

import gc
import http.server
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import frostline

TURN = threading.Lock()
KEPT = 60_000
EACH = 3_000


def engine(pipe):
    gc.set_threshold(700, 10, 2)
    frostline.install(role="Engine")
    kept = [[i] for i in range(KEPT)]
    frostline.startup_complete()
    pipe.send("ready")
    live = []
    while True:
        if pipe.recv() is None:
            return
        live.append([[i] for i in range(EACH)])
        if len(live) > 10:
            del live[0]
        pipe.send(len(kept))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if os.environ.get("PAUSED_BROKEN") and self.path == "/":
            note(left=subprocess.Popen(["sleep", "3600"], start_new_session=True).pid)
            os._exit(9)
        if self.path != "/health":
            with TURN:
                self.server.pipe.send(1)
                self.server.pipe.recv()
            time.sleep(float(os.environ.get("PAUSED_SLOW", "0")))
        body = os.environ.get("PAUSED_WORK", "100").encode()
        bad = os.environ.get("PAUSED_ERRORS") and self.path == "/"
        self.send_response(500 if bad else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def note(**facts):
    if "PAUSED_FACTS" in os.environ:
        with open(os.environ["PAUSED_FACTS"], "a") as file:
            file.write(json.dumps(facts) + "\n")


def told(number, frame):
    note(ended=time.monotonic_ns())
    os._exit(0)


def main():
    frostline.install(role="Front")
    note(cpus=sorted(os.sched_getaffinity(0)))
    signal.signal(signal.SIGTERM, told)
    with open(sys.argv[2], "a") as file:
        file.write(f"{os.environ.get('FROSTLINE_POLICY', 'none')}\n")
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    child = multiprocessing.get_context("spawn").Process(target=engine, args=(theirs,), daemon=True)
    child.start()
    ours.recv()
    frostline.startup_complete()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.pipe = ours
    server.serve_forever()


if __name__ == "__main__":
    main()
