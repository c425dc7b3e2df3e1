"""An environment with all that the protocol has: rows of its own form, files in the box, a tool with state, a user, a scorer that works in the box."""

import asyncio
import json

from hermes_env import Env, Episode, Task, ToolError, serve, tool, tool_call

print("loading: what modules print must do no harm")


class Vault(Env):
    name, version, toolsets = "vault", "1.2", ["terminal"]

    def start(self):
        self.size = self.settings.get("size", 4)

    def rows(self, split):
        for i in range(self.size):
            yield {"id": f"{split}/{i}", "code": f"code-{split}-{i * 7919}", "nested": {"list": [1, None, "ü"]}}

    def task(self, row):
        assert row["nested"] == {"list": [1, None, "ü"]}, row
        return {"messages": [{"role": "system", "content": "A vault."}], "prompt": "Open the vault, then write its word into out.txt.",
                "files": {"readme.txt": "ask the vault"}, "artifacts": ["out.txt"], "hidden": {"code": row["code"], "word": "open " + row["code"][::-1]}}

    async def prepare(self, task: Task, ep: Episode):
        await asyncio.sleep(0)
        ep.write("bin.dat", b"\xff\x00\xfe")
        assert ep.read("bin.dat") == b"\xff\x00\xfe" and ep.read("missing") is None
        ep.state = {"tries": 0, "luck": ep.rand.random()}

    @tool
    def turn(self, task: Task, ep: Episode, code: str, hard: bool = False) -> object:
        """Turns the dial. The vault tells its word when the code is right."""
        print("a turn of the dial")
        if not code:
            raise ToolError("an empty code")
        ep.state["tries"] += 1
        return {"word": task.hidden["word"], "tries": ep.state["tries"]} if code == task.hidden["code"] else {"word": None, "tries": ep.state["tries"]}

    def respond(self, task, ep):
        if ep.state["tries"] == 0 and ep.turns < 3:
            ep.state["asked"] = True
            return "The code is in the envelope: " + task.hidden["code"]
        return None

    def score(self, task, ep):
        got = ep.exec(["cat", "out.txt"])
        again = json.loads(ep.call("turn", code=task.hidden["code"]))
        assert again["tries"] >= ep.state["tries"] + 1, (again, ep.state)
        right = got.stdout.strip() == task.hidden["word"]
        return {"reward": float(right), "rewards": {"right": float(right)}, "metrics": {"tries": ep.state["tries"], "first": ep.state["tries"] == 1}, "detail": "code %d" % got.code}

    needs_box = True

    def oracle(self, task):
        word = task.hidden["word"]
        return ["What is the code?", tool_call("turn", code=task.hidden["code"]), tool_call("terminal", command=f"printf '%s\n' '{word}' >out.txt"), "Done."]

    def hidden(self, task):
        return [task.hidden["word"]]

    def score_group(self, task, eps, scores):
        return [s["reward"] + i / 10 for i, s in enumerate(scores)]


serve(Vault())
