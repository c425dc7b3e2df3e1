import {$, el, api, number, seconds} from "./dom.js";

let now = null; // {record, run, branch, tokens}

function fact(name, ...value) {
  return value.flat().every(v => v === "" || v === undefined || v === null) ? [] : [el("dt", {}, name), el("dd", {}, ...value)];
}

const usage = u => [`${number(u.prompt)} given, ${number(u.completion)} written`, u.reasoning ? `, ${number(u.reasoning)} thought` : "",
  u.cached ? `, ${number(u.cached)} cached` : "", u.cost_known ? `, $${number(u.cost)}` : ""].join("");

function facts(r) {
  const tools = Object.entries(r.tool_stats || {}).map(([n, c]) => `${n} ${c.success}/${c.count}`).join(", ");
  const score = r.score ? [el("b", {}, number(r.score.reward)), " ",
    Object.entries(r.score.rewards || {}).map(([k, v]) => `${k} ${number(v)}`).join(", "), " ", r.score.detail || ""] : [];
  return el("dl.facts", {},
    fact("reward", ...score), fact("outcome", [r.outcome, r.book, r.why].filter(Boolean).join(" · ")),
    fact("stopped", [r.stop.reason, r.stop.detail].filter(Boolean).join(": ")), fact("model", r.model),
    fact("time", `${seconds(r.seconds)} (model ${seconds(r.model_seconds || 0)}, tools ${seconds(r.tool_seconds || 0)}), begun ${r.started}`),
    fact("tokens", usage(r.usage)), fact("tools", tools), fact("toolsets", (r.toolsets || []).join(", ")),
    fact("judge", r.judge ? `${r.judge.model}, ${r.judge.asked} answers, ${usage(r.judge.usage)}` : ""),
    fact("moves", (r.moves || []).join("; ")), fact("notes", (r.notes || []).join("; ")), fact("tokens shown", r.decoded),
    fact("row", r.metadata ? JSON.stringify(r.metadata) : ""));
}

function others(r, run) {
  const link = (w, text) => el("a", {href: `#record/${run}/${w.key}${w.old ? "/" + w.at : ""}`}, text);
  const list = (name, rows, text) => rows && rows.length ? el("p", {}, name + ": ", rows.flatMap(w => [w.at === r.at ? el("b", {}, text(w)) : link(w, text(w)), " "])) : "";
  return [
    list("attempts", r.attempts && r.attempts.length > 1 ? r.attempts : [], w => `${w.attempt} (${w.outcome})`),
    list("other samples of the row", r.samples, w => `${w.sample} (${w.reward === null ? w.outcome : number(w.reward)})`),
  ];
}

function artifacts(r, run) {
  if (!r.artifacts) return "";
  const box = el("pre.artifact", {hidden: true});
  const show = name => async () => {
    const answer = await fetch("/artifact?" + new URLSearchParams({run, key: r.key, name}));
    const text = await answer.text();
    box.replaceChildren(...(name.endsWith(".diff") ? diffLines(text) : [text]));
    box.hidden = false;
  };
  return el("details", {}, el("summary", {}, `artifacts (${r.artifacts.length})`),
    el("p", {}, r.artifacts.flatMap(f => [el("button", {onclick: show(f.name)}, f.name), ` ${number(f.size)} B `])), box);
}

// The class of a sampled token by its probability: 0 is certain, 9 very unlikely.
const heat = lp => Math.min(9, Math.floor(-lp * 2));

function tokens(n) {
  return el("pre.tokens", {}, n.tokens.map((id, i) => {
    const text = n.texts ? n.texts[i] : String(id) + " ";
    const at = i - (n.given || 0), given = at < 0, masked = !given && (n.masked || []).some(r => at >= r.from && at < r.to);
    const lp = given || masked ? null : (n.logprobs || [])[at];
    const sampled = lp === undefined || lp === null ? ", sampled, no log-prob" : `, log-prob ${lp.toFixed(4)}, p ${Math.exp(lp).toFixed(3)}`;
    return el(given || masked ? "span.given" : "span.lp" + heat(lp ?? 0), {title: `${id}${given ? ", given" : sampled}`},
      text === "" ? "·" : text.endsWith("\n") ? text.slice(0, -1) + "↵\n" : text);
  }));
}

function part(p, run) {
  const safe = p.blob ? `/blob?run=${run}&name=${encodeURIComponent(p.blob)}` : /^data:image\/(png|jpeg|gif|webp);/.test(p.url || "") ? p.url : "";
  if (p.kind === "image" && safe) return el("img", {src: safe, alt: "image of the message"});
  return el("pre.text", {}, p.kind === "text" ? p.text || "" : `[${p.kind}: ${p.url || p.blob}]`);
}

function message(m, id, run, shown) {
  const marks = [m.name, m.finish, m.model, m.failed && "failed", m.ephemeral && "ephemeral", m.abandoned && "abandoned", m.opaque && "provider state",
    m.cut && `${number(m.cut)} bytes are not shown`, m.tokens && `${number(m.tokens.length)} tokens, ${number(m.tokens.length - (m.given || 0))} sampled`,
    ...(m.versions || []).map(v => `weights ${v.version} from ${v.from}`), ...(m.extras || []).map(x => `${x.name} ${x.dtype} [${x.shape}]`)].filter(Boolean);
  const body = shown && m.tokens ? [tokens(m)] : [
    m.reasoning ? el("pre.reasoning", {}, m.reasoning) : "",
    ...(m.parts || []).map(p => part(p, run)),
    ...(m.calls || []).map(c => el("div.call", {title: c.id || ""}, el("b", {}, c.name), c.state ? [" ", el("span.state", {}, c.state)] : "", el("pre", {}, c.arguments))),
    ...(m.faults || []).map(f => el("p.fault", {title: `bytes ${f.from} to ${f.to} of the answer`}, el("b", {}, f.kind), " ", f.message))];
  const e = el("article." + (/^(system|user|assistant|tool)$/.test(m.role) ? m.role : "user"), {tabindex: -1, "data-node": id},
    el("h3", {}, m.role, " ", el("small", {}, marks.join(" · "))), ...body);
  if (m.abandoned) e.classList.add("abandoned");
  return e;
}

function messages() {
  const r = now.record, b = r.branches ? r.branches[now.branch] : {path: [], head: true};
  const list = b.path.map(id => message(r.nodes[id], id, now.run, now.tokens));
  if (b.head) list.push(...(r.pending || []).map(m => message(m, "", now.run, false)));
  return list;
}

function branchButtons(r) {
  if (!r.branches || r.branches.length < 2) return "";
  return el("p.branches", {}, "branches: ", r.branches.map((b, i) => el("button", {"aria-pressed": i === now.branch ? "true" : "false", onclick: () => { now.branch = i; draw(); }},
    (b.head ? "head" : b.abandoned ? "abandoned" : "leaf") + ` (${b.path.length})`)));
}

function draw() {
  const r = now.record;
  const exact = r.nodes.some(n => n.tokens);
  $("detail").replaceChildren(
    el("h2", {}, `${r.id || r.row} / ${r.sample}`, " ", el("small", {}, `run ${r.run} · attempt ${r.attempt} · ${r.key}`)),
    el("p", {}, el("a", {href: "#"}, "‹ list"), " ", el("button", {onclick: () => now.mark(now.run, r.key, r.row)}, "mark for a difference (m)"), " ",
      exact ? el("button", {onclick: toggleTokens, "aria-pressed": now.tokens ? "true" : "false"}, "tokens (t)") : ""),
    facts(r), ...others(r, now.run), artifacts(r, now.run), branchButtons(r), ...messages(),
    ...(r.children || []).map(c => el("details", {}, el("summary", {}, `sub-agent: ${c.row}, ${c.outcome}`), facts(c), c.nodes.map((n, i) => message(n, i, now.run, false)))));
}

let asked = 0; // an answer to an earlier question is not shown

export async function showRecord(run, key, at, mark) {
  const mine = ++asked;
  const record = await api("/api/record", at ? {run, key, at} : {run, key});
  if (mine !== asked) return;
  now = {record, run, branch: 0, tokens: false, mark, here: -1};
  draw();
  scrollTo(0, 0);
}

export function toggleTokens() {
  if (!now || !now.record.nodes.some(n => n.tokens)) return;
  now.tokens = !now.tokens;
  draw();
}

export function moveNode(by) {
  const list = [...document.querySelectorAll("#detail > article")];
  if (!list.length) return;
  now.here = Math.max(0, Math.min(list.length - 1, now.here + by));
  list.forEach((a, i) => a.classList.toggle("here", i === now.here));
  list[now.here].scrollIntoView({block: "nearest"});
}

function diffLines(text) {
  const kind = l => l.startsWith("+++") || l.startsWith("---") || l.startsWith("@@") ? "span.where" : l[0] === "+" ? "span.plus" : l[0] === "-" ? "span.minus" : "span";
  return text.split("\n").map(l => el(kind(l), {}, l + "\n"));
}

export async function showDiff(a, b) {
  const mine = ++asked;
  const d = await api("/api/diff", {a, b});
  if (mine !== asked) return;
  now = null;
  $("detail").replaceChildren(el("h2", {}, `${d.a} → ${d.b}`), el("p", {}, el("a", {href: "#"}, "‹ list")),
    el("pre.diff", {}, d.diff ? diffLines(d.diff) : "no difference"));
  scrollTo(0, 0);
}
