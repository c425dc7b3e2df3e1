"""What both comparisons need: the scripted model server, the benchmark of hermes, and figures."""

import contextlib
import json
import resource
import statistics
import subprocess
import tempfile
from pathlib import Path

TEXT = "all work and no play makes a dull agent; "


def speech(n, size):
    """Text of size bytes that begins with a number, as the benchmark of hermes writes it."""
    return (f"{n}: " + TEXT * (size // len(TEXT) + 1))[:size]


@contextlib.contextmanager
def model_server(hermes, turns, latency):
    """A model server that gives these turns to every conversation. The value is its address."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.jsonl")
        script.write_text(json.dumps({"match": "", "turns": turns}) + "\n")
        command = [hermes, "model", "fake", "--listen", "127.0.0.1:0", "--script", str(script), "--latency", latency]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            yield server.stdout.readline().strip() + "/v1"
        finally:
            server.terminate()
            server.wait()


def bench(hermes, *flags):
    """One round of `hermes bench`: its figures."""
    out = subprocess.run([hermes, "bench", "--rounds", "1", "--json", *flags], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(out.stdout)


def processor():
    """Seconds of processor time: of this process, and of the programs that it started and that have ended."""
    own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, ended.ru_utime + ended.ru_stime


def median(rows, key):
    return statistics.median(row[key] for row in rows)
