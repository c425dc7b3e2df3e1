"""Judges recorded sequences by torch and by transformers' own rendering.

compare.py MODEL reads one JSON object a line, a rollout of an exact run:

  messages   as they were shown to the model
  tools      with their schemas
  sequences  of tokens, mask, sampled, logprobs; served: how many sampled tokens have a
             log-prob of the server (others are masked)

and prints one object: how many sequences and tokens were judged, the largest and the mean
difference of log-probs from those of float32, and a sentence for each text between
sampled tokens that is not what the template writes there.
"""

import json
import sys

import torch
from transformers import AutoTokenizer, Qwen3ForCausalLM

torch.set_num_threads(1)
tok = AutoTokenizer.from_pretrained(sys.argv[1])
net = Qwen3ForCausalLM.from_pretrained(sys.argv[1]).float().eval()
out = {"sequences": 0, "tokens": 0, "masked": 0, "max": 0.0, "mean": 0.0, "rendered": 0, "breaks": []}
STAND_IN = "0STAND1IN2"


def spans(sampled):
    """The runs of equal values: (value, from, to)."""
    at = 0
    while at < len(sampled):
        end = at
        while end < len(sampled) and sampled[end] == sampled[at]:
            end += 1
        yield sampled[at], at, end
        at = end


def between(rollout):
    """The texts that the template writes around the model's own."""
    messages = [dict(m, content=STAND_IN, tool_calls=None) if m["role"] == "assistant" else m for m in rollout["messages"]]
    text = tok.apply_chat_template(messages, tools=rollout["tools"], tokenize=False)
    return text.split(STAND_IN)


for line in sys.stdin:
    rollout = json.loads(line)
    texts = between(rollout)
    for s in rollout["sequences"]:
        ids = s["tokens"]
        with torch.no_grad():
            logs = torch.log_softmax(net(torch.tensor([ids])).logits[0].double(), -1)
        out["sequences"] += 1
        for i, sampled in enumerate(s["sampled"]):
            if sampled and not s["mask"][i]:
                out["masked"] += 1
            elif sampled:
                d = abs(s["logprobs"][i] - logs[i - 1, ids[i]].item())
                out["tokens"] += 1
                out["mean"] += d
                out["max"] = max(out["max"], d)
        ours = [tok.decode(ids[a:b], skip_special_tokens=False) for v, a, b in spans(s["sampled"]) if not v]
        # The model ends a turn with <|im_end|> itself: the template's is left out.
        theirs = [t if n == 0 else t.removeprefix("<|im_end|>") for n, t in enumerate(texts[: len(ours)])]
        if len(rollout["sequences"]) > 1 or len(ours) not in (len(texts), len(texts) - 1):
            out["breaks"].append(f"{rollout['id']}: {len(rollout['sequences'])} sequences, {len(ours)} texts between, the template has {len(texts)}")
        for a, b in zip(ours, theirs):
            out["rendered"] += 1
            if a.rstrip("\n") != b.rstrip("\n"):
                out["breaks"].append(f"{rollout['id']}: {a[-200:]!r} was sent, the template writes {b[-200:]!r}")
out["mean"] /= max(1, out["tokens"])
json.dump(out, sys.stdout)
