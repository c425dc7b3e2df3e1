"""An environment of Atropos' own package, for a server to be tested with.

It needs no model: a sequence is the row's number and what follows it.
"""

import asyncio
import json
import pathlib
import sys

from atroposlib.envs.base import BaseEnv, BaseEnvConfig, ScoredDataGroup
from atroposlib.envs.server_handling.server_manager import APIServerConfig
from tokenizers import Tokenizer, models


class Numbers(BaseEnv):
    name = "numbers"

    async def setup(self):
        self.row = 0

    async def get_next_item(self):
        self.row += 1
        return self.row

    def group(self, item, last):
        tokens = [[100 + item, 1, 2, last + k] for k in range(self.config.group_size)]
        return ScoredDataGroup(
            tokens=tokens,
            masks=[[-100, -100] + t[2:] for t in tokens],
            scores=[float(k) for k in range(len(tokens))],
            inference_logprobs=[[1.0, 1.0, -0.5, -0.25 - k] for k in range(len(tokens))],
        )

    async def collect_trajectories(self, item):
        if item % 3 == 0:  # two groups in one post
            return [self.group(item, 3), self.group(item, 30)], []
        return self.group(item, 3), []

    async def evaluate(self, *args, **kwargs):
        pass


def main(url, folder):
    folder = pathlib.Path(folder)
    Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    config = BaseEnvConfig(
        tokenizer_name=str(folder),
        rollout_server_url=url,
        use_wandb=False,
        wandb_name="numbers",
        group_size=2,
        max_num_workers=4,
        max_token_length=64,
        total_steps=3,
        steps_per_eval=0,
        include_messages=False,
    )
    asyncio.run(Numbers(config, [APIServerConfig(model_name="none", base_url=url, api_key="x", health_check=False)]).env_manager())


main(*sys.argv[1:])
