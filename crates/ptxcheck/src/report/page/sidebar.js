
// Files, kernels and rules, with their findings by number.

const tree = document.getElementById("tree");
const filter = document.getElementById("filter");

/** More kernels of a file than this come when one asks for them. */
const KERNELS = 200;

/** The length of the path of the folder that all files lie in: it is not said again and again. */
const shared = texts.length < 2 ? 0 : texts.reduce((length, {name}) => {
  while (!name.startsWith(texts[0].name.slice(0, length))) {
    length = texts[0].name.slice(0, length - 1).search(/[^\\/]*$/);
  }
  return length;
}, texts[0].name.search(/[^\\/]*$/));

function fillSidebar() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (...names) => {
    const text = names.filter(Boolean).join(" ").toLowerCase();
    return words.every(word => text.includes(word));
  };
  const wantedRules = data.rules.filter(rule => fits(rule.code, rule.name));
  const wantedTexts = texts.map(text => {
    const inside = text.functions.filter(one => fits(text.name, one.name, one.demangled));
    return inside.length > 0 || fits(text.name) ? {text, inside} : undefined;
  }).filter(Boolean);
  tree.replaceChildren(ruleList(wantedRules, words.length > 0), fileList(wantedTexts, words.length > 0));
  const kernels = wantedTexts.reduce((sum, {inside}) => sum + inside.length, 0);
  document.getElementById("none").textContent = words.length === 0 ? ""
    : kernels + wantedRules.length + wantedTexts.length === 0 ? "Nothing has this in its name."
      : [counted(wantedTexts.length, "file"), counted(kernels, "kernel"),
        counted(wantedRules.length, "rule")].join(", ");
  markCurrent();
}

function ruleList(wanted, filtered) {
  const row = (to, name, count, kind, code) => el("li", {}, el("a", {href: place(to), class: "row"},
    code ? el("span", {class: "code"}, code) : "",
    el("span", {class: "name"}, name),
    el("span", {class: `badge ${kind}`}, count.toLocaleString("en"))));
  const kinds = countsOf(findings);
  const rows = wanted.map(({code, name}) => {
    const of = findings.filter(found => found.code === code);
    return {code, name, count: of.length, kind: of.some(found => found.severity === "error") ? "error" : "warning"};
  }).sort((a, b) => a.kind === b.kind ? b.count - a.count || (a.code < b.code ? -1 : 1)
    : a.kind === "error" ? -1 : 1);
  return el("section", {}, el("h2", {}, "Findings"), el("ul", {class: "rows"},
    filtered ? "" : row({}, "All findings", findings.length, "all"),
    filtered || !kinds.errors ? "" : row({severity: "error"}, "Errors", kinds.errors, "error"),
    filtered || !kinds.warnings ? "" : row({severity: "warning"}, "Warnings", kinds.warnings, "warning"),
    ...rows.map(({code, name, count, kind: of}) => row({rule: code}, name, count, of, code))));
}

function fileList(wanted, filtered) {
  const section = el("section", {}, el("h2", {}, "Files"));
  shortened(wanted, 500, ({text, inside}) => fileItem(text, inside, filtered || texts.length === 1),
    made => section.append(made));
  return section;
}

function fileItem(text, inside, open) {
  const name = text.name.slice(shared);
  const cut = Math.max(name.lastIndexOf("/"), name.lastIndexOf("\\")) + 1;
  const list = el("ul", {class: "rows"});
  const fill = () => {
    if (list.childElementCount > 0) return;
    shortened(inside, KERNELS, one => el("li", {}, el("a", {class: "row", "data-function": one.number,
      "data-text": text.index, href: place({text: text.index, function: one.number})},
    el("span", {class: "kind", "aria-hidden": "true"}, one.kernel ? "K" : "f"),
    named(one, true), badges(countsOf(one.findings)))), made => list.append(made));
    markCurrent();
  };
  const made = el("details", {class: "file", ontoggle: () => made.open && fill()},
    el("summary", {}, el("a", {class: "row", "data-text": text.index, href: place({text: text.index}),
      title: text.name},
    el("span", {class: "name"}, el("span", {class: "dim"}, shown(name.slice(0, cut))),
      el("b", {}, shown(name.slice(cut)))), badges(text))), list);
  made.dataset.text = text.index;
  if (open) {
    made.open = true;
    fill();
  }
  return made;
}

/** Marks the file and the kernel that are on the screen. */
function markCurrent() {
  const {text, function: number} = where();
  tree.querySelectorAll("[aria-current]").forEach(one => one.removeAttribute("aria-current"));
  if (text === undefined) return;
  const file = [...tree.querySelectorAll("details.file")].find(one => one.dataset.text === String(text));
  if (!file) return;
  if (!file.open && number !== undefined) file.open = true;
  const current = number === undefined ? file.querySelector("summary a")
    : [...file.querySelectorAll("[data-function]")].find(one => one.dataset.function === String(number));
  current?.setAttribute("aria-current", "page");
  current?.scrollIntoView({block: "nearest"});
}
