"""The server of the playground: the page, what it can choose from, uploads, and computations as streams of events."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import resources

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from gauntlet.errors import GauntletError
from gauntlet.play.gate import Gate, allowed_hosts, network_addresses
from gauntlet.play.playground import Playground
from gauntlet.play.stage import Performance, Stage
from gauntlet.play.state import parse_state
from gauntlet.play.uploads import MOST_BYTES, read_upload, too_large
from gauntlet.report.render.html import asset

PAGE = {
    "": ("text/html", "play.html"),
    "play.css": ("text/css", "play.css"),
    "play.js": ("text/javascript", "play.js"),
}
REPORTS = {"page.css": "text/css", "page.js": "text/javascript"}
"""Files that the page shares with reports."""


def build_app(playground: Playground, token: str, hosts: Iterable[str]) -> ASGIApp:
    """The application of a playground.

    Args:
        playground: what it shows.
        token: the secret part of the address.
        hosts: what the Host header may say, see `Gate`.
    """
    stage = Stage()

    async def offer(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(playground.offer))

    async def upload(request: Request) -> Response:
        content = bytearray()
        async for chunk in request.stream():
            content += chunk
            if len(content) > MOST_BYTES:
                return _fault(too_large(), status=413)
        try:
            sample = await run_in_threadpool(read_upload, bytes(content))
        except GauntletError as error:
            return _fault(error)
        playground.uploads.add(sample)
        height, width = sample.image.shape[:2]
        return JSONResponse({"image": sample.id, "height": height, "width": width})

    async def events(request: Request) -> Response:
        try:
            state = parse_state(request.query_params)
            await run_in_threadpool(playground.check, state)
        except GauntletError as error:
            return _fault(error)

        def work(performance: Performance) -> None:
            playground.perform(state, performance.report, lambda: performance.keeps_up)

        return StreamingResponse(_stream(stage, work), media_type="text/event-stream")

    routes = [
        *(Route(f"/{name}", _file(_own_asset(file), kind)) for name, (kind, file) in PAGE.items()),
        *(Route(f"/{name}", _file(asset(name), kind)) for name, kind in REPORTS.items()),
        Route("/offer", offer),
        Route("/events", events),
        Route("/upload", upload, methods=["POST"]),
    ]
    return Gate(Starlette(routes=routes), token, hosts)


async def _stream(stage: Stage, work: Callable[[Performance], None]) -> AsyncIterator[str]:
    """The events of a computation as server-sent events; a page that goes away ends it."""
    performance = stage.perform(work)
    try:
        async for name, content in performance.events():
            yield f"event: {name}\ndata: {json.dumps(content)}\n\n"
    finally:
        performance.stop()


def _file(content: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of a file that was read at the start: no path of a request ever reaches the disk."""

    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind)

    return answer


def _own_asset(name: str) -> str:
    return resources.files("gauntlet.play").joinpath("assets", name).read_text("utf-8")


def _fault(error: GauntletError, status: int = 400) -> Response:
    """One sentence about what is wrong with a request."""
    return JSONResponse({"error": str(error)}, status_code=status)


@dataclass(frozen=True)
class Bound:
    """A server that has its port and is not running yet.

    Attributes:
        listener: the socket.
        addresses: of the page, with the token; the first one is for this machine.
    """

    listener: socket.socket
    addresses: Sequence[str]
    app: ASGIApp

    def run(self) -> None:
        """Serves until it is interrupted."""
        self.server().run(sockets=[self.listener])

    def server(self) -> uvicorn.Server:
        """The server, to be run with `sockets=[listener]`; its log would tell the token and is off."""
        return uvicorn.Server(
            uvicorn.Config(self.app, log_level="warning", access_log=False, ws="none", timeout_graceful_shutdown=1)
        )


def bind(playground: Playground, host: str, port: int) -> Bound:
    """Takes a port for a playground, with a token of its own.

    Args:
        playground: what is shown.
        host: "127.0.0.1" for this machine alone, "0.0.0.0" for its network, or one of its addresses.
        port: 0 for any that is free.
    """
    if not host:
        raise GauntletError("--host is empty; say 127.0.0.1, 0.0.0.0 or an address of this machine.")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":  # elsewhere it would share the port with another server
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # a browser that is faster than the server waits instead of being refused
    except OSError as error:
        listener.close()
        raise GauntletError(
            f"{host}:{port} cannot be used ({error.strerror or error}); choose another with --host or --port."
        ) from None
    port = listener.getsockname()[1]
    token = secrets.token_urlsafe(16)
    names = ["127.0.0.1", *network_addresses()] if host == "0.0.0.0" else [host]
    return Bound(
        listener,
        [f"http://{name}:{port}/{token}/" for name in names],
        build_app(playground, token, allowed_hosts(host, port)),
    )
