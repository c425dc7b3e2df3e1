"""The job of `hermes bench --shape agentic` with Inspect's bash tool and its local sandbox.

    pip install inspect-ai openai
    python inspect_bash.py --hermes build/hermes --rollouts 200

Rounds by turns: hermes, then Inspect. A rollout is eight commands, a file that is written and
one that is read, and an answer. The model server is the scripted one, in another process that is
not counted. Inspect writes its file with a command, and keeps its log as it does by default. Its
commands are login shells: HOME is an empty folder, so that they read no start-up files of the user
(a ~/.bashrc that starts pyenv costs more than all else). --home "$HOME" measures with these files.
Processor time is user and system of a program and of all that it started: "whole" with the start
of Inspect and its imports, "job" without them; of hermes it is what `hermes bench` prints.
Tried with inspect-ai 0.3.285.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from common import bench, median, model_server, processor, speech

COMMANDS = [
    "pwd; ls -la",
    r"printf 'line %s\n' 1 2 3 >notes.txt",
    "mkdir -p src && cd src",
    r"printf '%s\n' one two three >list.txt",
    "grep -n two list.txt",
    "export WORD=agent; echo $WORD",
    "wc -l list.txt",
    "sort -r list.txt | head -n 2",
    "echo done $WORD; cd",
    "cat notes.txt",
]
ANSWER = 200  # bytes of an answer
STEP = (2 * 4_000 - 10 * ANSWER) // 12  # bytes of a prompt, as in the benchmark


def turns():
    calls = [{"name": "bash", "arguments": {"command": command}} for command in COMMANDS]
    said = [{"content": speech(n, ANSWER), "calls": [call]} for n, call in enumerate(calls)]
    return said + [{"content": speech(len(said) + 1, ANSWER), "repeat": True}]


def job(base, o):
    """Evaluates once, in this process. It prints the processor time of the evaluation."""
    from inspect_ai import Task, eval
    from inspect_ai.agent import react
    from inspect_ai.dataset import Sample
    from inspect_ai.model import get_model
    from inspect_ai.solver import generate, use_tools
    from inspect_ai.tool import bash

    solver = [use_tools([bash()]), generate()]
    if o.react:
        solver = react(tools=[bash()], submit=False)
    samples = [Sample(id=n + 1, input=speech(n, STEP)) for n in range(o.rollouts)]
    model = get_model("openai/fake", base_url=base, api_key="none", responses_api=False)
    before = processor()
    n = o.at_once or o.rollouts
    logs = eval(Task(dataset=samples, solver=solver, sandbox="local"), model=model, log_dir="logs", display="none",
                max_connections=n, max_samples=n, max_subprocesses=n, max_sandboxes=n)
    own, children = (after - start for after, start in zip(processor(), before))
    assert logs[0].status == "success" and len(logs[0].samples) == o.rollouts, logs[0].status
    for sample in logs[0].samples:
        results = [m for m in sample.messages if m.role == "tool"]
        assert len(results) == len(COMMANDS) and not any(m.error for m in results), results[0]
        assert results[-1].text.strip() == "line 1\nline 2\nline 3", results[-1].text
    print(json.dumps({"own": own, "children": children}))


def evaluate(o):
    """Evaluates once in a process of its own: ms a rollout."""
    with model_server(o.hermes, turns(), o.latency) as base, tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, os.path.abspath(__file__), "--job", base, *sys.argv[1:]]
        before = processor()[1]
        home = {**os.environ, "HOME": o.home or folder}
        done = subprocess.run(command, cwd=folder, env=home, stdout=subprocess.PIPE, text=True, check=True)
        whole = processor()[1] - before
    spent = json.loads(done.stdout.splitlines()[-1])
    each = 1e3 / o.rollouts
    return {"inspect_whole_ms": whole * each, "inspect_job_ms": (spent["own"] + spent["children"]) * each,
            "inspect_commands_ms": spent["children"] * each}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--hermes", default="hermes", help="the program")
    p.add_argument("--backend", default="auto", help="where the boxes of hermes live")
    p.add_argument("--rollouts", type=int, default=200)
    p.add_argument("--at-once", type=int, help="samples and commands of Inspect at once; all by default")
    p.add_argument("--latency", default="0s", help="of the model")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--home", help="HOME of Inspect and its commands; an empty folder by default")
    p.add_argument("--react", action="store_true", help="the agent react() and not a loop of generate()")
    p.add_argument("--job", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.job:
        return job(o.job, o)
    rows = []
    for _ in range(o.rounds):
        ours = bench(o.hermes, "--shape", "agentic", "--backend", o.backend,
                     "--rollouts", str(o.rollouts), "--latency", o.latency)
        row = {"hermes_ms": ours["cpu_ms_per_trajectory"], "floor_ms": ours["floor_ms_per_trajectory"], **evaluate(o)}
        row["ratio"] = row["inspect_job_ms"] / row["hermes_ms"]
        row["above_floor"] = (row["inspect_job_ms"] - row["inspect_commands_ms"]) / (row["hermes_ms"] - row["floor_ms"])
        rows.append(row)
        print(json.dumps({k: round(v, 2) for k, v in row.items()}), flush=True)
    print(f"medians of {o.rounds} rounds of {o.rollouts} rollouts, latency {o.latency}")
    for key in rows[0]:
        print(f"  {key:20} {median(rows, key):8.2f}")


main()
