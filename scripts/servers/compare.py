"""Judges recorded sequences by torch and by transformers' own rendering.

compare.py MODEL reads one JSON object a line, a rollout of an exact run:

  messages   as they were shown to the model
  tools      with their schemas
  sequences  of tokens, mask, sampled, logprobs; served: how many sampled tokens have a
             log-prob of the server (others are masked)
  retells    whether the server puts the messages into tokens at each turn, so that a text
             which is not its tokens' only spelling begins another sequence

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
out = {"sequences": 0, "tokens": 0, "masked": 0, "max": 0.0, "mean": 0.0, "rendered": 0, "retold": 0, "breaks": []}
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


def trimmed(text):
    return text.removeprefix("<|im_end|>").strip("\n")


def retold(was, now, text, texts):
    """What is wrong with a later sequence, whose first text, of the tokens now, retells the
    earlier one, was; None if nothing is. The server tokenizes the model's words again:
    where those are no characters they come out differently, and what the template writes around
    them stays."""
    same = 0
    while same < min(len(was["tokens"]), len(now)) and was["tokens"][same] == now[same]:
        same += 1
    if same == len(was["tokens"]) or not was["sampled"][same]:
        return f"differs from the one before at token {same}, which the model did not write"
    at = 0
    for t in map(trimmed, texts):
        found = text.find(t, at)
        if found < 0:
            return f"{text[at:][:200]!r} was sent, the template writes {t[-200:]!r}"
        at = found + len(t)
    if text[at:].strip("\n"):
        return f"{text[at:][:200]!r} was sent behind what the template writes"


for line in sys.stdin:
    rollout = json.loads(line)
    texts = between(rollout)
    turns, before = 0, None
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
        parts = list(spans(s["sampled"]))
        ours = [tok.decode(ids[a:b], skip_special_tokens=False) for v, a, b in parts if not v]
        theirs = texts[turns:]
        if before:
            out["retold"] += 1
            wrong = retold(before, ids[: parts[0][2]], ours[0], texts[: turns + 1])
            if not rollout["retells"] or wrong:
                out["breaks"].append(f"{rollout['id']}: a sequence more: {wrong or 'the wire appends'}")
            ours, theirs = ours[1:], theirs[1:]
        for a, b in zip(ours, theirs):
            out["rendered"] += 1
            # The model ends a turn with <|im_end|> itself: the template's is left out.
            if trimmed(a) != trimmed(b):
                out["breaks"].append(f"{rollout['id']}: {a[-200:]!r} was sent, the template writes {b[-200:]!r}")
        turns += sum(v for v, _, _ in parts)
        before = s
    if turns != len(texts) - 1:
        out["breaks"].append(f"{rollout['id']}: {turns} turns in {len(rollout['sequences'])} sequences, the template has {len(texts) - 1}")
out["mean"] /= max(1, out["tokens"])
json.dump(out, sys.stdout)
