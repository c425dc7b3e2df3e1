"""Wraps an environment class in the style of Atropos for hermes; needs hermes_env.py beside it.

    from hermes_atropos import Atropos
    from hermes_env import serve
    from my_env import MyEnv  # setup, get_next_item, collect_trajectory or collect_trajectories, score

    serve(Atropos(MyEnv(config, servers), size=1000))
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import types
from typing import Any, AsyncIterator, Optional

from hermes_env import Env, Episode, Task


class _Asked(BaseException):
    """The environment asks the model what it has not answered yet; args[0] are the messages."""


_replayed: contextvars.ContextVar[Any] = contextvars.ContextVar("replayed")


class _Model:
    """Takes the place of the server of an Atropos environment, and answers what the model of hermes has said."""

    async def chat_completion(self, messages: list[dict[str, Any]], n: int = 1, **_: Any) -> Any:
        answers, strict = _replayed.get()
        if not answers and strict:
            raise _Asked(messages)
        text, why = (answers.pop(0), "stop") if answers else ("", "length")  # the rollout was cut off
        choice = types.SimpleNamespace(message=types.SimpleNamespace(role="assistant", content=text, tool_calls=None), finish_reason=why, index=0)
        return types.SimpleNamespace(choices=[choice] * n)

    @contextlib.asynccontextmanager
    async def managed_server(self, **_: Any) -> AsyncIterator[_Model]:
        yield self

    def get_state(self) -> dict[str, Any]:
        """Hermes has the tokens; these only look like some."""
        return {"nodes": [types.SimpleNamespace(tokens=[0] * 64, masked_tokens=[0] * 64, logprobs=[0.0] * 64)] * 64}


class Atropos(Env):
    """Wraps an environment in the style of Atropos: setup, get_next_item, collect_trajectory (or _trajectories), score.

    Its code runs as it is, from the start at each turn, with the model's answers so far; so it must do the same
    each time for the same item and ask for chat completions. dropped is the reward where it returns nothing
    (Atropos drops such groups); None voids the sample."""

    def __init__(self, env: Any, size: int = 100, dropped: Optional[float] = None):
        self.env, self.size, self.dropped, self.name = env, size, dropped, getattr(env, "name", None) or type(env).__name__
        env.server = _Model()

    async def rows(self, split: str) -> list[dict[str, Any]]:  # type: ignore[override]
        if split != "train":
            raise LookupError("an Atropos environment has get_next_item alone, which gives training rows")
        await self.env.setup()
        items = [await self.env.get_next_item() for _ in range(self.size)]
        return [{"id": str(i), "item": _plain(item)} for i, item in enumerate(items) if item is not None]

    async def _play(self, row: dict[str, Any], answers: list[str], strict: bool = True) -> Any:
        _replayed.set((answers, strict))
        item = _exact(row["item"])
        if hasattr(self.env, "collect_trajectory"):
            with contextlib.suppress(NotImplementedError):  # the base class has it, and does no more than raise this
                return (await self.env.collect_trajectory(item))[0]
        return (await self.env.collect_trajectories(item))[0]

    async def _asked(self, row: dict[str, Any], answers: list[str]) -> list[dict[str, Any]]:
        try:
            await self._play(row, list(answers))
        except _Asked as e:
            return [dict(m) for m in e.args[0]]
        return []

    async def task(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        return await self._asked(row, [])

    async def respond(self, task: Task, ep: Episode) -> list[dict[str, Any]]:
        asked = await self._asked(task.row, ep.answers)
        return list(itertools.takewhile(lambda m: m["role"] != "assistant", reversed(asked)))[::-1]

    async def score(self, task: Task, ep: Episode) -> float:  # type: ignore[override]
        got = await self._play(task.row, ep.answers, strict=False)
        if got and not (isinstance(got, dict) and "scores" in got):
            got = await self.env.score(got if isinstance(got, list) else [got])
        scores = got["scores"] if got else self.dropped
        if scores is None:
            raise ValueError("the environment dropped the sample; Atropos(…, dropped=0.0) gives it a reward")
        return float(scores[0] if isinstance(scores, list) else scores)


def _plain(v: Any) -> Any:
    """JSON of an item in which tuples and frozensets, which Atropos likes, can be distinguished."""
    if isinstance(v, (tuple, list, frozenset)):
        return [type(v).__name__, *(sorted(map(_plain, v), key=repr) if isinstance(v, frozenset) else map(_plain, v))]
    return {k: _plain(x) for k, x in v.items()} if isinstance(v, dict) else v


def _exact(v: Any) -> Any:
    if isinstance(v, list):
        return {"tuple": tuple, "list": list, "frozenset": frozenset}[v[0]](map(_exact, v[1:]))
    return {k: _exact(x) for k, x in v.items()} if isinstance(v, dict) else v
