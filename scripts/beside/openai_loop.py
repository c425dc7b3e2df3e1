"""The job of `hermes bench --shape plain` as a plain loop over the openai package.

    pip install openai
    python openai_loop.py --hermes build/hermes

Rounds by turns: hermes, then the loop. Both send the same conversations to the scripted model
server, which runs in another process and is not counted. The loop keeps its messages in a list,
writes nothing and judges nothing. Processor time is user and system of this process, without
its start and its imports; of hermes it is what `hermes bench` prints. Tried with openai 3.57.0.
"""

import argparse
import asyncio
import json

import openai

from common import bench, median, model_server, processor, speech

ANSWER = 200  # bytes of an answer


async def rollout(client, free, number, turns, step, stream):
    async with free:
        messages = [{"role": "user", "content": speech(number, step)}]
        for turn in range(1, turns + 1):
            if stream:
                events = await client.chat.completions.create(model="fake", messages=messages, stream=True)
                text = "".join([e.choices[0].delta.content or "" async for e in events if e.choices])
            else:
                answer = await client.chat.completions.create(model="fake", messages=messages)
                text = answer.choices[0].message.content
            assert len(text) == ANSWER, text
            messages.append({"role": "assistant", "content": text})
            messages.append({"role": "user", "content": speech(turn, step)})


async def all_rollouts(base, o, step):
    free = asyncio.Semaphore(o.concurrency)
    async with openai.AsyncOpenAI(base_url=base, api_key="none", timeout=600, max_retries=0) as client:
        await asyncio.gather(*(rollout(client, free, n, o.turns, step, o.stream) for n in range(o.rollouts)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--hermes", default="hermes", help="the program")
    p.add_argument("--rollouts", type=int, default=300)
    p.add_argument("--turns", type=int, default=20)
    p.add_argument("--context-bytes", type=int, default=12_000, help="mean size of a conversation")
    p.add_argument("--concurrency", type=int, default=64)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--stream", action="store_true", help="the loop streams its answers")
    o = p.parse_args()
    step = (2 * o.context_bytes - (o.turns - 1) * ANSWER) // (o.turns + 1)
    flags = ["--rollouts", str(o.rollouts), "--turns", str(o.turns), "--context-bytes", str(o.context_bytes)]
    rows = []
    for _ in range(o.rounds):
        ours = bench(o.hermes, "--shape", "plain", "--concurrency", str(o.concurrency), *flags)
        with model_server(o.hermes, [{"content": speech(0, ANSWER), "repeat": True}], "0s") as base:
            before = processor()[0]
            asyncio.run(all_rollouts(base, o, step))
            loop = (processor()[0] - before) * 1e6 / (o.rollouts * o.turns)
        row = {"loop_us": loop, "hermes_us": ours["cpu_us_per_turn"], "floor_us": ours["floor_us_per_turn"]}
        row["ratio"] = row["loop_us"] / row["hermes_us"]
        rows.append(row)
        print(json.dumps({k: round(v, 1) for k, v in row.items()}), flush=True)
    print(f"openai {openai.__version__}: medians of {o.rounds} rounds, {o.rollouts} rollouts of {o.turns} turns, "
          f"{o.context_bytes} bytes of context, {o.concurrency} at once")
    print(f"  loop    {median(rows, 'loop_us'):.0f} µs a turn")
    print(f"  hermes  {median(rows, 'hermes_us'):.0f} µs a turn (bare net/http: {median(rows, 'floor_us'):.0f})")
    print(f"  ratio   {median(rows, 'ratio'):.1f}")


main()
