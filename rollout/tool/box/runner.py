import json, os, sys
d = sys.argv[1]
files = json.loads(sys.stdin.buffer.read().decode("utf-8"))
for name, text in files.items():
    with open(os.path.join(d, name), "w", encoding="utf-8", errors="surrogatepass", newline="") as f:
        f.write(text)
secret = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "PASSWD", "AUTH")
env = {k: v for k, v in os.environ.items() if not any(s in k.upper() for s in secret)}
env["PYTHONDONTWRITEBYTECODE"] = "1"
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.execve(sys.executable, [sys.executable, "-u", os.path.join(d, "hermes_boot.py")], env)
