"""Tools of hermes for scripts of execute_code. Calls are answered one at a time."""
import fcntl
import json
import os
import shlex
import threading
import time

_dir = os.path.dirname(os.path.abspath(__file__))
_lock = threading.Lock()


def _call(tool, args):
    request = json.dumps({"tool": tool, "args": {k: v for k, v in args.items() if v is not None}})
    with _lock, open(os.path.join(_dir, "lock"), "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        with open(os.path.join(_dir, "request"), "w", encoding="utf-8") as f:
            f.write(request)
        with open(os.path.join(_dir, "answer"), encoding="utf-8") as f:
            answer = f.read()
    try:
        return json.JSONDecoder().raw_decode(answer)[0]
    except ValueError:
        return answer


def json_parse(text):
    """Read JSON; control characters in strings are accepted."""
    return json.loads(text, strict=False)


def shell_quote(text):
    """Make one word of a shell command."""
    return shlex.quote(text)


def retry(function, max_attempts=3, delay=2):
    """Call function until it does not raise; the wait doubles after each attempt."""
    for attempt in range(max_attempts):
        try:
            return function()
        except Exception:
            if attempt + 1 >= max_attempts:
                raise
            time.sleep(delay * 2 ** attempt)
