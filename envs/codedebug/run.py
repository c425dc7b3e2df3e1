"""Runs the tests: python3 tests/run.py"""
import json, os, sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(here), "lib"))
failed = 0
for line in open(os.path.join(here, "cases.jsonl"), encoding="utf-8"):
    name, arguments, want = json.loads(line)
    call = "%s(%s)" % (name, ", ".join(map(repr, arguments)))
    try:
        got = getattr(__import__(name), name)(*arguments)
    except Exception as e:
        got = "%s: %s" % (type(e).__name__, e)
        ok = False
    else:
        ok = json.loads(json.dumps(got)) == want
    print("ok    " + call if ok else "FAILS %s is %r, want %r" % (call, got, want))
    failed += not ok
print("%d failed" % failed)
sys.exit(failed > 0)
