"""Renders template sources (JSON list on stdin) as Transformers does; prints one JSON line each."""
import datetime
import json
import sys

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

spans = []


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller):
        text = caller()
        start = len("".join(done))
        spans.append([start, start + len(text)])
        return text


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise TemplateError(message)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = datetime.datetime(2026, 1, 15, 13, 5, 9).strftime

given = json.load(sys.stdin)
for source in given["sources"]:
    spans.clear()
    done = []
    answer = {"source": source}
    try:
        template = env.from_string(source)
        for part in template.root_render_func(template.new_context(given["variables"])):
            done.append(part)
        answer["text"] = "".join(done)
        if spans:
            answer["spans"] = list(spans)
    except Exception as error:
        answer["error"] = type(error).__name__
    print(json.dumps(answer))
