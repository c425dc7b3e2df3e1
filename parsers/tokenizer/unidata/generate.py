"""Writes tables.bin: what Hugging Face's tokenizers library believes about every code point.

The library mixes four sources (Oniguruma, Rust's standard library, two crates with older tables),
so its answers are asked for, not taken from the Unicode files. Usage: generate.py tables.bin
"""
import sys
from tokenizers import pre_tokenizers as P, Regex, normalizers as N

CATS = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cs Cn".split()
SCRIPTS = ("Han Hiragana Katakana Hangul Cyrillic Thai Latin Greek Arabic Hebrew Devanagari Armenian Bengali Bopomofo "
           "Ethiopic Georgian Gujarati Gurmukhi Kannada Khmer Lao Malayalam Mongolian Myanmar Oriya Sinhala Tamil Telugu "
           "Tibetan Common Inherited").split()
ONIG_WORD, RUST_WORD, NUMERIC, PUNCT, SPACE, INERT = 1, 2, 4, 8, 16, 32
# Assigned after the tables of the library's normalizer: it leaves them alone, newer tables would not.
INERT_PAIR = [0x11930, 0x11938]

cps = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def matching(cl):
    """Code points that the Oniguruma class matches."""
    split, rest = P.Split(Regex("[" + cl + "]+"), "removed"), set()
    for i in range(0, len(cps), 20000):
        for s, _ in split.pre_tokenize_str("".join(map(chr, cps[i:i + 20000]))):
            rest.update(map(ord, s))
    return set(cps) - rest


def cutting(pt):
    """Code points at which the pre-tokenizer cuts."""
    return {c for c in cps if [s for s, _ in pt.pre_tokenize_str("a" + chr(c) + "a")] != ["a" + chr(c) + "a"]}


def uvarint(n):
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def main(path, inert, lower):
    cat, script, flags = [len(CATS) - 1] * 0x110000, [255] * 0x110000, [0] * 0x110000
    for c in range(0xD800, 0xE000):
        cat[c] = CATS.index("Cs")
    for i, name in enumerate(CATS):
        if name != "Cs":
            for c in matching(r"\p{" + name + "}"):
                cat[c] = i
    for i, name in enumerate(SCRIPTS):
        for c in matching(r"\p{" + name + "}"):
            script[c] = i
    rust_word = {c for c in cps if [s for s, _ in P.Whitespace().pre_tokenize_str("a" + chr(c) + "a")] == ["a" + chr(c) + "a"]}
    for bit, members in ((ONIG_WORD, matching(r"\w")), (RUST_WORD, rust_word), (NUMERIC, cutting(P.Digits(True))),
                         (PUNCT, cutting(P.Punctuation("isolated"))), (SPACE, cutting(P.WhitespaceSplit())),
                         (INERT, set(inert) | set(INERT_PAIR))):
        for c in members:
            flags[c] |= bit
    runs, out = [], bytearray()
    for c in range(0x110000):
        v = (cat[c], script[c], flags[c])
        if runs and runs[-1][1] == v:
            runs[-1][0] += 1
        else:
            runs.append([1, v])
    out += uvarint(len(runs))
    for n, v in runs:
        out += uvarint(n) + bytes(v)
    out += uvarint(len(lower))
    for a, b in lower:
        out += uvarint(a) + uvarint(len(b)) + b"".join(map(uvarint, b))
    open(path, "wb").write(out)


def inert():
    """Combining or decomposing in Unicode 15, but not for the library."""
    import unicodedata
    nfd, nfkd = N.NFD(), N.NFKD()
    for c in cps:
        ch = chr(c)
        moved = nfd.normalize_str("a\u0345" + ch) != "a\u0345" + nfd.normalize_str(ch)
        if 0 < unicodedata.combining(ch) < 240 and not moved or unicodedata.normalize("NFKD", ch) != nfkd.normalize_str(ch):
            yield c


def lower():
    z = N.Lowercase()
    return [(c, tuple(map(ord, z.normalize_str(chr(c))))) for c in cps if z.normalize_str(chr(c)) != chr(c)]


if __name__ == "__main__":
    import unicodedata
    assert unicodedata.unidata_version >= "15.0.0", unicodedata.unidata_version
    main(sys.argv[1], inert(), lower())
