"""As oracle.py, for SentencePiece and tiktoken. Usage: oracle_other.py OUT COUNT [FILE.jsonl ...]"""
import base64, io, json, os, random, sys
import oracle


def save(out, name, texts, encode, decode):
    with open(os.path.join(out, name + ".jsonl"), "w", encoding="utf-8") as f:
        for t in texts:
            ids = encode(t)
            f.write(json.dumps({"text": t, "ids": ids, "decoded": decode(ids)}) + "\n")


def sentencepiece(out, corpus, texts):
    import sentencepiece as spm
    for name, options in {
        "sp-llama": dict(byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True),
        "sp-plain": dict(normalization_rule_name="identity", remove_extra_whitespaces=True, character_coverage=0.99),
        "sp-user": dict(byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False,
                        user_defined_symbols=["<user>", "▁▁▁", "word", "<|x"]),
    }.items():
        model = io.BytesIO()
        spm.SentencePieceTrainer.train(sentence_iterator=iter([t for t in corpus if "\0" not in t]), model_writer=model, vocab_size=8000, hard_vocab_limit=False,
                                       model_type="bpe", minloglevel=2, **{"character_coverage": 0.99, **options})
        open(os.path.join(out, name + ".model"), "wb").write(model.getvalue())
        sp = spm.SentencePieceProcessor(model_proto=model.getvalue())
        save(out, name, [t for t in texts if "\0" not in t], sp.encode, sp.decode)


def tiktoken(out, corpus, texts):
    import tiktoken
    from tiktoken._educational import bpe_train
    for name, pattern, size in (("tt-llama3", oracle.LLAMA3, 700), ("tt-o200k", oracle.O200K, 700)):
        ranks = bpe_train(data="".join(corpus[:300]), vocab_size=size, pat_str=pattern, visualise=None)
        enc = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        with open(os.path.join(out, name + ".tiktoken"), "wb") as f:
            for token, rank in ranks.items():
                f.write(base64.b64encode(token) + b" " + str(rank).encode() + b"\n")
        with open(os.path.join(out, name + ".pattern"), "w", encoding="utf-8") as f:
            f.write(pattern)
        save(out, name, texts, lambda t: enc.encode(t, disallowed_special=()), enc.decode)


if __name__ == "__main__":
    out, count, files = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    r = random.Random(11)
    real = [json.loads(line)["text"] for f in files for line in open(f, encoding="utf-8")]
    corpus = real + [oracle.text(r) for _ in range(1500)]
    texts = (real + [oracle.text(r) for _ in range(count)])[:count] + [" " * 999, "▁▁▁ word", "a" * 3000]
    sentencepiece(out, corpus, texts)
    tiktoken(out, corpus, texts)
