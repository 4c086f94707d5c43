"""Who may come in: the right host in the address, the right page, the right token. Everybody else gets one sentence."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterable
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PROTECTION = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every answer: nothing from elsewhere, in no frame, and the address with its token goes nowhere."""


class Gate:
    """An ASGI application around another: lets a request in whose path starts with the token.

    Args:
        app: what is behind it; sees paths without the token.
        token: the secret part of the address.
        hosts: what the Host header may say ("127.0.0.1:8021"); a page of elsewhere whose name was pointed at this
            machine (DNS rebinding) says its own name there.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str]) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(f"http://{host}" for host in self._hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        first, _, rest = scope["path"].removeprefix("/").partition("/")
        refusal = self._refusal(Headers(scope=scope), first)
        if refusal is not None:
            answer: ASGIApp = PlainTextResponse(refusal, status_code=403)
        elif scope["path"] == f"/{first}":  # relative addresses need the slash
            answer = RedirectResponse(f"/{first}/")
        else:
            answer, scope = self._app, {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.lower().encode(), value.encode()) for name, value in PROTECTION.items()]
                message = {**message, "headers": [*message.get("headers", []), *extra]}
            await send(message)

        await answer(scope, receive, protected)

    def _refusal(self, headers: Headers, token: str) -> str | None:
        """Why a request may not come in; None where it may."""
        if [each.lower() not in self._hosts for each in headers.getlist("host")] != [False]:
            return "this playground answers to its own address only.\n"
        if any(each.lower() not in self._origins for each in headers.getlist("origin")):
            return "this playground answers to its own page only.\n"
        if not secrets.compare_digest(token.encode(), self._token):
            return "the address needs the token that 'gauntlet play' printed.\n"
        return None


def allowed_hosts(host: str, port: int) -> list[str]:
    """What the Host header may say where a server is bound to a host: loopback, or the addresses of this machine."""
    names = {"127.0.0.1", "localhost"} if host in ("127.0.0.1", "localhost", "0.0.0.0") else {host}
    if host == "0.0.0.0":
        names |= {*network_addresses(), socket.gethostname(), f"{socket.gethostname()}.local"}
    # Browsers leave out the port of the protocol.
    return [f"{name}:{port}" for name in sorted(names)] + (sorted(names) if port == 80 else [])


def network_addresses() -> list[str]:
    """The IPv4 addresses under which other machines may reach this one, the most likely first."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):  # no network
        probe.connect(("192.0.2.1", 9))  # a documentation address; connecting a datagram socket sends nothing
        found.append(probe.getsockname()[0])
    with suppress(OSError):
        found += socket.gethostbyname_ex(socket.gethostname())[2]
    return [each for each in dict.fromkeys(found) if not each.startswith("127.")]
