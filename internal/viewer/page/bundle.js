// A bundle is this page as a folder: its data are scripts, since a page that was opened from
// disk may load nothing else. A script calls hermesData with its name and a text of JSON.

const bundled = document.documentElement.hasAttribute("data-bundle");
const waiting = new Map(); // name → those that wait for it
if (bundled) {
  window.hermesData = (name, text) => {
    const value = JSON.parse(text);
    for (const resolve of waiting.get(name) || []) resolve(value);
    waiting.delete(name);
  };
}

// pack loads one script of data.
function pack(name) {
  return new Promise((resolve, reject) => {
    const s = document.createElement("script");
    const end = why => { // what runs after the script may ask for the same name again
      s.remove();
      if (waiting.get(name)?.delete(resolve)) reject(new Error(`data/${name}.js ${why}`));
    };
    if (!waiting.has(name)) waiting.set(name, new Set());
    waiting.get(name).add(resolve);
    s.src = `data/${name}.js`;
    s.onload = () => end("holds no data");
    s.onerror = () => end("is not there");
    document.head.append(s);
  });
}

// chunks of lists that were loaded last; old ones are forgotten, so that memory has a bound.
const mostChunks = 8;
const chunks = new Map();
async function chunk(name) {
  let rows = chunks.get(name);
  chunks.delete(name);
  rows = rows || await pack(name);
  chunks.set(name, rows);
  if (chunks.size > mostChunks) chunks.delete(chunks.keys().next().value);
  return rows;
}

const compare = (a, b) => a === b ? 0 : a === null ? -1 : b === null ? 1 : a < b ? -1 : 1; // unknown comes first

let scans = 0; // the last scan counts: an older one ends, and who asked for it drops its answer

// scan goes through a list chunk by chunk and keeps no more than the rows up to the end of the page.
async function scan(run, kind, count, q, take, value) {
  const mine = ++scans;
  const offset = Number(q.offset || 0), limit = Number(q.limit || 100), down = q.desc ? -1 : 1;
  let best = [], total = 0;
  for (let n = 0; n < count; n++) {
    const rows = await chunk(`${run}/${kind}-${n}`);
    if (mine !== scans) break;
    if (count > mostChunks) say(`${n + 1} of ${count} parts of the list are read`);
    for (const r of rows) {
      if (!take(r)) continue;
      best.push([r, total++]);
    }
    if (value || q.desc) best.sort((a, b) => down * (value ? compare(value(a[0]), value(b[0])) : a[1] - b[1]) || a[1] - b[1]);
    best.length = Math.min(best.length, offset + limit);
  }
  return {rows: best.slice(offset).map(b => b[0]), total};
}

// takes is the filter of the list; the server has the same.
function takes(q) {
  const words = (q.q || "").toLowerCase().split(/\s+/).filter(Boolean);
  const least = q.min ? Number(q.min) : -Infinity, most = q.max ? Number(q.max) : Infinity, bounded = q.min || q.max;
  return r => (!r.old || q.old) && (!q.book || r.book === q.book || r.book.startsWith(q.book + ".")) && (!q.outcome || r.outcome === q.outcome) &&
    (!q.tool || (r.tools || []).includes(q.tool)) && (!q.task || r.id === q.task) && (!bounded || r.reward !== null && r.reward >= least && r.reward <= most) &&
    words.every(w => [r.id, r.task, r.answer, r.reason, r.model, r.outcome, r.book, (r.tools || []).join(" ")].some(t => (t || "").toLowerCase().includes(w)) ||
      w.length >= 8 && r.key.startsWith(w));
}

const recordName = q => `${q.run}/records/${q.key.slice(0, 2)}/${q.key}` + (q.at ? "-" + q.at : "");

async function fromBundle(path, q) {
  for (const k of ["run", "key", "at"]) if (q[k] !== undefined && !/^[0-9a-f]{1,40}$/.test(q[k])) throw new Error("no such page");
  switch (path) {
  case "/api/runs": return pack("runs");
  case "/api/run": return pack(`${q.run}/run`);
  case "/api/list": {
    const r = await chunk(`${q.run}/run`);
    const value = {id: r => r.id, reward: r => r.reward, turns: r => r.turns, tokens: r => r.tokens, cost: r => r.cost, seconds: r => r.seconds, outcome: r => r.outcome, book: r => r.book}[q.sort];
    return scan(q.run, "list", r.list_chunks, q, takes(q), value);
  }
  case "/api/tasks": {
    const r = await chunk(`${q.run}/run`);
    const value = {id: t => t.id, samples: t => t.samples, mean: t => t.mean, spread: t => t.high === null ? null : t.high - t.low, passed: t => t.passed, failed: t => t.failed,
      tokens: t => t.tokens, seconds: t => t.seconds}[q.sort];
    const words = (q.q || "").toLowerCase().split(/\s+/).filter(Boolean);
    return scan(q.run, "tasks", r.task_chunks, q, t => words.every(w => [t.id, t.task].some(s => s.toLowerCase().includes(w))), value);
  }
  case "/api/record": return (await chunk(recordName(q))).record;
  case "/api/raw": return (await chunk(recordName(q))).raw;
  case "/artifact": return (await chunk(recordName(q))).files[q.name];
  }
  throw new Error("a bundle has no such page: hermes runs view shows it");
}

// artifact is the text of a file of a sample.
async function artifact(q) {
  if (bundled) return fromBundle("/artifact", q);
  return (await fetch("/artifact?" + new URLSearchParams(q))).text();
}
