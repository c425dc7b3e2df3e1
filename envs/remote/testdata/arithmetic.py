"""An environment in the style of Atropos, as its authors write them: it asks its server, twice, and scores a group."""

from types import SimpleNamespace

from hermes_atropos import Atropos
from hermes_env import serve


class Arithmetic:
    name = "arithmetic"

    def __init__(self, config=None, server_configs=None):
        self.config = config or SimpleNamespace(group_size=4, max_token_length=2048)
        self.iter = 0

    async def setup(self):
        self.train = [{"question": f"What is {i} + {i}?", "answer": str(2 * i)} for i in range(10, 15)]

    async def get_next_item(self):
        row = self.train[self.iter % len(self.train)]
        self.iter += 1
        return (tuple([frozenset({"role": "user", "content": row["question"]}.items())]), row["answer"])

    async def collect_trajectories(self, item):
        messages = [{"role": "system", "content": "Answer with a number."}] + [dict(m) for m in item[0]]
        async with self.server.managed_server(tokenizer=None) as managed:
            first = await managed.chat_completion(messages=messages, n=1, max_tokens=100, temperature=1.0)
            messages += [{"role": "assistant", "content": first.choices[0].message.content}, {"role": "user", "content": "Are you sure?"}]
            last = await managed.chat_completion(messages=messages, n=self.config.group_size)
            nodes = managed.get_state()["nodes"]
        group = [{"said": c.message.content, "gold": item[1], "tokens": nodes[i].tokens, "masks": nodes[i].masked_tokens,
                  "finish": c.finish_reason} for i, c in enumerate(last.choices)]
        return await self.score(group), []

    async def score(self, rollout_group_data):
        scores = {"tokens": [], "masks": [], "scores": []}
        for x in rollout_group_data:
            if x["finish"] == "length" and not x["said"]:
                return None
            scores["tokens"].append(x["tokens"])
            scores["masks"].append(x["masks"])
            scores["scores"].append(1.0 if x["said"].strip() == x["gold"] else -1.0)
        return scores


serve(Atropos(Arithmetic(), size=5))
