"""Trains small tokenizers of many kinds and writes what the reference library makes of nasty texts.

Usage: oracle.py OUT COUNT [FILE.jsonl ...]  (the files' "text" fields are texts too)
Writes OUT/KIND.json (tokenizer) and OUT/KIND.jsonl: text, ids, decoded (null: not asked), mode.
"""
import json, os, random, sys
from tokenizers import (AddedToken, Regex, Tokenizer, decoders as D, models as M, normalizers as N,
                        pre_tokenizers as P, processors as X, trainers as T)

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = QWEN2.replace(r"\p{L}+", r"[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{M}\p{N}]+")
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
UP, LOW, CON = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UP}*{LOW}+{CON}|[^\r\n\p{{L}}\p{{N}}]?{UP}+{LOW}*{CON}|\p{{N}}{{1,3}}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+" + CON +
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*" + CON +
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
             r"\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK_LLM = [r"[\r\n]", r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕ]+",
                r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", r"[一-龥ࠀ-一가-퟿]+"]
DEEPSEEK_CODER = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+"]


def split(p, how="isolated", invert=False):
    return P.Split(Regex(p), how, invert)


def level(*before, prefix=False, regex=False):
    last = P.ByteLevel(add_prefix_space=prefix, use_regex=regex)
    return P.Sequence([*before, last]) if before else last


def special(*words):
    return [AddedToken(w, special=True, normalized=False) for w in words]


FLAGS = [AddedToken("<l>", lstrip=True, normalized=False), AddedToken("<r>", rstrip=True, normalized=False),
         AddedToken("<lr>", lstrip=True, rstrip=True, special=True, normalized=False), AddedToken("word", single_word=True),
         AddedToken("Norm É", normalized=True), AddedToken("  ", normalized=False), AddedToken("<|x", normalized=False),
         AddedToken("<|x|>", special=True, normalized=False)]
COMMON = special("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<unk>")
LEGACY = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
BOS = X.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 3)])
BOTH = X.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B", special_tokens=[("<s>", 3), ("</s>", 4)])

# name: normalizer, pre-tokenizer, decoder, post-processor, model options, added tokens
KINDS = {
    "gpt2": (None, level(regex=True), D.ByteLevel(), None, {}, []),
    "gpt2-prefix": (None, level(regex=True, prefix=True), D.ByteLevel(), X.RobertaProcessing(("</s>", 4), ("<s>", 3)), {}, FLAGS),
    "llama3": (None, level(split(LLAMA3)), D.ByteLevel(), X.Sequence([X.ByteLevel(), BOS]), {"ignore_merges": True}, []),
    "qwen2": (N.NFC(), level(split(QWEN2)), D.ByteLevel(), None, {}, FLAGS),
    "qwen35": (N.NFC(), level(split(QWEN35)), D.ByteLevel(), None, {}, []),
    "deepseek3": (N.Sequence([]), level(split(r"\p{N}{1,3}"), split(r"[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK3)), D.ByteLevel(), BOS, {}, []),
    "deepseek-coder": (None, level(*map(split, DEEPSEEK_CODER), P.Digits(True)), D.ByteLevel(), None, {}, []),
    "deepseek-llm": (None, level(*map(split, DEEPSEEK_LLM), P.Digits(True)), D.ByteLevel(), None, {}, []),
    "o200k": (None, level(split(O200K)), D.ByteLevel(), None, {"ignore_merges": True}, []),
    "kimi": (None, level(split(KIMI)), D.ByteLevel(), None, {}, []),
    "cl100k": (None, level(split(CL100K, "removed", True)), D.ByteLevel(), None, {}, []),
    "starcoder": (None, P.Sequence([P.Digits(True), level(regex=True)]), D.ByteLevel(), None, {}, FLAGS),
    "falcon": (None, P.Sequence([P.Punctuation("contiguous"), level(regex=True), P.Digits(False), split("[0-9][0-9][0-9]")]), D.ByteLevel(), None, {}, []),
    "nfkc-lower": (N.Sequence([N.NFKC(), N.Lowercase(), N.Strip()]), level(regex=True), D.ByteLevel(), BOTH, {}, FLAGS),
    "nfd-words": (N.NFD(), P.Whitespace(), D.BPEDecoder(suffix="</w>"), None, {"unk_token": "<unk>", "end_of_word_suffix": "</w>"}, []),
    "nfkd-fuse": (N.NFKD(), P.Sequence([P.WhitespaceSplit(), P.Punctuation("merged_with_previous")]), None, None,
                  {"unk_token": "<unk>", "fuse_unk": True, "continuing_subword_prefix": "##"}, []),
    "llama2": (N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), None, LEGACY, BOS,
               {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}, FLAGS[:5]),
    "gemma": (N.Replace(" ", "▁"), P.Split(" ", "merged_with_previous"), D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()]), BOS,
              {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}, []),
    "metaspace-first": (None, P.Metaspace(prepend_scheme="first", split=False), LEGACY, BOTH,
                        {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}, FLAGS),
    "metaspace-always": (N.Strip(), P.Metaspace(prepend_scheme="always"), D.Metaspace(), None, {"unk_token": "<unk>"}, FLAGS[:4]),
    "regex-replace": (N.Sequence([N.Replace(Regex(r"\s{2,}"), " "), N.Replace("\t", ""), N.Lowercase()]),
                      P.Sequence([split(r"\d+|[a-z]+(?=x)|\bqu", "merged_with_next"), P.ByteLevel(False, use_regex=False)]), D.ByteLevel(), None, {}, []),
}

BLOCKS = [(0x20, 0x7E), (0x20, 0x7E), (0, 0x1F), (0x80, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x6FF), (0x900, 0x97F),
          (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x218F), (0x2E80, 0x2FFF), (0x3040, 0x30FF),
          (0x4E00, 0x9FFF), (0xA700, 0xA7FF), (0xAC00, 0xD7AF), (0xFB00, 0xFDFF), (0xFE00, 0xFFFF), (0x10D00, 0x10FFF), (0x11300, 0x119FF),
          (0x1D400, 0x1D7FF), (0x1F000, 0x1FAFF), (0x20000, 0x2FFFF), (0xE0000, 0xE01FF), (0x0, 0x10FFFF)]
WORDS = ["the", "The", "THE", "don't", "I'LL", "we've", "it'ſ", "HTTPServer", "camelCase", "naïve", "Ünïcode", "café", "cafe\u0301", "straße", "İstanbul",
         "ΑΣ", "你好世界", "龥", "日本語", "カタカナ", "ひらがな", "한국어", "각", "हिन्दी", "ไทย", "עברית", "العربية", "12", "1234567", "3.14", "１２３", "٣٤", "Ⅷ", "½",
         "🙂", "👨‍👩‍👧", "🇩🇪", "👍🏽", "e\u0301\u0323", "a" + "\u0301\u0316" * 20, "ﬁ", "Å", "\u212b", "㋿", "word", "words", "Norm É", "norm É", "▁", "▁▁x", "Ġ", "<0x41>",
         "def f(x):", "    return x", "{\"a\": [1, 2]}", "</w>", "##ing", "https://a.b/c?d=e#f", "\\n", "\u200b", "\u00a0", "\u3000", "\u2028", "\x00", "\x7f", "\ufeff", "\ufffd",
         "'s", "'S", "'LL", "!!!", "...", "--", "$$$", "a/b", "//\n", "quxx", "aax"]
SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", "\u00a0", "\u2003", "\x85", "\x0b", ""]
ADDED = ["<|endoftext|>", "<|im_start|>", "<s>", "</s>", "<l>", "<r>", "<lr>", "<|x|>", "<|x", "<|", "word", "  "]


def text(r):
    out = []
    for _ in range(r.choice([1, 2, 3, 5, 8, 20, 40])):
        k = r.random()
        if k < 0.45:
            out.append(r.choice(WORDS))
        elif k < 0.55:
            out.append(r.choice(ADDED))
        elif k < 0.85:
            lo, hi = r.choice(BLOCKS)
            out += [chr(c) for c in (r.randint(lo, hi) for _ in range(r.randint(1, 6))) if not 0xD800 <= c < 0xE000]
        else:
            out.append(r.choice(WORDS)[: r.randint(0, 3)] * r.randint(1, 30))
        if r.random() < 0.7:
            out.append(r.choice(SPACES))
    return "".join(out)


def build(name, corpus):
    normalizer, pre, decoder, post, options, added = KINDS[name]
    tok = Tokenizer(M.BPE(**options))
    if normalizer is not None:
        tok.normalizer = normalizer
    if pre is not None:
        tok.pre_tokenizer = pre
    if decoder is not None:
        tok.decoder = decoder
    names = [str(t) if isinstance(t, str) else t.content for t in COMMON]
    opts = {k: v for k, v in options.items() if k in ("end_of_word_suffix", "continuing_subword_prefix")}
    alphabet = P.ByteLevel.alphabet() if "ByteLevel" in type(decoder).__name__ else []
    if options.get("byte_fallback"):
        names += [f"<0x{b:02X}>" for b in range(256)]
    limit = None if alphabet else 150
    trainer = T.BpeTrainer(vocab_size=len(names) + 1200, special_tokens=names, initial_alphabet=alphabet, show_progress=False,
                           max_token_length=12, **({"limit_alphabet": limit} if limit else {}), **opts)
    tok.train_from_iterator(corpus, trainer)
    spec = json.loads(tok.to_str())
    spec["added_tokens"] = []
    spec["model"].update({k: v for k, v in options.items()})
    tok = Tokenizer.from_str(json.dumps(spec))
    if post is not None:
        tok.post_processor = post
    tok.add_special_tokens(COMMON)
    tok.add_tokens(added)
    return tok


def main(out, count, files):
    r = random.Random(7)
    real = [json.loads(line)["text"] for f in files for line in open(f, encoding="utf-8")]
    corpus = real + [text(r) for _ in range(1500)] + [open(__file__, encoding="utf-8").read()] * 2
    texts = (["", " ", "  ", "\n", "a"] + real + [text(r) for _ in range(count)])[:count]
    texts += [" " * 3000, "a" * 5000, "ab " * 2000, "\n" * 700 + "x", "é" * 999, "\u0301" * 100, "🙂" * 300]
    for name in KINDS:
        tok = build(name, corpus)
        tok.save(os.path.join(out, name + ".json"))
        with open(os.path.join(out, name + ".jsonl"), "w", encoding="utf-8") as f:
            for i, t in enumerate(texts):
                tok.encode_special_tokens = i % 4 == 1
                ids = tok.encode(t, add_special_tokens=i % 3 == 0).ids
                skip = i % 5 == 0
                text_out = tok.decode(ids, skip_special_tokens=skip) if ids or "BPEDecoder" not in type(tok.decoder).__name__ else None
                f.write(json.dumps({"text": t, "special": i % 4 != 1, "add": i % 3 == 0, "skip": skip, "ids": ids, "decoded": text_out}) + "\n")
        random_ids(tok, out, name)


def random_ids(tok, out, name):
    """Ids that no text gives: decoders must agree on broken characters too."""
    r = random.Random(name)
    with open(os.path.join(out, name + ".ids.jsonl"), "w", encoding="utf-8") as f:
        for _ in range(400):
            lo = 262 if r.random() < 0.5 else tok.get_vocab_size()
            ids = [r.randrange(min(lo, tok.get_vocab_size())) for _ in range(r.randint(1, 12))]
            ids = [i for i in ids if tok.id_to_token(i) is not None] or [6]
            f.write(json.dumps({"ids": ids, "decoded": tok.decode(ids, skip_special_tokens=False)}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
