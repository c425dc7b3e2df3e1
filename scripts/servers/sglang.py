"""Judges requests and answers of SGLang's /generate by SGLang's own classes.

sglang.py FOLDER reads one JSON object a line: {"request": ...} or {"answer": ...} or
{"path": ..., ...}; FOLDER holds the package. Prints a sentence for each that is refused,
and then how many were read.
"""

import importlib.util
import json
import os
import sys

file = os.path.join(sys.argv[1], "sglang", "api", "v1", "api_types.py")
spec = importlib.util.spec_from_file_location("sglang_api_types", file)
types = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = types
spec.loader.exec_module(types)
bad, n = [], {"request": 0, "answer": 0}
for line in sys.stdin:
    d = json.loads(line)
    for what, cls in (("request", types.GenerateRequest), ("answer", types.GenerateResponse)):
        if what not in d:
            continue
        n[what] += 1
        try:
            cls.from_json_value(d[what])
        except Exception as e:
            bad.append(f"{what}: {type(e).__name__}: {e}: {json.dumps(d[what])[:300]}")
json.dump({"requests": n["request"], "answers": n["answer"], "refused": bad}, sys.stdout)
