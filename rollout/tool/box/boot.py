import sys


def _hook(kind, value, trace, hook=sys.excepthook):
    trace = trace and trace.tb_next  # without the line below that runs the script
    hook(kind, value.with_traceback(trace), trace)


def _boot(names):
    import os
    import sys
    sys.argv[0] = os.path.join(sys.path[0], "script.py")
    try:
        sys.path.append(os.getcwd())  # after the standard library: a json.py there is not in its place
    except OSError:
        pass  # the directory is gone
    sys.excepthook = _hook
    with open(sys.argv[0], "rb") as f:
        text = f.read()
    for name in ("sys", "_hook", "_boot"):
        del names[name]
    names["__file__"] = sys.argv[0]
    return text, sys.argv[0]


exec(compile(*_boot(globals()), "exec"))
