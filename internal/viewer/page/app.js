import {$, el, api, number, seconds} from "./dom.js";
import {showRecord, showDiff, moveNode, toggleTokens} from "./detail.js";

const columns = [
  ["id", "sample"], ["reward", "reward"], ["book", "book"], ["outcome", "outcome"], ["turns", "turns"],
  ["tokens", "tokens"], ["cost", "cost $"], ["seconds", "time"], ["", "task and answer"],
];
const fields = ["q", "book", "outcome", "tool", "min", "max"];
const state = {runs: [], run: 0, rows: [], total: 0, at: 0, offset: 0, sort: "log", desc: "", marked: null, open: null, asked: 0};
const pageSize = 100;

const say = text => { $("note").textContent = text || ""; };
const guarded = f => async (...a) => { try { return await f(...a); } catch (e) { say(e.message); } };

function query() {
  const q = {run: $("run").value || 0, sort: state.sort, desc: state.desc, offset: state.offset, limit: pageSize};
  for (const f of fields) q[f] = $(f).value;
  if ($("old").checked) q.old = 1;
  return q;
}

function options(select, first, counts) {
  const have = select.value;
  select.replaceChildren(el("option", {value: ""}, first), ...counts.map(([v, n]) => el("option", {value: v}, n === null ? v : `${v} (${n})`)));
  select.value = have;
  if (select.selectedIndex < 0) select.value = "";
}

const refreshRuns = guarded(async () => {
  state.runs = await api("/api/runs");
  const have = $("run").value || 0; // by its place: the list of runs does not change
  $("run").replaceChildren(...state.runs.map((r, i) => el("option", {value: i}, r.name)));
  $("run").value = have;
  const r = state.runs[have];
  options($("book"), "every book", Object.entries(r.books).sort());
  options($("outcome"), "every outcome", Object.entries(r.outcomes).sort());
  options($("tool"), "every tool", (r.tools || []).map(t => [t, null]));
  const done = Object.values(r.books).reduce((a, b) => a + b, 0);
  $("summary").textContent = [r.dir, r.model, `${number(done)} of ${number(r.planned)} samples`,
    r.reward === null ? "" : `mean reward ${number(r.reward)}`, r.state,
    r.indexed < 1 ? `index: ${Math.floor(100 * r.indexed)} %` : "", r.error].filter(Boolean).join(" · ");
  document.title = r.name + " · hermes";
  return r;
});

function line(r, i) {
  const cells = [
    el("td.id", {title: r.key}, r.id + (r.sample ? "/" + r.sample : "") + (r.attempt > 1 ? ` (attempt ${r.attempt})` : "")),
    el("td.num", {}, number(r.reward)), el("td.book", {}, r.book), el("td", {}, r.outcome), el("td.num", {}, number(r.turns)),
    el("td.num", {}, number(r.tokens)), el("td.num", {}, number(r.cost)), el("td.num", {}, seconds(r.seconds)),
    el("td.text", {}, el("div.task", {}, r.task), el("div.answer", {}, r.reason || r.answer)),
  ];
  const tr = el("tr", {onclick: () => open(i)}, cells);
  if (r.old) tr.classList.add("old");
  tr.classList.add(r.book.split(".")[0]);
  return tr;
}

function draw() {
  $("heads").replaceChildren(...columns.map(([key, name]) => el("th", {
    onclick: key ? () => sortBy(key) : undefined, "aria-sort": state.sort === key ? (state.desc ? "descending" : "ascending") : undefined,
  }, name, state.sort === key ? (state.desc ? " ↓" : " ↑") : "")));
  $("rows").replaceChildren(...state.rows.map(line));
  const last = state.offset + state.rows.length;
  $("where").textContent = state.rows.length ? `${number(state.offset + 1)}–${number(last)} of ${number(state.total)}` : "nothing found";
  $("prev").disabled = state.offset === 0;
  $("next").disabled = last >= state.total;
  select(Math.min(state.at, state.rows.length - 1));
}

function select(i) {
  state.at = Math.max(0, i);
  [...$("rows").children].forEach((tr, n) => tr.classList.toggle("here", n === state.at));
  $("rows").children[state.at]?.scrollIntoView({block: "nearest"});
}

const load = guarded(async () => {
  const mine = ++state.asked;
  const q = query();
  if ($("deep").checked && q.q) return deepSearch(mine, q);
  const got = await api("/api/list", q);
  if (mine !== state.asked) return; // another question was asked meanwhile
  state.run = q.run;
  state.rows = got.rows;
  state.total = got.total;
  say("");
  draw();
});

// deepSearch reads whole records, a second at a time, and shows what it has found.
async function deepSearch(mine, q) {
  let rows = [];
  for (let from = 0; from >= 0 && rows.length < pageSize;) {
    const got = await api("/api/search", {...q, offset: from, limit: pageSize - rows.length});
    if (mine !== state.asked) return;
    rows = rows.concat(got.rows);
    from = got.next;
    say(from < 0 ? "" : `${number(from)} of ${number(got.of)} records searched`);
    state.run = q.run;
    state.rows = rows;
    state.offset = 0;
    state.total = rows.length;
    draw();
  }
}

function sortBy(key) {
  if (state.sort === key) state.desc = state.desc ? "" : 1;
  else { state.sort = key; state.desc = ["id", "book", "outcome"].includes(key) ? "" : 1; }
  state.offset = 0;
  load();
}

function turnPage(by) {
  const to = state.offset + by * pageSize;
  if (to < 0 || to >= state.total) return;
  state.offset = to;
  state.at = 0;
  load();
}

function open(i) {
  const r = state.rows[i];
  if (!r) return;
  state.at = i;
  location.hash = `record/${state.run}/${r.key}` + (r.old ? "/" + r.at : "");
}

// mark keeps one trajectory; marking another one shows the difference of the two.
function mark(run, key, id) {
  const me = run + ":" + key;
  if (!state.marked || state.marked === me) {
    state.marked = state.marked ? null : me;
    say(state.marked ? `${id} is marked: m on another one shows their difference` : "");
    return;
  }
  location.hash = `diff/${state.marked}/${me}`;
  state.marked = null;
  say("");
}

const route = guarded(async () => {
  const [what, ...rest] = location.hash.slice(1).split("/");
  $("list").hidden = what !== "";
  $("detail").hidden = what === "";
  state.open = null;
  if (what === "record") {
    const [run, key, at] = rest;
    state.open = {run, key};
    if (run !== String($("run").value)) { // a link into another run: all of the page is that run's
      $("run").value = run;
      state.offset = state.at = 0;
      state.rows = [];
      await refreshRuns();
      load();
    }
    await showRecord(run, key, at, mark);
  } else if (what === "diff") {
    await showDiff(...rest);
  } else {
    select(state.at);
  }
});

const inside = {
  j: () => moveNode(1), k: () => moveNode(-1), t: () => toggleTokens(),
  n: () => neighbour(1), p: () => neighbour(-1),
  m: () => state.open && mark(state.open.run, state.open.key, state.open.key),
  Escape: () => { location.hash = ""; },
};
const outside = {
  j: () => select(Math.min(state.at + 1, state.rows.length - 1)), k: () => select(state.at - 1), Enter: () => open(state.at),
  n: () => turnPage(1), p: () => turnPage(-1),
  m: () => state.rows[state.at] && mark(state.run, state.rows[state.at].key, state.rows[state.at].id),
};

function neighbour(by) {
  const i = state.at + by;
  if (state.rows[i]) open(i);
}

document.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey || $("help").open) return;
  if (["INPUT", "SELECT"].includes(e.target.tagName)) {
    if (e.key === "Escape" || e.key === "Enter") { e.target.blur(); e.preventDefault(); }
    return;
  }
  if (e.target.tagName === "BUTTON" && e.key === "Enter") return;
  const keys = {"/": () => { location.hash = ""; $("q").focus(); $("q").select(); }, "?": () => $("help").showModal(), ...($("detail").hidden ? outside : inside)};
  if (!keys[e.key]) return;
  e.preventDefault();
  keys[e.key]();
});

let typing;
for (const f of [...fields, "deep", "old", "run"]) {
  $(f).addEventListener("input", () => {
    clearTimeout(typing);
    state.offset = state.at = 0;
    if (f === "run") { // what is shown is the other run's
      state.asked++;
      state.rows = [];
      state.total = 0;
      location.hash = "";
      draw();
    }
    typing = setTimeout(f === "run" ? async () => { await refreshRuns(); load(); } : load, 150);
  });
}
$("prev").addEventListener("click", () => turnPage(-1));
$("next").addEventListener("click", () => turnPage(1));
window.addEventListener("hashchange", route);

// A run that is being written, or indexed, is looked at again.
async function watch() {
  const r = await refreshRuns();
  if (r && (r.state || r.indexed < 1) && $("detail").hidden && !$("deep").checked) await load();
  setTimeout(watch, r && (r.state || r.indexed < 1) ? 2000 : 10000);
}
await refreshRuns();
await load();
await route();
document.body.dataset.ready = "yes";
setTimeout(watch, 2000);
