"""Renders conversations with Transformers' apply_chat_template.

Reads one JSON object a line: source, messages, tools, generate. Answers each with {"text"} or {"error"}. With the one
argument "bench" it renders the first line again and again for a second and prints renderings per second.
"""
import datetime
import json
import sys
import time

from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils


class Frozen(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 1, 15, 13, 5, 9)


chat_template_utils.datetime = Frozen
tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>")


def render(case):
    return tokenizer.apply_chat_template(case["messages"], tools=case["tools"] or None, chat_template=case["source"],
                                         add_generation_prompt=case["generate"], tokenize=False)


for line in sys.stdin:
    case = json.loads(line)
    if sys.argv[1:] == ["bench"]:
        end, n = time.perf_counter() + 1, 0
        render(case)
        while time.perf_counter() < end:
            render(case)
            n += 1
        print(n)
        break
    try:
        answer = {"text": render(case)}
    except Exception as e:
        answer = {"error": f"{type(e).__name__}: {e}"}
    print(json.dumps(answer))
