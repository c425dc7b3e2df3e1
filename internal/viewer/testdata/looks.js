// What is wrong with how a page looks, as a list of texts: it scrolls sideways, letters that are
// hard to read (WCAG: a contrast of 4.5 at least), controls without a name, what only a mouse reaches.
(() => {
  const out = new Set();
  const root = document.documentElement, wide = root.clientWidth;
  const visible = e => e.checkVisibility();
  const name = e => `${e.tagName.toLowerCase()}.${e.getAttribute("class") || ""} ${JSON.stringify((e.textContent || "").trim().slice(0, 30))}`;
  if (root.scrollWidth > wide) out.add(`the page is ${root.scrollWidth} px wide on a screen of ${wide}`);
  if (wide < 500) {
    for (const e of document.querySelectorAll("body *")) {
      const scrolls = ["auto", "scroll"].includes(getComputedStyle(e).overflowX) && e.clientWidth && e.scrollWidth > e.clientWidth + 1;
      if (scrolls && visible(e) && e.tagName !== "PRE") out.add(`${name(e)} scrolls sideways: ${e.scrollWidth} px in ${e.clientWidth}`);
    }
  }

  const color = text => {
    const v = (/rgba?\(([^)]+)\)/.exec(text)?.[1] || "0 0 0 0").split(/[ ,/]+/).map(Number);
    return [v[0], v[1], v[2], v.length > 3 ? v[3] : 1];
  };
  const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
  const light = c => c.slice(0, 3).map(v => v / 255 <= .03928 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const contrast = e => {
    const layers = [];
    let opacity = 1;
    for (let p = e; p; p = p.parentElement) {
      const s = getComputedStyle(p);
      opacity *= Number(s.opacity);
      layers.unshift(color(s.backgroundColor));
    }
    let back = [255, 255, 255, 1];
    for (const b of layers) back = over(b, back);
    const s = getComputedStyle(e), c = color(e instanceof SVGElement ? s.fill : s.color);
    const front = over([c[0], c[1], c[2], c[3] * opacity], back), pair = [light(front), light(back)].sort((a, b) => b - a);
    return (pair[0] + .05) / (pair[1] + .05);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = texts.nextNode(); n; n = texts.nextNode()) {
    const e = n.parentElement;
    if (!n.textContent.trim() || !visible(e) || e.closest("button:disabled")) continue;
    const c = contrast(e);
    if (c < 4.5) out.add(`${name(e)} has a contrast of ${c.toFixed(2)}`);
  }

  const named = e => e.getAttribute("aria-label") || e.title || e.getAttribute("alt") || e.labels?.length || e.querySelector("title") || e.tagName !== "SELECT" && e.textContent.trim();
  for (const e of document.querySelectorAll("input, select, textarea, button, a, img, meter, summary, th, svg[role=img]")) {
    if (visible(e) && !named(e)) out.add(`${name(e)} has no name`);
  }
  const reached = "a, button, summary, label, input, select";
  for (const e of document.querySelectorAll("body *")) {
    if (!visible(e) || getComputedStyle(e).cursor !== "pointer" || e.closest(reached) || e.querySelector(reached)) continue;
    if (e.closest("tr")?.querySelector(reached)) continue; // a click on a row does what its link does
    out.add(`${name(e)} is for a mouse only`);
  }
  return [...out].slice(0, 20);
})()
