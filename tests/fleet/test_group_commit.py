"""Many coroutines share a commit: order, errors, limits, and closing."""

import asyncio
import threading

import pytest

from thresher.errors import StoreUnavailable
from thresher.server.group_commit import Busy, GroupCommit


class Gate:
    """A function over lists that waits until it is let through, and remembers its batches."""

    def __init__(self):
        self.batches = []
        self.begun = threading.Semaphore(0)
        self.through = threading.Semaphore(0)

    def __call__(self, items):
        self.batches.append(list(items))
        self.begun.release()
        assert self.through.acquire(timeout=10)
        if "bad" in items:
            raise StoreUnavailable("The disk is full.")
        return [item * 2 for item in items]


def test_what_waits_goes_into_the_next_batch_and_everybody_gets_their_own_result():
    gate = Gate()
    commit = GroupCommit(gate, largest=4)

    async def main():
        first = asyncio.create_task(commit.submit(0))
        await asyncio.to_thread(gate.begun.acquire)
        others = [asyncio.create_task(commit.submit(i)) for i in range(1, 8)]
        await asyncio.sleep(0.05)
        assert commit.waiting == 7
        assert not first.done(), "nobody is answered before the function has returned"
        gate.through.release(3)
        assert await asyncio.gather(first, *others) == [i * 2 for i in range(8)]

    asyncio.run(main())
    commit.close()
    assert gate.batches == [[0], [1, 2, 3, 4], [5, 6, 7]]


def test_limits_count_the_sizes_of_items():
    gate = Gate()
    commit = GroupCommit(gate, largest=4, most_waiting=20, size=lambda item: item)

    async def main():
        first = asyncio.create_task(commit.submit(1))
        await asyncio.to_thread(gate.begun.acquire)
        others = [asyncio.create_task(commit.submit(size)) for size in (2, 2, 1, 9, 3, 3)]
        await asyncio.sleep(0.05)
        with pytest.raises(Busy):
            await commit.submit(1)
        gate.through.release(6)
        assert await asyncio.gather(first, *others) == [2, 4, 4, 2, 18, 6, 6]

    asyncio.run(main())
    commit.close()
    assert gate.batches == [[1], [2, 2], [1], [9], [3], [3]]


def test_an_error_reaches_all_of_its_batch_and_only_those():
    gate = Gate()
    commit = GroupCommit(gate, largest=2)

    async def main():
        first = asyncio.create_task(commit.submit("x"))
        await asyncio.to_thread(gate.begun.acquire)
        tasks = [asyncio.create_task(commit.submit(item)) for item in ("bad", "neighbour", "good")]
        await asyncio.sleep(0.05)
        gate.through.release(3)
        results = await asyncio.gather(first, *tasks, return_exceptions=True)
        assert [type(result) for result in results] == [str, StoreUnavailable, StoreUnavailable, str]

    asyncio.run(main())
    commit.close()


def test_too_many_waiting_and_closed_are_busy():
    gate = Gate()
    commit = GroupCommit(gate, most_waiting=2)

    async def main():
        first = asyncio.create_task(commit.submit(1))
        await asyncio.to_thread(gate.begun.acquire)
        waiting = [asyncio.create_task(commit.submit(i)) for i in (2, 3)]
        await asyncio.sleep(0.05)
        with pytest.raises(Busy):
            await commit.submit(4)
        gate.through.release(2)
        assert await asyncio.gather(first, *waiting) == [2, 4, 6]
        closing = asyncio.create_task(asyncio.to_thread(commit.close))
        await closing
        with pytest.raises(Busy):
            await commit.submit(5)

    asyncio.run(main())
    assert issubclass(Busy, StoreUnavailable), "whoever answers 503 to the one answers 503 to the other"


def test_closing_finishes_what_is_waiting():
    gate = Gate()
    commit = GroupCommit(gate, largest=1)

    async def main():
        tasks = [asyncio.create_task(commit.submit(i)) for i in range(3)]
        await asyncio.to_thread(gate.begun.acquire)
        gate.through.release(3)
        await asyncio.to_thread(commit.close)
        return await asyncio.gather(*tasks)

    assert asyncio.run(main()) == [0, 2, 4]


def test_a_cancelled_coroutine_disturbs_nobody():
    gate = Gate()
    commit = GroupCommit(gate)

    async def main():
        first = asyncio.create_task(commit.submit(1))
        await asyncio.to_thread(gate.begun.acquire)
        gone, stays = (asyncio.create_task(commit.submit(i)) for i in (2, 3))
        await asyncio.sleep(0.05)
        gone.cancel()
        gate.through.release(2)
        assert await asyncio.gather(first, stays) == [2, 6]
        assert gone.cancelled()

    asyncio.run(main())
    commit.close()
    assert gate.batches == [[1], [2, 3]]


def test_a_loop_that_is_gone_does_not_stop_the_thread():
    gate = Gate()
    commit = GroupCommit(gate)

    async def leave():
        task = asyncio.create_task(commit.submit(1))
        await asyncio.to_thread(gate.begun.acquire)
        task.cancel()

    asyncio.run(leave())
    gate.through.release(2)
    assert asyncio.run(commit.submit(2)) == 4
    commit.close()


def test_results_must_match_items():
    commit = GroupCommit(lambda items: [])

    async def main():
        with pytest.raises(RuntimeError):
            await commit.submit(1)

    asyncio.run(main())
    commit.close()


@pytest.mark.slow
def test_thousands_of_coroutines_each_counted_once():
    seen = []

    def record(items):
        seen.extend(items)
        return items

    commit = GroupCommit(record, largest=100)

    async def main():
        return await asyncio.gather(*(commit.submit(i) for i in range(5000)))

    assert asyncio.run(main()) == list(range(5000))
    commit.close()
    assert seen == list(range(5000))
