// Markdown for people: headings, lists, tables, code, emphasis, links. Every element holds text
// nodes only. HTML is text, an image is a link, and a link leads to http or https alone and is
// asked for by a click only. The raw text is a click away. Each line is looked at a bounded
// number of times, so that no text takes long.

const mostMarkdown = 100000; // letters; longer texts are shown raw

const heading = /^ {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*$/;
const fence = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$/;
const rule = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const item = /^([ \t]*)([-*+]|\d{1,9}[.)])[ \t]+(.*)$/;
const tableRule = /^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

function markdown(text) {
  const root = el("div.md");
  if (text.length > mostMarkdown) {
    root.append(el("pre.text", {}, text));
    return root;
  }
  blocks(root, text.replaceAll("\r\n", "\n").split("\n"), 0);
  return root;
}

const deepest = 8; // of lists and quotes in one another

function blocks(into, lines, depth) {
  let paragraph = [];
  const flush = () => {
    if (paragraph.length) into.append(inline(el("p"), paragraph.join("\n")));
    paragraph = [];
  };
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i];
    let m;
    if (!line.trim()) {
      flush();
    } else if ((m = fence.exec(line))) {
      flush();
      const code = [], mark = m[1];
      for (i++; i < lines.length && !(lines[i].trim().startsWith(mark) && !lines[i].trim().replaceAll(mark[0], "")); i++) code.push(lines[i]);
      into.append(el("pre.code", {title: m[2].trim().slice(0, 40)}, code.join("\n")));
    } else if ((m = heading.exec(line))) {
      flush();
      into.append(inline(el("h" + Math.min(6, m[1].length + 2)), m[2]));
    } else if (rule.test(line)) {
      flush();
      into.append(el("hr"));
    } else if (line.startsWith(">") && depth < deepest) {
      flush();
      const quote = [];
      for (; i < lines.length && lines[i].startsWith(">"); i++) quote.push(lines[i].replace(/^> ?/, ""));
      i--;
      const q = el("blockquote");
      blocks(q, quote, depth + 1);
      into.append(q);
    } else if ((m = item.exec(line)) && depth < deepest) {
      flush();
      i = list(into, lines, i, depth) - 1;
    } else if (line.includes("|") && i + 1 < lines.length && lines[i + 1].includes("-") && tableRule.test(lines[i + 1]) && lines[i + 1].length < 1000) {
      flush();
      i = table(into, lines, i) - 1;
    } else {
      paragraph.push(line);
    }
  }
  flush();
}

const width = s => s.replaceAll("\t", "    ").length;

// list takes the items from line i on and returns the line behind them.
function list(into, lines, i, depth) {
  const first = item.exec(lines[i]), base = width(first[1]), ordered = /\d/.test(first[2]);
  const e = el(ordered ? "ol" : "ul", ordered && parseInt(first[2], 10) !== 1 ? {start: parseInt(first[2], 10)} : {});
  while (i < lines.length) {
    const m = item.exec(lines[i]);
    if (!m || width(m[1]) > base + 1 || width(m[1]) < base || /\d/.test(m[2]) !== ordered) break;
    const body = [m[3]];
    for (i++; i < lines.length; i++) {
      const l = lines[i], next = item.exec(l), indent = width(/^[ \t]*/.exec(l)[0]);
      if (!l.trim()) {
        if (i + 1 < lines.length && width(/^[ \t]*/.exec(lines[i + 1])[0]) > base && lines[i + 1].trim()) { body.push(""); continue; }
        break;
      }
      if (indent <= base && (next || heading.test(l) || fence.test(l) || l.startsWith(">"))) break;
      if (indent <= base && body[body.length - 1] === "") break;
      body.push(l.replace(new RegExp(`^[ \\t]{0,${Math.min(base + 2 + (ordered ? 1 : 0), 40)}}`), ""));
    }
    const li = el("li");
    blocks(li, body, depth + 1);
    e.append(li);
    while (i + 1 < lines.length && !lines[i].trim() && item.test(lines[i + 1])) i++; // items may stand apart
  }
  into.append(e);
  return i;
}

const cells = line => line.trim().replace(/^\||\|$/g, "").split("|").slice(0, 50);

function table(into, lines, i) {
  const head = cells(lines[i]);
  const t = el("table", {}, el("thead", {}, el("tr", {}, head.map(c => inline(el("th"), c.trim())))));
  const body = el("tbody");
  for (i += 2; i < lines.length && lines[i].includes("|"); i++) body.append(el("tr", {}, cells(lines[i]).slice(0, head.length).map(c => inline(el("td"), c.trim()))));
  t.append(body);
  into.append(el("div.scroll", {}, t));
  return i;
}

// link is text that leads elsewhere, or only text where it may not.
function link(text, address) {
  let url = null;
  if (/^https?:\/\/[^\s]+$/i.test(address)) try { url = new URL(address); } catch { /* it is text */ }
  if (!url || !["http:", "https:"].includes(url.protocol)) return `${text} (${address})`;
  return el("a.out", {href: url.href, rel: "noreferrer noopener", target: "_blank", title: url.href}, text);
}

// What may stand in a line, by its first letter. No pattern looks further than a bounded number
// of letters.
const strong = /^(\*\*|__)(?=\S)([^\n]{0,500}?\S)\1/, address = /^https?:\/\/[^\s<>()"'`]{1,1000}[^\s<>()"'`.,;:!?]/i;
const bold = [strong, m => inline(el("strong"), m[2], 1)], bare = [address, m => link(m[0], m[0])];
const spans = {
  "`": [[/^(`{1,3})([^`](?:[^`]|(?!\1)`){0,500}?)\1(?!`)/, m => el("code", {}, m[2].trim() || m[2])]],
  "!": [[/^!\[([^\]\n]{0,300})\]\(([^()\s]{1,1000})\)/, m => link("image: " + (m[1] || m[2]), m[2])]],
  "[": [[/^\[([^\]\n]{1,300})\]\(([^()\s]{1,1000})\)/, m => link(m[1], m[2])]],
  "<": [[/^<(https?:\/\/[^\s<>]{1,1000})>/i, m => link(m[1], m[1])]],
  "~": [[/^~~(?=\S)([^\n]{0,500}?\S)~~/, m => inline(el("del"), m[1], 1)]],
  "*": [bold, [/^\*(?=[^\s*])([^*\n]{1,500}?)\*(?!\*)/, m => inline(el("em"), m[1], 1)]],
  "_": [bold, [/^_(?=[^\s_])([^_\n]{1,500}?)_\b/, m => inline(el("em"), m[1], 1)]],
  h: [bare], H: [bare],
};

function inline(into, text, depth = 0) {
  let plain = "";
  const flush = () => {
    if (plain) into.append(plain);
    plain = "";
  };
  for (let i = 0; i < text.length;) {
    const c = text[i];
    if (c === "\\" && /[!-/:-@[-`{-~]/.test(text[i + 1] || "")) {
      plain += text[i + 1];
      i += 2;
      continue;
    }
    const inWord = "_hH".includes(c) && /[A-Za-z0-9_]/.test(text[i - 1] || " ");
    let m = null;
    for (const [pattern, make] of depth < 4 && !inWord && Object.hasOwn(spans, c) ? spans[c] : []) {
      m = pattern.exec(text.slice(i, i + 1600));
      if (!m) continue;
      flush();
      into.append(make(m));
      i += m[0].length;
      break;
    }
    if (m) continue;
    plain += c;
    i++;
  }
  flush();
  return into;
}
