let now = null; // {record, run, branch, tokens}
let rawText = false; // texts are shown as they came, not as Markdown

function fact(name, ...value) {
  return value.flat().every(v => v === "" || v === undefined || v === null) ? [] : [el("dt", {}, name), el("dd", {}, ...value)];
}

const usage = u => [`${number(u.prompt)} given, ${number(u.completion)} written`, u.reasoning ? `, ${number(u.reasoning)} thought` : "",
  u.cached ? `, ${number(u.cached)} cached` : "", u.cost_known ? `, $${number(u.cost)}` : ""].join("");

function facts(r) {
  const tools = Object.entries(r.tool_stats || {}).filter(([, c]) => c.count).map(([n, c]) => `${n} ${c.success}/${c.count}`).join(", ");
  return el("dl.facts", {},
    fact("outcome", [r.outcome, r.book, r.why].filter(Boolean).join(" · ")),
    fact("stopped", [r.stop.reason, r.stop.detail].filter(Boolean).join(": ")), fact("model", r.model),
    fact("time", times(r)), fact("tokens", usage(r.usage)), fact("tools", tools), fact("toolsets", (r.toolsets || []).join(", ")),
    fact("moves", (r.moves || []).join("; ")), fact("notes", (r.notes || []).join("; ")), fact("tokens shown", r.decoded),
    fact("row", r.metadata ? JSON.stringify(r.metadata) : ""));
}

// times shows how the seconds of a sample were spent.
function times(r) {
  const model = r.model_seconds || 0, tools = r.tool_seconds || 0, rest = Math.max(0, r.seconds - model - tools), all = model + tools + rest || 1;
  const w = x => Math.round(1000 * x / all);
  const svg = (tag, props) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [k, v] of Object.entries(props)) e.setAttribute(k, v);
    return e;
  };
  const bar = svg("svg", {viewBox: "0 0 1000 10", preserveAspectRatio: "none", class: "times", role: "img", "aria-label": "shares of the time"});
  bar.append(svg("rect", {x: 0, y: 0, width: w(model), height: 10, class: "model"}), svg("rect", {x: w(model), y: 0, width: w(tools), height: 10, class: "tools"}),
    svg("rect", {x: w(model) + w(tools), y: 0, width: w(rest), height: 10, class: "rest"}));
  return [`${seconds(r.seconds)}: `, el("span.key.model", {}, `model ${seconds(model)}`), " ", el("span.key.tools", {}, `tools ${seconds(tools)}`), " ",
    el("span.key.rest", {}, `rest ${seconds(rest)}`), ` · begun ${when(r.started)}`, bar];
}

// shown is a value of a row for people: a text as it is, else JSON.
const shown = v => typeof v === "string" ? v : JSON.stringify(v, null, 2);

// verdict puts the answer beside what it was judged by.
function verdict(r) {
  const s = r.score, answers = r.nodes.filter((n, i) => n.role === "assistant" && r.branches?.[0]?.path.includes(i));
  const last = answers.length ? (answers[answers.length - 1].parts || []).map(p => p.text || "").join("") : "";
  const expected = Object.entries(r.scoring || {}).map(([k, v]) => el("div.by", {}, el("h4", {}, (["checker", "rubric"].includes(k) ? k : "expected: " + k).replaceAll("_", " ")), el("pre", {}, shown(v))));
  const judges = !r.judge ? [] : r.judge.members?.length ? r.judge.members : [r.judge];
  return el("section.verdict", {},
    el("div", {}, el("h3", {}, "answer"), s?.answer ? el("p", {}, "read as ", el("code", {}, s.answer)) : "", el("div.box", {}, last ? body(last) : el("p.dim", {}, "the model gave no answer"))),
    el("div", {}, el("h3", {}, "judged by"),
      el("p", {}, el("b", {}, "reward "), reward(s ? s.reward : null), Object.entries(s?.rewards || {}).map(([k, v]) => [" · ", k, " ", reward(v)]), Object.entries(s?.metrics || {}).map(([k, v]) => ` · ${k} ${number(v)}`)),
      s?.detail ? el("pre", {}, s.detail) : "", s ? "" : el("p.dim", {}, "no score: " + (r.why || r.outcome)),
      expected,
      (r.scorer || []).map(c => el("div.by", {}, el("h4", {}, `${c.name}: exit ${c.exit_code}${c.timed_out ? ", timed out" : ""}, ${seconds(c.seconds)}`),
        el("pre", {}, "$ " + (c.shell || (c.argv || []).join(" "))), c.stdout ? el("pre", {}, c.stdout) : "", c.stderr ? el("pre.stderr", {}, c.stderr) : "")),
      judges.map(j => el("div.by", {}, el("h4", {}, `judge ${j.name || ""} ${j.model}: ${number(j.asked)} ${j.asked === 1 ? "answer" : "answers"}, ${usage(j.usage)}`),
        (j.exchanges || []).map((x, i) => el("details", {}, el("summary", {}, `prompt and answer ${i + 1}`), el("pre", {}, x.prompt), el("pre.said", {}, x.answer)))))));
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
    const text = await artifact({run, key: r.key, name});
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

// body is the text of a message: Markdown, or raw where that was chosen.
const body = text => rawText ? el("pre.text", {}, text) : markdown(text);

// unpacked is a JSON object of a tool as text: its texts with their lines, the rest as JSON.
function unpacked(text) {
  let v;
  if (!rawText && text.length < 1e6) try { v = JSON.parse(text); } catch { /* it is text */ }
  if (!v || typeof v !== "object" || Array.isArray(v)) return [el("pre", {}, text)];
  return Object.entries(v).map(([k, x]) => typeof x === "string" && (x.includes("\n") || x.length > 60) ? [el("div.name", {}, k), el("pre", {}, x)] :
    el("div.line", {}, el("span.name", {}, k), " ", el("code", {}, typeof x === "string" ? x : JSON.stringify(x))));
}

function part(p, run, role) {
  const safe = p.blob ? bundled ? `data/${run}/blobs/${encodeURIComponent(p.blob)}` : `/blob?run=${run}&name=${encodeURIComponent(p.blob)}` : /^data:image\/(png|jpeg|gif|webp);/.test(p.url || "") ? p.url : "";
  if (p.kind === "image" && safe) return el("img", {src: safe, alt: "image of the message"});
  if (p.kind !== "text") return el("pre.text", {}, `[${p.kind}: ${p.url || p.blob}]`);
  return role === "tool" ? unpacked(p.text || "") : body(p.text || "");
}

function message(m, id, run, asTokens) {
  const marks = [m.name, m.finish, m.model, m.failed && "failed", m.ephemeral && "ephemeral", m.abandoned && "abandoned", m.opaque && "provider state",
    m.cut && `${number(m.cut)} bytes are not shown`, m.tokens && `${number(m.tokens.length)} tokens, ${number(m.tokens.length - (m.given || 0))} sampled`,
    ...(m.versions || []).map(v => `weights ${v.version} from ${v.from}`), ...(m.extras || []).map(x => `${x.name} ${x.dtype} [${x.shape}]`)].filter(Boolean);
  const content = asTokens && m.tokens ? [tokens(m)] : [
    m.reasoning ? el("pre.reasoning", {}, m.reasoning) : "",
    ...(m.parts || []).map(p => part(p, run, m.role)),
    ...(m.calls || []).map(c => el("div.call", {title: c.id || ""}, el("b", {}, c.name), c.state ? [" ", el("span.state", {}, c.state)] : "", unpacked(c.arguments))),
    ...(m.faults || []).map(f => el("p.fault", {title: `bytes ${f.from} to ${f.to} of the answer`}, el("b", {}, f.kind), " ", f.message))];
  const e = el("article." + (/^(system|user|assistant|tool)$/.test(m.role) ? m.role : "user"), {tabindex: -1, "data-node": id},
    el("h3", {}, m.role, " ", el("small", {}, marks.join(" · "))), ...content);
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
  return el("p.branches", {}, "branches: ", r.branches.map((b, i) => el("button", {"aria-pressed": i === now.branch ? "true" : "false", onclick: () => { now.branch = i; drawRecord(); }},
    (b.head ? "head" : b.abandoned ? "abandoned" : "leaf") + ` (${b.path.length})`)));
}

function drawRecord() {
  const r = now.record;
  const exact = r.nodes.some(n => n.tokens);
  $("detail").replaceChildren(
    el("h2", {}, `${r.id || r.row} / ${r.sample}`, " ", el("small", {}, `run ${r.run} · attempt ${r.attempt} · ${r.key}`)),
    el("p.actions", {}, el("a", {href: "#samples/" + now.run}, "‹ samples"), " ", bundled ? "" : el("button", {onclick: () => now.mark(now.run, r.key, r.row)}, "mark for a difference (m)"), " ",
      el("button", {onclick: toggleRaw, "aria-pressed": rawText ? "true" : "false"}, "raw text (r)"), " ",
      el("button#json", {onclick: toggleJSON, "aria-pressed": "false"}, "raw JSON"), " ",
      exact ? el("button", {onclick: toggleTokens, "aria-pressed": now.tokens ? "true" : "false"}, "tokens (t)") : ""),
    el("pre.rawjson", {hidden: true}), verdict(r), facts(r), ...others(r, now.run), artifacts(r, now.run), branchButtons(r), ...messages(),
    ...(r.children || []).map(c => el("details", {}, el("summary", {}, `sub-agent: ${c.row}, ${c.outcome}`), facts(c), c.nodes.map((n, i) => message(n, i, now.run, false)))));
}

let asked = 0; // an answer to an earlier question is not shown

// wipe takes away what is shown: until the answer is there, nothing is shown under the new address.
function wipe() {
  now = null;
  $("detail").replaceChildren();
  return ++asked;
}

async function showRecord(run, key, at, mark) {
  const mine = wipe();
  const record = await api("/api/record", at ? {run, key, at} : {run, key});
  if (mine !== asked) return;
  now = {record, run, at, branch: 0, tokens: false, mark, here: -1};
  drawRecord();
  scrollTo(0, 0);
}

function toggleRaw() {
  if (!now) return;
  rawText = !rawText;
  drawRecord();
}

// toggleJSON shows the record as the log holds it.
async function toggleJSON() {
  const box = document.querySelector("#detail pre.rawjson");
  if (box.hidden && !box.textContent) box.textContent = JSON.stringify(await api("/api/raw", now.at ? {run: now.run, key: now.record.key, at: now.at} : {run: now.run, key: now.record.key}), null, 2);
  box.hidden = !box.hidden;
  $("json").setAttribute("aria-pressed", box.hidden ? "false" : "true");
}

function toggleTokens() {
  if (!now || !now.record.nodes.some(n => n.tokens)) return;
  now.tokens = !now.tokens;
  drawRecord();
}

function moveNode(by) {
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

async function showDiff(a, b) {
  const mine = wipe();
  const d = await api("/api/diff", {a, b});
  if (mine !== asked) return;
  $("detail").replaceChildren(el("h2", {}, `${d.a} → ${d.b}`), el("p", {}, el("a", {href: "#samples/" + a.split(":")[0]}, "‹ samples")),
    el("pre.diff", {}, d.diff ? diffLines(d.diff) : "no difference"));
  scrollTo(0, 0);
}
