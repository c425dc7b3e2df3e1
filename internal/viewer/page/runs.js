// The list of runs, the page of one run, its tasks.

const tile = (name, ...value) => el("div.tile", {}, el("b", {}, value), el("span", {}, name));

// columnHead is the heading of a column, [key, name, class], with a button where the table can be
// sorted by it; sort is {key, desc, by}.
function columnHead([key, name, kind], sort) {
  const sorts = key && sort, here = sorts && sort.key === key;
  return el("th" + (kind ? "." + kind : ""), {scope: "col", onclick: sorts ? () => sort.by(key) : undefined, "aria-sort": here ? (sort.desc ? "descending" : "ascending") : undefined},
    sorts ? el("button.sort", {"data-sort": key}, name, here ? (sort.desc ? " ↓" : " ↑") : "") : name);
}

// labelled writes the names of the columns into the cells: a narrow screen shows them there.
function labelled(row, columns) {
  [...row.cells].forEach((td, i) => { if (columns[i]?.[1] && td.colSpan === 1) td.dataset.label = columns[i][1]; });
  return row;
}

const mostNarrow = 5; // columns that a narrow screen shows as a table

// grid makes a table: columns are as in columnHead, rows are elements.
function grid(columns, rows, sort) {
  const wide = columns.length > mostNarrow;
  return el("div.scroll", {}, el(wide ? "table.cards" : "table", {}, el("thead", {}, el("tr", {}, columns.map(c => columnHead(c, sort)))), el("tbody", {}, wide ? rows.map(r => labelled(r, columns)) : rows)));
}

// refill replaces what an element holds. The focus, the chosen row and opened details stay.
function refill(into, ...children) {
  const at = into.contains(document.activeElement) ? document.activeElement : null, href = at?.getAttribute("href");
  const focus = at?.dataset.sort ? `[data-sort="${at.dataset.sort}"]` : href ? `a[href="${CSS.escape(href)}"]` : "";
  const here = [...into.querySelectorAll("tbody tr")].findIndex(r => r.classList.contains("here")), opened = [...into.querySelectorAll("details")].map(d => d.open);
  into.replaceChildren(...children);
  if (focus) into.querySelector(focus)?.focus({preventScroll: true});
  if (here >= 0) into.querySelectorAll("tbody tr")[here]?.classList.add("here");
  into.querySelectorAll("details").forEach((d, i) => { d.open = opened[i] || false; });
}

// legend says what the colours of the bars of books mean.
const legend = () => el("p.keys", {}, ["accepted", "rejected", "failed"].map(k => el("span.key." + k, {}, k)), el("span", {}, "the rest is pending"));

// books draws the books of a run as one bar.
function books(r) {
  const parts = [["accepted", 0], ["rejected", 0], ["failed", 0]];
  for (const [k, n] of Object.entries(r.books)) for (const p of parts) if (k === p[0] || k.startsWith(p[0] + ".")) p[1] += n;
  const bar = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [k, v] of Object.entries({viewBox: `0 0 ${Math.max(1, r.planned)} 10`, preserveAspectRatio: "none", class: "books", role: "img", "aria-label": parts.map(p => p.join(" ")).join(", ")})) bar.setAttribute(k, v);
  let x = 0;
  for (const [k, n] of parts) {
    const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [a, v] of Object.entries({x, y: 0, width: n, height: 10, class: k})) rect.setAttribute(a, v);
    bar.append(rect);
    x += n;
  }
  return bar;
}

function showHome(runs) {
  const row = (r, i) => el("tr", {onclick: () => { go("run/" + i); }}, r.error ? [el("td.id", {}, r.name), el("td.bad", {colspan: 10}, r.error)] : [
    el("td.id", {}, el("a", {href: "#run/" + i}, r.name)), el("td", {}, when(r.created)), el("td", {}, r.mode), el("td.model", {}, r.model),
    el("td.num", {}, `${number(r.done)} of ${number(r.planned)}`), el("td.books", {}, books(r)), el("td.num", {}, r.failed ? el("span.bad", {}, number(r.failed)) : "0"),
    el("td.num", {}, reward(r.reward)), el("td.num", {}, number(r.tokens)), el("td.num", {}, dollars(r.cost)), el("td", {}, r.state || "")]);
  const columns = [["", "run"], ["", "begun"], ["", "mode"], ["", "model"], ["", "samples", "num"], ["", "books"], ["", "failed", "num"], ["", "reward", "num"], ["", "tokens", "num"], ["", "cost", "num"], ["", "state"]];
  refill($("home"), el("h1", {}, "Runs"), runs.length ? grid(columns, runs.map(row).map((e, i) => [e, runs[i].created || ""]).sort((a, b) => compare(b[1], a[1])).map(p => p[0])) : el("p", {}, "no runs"), runs.length ? legend() : "");
}

const bar = (name, n, most, tone) => el("tr", {}, el("td.num", {}, name), el("td.wide", {}, el("meter." + tone, {"aria-label": `reward ${name}`, min: 0, max: most || 1, value: n})), el("td.num", {}, number(n)));

function showOverview(r, i) {
  const s = r.statistics, rep = r.report && typeof r.report === "object" ? r.report : {};
  const done = Object.values(r.books).reduce((a, b) => a + b, 0);
  const settings = r.settings.filter(f => !["", "null", "0", "false"].includes(f.value.replace(/^,+|,+$/g, "")));
  const most = Math.max(...r.rewards);
  const judge = s && s.judge;
  const mean = (name, list) => grid([["", name], ["", "mean", "num"], ["", "samples", "num"]], list.map(([k, v, n]) => el("tr", {}, el("td.text", {}, k), el("td.num", {}, reward(v)), el("td.num", {}, number(n)))));
  refill($("overview"),
    el("h1", {}, r.name), el("p.dim", {}, [r.dir, r.mode, r.suite && `suite ${r.suite}`, `begun ${when(r.created)}`, `hermes ${r.version}`, r.state, r.indexed < 1 && `index: ${Math.floor(100 * r.indexed)} %`].filter(Boolean).join(" · ")),
    r.error ? el("p.bad", {}, r.error) : "",
    el("div.tiles", {}, tile("mean reward", reward(r.reward)), tile("samples", `${number(done)} of ${number(r.planned)}`), tile("tasks", number(r.tasks)), tile("failed by our fault", r.failed ? el("span.bad", {}, number(r.failed)) : "0"),
      tile("tokens", number(r.tokens)), tile(judge ? "cost, the judge included" : "cost", dollars(s && s.cost_usd !== null ? s.cost_usd : r.cost)), tile("turns a sample", number(Math.round(r.turns * 100) / 100)), tile("time a sample", seconds(r.seconds)), tile("longest", seconds(r.longest)),
      s ? tile("from first to last", seconds(s.seconds)) : "", judge ? tile(`tokens of the judge ${judge.model}`, `${number(judge.tokens.prompt)} + ${number(judge.tokens.completion)}`) : ""),
    books(r), legend(),
    el("div.columns", {},
      el("section", {}, el("h2", {}, "Books"), grid([["", "book"], ["", "samples", "num"]], Object.entries(r.books).sort().map(([k, n]) => el("tr." + k.split(".")[0], {}, el("td.book", {}, el("a", {href: `#samples/${i}/book=${encodeURIComponent(k)}`}, k)), el("td.num", {}, number(n)))))),
      el("section", {}, el("h2", {}, "Rewards"), r.scored ? el("table.bars", {}, el("tbody", {}, r.rewards.map((n, k) => bar(k === 10 ? "1 or more" : `${k / 10} to ${(k + 1) / 10}`, n, most, "rw" + k)))) : el("p.dim", {}, "no sample has a score")),
      r.causes.length ? el("section", {}, el("h2", {}, "Failures by cause"), grid([["", "not accepted"], ["", "samples", "num"], ["", "an example"]], r.causes.map(c => el("tr." + c.book.split(".")[0], {},
        el("td.book", {}, el("a", {href: `#samples/${i}/book=${encodeURIComponent(c.book)}`}, c.book)), el("td.num", {}, number(c.count)), el("td.text", {}, el("a", {href: `#record/${i}/${c.key}`}, c.example || "see it"))))),
        s && Object.keys(s.causes || {}).length ? [el("h3", {}, "Failed attempts"), grid([["", "cause"], ["", "attempts", "num"]], Object.entries(s.causes).sort((a, b) => b[1] - a[1]).map(([k, n]) => el("tr", {}, el("td", {}, k), el("td.num", {}, number(n)))))] : "") : "",
      rep.metrics && Object.keys(rep.metrics).length ? el("section", {}, el("h2", {}, "Figures"), grid([["", "metric"], ["", "value", "num"], ["", "95 % interval"], ["", "n", "num"]], Object.entries(rep.metrics).map(([k, e]) => el("tr", {}, el("td", {}, k), el("td.num", {}, number(e.value)),
        el("td", {}, e.low === null || e.low === undefined ? "–" : `${number(e.low)} to ${number(e.high)}`), el("td.num", {}, number(e.n)))))) : "",
      rep.graders ? el("section", {}, el("h2", {}, "Graders"), mean("grader", Object.entries(rep.graders).map(([k, g]) => [k, g.mean, g.n]))) : "",
      Object.entries(rep.categories || {}).map(([name, values]) => el("section", {}, el("h2", {}, "Reward by " + name), mean(name, Object.entries(values).map(([k, g]) => [k, g.reward.value, g.reward.n])))),
      s && Object.values(s.tools || {}).some(t => t.count) ? el("section", {}, el("h2", {}, "Tools"), grid([["", "tool"], ["", "calls", "num"], ["", "failed", "num"]], Object.entries(s.tools).filter(([, t]) => t.count).map(([k, t]) => el("tr", {}, el("td", {}, k), el("td.num", {}, number(t.count)), el("td.num", {}, t.failure ? el("span.bad", {}, number(t.failure)) : "0"))))) : ""),
    el("h2", {}, "Settings"), el("dl.facts", {}, settings.map(f => [el("dt", {}, f.name), el("dd", {}, f.value)])),
    el("details", {}, el("summary", {}, `everything that was resolved (${r.config ? r.config.length : 0})`), el("dl.facts", {}, (r.config || []).map(f => [el("dt", {}, f.name), el("dd", {}, f.value)]))));
}

const taskState = {offset: 0, sort: "log", desc: "", run: -1, asked: 0};

async function showTasks(i) {
  if (taskState.run !== i) Object.assign(taskState, {offset: 0, sort: "log", desc: "", run: i});
  const again = guarded(() => showTasks(i)), mine = ++taskState.asked;
  const got = await api("/api/tasks", {run: i, q: $("q").value, sort: taskState.sort, desc: taskState.desc, offset: taskState.offset, limit: pageSize});
  if (mine !== taskState.asked) return; // another page of tasks was asked for meanwhile
  say("");
  const by = key => {
    taskState.desc = taskState.sort === key ? (taskState.desc ? "" : 1) : key === "id" || key === "mean" ? "" : 1;
    taskState.sort = key;
    taskState.offset = 0;
    again();
  };
  const row = t => el("tr", {onclick: () => { go(`samples/${i}/task=${encodeURIComponent(t.id)}`); }},
    el("td.id", {}, el("a", {href: `#samples/${i}/task=${encodeURIComponent(t.id)}`, title: t.id}, t.id)), el("td.num", {}, number(t.samples)), el("td.num", {}, reward(t.mean)),
    el("td.num", {}, t.low === null ? "–" : [reward(t.low), " to ", reward(t.high)]), el("td.num", {}, `${number(t.passed)} of ${number(t.scored)}`), el("td.num", {}, t.failed ? el("span.bad", {}, number(t.failed)) : "0"),
    el("td.num", {}, number(t.tokens)), el("td.num", {}, seconds(t.seconds)), el("td.text", {}, el("div.task", {}, t.task)));
  const columns = [["id", "task"], ["samples", "samples", "num"], ["mean", "mean", "num"], ["spread", "lowest to highest", "num"], ["passed", "passed", "num"], ["failed", "failed", "num"], ["tokens", "tokens", "num"], ["seconds", "time", "num"], ["", "text"]];
  const last = taskState.offset + got.rows.length;
  const turn = by => () => { taskState.offset = Math.max(0, taskState.offset + by * pageSize); again(); };
  refill($("tasks"), grid(columns, got.rows.map(row), {key: taskState.sort, desc: taskState.desc, by}),
    el("nav", {}, el("button", {disabled: taskState.offset === 0, onclick: turn(-1)}, "‹ earlier"), " ", el("span", {}, got.rows.length ? `${number(taskState.offset + 1)}–${number(last)} of ${number(got.total)}` : "no tasks"), " ",
      el("button", {disabled: last >= got.total, onclick: turn(1)}, "later ›")));
}
