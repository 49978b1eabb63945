
// The sections of the page. One without anything to say is left out.

const OUTCOMES = {compiled: "compiled", cached: "from the cache", lazy: "kernels compiled at their first use",
  binary: "machine code", forwarded: "forwarded to the driver"};

const section = (id, title, note, ...content) => el("section", {id}, el("h2", {}, title),
  note.length ? el("p", {class: "note"}, note) : "", ...content);

const matches = (...texts) => {
  const words = document.getElementById("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const all = texts.filter(Boolean).join(" ").toLowerCase();
  return words.every(word => all.includes(word));
};

function cards(all, some) {
  const card = (to, value, what, kind) => el("a", {class: `card ${kind ?? ""}`, href: `#${to}`, onclick: event => {
    event.preventDefault();
    document.getElementById(to)?.scrollIntoView({behavior: "smooth"});
  }}, el("b", {}, value), el("span", {}, what));
  const wall = some.reduce((sum, process) => sum + process.seconds, 0);
  const [word, words] = all.refused.length === 1 ? ["refusal", ""] : ["refusals", ""];
  return el("div", {class: "cards"},
    card("timeline", time(wall), some.length > 1 ? `in ${some.length} processes` : "since cuInit"),
    card("kernels", time(all.seconds), all.overlaps ? "in kernels, streams overlap" : "in kernels"),
    card("kernels", count(all.launches), all.launches === 1 ? "launch" : "launches"),
    card("kernels", count(all.kernels.length), all.kernels.length === 1 ? "kernel" : "kernels"),
    card("copies", bytes(all.bytes), "copied"),
    all.compileTimes ? card("loads", count(all.compileTimes), `${all.compileTimes === 1 ? "compilation" : "compilations"}, `
      + time(all.compileSeconds)) : "",
    card("refused", count(all.refused.length), words || word, all.refused.length ? "error" : "good"),
    all.faults.length ? card("faults", count(all.faults.length), all.faults.length === 1 ? "fault" : "faults", "error") : "",
    all.errors.length ? card("errors", count(all.errors.length), all.errors.length === 1 ? "failed call" : "failed calls",
      "warning") : "");
}

function facts(some) {
  const devices = sum(some.map(process => process.device).filter(Boolean), device => JSON.stringify(device), () => {});
  const date = new Date(Math.min(...some.map(process => process.started)));
  const parts = device => [device.name === device.driver ? "" : shown(device.name), shown(device.driver),
    device.compute_capability ? `compute capability ${device.compute_capability}` : "",
    device.multiprocessors ? counted(device.multiprocessors, "multiprocessor") : "",
    device.memory ? bytes(device.memory) : "", device.cuda ? `CUDA ${device.cuda}` : "", shown(device.host),
    `ptxkit ${shown(device.ptxkit)}`].filter(Boolean).join(" · ");
  return el("p", {class: "facts"}, el("time", {datetime: date.toISOString()},
    date.toLocaleString(undefined, {dateStyle: "medium", timeStyle: "medium"})),
  ...devices.map(device => el("span", {}, ` · ${parts(device)}`)));
}

function failureList(id, title, note, failures) {
  const chosen = failures.filter(one => matches(one.entry, one.error, one.cause, one.remedy));
  if (chosen.length === 0) return "";
  return section(id, title, note, ...chosen.map(failure => el("article", {class: `failure ${failure.kind}`},
    el("p", {class: "head"}, el("code", {}, shown(failure.entry)), " ", el("span", {class: "dim"}, shown(failure.error)),
      failure.times > 1 ? el("span", {class: "times"}, `${count(failure.times)} times`) : ""),
    failure.cause ? folded(failure.cause) : el("span", {class: "dim"}, "The driver tells no cause."),
    linkToKernel(failure),
    failure.remedy ? el("p", {class: "remedy"}, el("b", {}, "Remedy: "), ...coded(failure.remedy)) : "")));
}

/** To the kernel whose fault a call returned. */
function linkToKernel(failure) {
  const kernel = all.kernels.find(kernel => kernel.faults.some(fault => failure.cause.includes(fault.message)));
  return kernel ? el("p", {}, el("button", {type: "button", class: "link", onclick: () => open(kernel.id)},
    `Show the line in ${shown(kernel.title)}`)) : "";
}

function table(columns, rows) {
  const body = el("tbody", {});
  shortened(rows, 50, row => el("tr", {}, ...columns.map(([, value, kind]) => el("td", {class: kind ?? ""},
    value(row)))), row => body.append(row), columns.length);
  return el("table", {}, el("thead", {}, el("tr", {}, ...columns.map(([name, , kind]) =>
    el("th", {class: kind ?? ""}, name)))), body);
}

function loadSection(all) {
  const loads = all.loads.filter(load => matches(load.entry, load.image, load.reason, load.module, load.outcome));
  if (loads.length === 0) return "";
  const compiles = all.compiles.map(one => `${counted(one.times, "compilation")}${one.optimized
    ? " of hot kernels in the background" : ""}, ${time(one.seconds)}`).join("; ");
  return section("loads", `Loads (${count(loads.length)})`, compiles, table([
    ["Entry", load => el("code", {}, shown(load.entry))],
    ["Image", load => [shown(load.image), load.reason ? el("div", {class: "dim"}, shown(load.reason)) : ""]],
    ["Kernels", load => load.kernels === undefined ? "" : count(load.kernels), "number"],
    ["Code", load => OUTCOMES[load.outcome] ?? shown(load.outcome)],
    ["Digest", load => el("code", {}, shown(load.module?.slice(0, 8) ?? ""))],
    ["Start", load => time(load.start), "number"],
    ["Time", load => time(load.seconds), "number"],
  ].filter(([name]) => name !== "Digest" || loads.some(load => load.module)), loads));
}

function copySection(all) {
  const copies = all.copies.filter(copy => matches(copy.direction, "copies"));
  return copies.length === 0 ? "" : section("copies", "Copies and fills", "", table([
    ["Direction", copy => shown(copy.direction)],
    ["Times", copy => count(copy.times), "number"],
    ["Bytes", copy => bytes(copy.bytes), "number"],
    ["Time", copy => time(copy.seconds), "number"],
    ["Rate", copy => copy.seconds > 0 ? `${bytes(copy.bytes / copy.seconds)}/s` : "", "number"],
  ], copies));
}

function missingSection(all) {
  const missing = all.missing.filter(entry => matches(entry.entry));
  return missing.length === 0 ? "" : el("section", {id: "missing"}, el("details", {},
    el("summary", {}, el("h2", {}, `Entries that the driver lacks (${count(missing.length)})`)),
    el("p", {class: "note"}, "Programs asked for them by name. Most programs do without: see refused calls for those "
      + "that were needed."),
    el("p", {class: "names"}, ...missing.map(entry => [el("code", {}, shown(entry.entry)), " "]))));
}

function processSection(some) {
  const chosen = some.filter(process => matches(...process.command, String(process.id)));
  if (chosen.length === 0) return "";
  const hasArguments = chosen.some(process => process.command.length > 1);
  return section("processes", `Processes (${count(chosen.length)})`,
    hasArguments ? "" : coded("Arguments are left out, as they may be passwords: `--report-arguments` adds them."),
    table([
      ["Process", process => String(process.id)],
      ["Command", process => el("code", {}, shown(process.command.join(" ")))],
      ["Launches", process => count(process.launches), "number"],
      ["Start", process => new Date(process.started).toLocaleTimeString()],
      ["Time since cuInit", process => time(process.seconds), "number"],
    ], chosen));
}

function kernelSection(all) {
  const kernels = all.kernels.filter(kernel => matches(kernel.title, kernel.name, kernel.module));
  if (all.kernels.length === 0) {
    return section("kernels", "Kernels", "", el("p", {class: "empty"}, all.loads.length === 0
      ? "No module was loaded and no kernel was launched. If the program should use CUDA, check that it finds this "
        + "driver: a program that is linked with another libcuda.so.1 by its path, or whose LD_LIBRARY_PATH was reset, "
        + "does not."
      : all.loads.every(load => load.outcome === "forwarded" || load.entry === "") || isInterposed(all)
        ? "Launches go to NVIDIA's driver, which this report does not measure: use Nsight Systems (nsys profile) for them."
        : "Modules were loaded, but no kernel was launched: the refused and failed calls tell why, if there are any."));
  }
  if (kernels.length === 0) return "";
  return section("kernels", `Kernels by time (${count(kernels.length)})`, "", el("div", {class: "wide"},
    kernelTable(kernels, all.seconds)));
}

function isInterposed(all) {
  return all.loads.some(load => ["cached", "forwarded"].includes(load.outcome));
}
