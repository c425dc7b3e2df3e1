// What models wrote reaches the page through textContent only.

const pageSize = 100; // rows of a table

const $ = id => document.getElementById(id);

// el makes an element: el("td.num", {title: "x"}, "text", child, …).
function el(spec, props, ...children) {
  const [name, ...classes] = spec.split("."), [tag, id] = name.split("#");
  const e = document.createElement(tag);
  if (id) e.id = id;
  e.classList.add(...classes);
  for (const [k, v] of Object.entries(props || {})) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v !== undefined && v !== null && v !== false) e.setAttribute(k, v === true ? "" : v);
  }
  for (const c of children.flat(3)) if (c !== undefined && c !== null && c !== "" && c !== false) e.append(c);
  return e;
}

async function api(path, params) {
  if (bundled) return fromBundle(path, params || {});
  const answer = await fetch(path + "?" + new URLSearchParams(params));
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error || answer.statusText);
  return body;
}

const number = n => n === null || n === undefined ? "–" : n.toLocaleString("en", {maximumFractionDigits: 4});
const seconds = s => s === undefined || s === null ? "–" : s < 1 ? Math.round(s * 1000) + " ms" : s < 100 ? s.toFixed(1) + " s" : s < 6000 ? (s / 60).toFixed(1) + " min" : (s / 3600).toFixed(1) + " h";
const dollars = n => n === null || n === undefined ? "–" : "$" + n.toFixed(n < 1 ? 4 : 2);
const when = t => t ? t.slice(0, 19).replace("T", " ") : "";

// reward shows a reward in its colour, from red (0 or less) to green (1 or more).
const reward = r => r === null || r === undefined ? "–" : el("span.reward.rw" + Math.floor(Math.min(Math.max(r, 0), 1) * 10), {}, number(r));
