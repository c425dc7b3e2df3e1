// What models wrote reaches the page through textContent only.

export const $ = id => document.getElementById(id);

// el makes an element: el("td.num", {title: "x"}, "text", child, …).
export function el(spec, props, ...children) {
  const [tag, ...classes] = spec.split(".");
  const e = document.createElement(tag);
  e.classList.add(...classes);
  for (const [k, v] of Object.entries(props || {})) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v !== undefined && v !== null && v !== false) e.setAttribute(k, v === true ? "" : v);
  }
  for (const c of children.flat()) if (c !== undefined && c !== null && c !== "") e.append(c);
  return e;
}

export async function api(path, params) {
  const answer = await fetch(path + "?" + new URLSearchParams(params));
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error || answer.statusText);
  return body;
}

export const number = n => n === null || n === undefined ? "–" : n.toLocaleString("en", {maximumFractionDigits: 4});
export const seconds = s => s === undefined ? "–" : s < 100 ? s.toFixed(1) + " s" : (s / 60).toFixed(1) + " min";
