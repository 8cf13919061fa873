"""A server of two processes for ablations: a heap that full passes walk, and a load that makes them.

    paused.py PORT FILE

The engine (``Engine``) answers over a pipe; the front end (``Front``) serves HTTP. Each request makes the
engine allocate, so that full passes come. FILE gets a line when a process starts. PAUSED_BROKEN=1: the server
ends at its first request. PAUSED_WORK: the number that each answer tells, 100 unless set.
"""

import gc
import http.server
import multiprocessing
import os
import sys
import threading

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
            os._exit(9)
        if self.path != "/health":
            with TURN:
                self.server.pipe.send(1)
                self.server.pipe.recv()
        body = os.environ.get("PAUSED_WORK", "100").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def main():
    frostline.install(role="Front")
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
