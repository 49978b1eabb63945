
// What is on the screen: the address names the kernel in the panel, so that going back works.

const main = document.getElementById("main");
const panel = document.getElementById("panel");
const filter = document.getElementById("filter");
const selector = document.getElementById("process");
const ALL = [...processes.values()];
let shownProcesses = ALL, all = summary(records), chosen = -1;

const place = id => `#kernel=${encodeURIComponent(id)}`;
const kernelOf = () => {
  const id = new URLSearchParams(location.hash.slice(1)).get("kernel");
  return id === null ? undefined : all.kernels.find(kernel => kernel.id === id);
};

function open(id) {
  if (location.hash === place(id)) showPanel();
  else location.hash = place(id);
}

function close() {
  if (location.hash.startsWith("#kernel=")) history.pushState(null, "", location.pathname + location.search);
  showPanel();
}

function showPanel() {
  const kernel = kernelOf();
  panel.hidden = !kernel;
  panel.replaceChildren(...kernel ? kernelPanel(kernel, all.loads).flat(3).filter(Boolean) : []);
  panel.scrollTop = 0;
  panel.querySelector(".line.fault")?.scrollIntoView({block: "center"});
  const rows = rowsOfTable();
  rows.forEach(row => row.removeAttribute("aria-current"));
  const index = rows.findIndex(row => row.dataset.kernel === kernel?.id);
  if (index < 0) return;
  chosen = index;
  rows[index].setAttribute("aria-current", "true");
}

const rowsOfTable = () => [...main.querySelectorAll("tr.row")];

function move(by) {
  const rows = rowsOfTable();
  if (rows.length === 0) return;
  chosen = Math.min(Math.max(chosen + by, 0), rows.length - 1);
  rows.forEach((row, index) => row.toggleAttribute("data-chosen", index === chosen));
  rows[chosen].scrollIntoView({block: "nearest"});
  rows[chosen].querySelector("a").focus({preventScroll: true});
  if (!panel.hidden) open(rows[chosen].dataset.kernel);
}

/** The timeline keeps its zoom while the filter changes. */
let drawn;

function show() {
  if (drawn?.of !== shownProcesses) {
    drawn = {of: shownProcesses, element: timeline(shownProcesses, all.dropped, (process, name) => {
      const kernel = all.kernels.find(kernel => kernel.name === name);
      if (kernel) open(kernel.id);
    })};
  }
  const names = new Set(shownProcesses.map(process => process.command[0]?.split(/[/\\]/).pop() ?? "program"));
  const title = [...names].slice(0, 3).join(", ") + (names.size > 3 ? ", …" : "");
  document.title = `${title}: ptxkit exec`;
  const content = records.length === 0
    ? [el("p", {class: "empty"}, "The report has no records: no process opened the driver.")]
    : [
      failureList("refused", `Refused (${count(all.refused.length)})`,
        "The device does not support what these calls asked for.", all.refused),
      failureList("faults", `Faults (${count(all.faults.length)})`,
        "Calls that returned the fault of a kernel. All later calls of the context return it again.", all.faults),
      matches("timeline") || filter.value === "" ? drawn.element : "",
      kernelSection(all), copySection(all), loadSection(all),
      failureList("errors", `Failed calls (${count(all.errors.length)})`,
        "The arguments were wrong, or the call came at the wrong time. Programs may expect some of them.", all.errors),
      missingSection(all), processSection(shownProcesses)].filter(part => part !== "");
  main.replaceChildren(el("div", {class: "page"},
    el("h1", {}, shown(title)), records.length ? facts(shownProcesses) : "", records.length ? cards(all, shownProcesses) : "",
    content.length === 0 ? el("p", {class: "empty"}, "Nothing fits the filter. ", el("button", {type: "button",
      onclick: () => { filter.value = ""; show(); }}, "Clear it")) : content));
  showPanel();
}

function choose(key) {
  shownProcesses = key === "" ? ALL : ALL.filter(process => process.key === key);
  all = summary(shownProcesses.flatMap(process => process.records));
  chosen = -1;
  show();
}

if (ALL.length > 1) {
  selector.hidden = false;
  selector.append(el("option", {value: ""}, `All ${ALL.length} processes`), ...ALL.map(process =>
    el("option", {value: process.key}, `${process.id}: ${shown(process.command[0]?.split(/[/\\]/).pop() ?? "")}`)));
  selector.addEventListener("change", () => choose(selector.value));
}
filter.addEventListener("input", () => { chosen = -1; show(); });
addEventListener("hashchange", showPanel);
addEventListener("popstate", showPanel);
document.getElementById("home").addEventListener("click", event => {
  event.preventDefault();
  close();
  main.scrollTop = 0;
});

// Light and dark

const dark = matchMedia("(prefers-color-scheme: dark)");
const themeButton = document.getElementById("theme");
const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
const labelTheme = () => themeButton.replaceChildren(isDark() ? "Light " : "Dark ", el("kbd", {}, "t"));
function toggleTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  labelTheme();
  document.dispatchEvent(new Event("theme"));
}
themeButton.addEventListener("click", toggleTheme);
dark.addEventListener("change", labelTheme);
labelTheme();

// Keys

const help = document.getElementById("help");
const KEYS = [["/", "filter"], ["j k", "next and previous kernel"], ["Enter", "open the kernel"], ["Esc", "close the panel, "
  + "clear the filter"], ["t", "light or dark"], ["+ − 0 ← →", "zoom and move the timeline, after a click on it"],
["?", "these keys"]];
help.append(el("h2", {}, "Keys"), el("dl", {}, ...KEYS.map(([keys, text]) => [
  el("dt", {}, ...keys.split(" ").map(key => [el("kbd", {}, key), " "])), el("dd", {}, text)])),
el("form", {method: "dialog"}, el("button", {}, "Close")));
document.getElementById("keys").addEventListener("click", () => help.showModal());

addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (event.key === "Escape") {
    if (typing) {
      filter.value = "";
      filter.blur();
      show();
    } else close();
    return;
  }
  if (typing) {
    if (event.key === "Enter") { filter.blur(); move(1); }
    return;
  }
  const keys = {"/": () => { filter.focus(); filter.select(); }, j: () => move(1), k: () => move(-1), t: toggleTheme,
    "?": () => help.showModal(), Enter: () => {
      const row = document.activeElement?.closest("tr.row");
      if (row) open(row.dataset.kernel);
      return Boolean(row);
    }};
  if (!Object.hasOwn(keys, event.key)) return;
  if (keys[event.key]() !== false) event.preventDefault();
});

show();
