"""The server of the playground: who may come in, what it takes, and what its streams say."""

from __future__ import annotations

import asyncio
import io
import socket
import struct
import threading
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from gauntlet.play import uploads
from gauntlet.play.gate import PROTECTION, allowed_hosts
from gauntlet.play.playground import Playground, Report
from gauntlet.play.server import bind, build_app
from gauntlet.play.stage import Performance, Stage
from play_cases import HOST, TOKEN, decode, parse_events, tiny_playground

PGD = {"model": "tiny-net", "image": "1", "threat": "pgd", "epsilon": "16", "steps": "3"}


@pytest.fixture(scope="module")
def playground() -> Playground:
    return tiny_playground()


@pytest.fixture(scope="module")
def client(playground: Playground) -> TestClient:
    app = build_app(playground, TOKEN, allowed_hosts("127.0.0.1", 8021))
    return TestClient(app, base_url=f"http://{HOST}", follow_redirects=False)


def png(image: np.ndarray[Any, Any], **options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG", **options)
    return file.getvalue()


PHOTO = png(np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8))


class TestGate:
    def test_the_page_and_its_files_are_there_and_protected(self, client: TestClient) -> None:
        for name in ("", "play.css", "play.js", "page.css", "page.js", "offer"):
            answer = client.get(f"/{TOKEN}/{name}")
            assert answer.status_code == 200
            assert {name: answer.headers[name] for name in PROTECTION} == PROTECTION
        assert client.get(f"/{TOKEN}").headers["location"] == f"/{TOKEN}/"

    @pytest.mark.parametrize("path", ["/", "/offer", "/wrong/", "/wrong/offer", f"/{TOKEN}x/", "/t%C3%B6ken/", "//"])
    def test_a_wrong_token_stays_outside(self, client: TestClient, path: str) -> None:
        answer = client.get(path)
        assert (answer.status_code, answer.text) == (403, "the address needs the token that 'gauntlet play' printed.\n")
        assert TOKEN not in answer.text
        assert client.post("/wrong/upload", content=PHOTO).status_code == 403

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:8021", "127.0.0.1", "127.0.0.1:80", ""])
    def test_another_host_stays_outside(self, client: TestClient, host: str) -> None:
        assert client.get(f"/{TOKEN}/offer", headers={"host": host}).status_code == 403

    @pytest.mark.parametrize("origin", ["http://evil.example", "https://127.0.0.1:8021", "null", "http://127.0.0.1:1"])
    def test_another_origin_stays_outside(self, client: TestClient, origin: str) -> None:
        assert client.post(f"/{TOKEN}/upload", content=PHOTO, headers={"origin": origin}).status_code == 403
        assert client.get(f"/{TOKEN}/offer", headers={"origin": f"http://{HOST}"}).status_code == 200

    @pytest.mark.parametrize(
        "path",
        ["../server.py", "..%2fserver.py", "%2e%2e/%2e%2e/etc/passwd", "assets/play.js", "play.html", "/etc/passwd"],
    )
    def test_no_path_reaches_the_disk(self, client: TestClient, path: str) -> None:
        assert client.get(f"/{TOKEN}/{path}").status_code in (403, 404)

    def test_hosts_follow_what_the_server_is_bound_to(self) -> None:
        assert allowed_hosts("127.0.0.1", 1) == ["127.0.0.1:1", "localhost:1"]
        assert "127.0.0.1" in allowed_hosts("127.0.0.1", 80)  # browsers leave out the port of the protocol
        assert allowed_hosts("192.168.1.5", 1) == ["192.168.1.5:1"]
        everywhere = allowed_hosts("0.0.0.0", 1)
        assert {"127.0.0.1:1", "localhost:1", f"{socket.gethostname()}:1"} <= set(everywhere)
        assert "0.0.0.0:1" not in everywhere

    def test_a_bound_server_has_a_token_of_its_own(self, playground: Playground) -> None:
        first, second = (bind(playground, "127.0.0.1", 0) for _ in range(2))
        with first.listener, second.listener:
            (one,), (other,) = first.addresses, second.addresses
            assert one.startswith("http://127.0.0.1:")
            assert len(one.split("/")[3]) >= 22  # 128 bits
            assert one.split("/")[3] != other.split("/")[3]
            port = int(one.split("/")[2].partition(":")[2])
            socket.create_connection(("127.0.0.1", port), timeout=5).close()  # nobody is refused before it runs
            with pytest.raises(Exception, match=r"cannot be used .*; choose another with --host or --port\."):
                bind(playground, "192.0.2.1", port)


class TestUploads:
    def send(self, client: TestClient, content: bytes) -> Any:
        return client.post(f"/{TOKEN}/upload", content=content)

    def test_an_image_without_labels_is_compared_with_the_clean_prediction(self, client: TestClient) -> None:
        sent = self.send(client, PHOTO).json()
        assert (sent["height"], sent["width"]) == (20, 30)
        events = parse_events(client.get(f"/{TOKEN}/events", params={**PGD, "image": sent["image"]}).text)
        assert [name for name, _ in events] == ["clean", "step", "step", "step", "done"]
        clean, done = events[0][1], events[-1][1]
        assert (clean["labelled"], clean["figures"]["right"], "truth" in clean["pictures"]) == (False, 1.0, False)
        assert done["figures"]["right"] < 1
        assert np.array_equal(decode(clean["pictures"]["image"]), np.array(Image.open(io.BytesIO(PHOTO))))
        assert sent["image"] in done["commands"]["picture"]

    def test_photographs_are_turned_upright_and_made_smaller(self) -> None:
        image = np.zeros((1000, 2000, 3), np.uint8)
        image[:, :1000] = 200  # the left half; upright by tag 6 (90 degrees clockwise) it is on top
        exif = Image.Exif()
        exif[0x0112] = 6
        sample = uploads.read_upload(png(image, exif=exif))
        assert sample.image.shape == (512, 256, 3)
        assert (sample.image[:250].min(), sample.image[262:].max()) == (200, 0)

    @pytest.mark.parametrize("tag", [b"II*\0", b"II+\0\x08\0\0\0"])
    def test_a_damaged_tag_does_not_refuse_a_photograph(self, tag: bytes) -> None:
        image = np.full((8, 12, 3), 7, np.uint8)
        assert np.array_equal(uploads.read_upload(png(image, exif=b"Exif\0\0" + tag)).image, image)

    def test_the_same_pixels_have_the_same_name(self) -> None:
        names = {uploads.read_upload(png(np.array(Image.open(io.BytesIO(PHOTO))), compress_level=n)).id for n in (1, 9)}
        assert len(names) == 1

    @pytest.mark.parametrize("content", [b"", b"no image", PHOTO[:60], b"GIF89a" + bytes(50), b"<svg/>", b"%PDF-1.4"])
    def test_what_is_no_image_is_refused(self, client: TestClient, content: bytes) -> None:
        answer = self.send(client, content)
        assert answer.status_code == 400
        assert answer.json()["error"].startswith("the upload ")

    def test_too_many_bytes_are_refused(self, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gauntlet.play.server.MOST_BYTES", 1000)
        answer = client.post(f"/{TOKEN}/upload", content=(bytes(300) for _ in range(5)))  # without a length
        assert (answer.status_code, answer.json()["error"]) == (
            413,
            "the upload is larger than 20 MB; send a smaller image.",
        )

    def test_a_decompression_bomb_is_refused_by_its_header(self, client: TestClient) -> None:
        def chunk(kind: bytes, data: bytes) -> bytes:
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        header = struct.pack(">IIBBBBB", 30000, 30000, 8, 2, 0, 0, 0)
        bomb = (
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", header)
            + chunk(b"IDAT", zlib.compress(bytes(10)))
            + chunk(b"IEND", b"")
        )
        answer = self.send(client, bomb)
        assert answer.status_code == 400
        assert len(bomb) < 100

    def test_only_the_last_few_are_kept(self) -> None:
        kept = uploads.Uploads()
        samples = [uploads.read_upload(png(np.full((4, 4, 3), value, np.uint8))) for value in range(uploads.KEPT + 1)]
        for sample in samples:
            kept.add(sample)
        assert kept[samples[-1].id] is samples[-1]
        with pytest.raises(Exception, match=r"is not in this playground; upload it \(again\)\."):
            kept[samples[0].id]


class TestEvents:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"model": "streets/enet"}, "tiny-net"),  # a model that was not offered is never loaded
            ({"model": "python:os:system"}, "unknown model of this playground"),
            ({"image": "6"}, "the number of an image lies in 0 to 5, not 6."),
            ({"image": "-1"}, "upload it (again)"),
            ({"image": "../../etc/passwd"}, "upload it (again)"),
            ({"threat": "nothing-known"}, "unknown threat"),
            ({"threat": "sea"}, "shows single attacks and corruptions"),
            ({"threat": "region-aware"}, "made of several"),
            ({"threat": "/etc/passwd.yaml"}, "unknown threat"),
            ({"epsilon": "-1"}, "'epsilon' is '-1'"),
            ({"epsilon": "nan"}, "'epsilon' is 'nan'"),
            ({"steps": "0"}, "'steps' is '0'"),
            ({"steps": "100000"}, "'steps' is '100000'"),
            ({"norm": "l3"}, "norm"),
            ({"region": "box:1,2,3"}, "a box is four whole numbers"),
            ({"region": "box:a,b"}, "a rectangle is box:top,left,bottom,right"),
            ({"region": "square:huge:centre"}, "huge"),
            ({"region": "patches:0.5"}, "a region is box:... or square:..."),
            ({"threat": "fog", "severity": "9"}, "severity"),
            ({"more": "1"}, "'more'"),
            ({"seed": "x"}, "'seed' is 'x'"),
        ],
    )
    def test_bad_values_are_one_sentence(self, client: TestClient, change: dict[str, str], words: str) -> None:
        answer = client.get(f"/{TOKEN}/events", params={**PGD, **change})
        assert answer.status_code == 400
        message = answer.json()["error"]
        assert words in message
        assert message.endswith((".", "?"))
        assert "\n" not in message

    def test_a_fault_that_only_the_image_shows_ends_the_stream(self, client: TestClient) -> None:
        events = parse_events(client.get(f"/{TOKEN}/events", params={**PGD, "region": "box:0,0,99,99"}).text)
        assert [name for name, _ in events] == ["clean", "failed"]
        assert events[-1][1]["message"].startswith("the box [0, 0, 99, 99]")

    def test_what_is_offered_comes_from_the_registries(self, client: TestClient) -> None:
        offer = client.get(f"/{TOKEN}/offer").json()
        assert [(each["address"], each["task"]) for each in offer["models"]] == [
            ("tiny-net", "segmentation"),
            ("tiny-detector", "detection"),
        ]
        attacks = {each["name"]: each["usual"] for each in offer["attacks"]["segmentation"]}
        assert attacks["cospgd"] == {"norm": "linf", "steps": 20, "epsilon": {"linf": 8.0, "l2": 64.0}}
        assert attacks["apgd"]["steps"] == 100
        assert set(attacks["square"]) == {"norm", "queries", "epsilon"}
        assert attacks["label-only"]["epsilon"] == {"linf": 8.0}
        assert attacks["dag"] == {}  # no budget, and steps that depend on the task
        assert "region-aware" not in attacks
        assert "tog-vanishing" in {each["name"] for each in offer["attacks"]["detection"]}
        corruptions = [name for each in offer["corruptions"] for name in each["names"]]
        assert {"fog", "gaussian_noise", "jpeg_compression"} < set(corruptions)
        assert not any("3d" in name for name in corruptions)  # they need depth

    def test_only_one_computation_runs_and_a_new_one_ends_it(self) -> None:
        async def scenario() -> tuple[list[str], list[str]]:
            stage, begun, inside = Stage(), threading.Event(), []

            def endless(performance: Performance) -> None:
                inside.append("first")
                begun.set()
                while True:
                    performance.report("step", {})

            def short(performance: Performance) -> None:
                inside.append("second")
                performance.report("done", {})

            first = stage.perform(endless)
            await asyncio.to_thread(begun.wait)
            second = stage.perform(short)
            told = [name async for name, _ in first.events()], [name async for name, _ in second.events()]
            assert inside == ["first", "second"]
            return told

        first, second = asyncio.run(scenario())
        assert set(first[:-1]) <= {"step"}
        assert first[-1] == "replaced"
        assert second == ["done"]

    def test_a_page_that_goes_away_ends_its_computation(self, monkeypatch: pytest.MonkeyPatch) -> None:
        playground, ended = tiny_playground(), threading.Event()

        def endless(state: object, report: Report, detailed: object) -> None:
            try:
                while True:
                    report("step", {})
            finally:
                ended.set()

        monkeypatch.setattr(playground, "perform", endless)
        app = build_app(playground, TOKEN, [HOST])
        path = f"/{TOKEN}/events"
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"model=tiny-net",
        }

        async def scenario() -> None:
            seen = asyncio.Event()

            async def receive() -> dict[str, Any]:
                await seen.wait()
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                if message.get("body"):
                    seen.set()
                await asyncio.sleep(0)

            await app({**scope, "headers": [(b"host", HOST.encode())]}, receive, send)
            assert await asyncio.to_thread(ended.wait, 30)

        asyncio.run(scenario())

    def test_an_accident_in_a_model_is_told_and_not_thrown(self) -> None:
        async def scenario() -> list[Any]:
            def broken(performance: Performance) -> None:
                raise RuntimeError("size mismatch\nwith details")

            return [event async for event in Stage().perform(broken).events()]

        assert asyncio.run(scenario()) == [("failed", {"message": "the computation failed: size mismatch."})]
