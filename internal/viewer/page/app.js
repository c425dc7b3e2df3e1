const columns = [
  ["id", "sample"], ["reward", "reward", "num"], ["book", "book"], ["outcome", "outcome"], ["turns", "turns", "num"],
  ["tokens", "tokens", "num"], ["cost", "cost $", "num"], ["seconds", "time", "num"], ["", "task and answer"],
];
const fields = ["q", "book", "outcome", "tool", "min", "max"];
let task = ""; // the samples of one task alone
const state = {runs: [], run: 0, rows: [], total: 0, at: 0, offset: 0, sort: "log", desc: "", marked: null, open: null, asked: 0, overview: ""};

const say = text => { $("note").textContent = text || ""; };
const guarded = f => async (...a) => { try { return await f(...a); } catch (e) { say(e.message); } };

function query() {
  const q = {run: $("run").value || 0, sort: state.sort, desc: state.desc, offset: state.offset, limit: pageSize};
  for (const f of fields) q[f] = $(f).value;
  if ($("old").checked) q.old = 1;
  if (task) q.task = task;
  return q;
}

function options(select, first, counts) {
  const have = select.value;
  select.replaceChildren(el("option", {value: ""}, first), ...counts.map(([v, n]) => el("option", {value: v}, n === null ? v : `${v} (${n})`)));
  select.value = have;
  if (select.selectedIndex < 0) select.value = "";
}

// refreshRuns looks at the list of runs again.
const refreshRuns = guarded(async () => {
  const runs = await api("/api/runs"), same = JSON.stringify(runs) === JSON.stringify(state.runs);
  const have = $("run").value || 0; // by its place: the list of runs does not change
  state.runs = runs;
  if (!$("run").options.length) $("run").replaceChildren(...runs.map((r, i) => el("option", {value: i}, r.name)));
  $("run").value = have;
  if (!$("home").hidden && !same) showHome(runs);
  return state.runs[have];
});

// refreshRun looks at the chosen run again, and shows it where its page is open.
const refreshRun = guarded(async () => {
  const i = $("run").value || 0, mine = i;
  const r = await api("/api/run", {run: i});
  if (mine !== ($("run").value || 0)) return undefined; // another one was chosen meanwhile
  options($("book"), "every book", Object.entries(r.books).sort());
  options($("outcome"), "every outcome", Object.entries(r.outcomes).sort());
  options($("tool"), "every tool", (r.tools || []).map(t => [t, null]));
  const done = Object.values(r.books).reduce((a, b) => a + b, 0);
  $("summary").replaceChildren(...[r.dir, r.model, `${number(done)} of ${number(r.planned)} samples`,
    r.reward === null ? "" : `mean reward ${number(r.reward)}`, r.state,
    r.indexed < 1 ? `index: ${Math.floor(100 * r.indexed)} %` : "", r.error].filter(Boolean).join(" · "));
  if (task) $("summary").append(" · ", el("b", {}, "task " + task), " ", el("button", {onclick: () => { go("samples/" + i); }}, "all tasks"));
  document.title = r.name + " · hermes";
  const now = i + JSON.stringify(r);
  if (!$("overview").hidden && now !== state.overview) showOverview(r, i);
  if (!$("overview").hidden) state.overview = now; // what is the same is not drawn again: texts may be selected in it
  return r;
});

function line(r, i) {
  const cells = [
    el("td.id", {title: r.key}, el("a", {href: pageOf(r)}, r.id + (r.sample ? "/" + r.sample : "") + (r.attempt > 1 ? ` (attempt ${r.attempt})` : ""))),
    el("td.num", {}, reward(r.reward)), el("td.book", {}, r.book), el("td", {}, r.outcome), el("td.num", {}, number(r.turns)),
    el("td.num", {}, number(r.tokens)), el("td.num", {}, number(r.cost)), el("td.num", {}, seconds(r.seconds)),
    el("td.text", {}, el("div.task", {}, r.task), el("div.answer", {}, r.reason || r.answer)),
  ];
  const tr = el("tr", {onclick: () => open(i)}, cells);
  if (r.old) tr.classList.add("old");
  tr.classList.add(r.book.split(".")[0]);
  return labelled(tr, columns);
}

// pageOf is the address of the page of a row.
const pageOf = r => `#record/${state.run}/${r.key}` + (r.old ? "/" + r.at : "");

function draw() {
  refill($("heads"), ...columns.map(c => columnHead(c, {key: state.sort, desc: state.desc, by: sortBy})));
  refill($("rows"), ...state.rows.map(line));
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
  go(pageOf(r));
}

// mark keeps one trajectory; marking another one shows the difference of the two.
function mark(run, key, id) {
  const me = run + ":" + key;
  if (!state.marked || state.marked === me) {
    state.marked = state.marked ? null : me;
    say(state.marked ? `${id} is marked: m on another one shows their difference` : "");
    return;
  }
  go(`diff/${state.marked}/${me}`);
  state.marked = null;
  say("");
}

// show makes one part of the page visible, and the tabs of its run.
function show(part) {
  for (const id of ["home", "overview", "tasks", "list", "detail"]) $(id).hidden = id !== part;
  document.body.dataset.part = part;
  $("filters").hidden = part !== "list" && part !== "tasks";
  $("summary").hidden = part !== "list";
  $("tabs").hidden = part === "home";
  for (const [id, tab] of [["tab-run", "overview"], ["tab-samples", "list"], ["tab-tasks", "tasks"]]) {
    $(id).setAttribute("href", "#" + {overview: "run", list: "samples", tasks: "tasks"}[tab] + "/" + ($("run").value || 0));
    if (tab === part) $(id).setAttribute("aria-current", "page"); else $(id).removeAttribute("aria-current");
  }
}

// choose makes a run the one that is shown. It answers whether it was another one.
function choose(run) {
  if (!/^\d+$/.test(run) || !state.runs[run]) throw new Error(`no run ${run}`);
  if (run === String($("run").value)) return false;
  $("run").value = run;
  state.asked++;
  state.offset = state.at = 0;
  state.rows = [];
  state.total = 0;
  for (const f of fields) $(f).value = "";
  return true;
}

// filters sets the filters that a link names: book=failed&task=x.
function filters(text) {
  const q = new URLSearchParams(text);
  const was = JSON.stringify(query());
  task = q.get("task") || "";
  if (text) for (const f of fields) {
    const v = q.get(f) || "";
    if ($(f).tagName === "SELECT" && v && ![...$(f).options].some(o => o.value === v)) $(f).append(el("option", {value: v}, v));
    $(f).value = v;
  }
  if (JSON.stringify(query()) !== was) state.offset = state.at = 0;
}

// go opens an address of the page at once: the event of a changed address comes later, and
// a key pressed before it would count for the page that is left.
function go(hash) {
  location.hash = hash;
  follow();
}
const follow = () => { if (location.hash !== routed) route(); };

let current = 0; // a page that was left is not shown
let routed = null; // the address that is shown
const route = guarded(async () => {
  const mine = ++current;
  routed = location.hash;
  const [what, ...rest] = location.hash.slice(1).split("/");
  state.open = null;
  say("");
  switch (what) {
  case "run":
    choose(rest[0]);
    show("overview");
    await refreshRun();
    break;
  case "tasks":
    choose(rest[0]);
    show("tasks");
    await refreshRun();
    if (mine === current) await showTasks(rest[0]);
    break;
  case "samples":
    choose(rest[0]);
    filters(rest.slice(1).join("/"));
    show("list");
    draw();
    await refreshRun();
    if (mine === current) await load();
    break;
  case "record": {
    const [run, key, at] = rest;
    if (choose(run) || !state.rows.length) refreshRun().then(load); // the list behind it is that run's
    show("detail");
    state.open = {run, key};
    await showRecord(run, key, at, mark);
    break;
  }
  case "diff":
    if (choose(rest[0].split(":")[0])) refreshRun().then(load);
    show("detail");
    await showDiff(...rest);
    break;
  default:
    show("home");
    document.title = "hermes runs";
    showHome(state.runs);
  }
});

const inside = {
  j: () => moveNode(1), k: () => moveNode(-1), t: () => toggleTokens(), r: () => toggleRaw(),
  n: () => neighbour(1), p: () => neighbour(-1),
  m: () => state.open && mark(state.open.run, state.open.key, state.open.key),
  Escape: () => { go("samples/" + ($("run").value || 0) + (task ? "/task=" + encodeURIComponent(task) : "")); },
};
const outside = {
  j: () => select(Math.min(state.at + 1, state.rows.length - 1)), k: () => select(state.at - 1), Enter: () => open(state.at),
  n: () => turnPage(1), p: () => turnPage(-1),
  m: () => !bundled && state.rows[state.at] && mark(state.run, state.rows[state.at].key, state.rows[state.at].id),
  Escape: () => { go("run/" + ($("run").value || 0)); },
};

// elsewhere are the keys of the other tables: the first row is chosen by j.
function moveRow(by) {
  const rows = [...document.querySelectorAll("main > section:not([hidden]) tbody tr")];
  const at = rows.findIndex(r => r.classList.contains("here"));
  rows[at]?.classList.remove("here");
  const to = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
  to?.classList.add("here");
  to?.scrollIntoView({block: "nearest"});
}
const elsewhere = {
  j: () => moveRow(1), k: () => moveRow(-1), Enter: () => document.querySelector("main > section:not([hidden]) tr.here a, main > section:not([hidden]) tr.here")?.click(),
  Escape: () => { go($("tasks").hidden ? "" : "run/" + ($("run").value || 0)); },
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
  if (["BUTTON", "A", "SUMMARY"].includes(e.target.tagName) && e.key === "Enter") return;
  const search = () => {
    if ($("list").hidden && $("tasks").hidden) {
      show("list");
      go("samples/" + ($("run").value || 0));
    }
    $("q").focus();
    $("q").select();
  };
  const keys = {"/": search, "?": () => $("help").showModal(), ...(!$("detail").hidden ? inside : !$("list").hidden ? outside : elsewhere)};
  if (!keys[e.key]) return;
  e.preventDefault();
  keys[e.key]();
});

let typing;
for (const f of [...fields, "deep", "old"]) {
  $(f).addEventListener("input", () => {
    clearTimeout(typing);
    state.offset = state.at = 0;
    taskState.offset = 0;
    typing = setTimeout($("tasks").hidden ? load : guarded(() => showTasks($("run").value || 0)), 150);
  });
}
$("run").addEventListener("input", () => { // the same page of the other run
  const run = $("run").value, part = !$("overview").hidden ? "run" : !$("tasks").hidden ? "tasks" : "samples";
  state.asked++;
  state.offset = state.at = 0;
  state.rows = [];
  state.total = 0;
  for (const f of fields) $(f).value = "";
  draw();
  go(`${part}/${run}`);
});
$("prev").addEventListener("click", () => turnPage(-1));
$("next").addEventListener("click", () => turnPage(1));
window.addEventListener("hashchange", follow);

// A run that is being written, or indexed, is looked at again.
async function watch() {
  const r = $("home").hidden ? await refreshRun() : await refreshRuns();
  const busy = $("home").hidden ? r && (r.state || r.indexed < 1) : state.runs.some(r => r.state || r.indexed < 1);
  if (busy && !$("list").hidden && !$("deep").checked) await load();
  setTimeout(watch, busy ? 2000 : 10000);
}
if (bundled) for (const e of document.querySelectorAll(".served")) e.hidden = true; // what only a server can do
await refreshRuns();
await route();
document.body.dataset.ready = "yes";
if (!bundled) setTimeout(watch, 2000);
