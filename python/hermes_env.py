"""Environments for hermes in Python: one file, the standard library alone.

    from hermes_env import Env, serve

    class Hello(Env):
        def rows(self, split):
            return [{"id": "1", "prompt": "Say hello."}]

        def score(self, task, ep):
            return float(ep.answer == "hello")

    serve(Hello())

Then: hermes env check ./hello.py. The protocol is described in docs/environments-remote.md.

Code of the environment runs one call at a time; others run while it waits for the box, the judge or a
tool (`parallel = True`: always). What belongs to a rollout is kept in ep.state (any JSON), not in the
object: the next call may come to another process. What is printed goes to stderr.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import inspect
import io
import itertools
import json
import os
import queue
import random
import sys
import threading
import traceback
import types
import typing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Iterable, Iterator, Optional, Union

Send = Callable[[bytes, bool], None]  # a line, and whether it is the answer
PROTOCOL = 1
THREADS = 16  # requests at once; see Env.parallel
ABILITIES = ("task", "prepare", "respond", "score_group", "oracle", "hidden")


def _streams() -> tuple[io.BufferedReader, io.BufferedWriter]:
    """Takes stdin and stdout for the protocol; what is printed goes to stderr from now on."""
    reader, writer = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return reader, writer


# At import, so that what modules print while they are loaded does no harm.
_STREAMS = _streams() if os.environ.get("HERMES_ENVIRONMENT") else None


class ToolError(Exception):
    """What the model did wrong with a tool: it reads the text, and the rollout goes on."""


class Unscored(Exception):
    """Raised by score where there is nothing to judge a task by."""


class RemoteError(Exception):
    """Hermes could not do what the environment asked for."""


@dataclasses.dataclass
class Task:
    """A row made ready. hidden is what Env.task returned under that key."""

    id: str
    row: dict[str, Any]
    hidden: Any = None


class Episode:
    """What happened in a rollout, and what may be done in it."""

    def __init__(self, raw: dict[str, Any], seed: int = 0, ask: Optional[Callable[..., Any]] = None):
        self.id: str = raw.get("id", "")
        self.answer: str = raw.get("answer", "")  # the last text of the model
        self.messages: list[dict[str, Any]] = raw.get("messages", [])
        self.answers: list[str] = [m.get("content") or "" for m in self.messages if m["role"] == "assistant"]
        self.stop: dict[str, Any] = raw.get("stop", {})
        self.turns: int = raw.get("turns", 0)
        self.errors: list[dict[str, Any]] = raw.get("errors", [])
        self.state: Any = raw.get("state")  # kept by hermes between the calls of a rollout
        self.rand = random.Random(seed)
        self._ask = ask

    def _do(self, method: str, **params: Any) -> dict[str, Any]:
        if self._ask is None:
            raise RemoteError(method + ": there is no box, tool or judge at this point")
        got: dict[str, Any] = self._ask(method, params)
        return got

    def exec(self, command: Union[str, list[str]], *, stdin: Optional[str] = None, timeout: float = 60, dir: str = "",
             env: Optional[dict[str, str]] = None) -> types.SimpleNamespace:
        """Runs a command in the box: text is for its shell. Returns code, stdout, stderr, timed_out, truncated."""
        what = {"shell": command} if isinstance(command, str) else {"argv": command}
        return types.SimpleNamespace(**self._do("box/exec", stdin=stdin, timeout=timeout, dir=dir, env=env or {}, **what))

    def read(self, path: str, limit: int = 1 << 20) -> Optional[bytes]:
        """The content of a file of the box; None: it is not there."""
        got = self._do("box/read", path=path, limit=limit)
        if got.get("missing"):
            return None
        return base64.b64decode(got["base64"]) if "base64" in got else got["text"].encode()

    def write(self, path: str, data: Union[str, bytes], mode: int = 0o644) -> None:
        """Writes a file of the box."""
        what = {"text": data} if isinstance(data, str) else {"base64": base64.b64encode(data).decode()}
        self._do("box/write", path=path, mode=mode, **what)

    def call(self, name: str, **arguments: Any) -> str:
        """Calls a tool of the rollout, from score and respond."""
        return str(self._do("tool/call", name=name, arguments=arguments)["text"])

    def judge(self, prompt: str, schema: dict[str, Any]) -> Any:
        """Asks the judge for an answer that fits a JSON schema."""
        return self._do("judge/ask", prompt=prompt, schema=schema)["answer"]


class Env:
    """An environment. rows and score are needed. What may be defined beside them:

    task(row) -> text, messages, or a dict of the protocol; without it the row is a dataset's
    prepare(task, ep)                      fills the box
    respond(task, ep) -> text or messages  the user's answer; None ends the rollout
    score_group(task, eps, scores)         -> scores, once all samples of a row are scored
    oracle(task) -> text or messages       the perfect player, for hermes env check
    hidden(task) -> texts                  that must not be readable in the box

    All of them may be coroutines. Methods marked @tool are tools of the model.
    """

    name = ""  # default: the class's
    version = ""
    toolsets: Optional[list[str]] = []  # of a run that asks for none; None: the usual ones
    needs_box = False  # score needs the box even if no tool has opened it
    parallel = False
    settings: dict[str, Any] = {}  # as given by --set settings={…}

    def start(self) -> Any:
        """Called once with self.settings set, before all else."""

    def rows(self, split: str) -> Iterable[dict[str, Any]]:
        raise NotImplementedError("rows")

    def score(self, task: Task, ep: Episode) -> Union[float, dict[str, Any]]:
        raise NotImplementedError("score")


def tool(method: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a method (self, task, ep, **arguments) a tool; the docstring is what the model reads."""
    hints = typing.get_type_hints(method)
    kinds = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
    params = list(inspect.signature(method).parameters.values())[3:]
    schema = {"type": "object", "additionalProperties": False, "required": [p.name for p in params if p.default is p.empty],
              "properties": {p.name: {"type": kinds[typing.get_origin(hints[p.name]) or hints[p.name]]} for p in params}}
    method.hermes_tool = {"name": method.__name__, "description": inspect.getdoc(method) or "", "parameters": schema}  # type: ignore[attr-defined]
    return method


def tool_call(name: str, **arguments: Any) -> dict[str, Any]:
    """An assistant message that calls a tool, for oracles."""
    return {"role": "assistant", "tool_calls": [{"id": "", "type": "function", "function": {"name": name, "arguments": arguments}}]}


def _line(message: dict[str, Any]) -> bytes:
    """A message of the protocol; NaN and Infinity raise."""
    try:
        return json.dumps(message, allow_nan=False).encode() + b"\n"
    except ValueError as e:
        raise ValueError(f"{e}: {message.get('result')!r:.200}") from None


def _said(role: str, what: Any) -> list[dict[str, Any]]:
    """Messages of what a method returned: text, a message, a list of both, or None."""
    if what is None:
        return []
    return [{"role": role, "content": m} if isinstance(m, str) else m for m in (what if isinstance(what, list) else [what])]


class _Server:
    """Answers requests for an environment, whatever carries them."""

    def __init__(self, env: Env):
        self.env = env
        self.lock: Any = contextlib.nullcontext() if env.parallel else threading.Lock()
        self.held = threading.local()
        self.loop: Optional[asyncio.AbstractEventLoop] = None
        self.lists: dict[str, tuple[list[dict[str, Any]], Iterator[dict[str, Any]]]] = {}
        self.tools: dict[str, Any] = {t["name"]: m for _, m in inspect.getmembers(env, callable) if (t := getattr(m, "hermes_tool", None))}
        self.waiting: dict[str, queue.SimpleQueue[dict[str, Any]]] = {}
        self.ids = itertools.count(1)

    def handle(self, request: dict[str, Any], send: Send) -> None:
        """Answers one request through send, which also carries its callbacks."""
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            with self.lock:
                self.held.lock = True
                try:
                    result = self.do(request, send)
                finally:
                    self.held.lock = False
            line = _line({**answer, "result": result})
        except BaseException as e:  # also SystemExit: hermes decides when this process ends
            code, text = (-32001 if isinstance(e, Unscored) else -32000), f"{type(e).__name__}: {e}"
            line = _line({**answer, "error": {"code": code, "message": text, "data": {"trace": traceback.format_exc()[-4000:]}}})
        send(line, True)

    @contextlib.contextmanager
    def free(self) -> Iterator[None]:
        """Lets other calls run meanwhile."""
        if self.env.parallel or not getattr(self.held, "lock", False):
            yield
            return
        self.held.lock = False
        self.lock.release()
        try:
            yield
        finally:
            self.lock.acquire()
            self.held.lock = True

    def run(self, value: Any) -> Any:
        """The value, or what a coroutine comes to; all coroutines share one loop."""
        if not inspect.isawaitable(value):
            return value
        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            threading.Thread(target=self.loop.run_forever, daemon=True).start()

        async def finished() -> Any:
            return await value

        future = asyncio.run_coroutine_threadsafe(finished(), self.loop)
        with self.free():
            return future.result()

    def ask(self, request_id: int, send: Send, method: str, params: dict[str, Any]) -> Any:
        """A callback: asks hermes and waits."""
        name = f"c{next(self.ids)}"
        box: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.waiting[name] = box
        try:
            with self.free():
                send(_line({"jsonrpc": "2.0", "id": name, "method": method, "params": {"for": request_id, **params}}), False)
                got = box.get()
        finally:
            del self.waiting[name]
        if "error" in got:
            raise RemoteError(got["error"]["message"])
        return got.get("result")

    def hear(self, answer: dict[str, Any]) -> None:
        """Hands the answer to a callback to who waits for it."""
        if (box := self.waiting.get(answer.get("id", ""))) is not None:
            box.put(answer)

    def do(self, request: dict[str, Any], send: Send) -> Any:
        method, p, env = request["method"], request.get("params") or {}, self.env
        if method == "initialize":
            return self.initialize(p)
        if method == "rows":
            return self.rows(p["split"], p["offset"], p["limit"])
        task = Task(**p["task"])
        if method == "task":
            made = self.run(env.task(task.row))  # type: ignore[attr-defined]
            return made if isinstance(made, dict) and "role" not in made else {"messages": _said("user", made)}
        if method in ("oracle", "hidden"):
            made = self.run(getattr(env, method)(task))
            return {"messages": _said("assistant", made)} if method == "oracle" else {"texts": list(made)}
        if method == "score_group":
            return {"scores": list(self.run(env.score_group(task, [Episode(e) for e in p["episodes"]], p["scores"])))}  # type: ignore[attr-defined]
        ep = Episode(p["episode"], p.get("seed", 0), lambda name, params: self.ask(request["id"], send, name, params))
        if method == "score":
            reward = self.run(env.score(task, ep))
            return reward if isinstance(reward, dict) else {"reward": float(reward)}
        before, out = json.dumps(ep.state), self.step(method, p, task, ep)
        return out if json.dumps(ep.state) == before else {**out, "state": ep.state}

    def step(self, method: str, p: dict[str, Any], task: Task, ep: Episode) -> dict[str, Any]:
        if method in ("prepare", "respond"):
            said = self.run(getattr(self.env, method)(task, ep))
            return {"messages": _said("user", said)} if method == "respond" else {}
        if method == "tools":
            return {"tools": [t.hermes_tool for t in self.tools.values()]}
        if method != "call":
            raise LookupError("no method " + method)
        try:
            out = self.run(self.tools[p["name"]](task, ep, **p["arguments"]))
        except ToolError as e:
            return {"text": json.dumps({"error": str(e)}), "failed": True}
        return {"text": out} if isinstance(out, str) else {"result": out}

    def initialize(self, p: dict[str, Any]) -> dict[str, Any]:
        if p["protocol"] != PROTOCOL:
            raise RuntimeError(f"hermes speaks version {p['protocol']} of the protocol, this hermes_env.py version {PROTOCOL}: bring the older up to date")
        env = self.env
        env.settings = p.get("settings") or {}
        self.run(env.start())
        return {"protocol": PROTOCOL, "name": env.name or type(env).__name__, "version": env.version, "toolsets": env.toolsets, "needs_box": env.needs_box,
                "concurrency": THREADS, "abilities": [a for a in ABILITIES if hasattr(env, a)] + (["tools"] if self.tools else [])}

    def rows(self, split: str, offset: int, limit: int) -> dict[str, Any]:
        if split not in self.lists:
            self.lists[split] = ([], iter(self.run(self.env.rows(split))))
        have, source = self.lists[split]
        have.extend(itertools.islice(source, max(0, offset + limit + 1 - len(have))))
        return {"rows": have[offset:offset + limit], "more": len(have) > offset + limit}


def serve(env: Env) -> None:
    """Answers hermes on stdin and stdout, or over HTTP after --http [HOST:]PORT, until it is asked to end."""
    if "--http" in sys.argv:
        host, _, port = sys.argv[sys.argv.index("--http") + 1].rpartition(":")
        return _http(_Server(env), host or "127.0.0.1", int(port))
    if sys.stdin.isatty():
        sys.exit(f"{sys.argv[0]} is started by hermes: hermes env check {sys.argv[0]}")
    server, (reader, writer), writing = _Server(env), _STREAMS or _streams(), threading.Lock()
    work: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def send(line: bytes, last: bool) -> None:
        with writing:
            writer.write(line)
            writer.flush()

    def worker() -> None:
        while True:
            server.handle(work.get(), send)

    for _ in range(THREADS):
        threading.Thread(target=worker, daemon=True).start()
    for line in reader:
        message = json.loads(line)
        if "method" not in message:
            server.hear(message)
        elif message.get("nested"):  # another request waits for this one
            threading.Thread(target=server.handle, args=(message, send), daemon=True).start()
        else:
            work.put(message)
    os._exit(0)  # hermes is gone; whatever still runs is not wanted


def _http(server: _Server, host: str, port: int) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

        def do_POST(self) -> None:
            message, began = json.loads(self.rfile.read(int(self.headers["Content-Length"]))), False

            def send(line: bytes, last: bool) -> None:
                nonlocal began
                if not began:  # callbacks come before the answer: lines, until the connection ends
                    began = True
                    self.start(200, "application/json" if last else "application/x-ndjson", len(line) if last else None)
                self.wfile.write(line)

            if "method" in message:
                return server.handle(message, send)
            server.hear(message)
            self.start(202, "application/json", 0)

        def start(self, status: int, kind: str, length: Optional[int]) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header(*(("Connection", "close") if length is None else ("Content-Length", str(length))))
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    httpd = ThreadingHTTPServer((host, port), Handler)
    print(f"listening on http://{host}:{httpd.server_address[1]}", file=sys.stderr, flush=True)
    httpd.serve_forever()
