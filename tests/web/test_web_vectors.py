"""The TypeScript device notices every change of a vector that the Python device must notice."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from vector_changes import FIELDS, Change, Vector, sample

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "typescript"
Samples = dict[str, list[tuple[Vector, list[Change]]]]
OF_AGGREGATORS = {"plaintexts-read"}
"""The client is a device. It does not read plaintexts."""
EVERY = {"policies": 29, "traces": 11}
"""One of so many vectors is changed, where it is not one of 7."""


@pytest.fixture(scope="module")
def samples() -> Samples:
    """For each file some of its vectors, each with its changes."""
    return {name: sample(name, EVERY.get(name, 7)) for name in sorted(FIELDS.keys() - OF_AGGREGATORS)}


def what_the_client_says(vectors: Iterable[tuple[str, Vector]]) -> list[str]:
    """For each vector of a file the name of the error with which its check failed, or "passed"."""
    assert (CLIENT / "dist").is_dir(), "the client is not built; make web builds it"
    done = subprocess.run(
        ["node", "test/noticed.js"],
        cwd=CLIENT,
        env={**os.environ, "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"},
        input="".join(json.dumps({"file": name, "vector": vector}) + "\n" for name, vector in vectors),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_change_of_any_field_is_noticed(samples: Samples) -> None:
    changes = [(name, *change) for name, found in samples.items() for _, listed in found for change in listed]
    said = what_the_client_says((name, vector) for name, _, vector in changes)
    assert [(name, field) for (name, field, _), each in zip(changes, said, strict=True) if each == "passed"] == []
    for name in samples:
        assert {field for of, field, _ in changes if of == name} == FIELDS[name]
        # Most changes fail in an assertion, and not because a check could not go on.
        errors = [each for (of, *_), each in zip(changes, said, strict=True) if of == name]
        assert errors.count("AssertionError") > len(errors) / 2, name


@pytest.mark.slow
def test_the_vectors_of_the_sample_pass_as_they_are(samples: Samples) -> None:
    vectors = [(name, vector) for name, found in samples.items() for vector, _ in found]
    said = what_the_client_says(vectors)
    assert [vector for vector, each in zip(vectors, said, strict=True) if each != "passed"] == []
