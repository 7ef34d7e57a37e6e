"""The metadata service of a spot machine, played on loopback."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NOTICE = b'{"action": "terminate", "time": "2026-05-01T12:02:00Z"}'
TOKEN = "token-of-this-service"


class MetadataService:
    """As on a spot machine: a token first, and 404 as long as there is no notice."""

    def __init__(self) -> None:
        self.notice: bytes | None = None
        self.asked: list[str] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                service.asked.append(f"PUT {self.path}")
                seconds = self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
                self.answer(200 if seconds.isdecimal() else 400, TOKEN.encode())

            def do_GET(self) -> None:
                service.asked.append(f"GET {self.path}")
                if self.headers["X-aws-ec2-metadata-token"] != TOKEN:
                    self.answer(401, b"")
                elif service.notice is None:
                    self.answer(404, b"not found")
                else:
                    self.answer(200, service.notice)

            def answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self) -> MetadataService:
        return self

    def __exit__(self, *exception: object) -> None:
        self.server.shutdown()
        self.server.server_close()
