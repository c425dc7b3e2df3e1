# Calls functions of the modules in lib/ and prints what they return. What they should
# return is not known here. Standard input: {"mark", "cases": [[module, arguments]]}.
import copy, importlib.util, json, os, signal, sys

task = json.loads(sys.stdin.buffer.read())
out = os.fdopen(os.dup(1), "w", encoding="utf-8")
quiet = os.open(os.devnull, os.O_RDWR)
for fd in (0, 1, 2):
    os.dup2(quiet, fd)  # what the modules print is nobody's result
sys.setrecursionlimit(2000)
sys.path.insert(0, os.path.join(os.getcwd(), "lib"))
sys.dont_write_bytecode = True


class Slow(BaseException):
    pass


def slow(*_):
    raise Slow()


signal.signal(signal.SIGPROF, slow)
modules = {}
late = {}


def load(name):
    if name not in modules:
        spec = importlib.util.spec_from_file_location(name, os.path.join("lib", name + ".py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        modules[name] = getattr(module, name)
    return modules[name]


for i, (name, arguments) in enumerate(task["cases"]):
    if late.get(name, 0) > 1:
        continue  # it has had its time
    try:
        signal.setitimer(signal.ITIMER_PROF, 1)  # of processor time, so that a busy machine changes nothing
        value = json.dumps({"value": load(name)(*copy.deepcopy(arguments))}, allow_nan=False)
    except BaseException as e:
        late[name] = late.get(name, 0) + isinstance(e, Slow)
        value = json.dumps({"error": type(e).__name__})
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    out.write("%s %d %s\n" % (task["mark"], i, value[:100000]))
    out.flush()
os._exit(0)
