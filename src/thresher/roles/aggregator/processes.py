"""Processes that a server starts beside itself."""

from __future__ import annotations

import multiprocessing
import os
import threading


def end_with_parent() -> None:
    """Called in a child process: end it when its parent ends, also when the parent was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
