"""The server in docs/examples: every answer is onnxruntime's, also after it was killed."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import onnx
import onnx.helper as h
import onnxruntime

from .models import DOMAIN, map_input, model_of, tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = Path(__file__).parents[2] / "docs" / "examples" / "serve.py"
if not SERVER.exists():
    pytest.skip("a source distribution leaves the docs out", allow_module_level=True)

PATIENCE = 30.0  # seconds, for everything that is waited for
WORDS = [f"w{number}" for number in range(12)]


def make_model() -> Any:
    rng = np.random.default_rng(1)
    nodes = [
        h.make_node("DictVectorizer", ["x"], ["r"], domain=DOMAIN, string_vocabulary=WORDS),
        h.make_node(
            "LinearClassifier",
            ["r"],
            ["label", "scores"],
            domain=DOMAIN,
            classlabels_strings=["no", "yes", "é"],
            coefficients=rng.normal(size=36).tolist(),
            intercepts=[0.5, -0.25, 0.0],
            post_transform="SOFTMAX",
        ),
    ]
    outputs = [tensor("label", "string"), tensor("scores", "float")]
    return model_of(nodes, [map_input("x", "string", "float")], outputs)


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "model.onnx"
    onnx.save(make_model(), path)
    return path


@contextmanager
def served(model_file: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start the server on a free port of the loopback address, and stop it whatever happens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(SERVER), str(model_file), str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end and process.poll() is None:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield process, port
        finally:
            process.kill()


def ask(connection: http.client.HTTPConnection, body: str | bytes) -> tuple[int, Any]:
    connection.request("POST", "/run", body)
    with connection.getresponse() as response:
        return response.status, json.loads(response.read())


def batches(seed: int, count: int) -> list[list[dict[str, float]]]:
    rng = np.random.default_rng(seed)
    return [
        [
            {
                str(word): float(value)
                for word, value in zip(
                    rng.choice(WORDS, 4, replace=False), rng.normal(size=4), strict=True
                )
            }
            for _ in range(rng.integers(1, 6))
        ]
        for _ in range(count)
    ]


def send(port: int, seed: int, count: int, wrong: list[object]) -> None:
    """Send batches of maps, and note every answer that is not onnxruntime's."""
    theirs = onnxruntime.InferenceSession(make_model().SerializeToString())
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        for maps in batches(seed, count):
            status, answer = ask(connection, json.dumps(maps))
            ones = [theirs.run(None, {"x": one}) for one in maps]
            same = status == 200 and answer["label"] == [one[0][0] for one in ones]
            expected = np.concatenate([one[1] for one in ones])
            if not same or not np.allclose(answer["scores"], expected, rtol=0, atol=3e-7):
                wrong.append((maps, status, answer))
    except (OSError, http.client.HTTPException, ValueError) as error:
        wrong.append(error)
    finally:
        connection.close()


def check_from_clients(port: int, requests: int, clients: int = 8) -> None:
    wrong: list[object] = []
    workers = [
        threading.Thread(target=send, args=(port, seed, requests // clients, wrong))
        for seed in range(clients)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong, wrong[:3]


@pytest.mark.parametrize(
    "requests", [80, pytest.param(2000, marks=pytest.mark.thorough)], ids=["few", "many"]
)
def test_every_answer_is_that_of_onnxruntime(model_file: Path, requests: int) -> None:
    with served(model_file) as (_, port):
        check_from_clients(port, requests)


def test_a_killed_server_starts_again(model_file: Path) -> None:
    with (
        served(model_file) as (process, port),
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as half,
    ):
        half.sendall(b'POST /run HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n[{"w1": 1')
        time.sleep(0.1)  # the server waits for the rest
        process.kill()
        process.wait(PATIENCE)
        with suppress(ConnectionError):
            assert half.recv(1) == b""  # nothing was answered
    with served(model_file) as (_, port):
        check_from_clients(port, 16)


BAD = {
    '[{"w1": 1}, {"w2": 1, "other": 2}]': "map 1: key 'other' is not in string_vocabulary",
    '[{"w1": 1, "w2": 2, "w1": 3}]': "map 0: key 'w1'",
    '[{"w1": 1}, {"w1": "text"}]': "map 1",
    '[{"w1": 1}, {"w1": {"w2": 1}}]': "map 1: key 'w1'",
    '[{"w1": null}]': "map 0: key 'w1'",
    '[{"w1": 1e300}]': "map 0: key 'w1'",
    '{"w1": 1}': "the request must be a list of maps",
    "[1, 2]": "the request must be a list of maps",
    "[{": "Expecting",
    "": "Expecting",
    "\x00": "Expecting",
}


def test_bad_requests_are_answered_with_map_and_key(model_file: Path) -> None:
    with served(model_file) as (_, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            for body, message in BAD.items():
                status, answer = ask(connection, body)
                assert (status, message in answer["error"]) == (400, True), (body, answer)
            assert ask(connection, b"\xff")[0] == 400
            status, answer = ask(connection, "[]")
            assert (status, answer) == (200, {"label": [], "scores": []})
            connection.request("GET", "/")
            with connection.getresponse() as response:
                assert json.loads(response.read())["x"] == "map(string,tensor(float))"
        finally:
            connection.close()
