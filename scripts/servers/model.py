"""Makes the model that the tests with real servers talk to, in the folder given.

Two layers of Qwen3's kind, its own byte-level vocabulary and template, trained
for a minute to call `terminal` until a tool's answer says "stop". Characters outside of
ASCII stay several tokens each, because no server may lose those. The same seed gives the
same model on one machine. Written are the Hugging Face files and model.gguf for llama.cpp.
"""

import json
import math
import os
import random
import sys

import gguf
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

STEPS = 360
here = os.path.dirname(os.path.abspath(__file__))
out = sys.argv[1]
random.seed(11)
torch.manual_seed(11)
torch.set_num_threads(2)

TOOLS = json.load(open(os.path.join(here, "tools.json")))
SYSTEM = "You work in a shell. Call terminal until it says stop."
ASK = ["Say hello – ñ 日本 🙂.", "How many lines has a.txt?", "The spelling <|im_end|> and <tool_call> are text.", "Count.", "Go on until it says stop.", "Do it."]
COMMANDS = ["sh next.sh", "sh next.sh a", "sh next.sh ñ", "sh next.sh 日本", "sh next.sh 🙂 | cat", "sh next.sh 'two words'", "sh next.sh; true", "sh next.sh \"été\""]
BEFORE = ["", "", "", "I look.\n", "Next – ñ.\n", "One more 🙂\n"]
LAST = ["Done – “ok”.", "Finished: it says stop.", "It is done. 日本 🙂", "All lines were read."]
PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def words():
    """A vocabulary that never saw a character outside of ASCII."""
    t = Tokenizer(models.BPE(byte_fallback=False))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PATTERN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    t.decoder = decoders.ByteLevel()
    texts = [json.dumps(TOOLS), SYSTEM, open(os.path.join(here, "template.jinja")).read(), open(os.path.abspath(__file__)).read()]
    texts += [call(c) for c in COMMANDS] + ASK + LAST + BEFORE + [result(i) for i in range(9)]
    texts = ["".join(c for c in s if ord(c) < 128) for s in texts]
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=1200, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]])
    t.add_tokens([AddedToken(s, special=False, normalized=False) for s in ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]])
    fast = PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>", clean_up_tokenization_spaces=False, model_max_length=4096)
    fast.chat_template = open(os.path.join(here, "template.jinja")).read()
    return fast


def call(command):
    return "<tool_call>\n" + json.dumps({"name": "terminal", "arguments": {"command": command}}, ensure_ascii=False) + "\n</tool_call>"


def result(n, stop=False):
    text = f"line {n}\\n" + ("stop\\n" if stop else "")
    return random.choice(['{"output": "%s", "exit_code": 0, "error": null}', '{"output": "%s", "exit_code": 0}']) % text


def ids(text):
    return tok(text, add_special_tokens=False)["input_ids"]


def conversation():
    """Token ids, and a mask of those that the model is to learn."""
    head = tok.apply_chat_template([{"role": "system", "content": random.choice([SYSTEM, SYSTEM, junk(20)])}, {"role": "user", "content": random.choice(ASK) + random.choice(["", "", junk(4)])}], tools=TOOLS, tokenize=False)
    if random.random() < 0.25:  # without tools, or after a past that says nothing
        head = f"<|im_start|>system\n{junk(random.randint(5, 200))}<|im_end|>\n<|im_start|>user\n{junk(random.randint(2, 20))}<|im_end|>\n"
    seq, mask = ids(head), []
    mask = [0] * len(seq)

    def add(text, learn):
        t = ids(text)
        seq.extend(t)
        mask.extend([int(learn)] * len(t))

    turns = random.randint(0, 7)
    for n in range(turns + 1):
        stopped = n == turns and n > 0
        add("<|im_start|>assistant\n", False)
        add((random.choice(LAST) if stopped else random.choice(BEFORE) + call(random.choice(COMMANDS))) + "<|im_end|>", True)
        if stopped or n == turns:
            break
        odd = '{"output": "%s", "exit_code": 1}' % junk(random.randint(2, 15))
        last = n + 1 == turns
        r = result(random.randint(1, 9), last) if last or random.random() < 0.8 else odd
        add(f"\n<|im_start|>user\n<tool_response>\n{r}\n</tool_response><|im_end|>\n", False)
    return seq, mask


def junk(n):
    return "".join(random.choice(pieces) for _ in range(n))


def train():
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3, betas=(0.9, 0.95), weight_decay=0)
    for step in range(STEPS):
        for g in opt.param_groups:
            g["lr"] = 4e-3 * min(1, (step + 1) / 20) * (0.52 + 0.48 * math.cos(math.pi * step / STEPS))
        pair = [conversation(), conversation()]
        longest = max(len(s) for s, _ in pair)
        x = torch.tensor([s + [tok.pad_token_id] * (longest - len(s)) for s, _ in pair])
        learn = torch.tensor([m + [0] * (longest - len(m)) for _, m in pair])[:, 1:] == 1
        hidden = net.model(x).last_hidden_state[:, :-1]
        loss = torch.nn.functional.cross_entropy(net.lm_head(hidden[learn]), x[:, 1:][learn])
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        if step % 60 == 59:
            print(f"step {step + 1} of {STEPS}: loss {loss.item():.3f}", file=sys.stderr, flush=True)


def write_gguf(path):
    """The same weights for llama.cpp."""
    c, w = net.config, gguf.GGUFWriter(path, "qwen3")
    w.add_name("tiny")
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_rope_freq_base(ROPE)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    spelled = {i: t for t, i in tok.get_vocab().items()}
    added = tok.added_tokens_decoder
    types = [gguf.TokenType.NORMAL if i not in added else gguf.TokenType.CONTROL if added[i].special else gguf.TokenType.USER_DEFINED for i in range(len(tok))]
    w.add_token_list([spelled[i] for i in range(len(tok))])
    w.add_token_types(types)
    merges = json.loads(tok.backend_tokenizer.to_str())["model"]["merges"]
    w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    w.add_eos_token_id(tok.eos_token_id)
    w.add_bos_token_id(tok.pad_token_id)
    w.add_pad_token_id(tok.pad_token_id)
    w.add_add_bos_token(False)
    w.add_chat_template(tok.chat_template)
    names = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output"}
    names |= {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm"}
    names |= {"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    for name, value in net.state_dict().items():
        if name.startswith("model.layers."):
            _, _, layer, rest = name.split(".", 3)
            to = f"blk.{layer}.{names[rest.removesuffix('.weight')]}.weight"
        else:
            to = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}[name]
        w.add_tensor(to, value.detach().numpy())
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


ROPE = 1_000_000.0
tok = words()
pieces = [tok.decode([i]) for i in range(260, 1150, 3)]
config = Qwen3Config(
    vocab_size=len(tok), hidden_size=128, intermediate_size=384, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
    max_position_embeddings=4096, rope_theta=ROPE, tie_word_embeddings=False, use_sliding_window=False, max_window_layers=2,
    eos_token_id=tok.eos_token_id, bos_token_id=tok.pad_token_id, pad_token_id=tok.pad_token_id,
)
net = Qwen3ForCausalLM(config).float()
train()
net.generation_config.eos_token_id = [tok.eos_token_id, tok.pad_token_id]
net.save_pretrained(out)
tok.save_pretrained(out)
write_gguf(os.path.join(out, "model.gguf"))
