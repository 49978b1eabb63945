
// The table of kernels, and the panel with one of them.

const COLUMNS = [
  ["Kernel", kernel => kernel.title, "name"],
  ["Time", kernel => kernel.seconds, "number"],
  ["Launches", kernel => kernel.launches, "number"],
  ["Mean", kernel => kernel.mean, "number mean"],
  ["Longest", kernel => kernel.max_seconds, "number longest"],
  ["Most used shape", kernel => kernel.shapes[0]?.launches ?? 0, "shape"],
  ["Code", kernel => kernel.module ?? "", "module"],
];
let sorted = {column: 1, descending: true};

function kernelTable(kernels, total) {
  const value = COLUMNS[sorted.column][1];
  const order = (a, b) => {
    const [one, other] = [value(a), value(b)];
    return typeof one === "string" ? one.localeCompare(other) : one - other;
  };
  kernels = kernels.toSorted((a, b) => sorted.descending ? order(b, a) : order(a, b));
  const head = COLUMNS.map(([title, , kind], index) => el("th", {class: kind,
    "aria-sort": index !== sorted.column ? undefined : sorted.descending ? "descending" : "ascending"},
  el("button", {type: "button", class: "plain", onclick: () => {
    const same = index === sorted.column;
    sorted = {column: index, descending: same ? !sorted.descending : kind !== "name" && kind !== "module"};
    show();
  }}, title)));
  const body = el("tbody", {});
  shortened(kernels, 200, kernel => kernelRow(kernel, total), row => body.append(row), COLUMNS.length);
  return el("table", {class: "kernels"}, el("thead", {}, el("tr", {}, head)), body);
}

function kernelRow(kernel, total) {
  const shape = kernel.shapes[0];
  const share = total > 0 ? kernel.seconds / total : 0;
  const number = (text, kind) => el("td", {class: `number ${kind ?? ""}`}, text);
  return el("tr", {class: "row", "data-kernel": kernel.id, onclick: () => open(kernel.id)},
    el("td", {class: "name"}, el("a", {href: place(kernel.id), title: shown(kernel.name), onclick: event => {
      event.preventDefault();
    }}, ...named(kernel.title)),
    kernel.faults.length ? el("span", {class: "badge error"}, counted(kernel.faults.length, "fault")) : "",
    findingsOf(kernel).length ? el("span", {class: "badge warning"}, counted(findingsOf(kernel).length, "finding")) : ""),
    el("td", {class: "number bar", style: `--share: ${(share * 100).toFixed(2)}%`},
      `${time(kernel.seconds)}`, el("span", {class: "dim"}, ` ${(share * 100).toFixed(share < 0.0995 ? 1 : 0)}%`)),
    number(count(kernel.launches)), number(time(kernel.mean), "mean"), number(time(kernel.max_seconds), "longest"),
    el("td", {class: "shape"}, shape ? el("code", {}, configuration(shape)) : "",
      kernel.shapes.length > 1 ? el("span", {class: "dim"}, ` +${kernel.shapes.length - 1}`) : ""),
    el("td", {class: "module"}, el("code", {}, kernel.module?.slice(0, 8) ?? "")));
}

/** `<<<(4, 2), 256>>>`, as C++ launches it. */
function configuration({grid, block, shared_bytes}) {
  const one = ([x, y, z]) => z !== 1 ? `(${x}, ${y}, ${z})` : y !== 1 ? `(${x}, ${y})` : String(x);
  return `<<<${one(grid)}, ${one(block)}${shared_bytes ? `, ${shared_bytes}` : ""}>>>`;
}

/** Rows of which only the first are there until one asks for the rest. */
function shortened(all, most, made, add, columns) {
  all.slice(0, most).forEach(one => add(made(one)));
  if (all.length <= most) return;
  const more = el("tr", {}, el("td", {colspan: columns}, el("button", {type: "button", onclick: () => {
    more.remove();
    shortened(all.slice(most), most * 4, made, add, columns);
  }}, `Show ${count(Math.min(all.length - most, most * 4))} more of ${count(all.length)}`)));
  add(more);
}

const findingsOf = kernel => sources.get(kernel.id)?.findings ?? [];

function kernelPanel(kernel, loads) {
  const source = sources.get(kernel.id);
  const fact = (name, ...value) => [el("dt", {}, name), el("dd", {}, ...value)];
  const origin = loads.find(load => load.module === kernel.module);
  const files = source?.ptx ? sourceFiles(source) : [];
  return [
    el("div", {class: "bar"}, el("span", {class: "dim"}, "Kernel"), el("span", {class: "grow"}),
      el("button", {type: "button", class: "plain", onclick: close, "aria-label": "Close"}, "✕ ", el("kbd", {}, "Esc"))),
    el("h2", {}, ...named(kernel.title)),
    kernel.title === kernel.name ? "" : el("p", {class: "dim"}, el("code", {}, shown(kernel.name))),
    el("dl", {},
      fact("Time", `${time(kernel.seconds)} in ${counted(kernel.launches, "launch").replace(/launchs$/, "launches")}`),
      fact("Per launch", `${time(kernel.mean)} on average, ${time(kernel.max_seconds)} at most`),
      origin ? fact("Loaded by", el("code", {}, shown(origin.entry)), `: ${shown(origin.image)}, `
        + `${counted(origin.kernels ?? 0, "kernel")}, ${OUTCOMES[origin.outcome] ?? origin.outcome}`) : "",
      kernel.module ? fact("Digest of the PTX", el("code", {}, shown(kernel.module))) : "",
      files.length ? fact("Source", ...files.map(file => el("div", {}, el("code", {}, shown(file))))) : ""),
    kernel.faults.length === 0 ? "" : [el("h3", {}, "Faults"),
      ...kernel.faults.map(fault => el("div", {class: "failure"},
        folded(fault.message), fault.times > 1 ? el("span", {class: "dim"}, ` ${counted(fault.times, "time")}`) : ""))],
    findingsOf(kernel).length === 0 ? "" : [el("h3", {}, "Findings"),
      ...findingsOf(kernel).map(found => el("div", {class: "failure error"},
        el("code", {}, shown(found.code)), " ", ...coded(found.message), el("span", {class: "dim"}, ` PTX line ${found.line}`),
        found.help ? el("p", {class: "dim"}, ...coded(found.help)) : "")),
      el("p", {class: "note"}, ...coded("`ptxcheck explain CODE` explains a rule."))],
    kernel.shapes.length === 0 ? "" : [el("h3", {}, "Launch shapes"), el("table", {},
      el("thead", {}, el("tr", {}, ...["Blocks", "Threads of a block", "Shared memory", "Launches"]
        .map((name, index) => el("th", {class: index > 1 ? "number" : ""}, name)))),
      el("tbody", {}, ...kernel.shapes.slice(0, 12).map(shape => el("tr", {},
        el("td", {}, dimensions(shape.grid), shape.cluster.some(size => size > 1)
          ? el("span", {class: "dim"}, ` in clusters of ${dimensions(shape.cluster)}`) : ""),
        el("td", {}, dimensions(shape.block)),
        el("td", {class: "number"}, shape.shared_bytes ? bytes(shape.shared_bytes) : ""),
        el("td", {class: "number"}, count(shape.launches)))))),
    kernel.other_shapes ? el("p", {class: "note"}, `and ${counted(kernel.other_shapes, "launch")
      .replace(/launchs$/, "launches")} of other shapes`) : ""],
    el("h3", {}, "PTX"),
    source?.ptx ? ptx(source, [...kernel.faults.map(fault => ({...fault, kind: "fault"})),
      ...findingsOf(kernel).map(found => ({line: found.line, message: `${found.code}: ${found.message}`, kind: "finding"}))]) : el("p", {class: "note"}, shown(source?.left_out
      ?? "The report does not have the PTX: the program passed machine code, or the kernel was not launched by the CPU "
        + "device.")),
  ];
}

/** The files that lines of a kernel come from. */
function sourceFiles(source) {
  const numbers = new Set([...source.ptx.matchAll(/^\s*\.loc\s+(\d+)/gm)].map(([, number]) => number));
  return [...numbers].map(number => source.files?.[number]).filter(Boolean);
}

/** PTX with its line numbers, and at each line where it comes from. */
function ptx(source, remarks) {
  const lines = source.ptx.split("\n");
  const table = el("div", {class: `ptx ${sourceFiles(source).length ? "" : "plain"}`, tabindex: 0});
  const byLine = new Map();
  for (const remark of remarks) if (remark.line) byLine.set(remark.line, [...byLine.get(remark.line) ?? [], remark]);
  let from = "", told = "";
  const most = 4000;
  lines.slice(0, most).forEach((text, index) => {
    const number = source.first_line + index;
    const loc = /^\s*\.loc\s+(\d+)\s+(\d+)/.exec(text);
    if (loc) {
      const file = source.files?.[loc[1]];
      from = file ? `${file}:${loc[2]}` : "";
    }
    const here = byLine.get(number) ?? [];
    const kind = here.find(remark => remark.kind === "fault")?.kind ?? here[0]?.kind ?? "";
    const isNew = from !== told && !loc && text.trim() !== "";
    table.append(el("div", {class: `line ${loc ? "loc" : ""} ${kind}`},
      el("span", {class: "no"}, String(number)),
      el("span", {class: "from", title: shown(from)}, isNew ? shown(from.split(/[/\\]/).pop()) : ""),
      el("span", {class: "text"}, ...coloured(text))));
    if (isNew) told = from;
    for (const remark of here) {
      table.append(el("div", {class: `message ${remark.kind}`}, remark.kind === "fault" ? "✕ " : "▲ ",
        shown(remark.message.split("\n")[0])));
    }
  });
  if (lines.length > most) table.append(el("div", {class: "message"}, `${count(lines.length - most)} more lines`));
  return table;
}

/** A line of PTX, its words by kind. */
function coloured(line) {
  const [, code, comment] = /^(.*?)(\/\/.*)?$/s.exec(line);
  const words = code.split(/(\.[A-Za-z_]\w*(?:\.\w+)*(?=[\s({]|$)|%[\w.$]+|\b0[fFdDxX][0-9a-fA-F]+\b|\b\d+\b|^\s*(?:@!?%\w+\s+)?[a-z][a-z0-9]*(?:\.[\w:]+)*)/);
  const kind = word => /^\./.test(word) ? "directive" : /^%/.test(word) ? "register" : /^\d/.test(word) ? "literal"
    : /^\s*(@|[a-z])/.test(word) ? "opcode" : "";
  const made = words.map((word, index) => index % 2 && kind(word) ? el("span", {class: kind(word)}, shown(word))
    : shown(word));
  return comment ? [...made, el("span", {class: "comment"}, shown(comment))] : made;
}
