"""One look serves everybody who asks for the same thing at the same time."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from thresher.errors import NotFound
from thresher.server.shared_calls import Shared


def test_one_look_for_all_who_ask_within_its_time():
    looks, time = Counter(), [0.0]

    def look(key: str) -> str:
        looks[key] += 1
        return f"{key}{looks[key]}"

    async def asking() -> None:
        shared = Shared(look, 1.0, now=lambda: time[0])
        assert await asyncio.gather(*(shared(key) for key in "aabab")) == ["a1", "a1", "b1", "a1", "b1"]
        time[0] = 0.9
        assert await shared("a") == "a1"
        time[0] = 1.0
        assert await asyncio.gather(shared("a"), shared("a")) == ["a2", "a2"]
        assert list(shared._looks) == ["a"]  # what nobody asks for any more is forgotten

    asyncio.run(asking())
    assert looks == {"a": 2, "b": 1}


def test_an_error_is_everybodys_and_passes():
    answers = [NotFound("no"), "there"]

    def look(key: str) -> str:
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer

    async def asking() -> None:
        shared = Shared(look, 0.0)
        for found in await asyncio.gather(shared("a"), shared("a"), return_exceptions=True):
            assert isinstance(found, NotFound)
        assert await shared("a") == "there"

    asyncio.run(asking())


def test_whoever_goes_away_ends_it_for_nobody_else():
    async def asking() -> None:
        begun, go = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def look(key: str) -> str:
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(go.wait(), loop).result()
            return key

        shared = Shared(look, 1.0)
        first, second = asyncio.ensure_future(shared("a")), asyncio.ensure_future(shared("a"))
        await begun.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        go.set()
        assert await second == "a"

    asyncio.run(asking())
