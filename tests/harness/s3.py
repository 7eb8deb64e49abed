"""S3 as moto's server, in this process: it sees each request.

`python -m tests.harness.s3` serves until its standard input ends, for clients that let no other thread of a process
run while they wait (delta-rs). Its line is the environment of such a client, as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

BUCKET = "lake"
"""It is there from the start."""


class S3:
    """moto's server, which tells of each upload of a kind before it is stored and after."""

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Handler(WSGIRequestHandler):
            def handle_expect_100(self) -> bool:
                """Nothing: werkzeug says "100 Continue" itself, and clients may take a second one for the answer."""
                return True

        self._app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=Handler)
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self.on_upload: Callable[[str, bool], None] = lambda path, stored: None
        self.loses_answer: Callable[[str], bool] = lambda path: False
        """Whether the answer to an upload that was stored is lost."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self.environment = {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
        }
        os.environ.update(self.environment)
        self.files().makedirs(BUCKET, exist_ok=True)

    def files(self) -> Any:
        import s3fs

        return s3fs.S3FileSystem(endpoint_url=self.endpoint, skip_instance_cache=True, use_listings_cache=False)

    def close(self) -> None:
        self._server.shutdown()

    def _serve(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        is_upload = environ["REQUEST_METHOD"] == "PUT"
        if is_upload:
            self.on_upload(path, False)
        answer = list(self._app(environ, start_response))
        if is_upload:
            self.on_upload(path, True)
            if self.loses_answer(path):
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return answer


if __name__ == "__main__":
    print(json.dumps(S3().environment), flush=True)
    sys.stdin.read()
