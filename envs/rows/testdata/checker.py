# Everything that is needed is imported first, and nothing of the model's.
import ctypes, json, os, subprocess, sys

ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: no other process reads or changes this one
verdict = os.environ.pop("HERMES_REWARD")

CASES = [(2, 4), (3, 9), (4, 16)]  # what is expected stays in here

# The model's code runs in a child: without our variables and descriptors (3 is the verdict's),
# with its output caught. Only the argument goes in.
RUN = """
import json, sys
sys.path.insert(0, ".")
import sol
print(json.dumps(sol.square(int(sys.argv[1]))))
"""

right = 0
for n, want in CASES:
    try:
        child = subprocess.run([sys.executable, "-I", "-c", RUN, str(n)], timeout=1, close_fds=True, env={},
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        right += child.returncode == 0 and json.loads(child.stdout) == want
    except (subprocess.TimeoutExpired, ValueError):
        pass  # no result is a wrong result

with open(verdict, "w") as f:
    json.dump({"reward": int(right == len(CASES)), "metrics": {"right": right}}, f)
