
// What is on the screen: the address says it, so that going back works, and links can be kept.

const main = document.getElementById("main");
const TABS = {text: "Text", flow: "Control flow", registers: "Registers", resources: "Resources"};
/** From this width on an explanation has room beside the text. */
const WIDE = matchMedia("(min-width: 1180px)");
let view = {};
let current = -1;

function where() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const number = name => {
    const value = Number.parseInt(parts.get(name), 10);
    return Number.isSafeInteger(value) && value >= 0 ? value : undefined;
  };
  const text = texts[number("text")];
  if (!text) return {rule: parts.get("rule") ?? undefined, severity: parts.get("severity") ?? undefined};
  const line = number("line");
  const inRange = line >= 1 && line <= text.lineCount ? line : undefined;
  const one = text.functions[number("function")] ?? text.functionOf(inRange ?? 0);
  return {text: text.index, line: inRange, to: number("to"), function: one?.number,
    named: parts.has("function") && !parts.has("kept"), tab: Object.hasOwn(TABS, parts.get("tab")) ? parts.get("tab") : "text",
    block: number("block"), finding: number("finding")};
}

function go(parts) {
  const to = place(parts);
  if (location.hash === to) show();
  else location.hash = to;
}

function show() {
  const now = where();
  if (now.text === undefined) overview(now);
  else textView(now);
  markCurrent();
}

function overview({rule, severity}) {
  close();
  const chosen = findings.filter(found => (!rule || found.code === rule)
    && (!severity || found.severity === severity));
  const known = rules.get(rule);
  const kernels = texts.reduce((sum, text) => sum + text.functions.filter(one => one.kernel).length, 0);
  const counts = countsOf(findings);
  const fact = (count, what, kind) => el("div", {class: `fact ${kind ?? ""}`},
    el("b", {}, count.toLocaleString("en")), ` ${count === 1 ? what : `${what}s`}`);
  main.replaceChildren(el("div", {class: "overview"},
    el("h1", {}, known ? `${known.code} ${known.name}` : severity ? `${severity === "error" ? "Errors" : "Warnings"}`
      : shown(data.title)),
    known ? el("p", {class: "lead"}, ...coded(known.summary), " ",
      el("button", {type: "button", class: "link", onclick: () => explain(rule)}, "Explanation"))
      : el("div", {class: "facts"}, fact(texts.length, "PTX text"), fact(kernels, "kernel"),
        fact(counts.errors, "error", counts.errors ? "error" : ""),
        fact(counts.warnings, "warning", counts.warnings ? "warning" : "")),
    data.failures.length === 0 ? "" : el("section", {class: "failures"},
      el("h2", {}, "Not read"), el("ul", {}, ...data.failures.map(text => el("li", {}, el("pre", {}, shown(text)))))),
    findingList(chosen), omitted(rule),
    rule || severity || texts.length === 1 ? "" : kernelTable()));
  main.scrollTop = 0;
  if (known && WIDE.matches) explain(rule);
  document.title = `${shown(data.title)}: ptxcheck`;
}

function findingList(chosen) {
  if (chosen.length === 0) {
    return el("p", {class: "nothing"}, texts.length === 0 ? "There is no PTX to show." : "No findings.");
  }
  const list = el("ul", {class: "findings"});
  shortened(chosen, 200, found => {
    const one = found.text.functionOf(found.line);
    return el("li", {}, el("a", {href: toFinding(found)},
      el("span", {class: `severity ${found.severity}`}, found.severity),
      el("span", {class: "code"}, found.code),
      el("span", {class: "message"}, ...coded(found.message),
        el("span", {class: "at"}, el("bdi", {}, shown(found.text.name)), `:${found.line}`,
          one ? [" in ", named(one)] : "",
          found.from ? `, from ${shown(found.from)}` : ""))));
  }, made => list.append(made.tagName === "LI" ? made : el("li", {}, made)));
  return list;
}

function omitted(rule) {
  let count = 0;
  for (const text of texts) {
    for (const [code, more] of Object.entries(text.omitted)) {
      if (!rule || code === rule) count += more;
    }
  }
  return count === 0 ? "" : el("p", {class: "note"},
    `${counted(count, "more finding")} are not shown: `, el("code", {}, "--max-findings 0"), " shows all.");
}

/** The files with the most findings. */
function kernelTable() {
  const list = el("tbody", {});
  const sorted = [...texts].sort((a, b) => b.errors - a.errors || b.warnings - a.warnings || a.index - b.index);
  shortened(sorted, 100, text => el("tr", {},
    el("td", {}, el("a", {href: place({text: text.index})}, el("bdi", {}, shown(text.name)))),
    ...[text.functions.length, text.lineCount, text.errors, text.warnings].map(count =>
      el("td", {class: "count"}, count.toLocaleString("en")))),
  made => list.append(made.tagName === "TR" ? made : el("tr", {}, el("td", {colspan: 5}, made))));
  return el("section", {}, el("h2", {}, "Files"), el("table", {}, el("thead", {}, el("tr", {},
    ...["File", "Functions", "Lines", "Errors", "Warnings"].map(head => el("th", {scope: "col"}, head)))), list));
}

function toFinding(found) {
  return place({text: found.text.index, line: found.line, finding: found.text.findings.indexOf(found)});
}

function textView(now) {
  // The tabs are made anew, and keep the focus.
  const onTab = document.activeElement?.getAttribute("role") === "tab";
  const text = texts[now.text];
  const one = text.functions[now.function] ?? text.functions[0];
  if (view.text !== text || view.one !== one || view.tab !== now.tab) {
    const keep = view.text === text ? view.source : undefined;
    if (!keep) close();
    const scrolled = keep && view.tab === "text" ? main.scrollTop : undefined;
    const left = scrolled ?? view.left;
    view = {text, one, tab: now.tab, source: keep, left};
    const body = bodyOf(text, one, now.tab);
    body.setAttribute("role", "tabpanel");
    body.setAttribute("aria-labelledby", `tab-${now.tab}`);
    main.replaceChildren(head(text, one, now), body);
    if (now.tab === "text") main.querySelector(".views").append(view.source.search);
    if (now.tab === "text") main.scrollTop = left ?? 0;
    else main.scrollTop = 0;
  }
  const found = text.findings[now.finding];
  if (now.tab === "flow") {
    if (view.flow && !view.flow.fitted) view.flow.shownNow();
    if (now.block !== undefined) view.flow?.choose(now.block);
  } else if (now.tab === "text" && now.to !== undefined) {
    view.source.revealAll(now.line, now.to);
  } else if (now.tab === "text" && now.line !== undefined) {
    view.source.reveal(now.line, found);
  } else if (now.tab === "text" && now.named && one) {
    view.source.reveal(one.first_line);
  }
  if (found) {
    current = findings.indexOf(found);
    if (WIDE.matches || !panel.hidden) explain(found.code);
  }
  if (onTab) main.querySelector('[role="tab"][aria-selected="true"]')?.focus();
  document.title = `${shown(one && now.function !== undefined ? one.title : text.name)}: ptxcheck`;
}

function close() {
  view.source?.close();
  view = {};
}

function bodyOf(text, one, tab) {
  if (tab === "text") {
    view.source ??= new Source(text);
    return view.source.element;
  }
  if (!one) return el("p", {class: "note"}, "This text has no kernel and no function with a body.");
  if (tab === "flow") {
    view.flow = new Flow(one);
    return view.flow.element;
  }
  return tab === "registers" ? registerTable(one) : resourceTable(one);
}

function head(text, one, {tab, function: number}) {
  const about = [text.version && `.version ${text.version}`, text.target && shown(text.target),
    counted(text.lineCount, "line"), counted(text.functions.filter(of => of.kernel).length, "kernel")];
  const tabs = Object.entries(TABS).map(([name, title]) => el("a", {role: "tab", id: `tab-${name}`,
    "aria-selected": String(name === tab), tabindex: name === tab ? 0 : -1,
    href: place({text: text.index, function: number ?? one?.number, tab: name === "text" ? undefined : name}),
    onclick: event => {
      // The text stays where it was.
      if (name !== "text" || view.left === undefined) return;
      event.preventDefault();
      go({text: text.index, function: number ?? one?.number, kept: 1});
    }}, title));
  const bar = el("div", {role: "tablist", "aria-label": "Views", onkeydown: event => {
    const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!by) return;
    const at = tabs.findIndex(made => made === document.activeElement);
    tabs[(at + by + tabs.length) % tabs.length].click();
  }}, ...tabs);
  return el("header", {class: "head"},
    el("div", {class: "crumbs"}, el("a", {href: "#"}, "Overview"), " › ",
      el("a", {href: place({text: text.index})}, el("bdi", {}, shown(text.name))),
      el("span", {class: "dim about"}, about.filter(Boolean).join(" · "))),
    el("h1", {}, number !== undefined && one || tab !== "text" && one
      ? [el("span", {class: "kind"}, kind(one)), " ", named(one), " ",
        el("span", {class: "dim about"}, `lines ${one.first_line}–${one.last_line}`)]
      : el("bdi", {}, shown(text.name))),
    el("div", {class: "views"}, bar, el("span", {class: "grow"})));
}

// The keyboard.

const KEYS = [
  ["/", "filter files, kernels and rules", () => filter.focus()],
  ["f", "find in the text", () => document.getElementById("find")?.focus()],
  ["n", "next finding", () => stepFinding(1)],
  ["p", "previous finding", () => stepFinding(-1)],
  ["e", "explain the finding", () => current >= 0 && explain(findings[current].code)],
  ["1", "text", () => document.getElementById("tab-text")?.click()],
  ["2", "control flow", () => document.getElementById("tab-flow")?.click()],
  ["3", "registers", () => document.getElementById("tab-registers")?.click()],
  ["4", "resources", () => document.getElementById("tab-resources")?.click()],
  ["o", "overview", () => go({})],
  ["t", "light, dark, or as the system", () => nextTheme()],
  ["?", "these keys", () => help()],
];

function stepFinding(by) {
  if (findings.length === 0) return;
  current = (current + by + findings.length) % findings.length;
  if (current < 0) current = 0;
  location.hash = toFinding(findings[current]);
}

function help() {
  const dialog = document.getElementById("help");
  dialog.replaceChildren(el("h2", {}, "Keys"), el("dl", {},
    ...KEYS.flatMap(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)]),
    el("dt", {}, el("kbd", {}, "Esc")), el("dd", {}, "close the explanation"),
    el("dt", {}, el("kbd", {}, "↑ ↓ →")), el("dd", {}, "in the control flow: along the edges of a block"),
    el("dt", {}, el("kbd", {}, "Enter")), el("dd", {}, "on a block: to its lines")),
  el("p", {class: "note"}, "A click on a register in the text shows where else it stands."),
  el("button", {type: "button", onclick: () => dialog.close()}, "Close"));
  dialog.showModal();
}

document.addEventListener("keydown", event => {
  const typing = event.target.closest?.("input, textarea, select, dialog");
  if (event.key === "Escape") {
    if (event.target === filter && filter.value) {
      filter.value = "";
      fillSidebar();
    } else if (typing) event.target.blur();
    else closeExplanation();
    return;
  }
  if (event.target === filter && event.key === "Enter") {
    (tree.querySelector("details .rows a") ?? tree.querySelector("a.row"))?.focus();
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const known = KEYS.find(([key]) => key === event.key);
  if (!known) return;
  event.preventDefault();
  known[2]();
});

// Light and dark.

const THEMES = {auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark"};

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  const button = document.getElementById("theme");
  button.textContent = THEMES[name];
  button.title = "Light, dark, or as the system";
  // A browser may forbid a page from disk to keep anything.
  try { localStorage.setItem("ptxcheck-theme", name); } catch { /* it is not kept */ }
}

function nextTheme() {
  const names = Object.keys(THEMES);
  const at = names.indexOf(document.documentElement.dataset.theme);
  setTheme(names[(at + 1) % names.length]);
}

function keptTheme() {
  try { return localStorage.getItem("ptxcheck-theme"); } catch { return undefined; }
}

setTheme(Object.hasOwn(THEMES, keptTheme() ?? "") ? keptTheme() : "auto");
document.getElementById("theme").addEventListener("click", nextTheme);
document.getElementById("keys").addEventListener("click", help);
document.getElementById("skip").addEventListener("click", event => {
  event.preventDefault();
  main.focus();
});
document.getElementById("menu").addEventListener("click", ({currentTarget}) => {
  const open = document.body.classList.toggle("menu");
  currentTarget.setAttribute("aria-expanded", String(open));
});
tree.addEventListener("click", ({target}) => {
  if (target.closest("a")) document.body.classList.remove("menu");
});
filter.addEventListener("input", fillSidebar);
addEventListener("hashchange", show);
document.getElementById("sum").append(...badges(countsOf(findings)),
  findings.length === 0 ? el("span", {class: "badge good"}, "no findings") : "");
fillSidebar();
show();
