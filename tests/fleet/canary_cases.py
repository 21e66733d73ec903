"""Where a value could turn up, in every spelling; and requests that are almost right."""

from __future__ import annotations

import base64
import copy
import json
import re
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fleet_server import RunningServer
from server_cases import configuration_of, histogram_request

from thresher.roles.tokens import token_hash

WINDOW = 16


def spellings(value: str) -> dict[str, bytes]:
    """A value as it is, and as it may be written: in UTF-16, hexadecimal, and base64 wherever in a text it begins."""
    raw = value.encode()
    found = {"plain": raw, "utf-16": value.encode("utf-16-le")}
    found |= {"hex": raw.hex().encode(), "HEX": raw.hex().upper().encode()}
    for shift in range(3):
        # The first and last characters of base64 depend on the neighbours: only what is between is the value's own.
        whole = base64.b64encode(b"\0" * shift + raw)
        found[f"base64+{shift}"] = whole[(shift * 8 + 5) // 6 : (shift + len(raw)) * 8 // 6]
    found |= {f"url{name}": text.replace(b"+", b"-").replace(b"/", b"_") for name, text in found.items()}
    return found


def raw_spellings(raw: bytes) -> dict[str, bytes]:
    """Bytes as they are, in hexadecimal and in base64."""
    return {"raw": raw, "hex": raw.hex().encode(), "base64": base64.b64encode(raw).rstrip(b"=")[:-1]}


def contents(*directories: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file as it is now; one that goes while it is read is gone."""
    for directory in directories:
        for path in sorted(directory.rglob("*")):
            try:
                if path.is_file():
                    yield path, path.read_bytes()
            except OSError:
                continue


def found_in(files: Iterable[tuple[Path, bytes]], needles: dict[str, bytes]) -> list[str]:
    """Which needles are in which files."""
    return [f"{name} in {path}" for path, content in files for name, needle in needles.items() if needle in content]


def pieces(sealed: Iterable[bytes]) -> dict[str, bytes]:
    """Sealed reports in pieces, so that a page that holds a part of one is found too."""
    return {
        f"sealed {number}.{start}": report[start : start + WINDOW]
        for number, report in enumerate(sealed)
        for start in range(0, len(report) - WINDOW + 1, WINDOW)
    }


def identities(devices: dict[str, str]) -> dict[str, bytes]:
    """Ids and tokens of devices, plain and hashed, in every spelling. `devices` are tokens by id."""
    needles: dict[str, bytes] = {}
    for number, (id, token) in enumerate(devices.items()):
        needles |= {f"id {number} {name}": needle for name, needle in spellings(id).items()}
        needles |= {f"token {number} {name}": needle for name, needle in spellings(token).items()}
        needles |= {f"hash {number} {name}": needle for name, needle in raw_spellings(token_hash(token)).items()}
    return needles


class Watching(threading.Thread):
    """Reads all files again and again while a round closes, is forwarded, opened and released."""

    def __init__(self, needles: dict[str, bytes], *directories: Path) -> None:
        super().__init__(daemon=True)
        self.needles, self.directories = needles, directories
        self.found: list[str] = []
        self.looks = 0
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.02):
            self.found += found_in(contents(*self.directories), self.needles)
            self.looks += 1

    def __enter__(self) -> Watching:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self.join(30)


def spoiled(body: Any, marker: str) -> Iterator[Any]:
    """A JSON document with a marker in the place of each leaf in turn, and as a further key of each object."""
    if isinstance(body, dict):
        yield {**body, marker: marker}
        for key, value in body.items():
            for other in spoiled(value, marker):
                yield {**body, key: other}
    elif isinstance(body, list):
        for place, value in enumerate(body):
            for other in spoiled(value, marker):
                yield [*body[:place], other, *body[place + 1 :]]
    else:
        yield marker
        yield [marker]


def bodies(body: Any, marker: str) -> Iterator[bytes]:
    """Bodies that are wrong in one way each."""
    whole = json.dumps(body).encode()
    for other in spoiled(copy.deepcopy(body), marker):
        yield json.dumps(other).encode()
    yield marker.encode()
    yield whole[:-1] + f',"{marker}'.encode()
    yield whole + marker.encode()
    yield json.dumps([marker]).encode()
    yield b"\xff" + marker.encode() + b"\x00"


def path_of(template: str, marker: str) -> str:
    return re.sub(r"{\w+}", marker, template)


def await_looks(watching: Watching, more: int = 3, seconds: float = 20) -> None:
    """Until every file has been read some more times."""
    end = time.monotonic() + seconds
    target = watching.looks + more
    while watching.looks < target:
        assert time.monotonic() < end
        time.sleep(0.02)


def tokens_of(server: RunningServer, device: str) -> dict[str, str]:
    """A token of every kind that a server of all roles knows."""
    keys = {
        "coordinator-to-collector": "collector/coordinator.key",
        "coordinator-to-aggregator": "aggregator/coordinator.key",
        "collector-to-aggregator": "aggregator/collector.key",
    }
    tokens = {kind: (server.data_dir / file).read_text().strip() for kind, file in keys.items()}
    own = {"enrolment": server.enrolment_key, "analyst": server.analyst, "operator": server.operator}
    return tokens | own | {"device": device}


def right_bodies(server: RunningServer) -> dict[str, Any]:
    """A body that would be read, for every operation that takes one."""
    with server.client(server.operator) as client:
        shown = client.get("/v1/operator/keys").json()

    class Key:
        key_id = shown["key_id"]
        raw = bytes.fromhex(shown["public_key"])

        def public_key(self) -> Any:
            return self

    configuration = configuration_of(Key(), "r1").text
    response = {"asked": 0, "contacted": 0, "completed": 0}
    return {
        "enrol": {"versions": [2]},
        "visit": {"versions": [2], "reports": [{"round": "r1", "sealed": "A" * 148 + "AA=="}], "rounds": True},
        "plan_query": histogram_request(seconds=3),
        "submit_query": histogram_request(seconds=3),
        "make_enrolment_key": {"name": "a", "seconds": 5, "devices": 3},
        "make_token": {"name": "a", "role": "analyst", "seconds": 5},
        "open_round": {"configuration": configuration, "target": 3},
        "retire_keys": {"in_use": ["k1"]},
        "release_round": {"configuration": configuration, "batches": 0, "response": response},
    }
