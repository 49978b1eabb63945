
// Tables of a kernel: its registers, and its resources.

/** The registers, and what they have to do with the thread. */
function registerTable(one) {
  if (!one.registers) return el("p", {class: "note"}, unknown(one));
  const rows = registersOf(one);
  const body = el("tbody", {});
  const status = el("span", {role: "status", class: "dim"});
  const counts = Object.keys(SAME).map(same => [same, rows.filter(row => row.same === same).length]);
  const chosen = new Set(Object.keys(SAME));
  const field = el("input", {type: "search", "aria-label": "Filter registers", id: "registers",
    placeholder: "Filter: b64, lane, 4 × %tid, line 12", autocomplete: "off", spellcheck: "false",
    oninput: () => fill()});
  const boxes = counts.map(([same, count]) => el("label", {class: `same ${same}`},
    el("input", {type: "checkbox", checked: true, value: same, onchange: ({target}) => {
      if (target.checked) chosen.add(same);
      else chosen.delete(same);
      fill();
    }}), `${SAME[same]} (${count.toLocaleString("en")})`));
  const searched = row => [row.name, `.${row.type}`, SAME[row.same], row.on, row.how,
    ...row.lines.map(line => `line ${line}`)].join(" ").toLowerCase();
  function fill() {
    const words = field.value.toLowerCase().split(/\s*,\s*|\s{2,}/).filter(Boolean);
    const left = rows.filter(row => chosen.has(row.same)
      && words.every(word => searched(row).includes(word)));
    status.textContent = left.length === rows.length ? counted(rows.length, "register")
      : `${left.length.toLocaleString("en")} of ${counted(rows.length, "register")}`;
    body.replaceChildren();
    shortened(left, 300, row => el("tr", {},
      el("td", {}, el("code", {class: "register"}, shown(row.name))),
      el("td", {}, el("code", {}, `.${row.type}`)),
      el("td", {}, el("span", {class: `same ${row.same}`}, SAME[row.same])),
      el("td", {}, row.on || "—"),
      el("td", {}, row.how ? el("code", {}, row.how) : "—"),
      el("td", {class: "lines-of"}, ...row.lines.slice(0, 8).flatMap((line, at) => [at ? ", " : "",
        el("a", {href: toLine(one.text, line)}, String(line))]),
      row.lines.length > 8 ? ` and ${row.lines.length - 8} more` : ""),
      el("td", {class: "count"}, row.reads.toLocaleString("en"))),
    made => body.append(made.tagName === "TR" ? made : el("tr", {}, el("td", {colspan: 7}, made))));
  }
  fill();
  return el("div", {class: "registers"},
    el("div", {class: "tools"}, field, ...boxes, status),
    el("table", {},
      el("thead", {}, el("tr", {}, ...["Register", "Type", "Value", "Depends on", "As a sum",
        "Written in lines", "Reads"].map(head => el("th", {scope: "col"}, head)))), body),
    el("p", {class: "note"}, "A value counts as uniform unless it is shown to depend on the thread: "
      + "what a call returns, or local memory holds, is not known. %tid.x[4:0] are bits 4 to 0 of "
      + "%tid.x, the lane; base is what all threads of a block share."));
}

/** What `ptxcheck resources` prints. */
function resourceTable(one) {
  const of = one.resources;
  if (!of) {
    return el("p", {class: "note"}, one.kernel ? unknown(one)
      : "Resources are those of kernels: a function is counted with the kernels that call it.");
  }
  const size = count => count === 0 ? "none" : counted(count, "byte");
  const list = map => Object.entries(map);
  const bound = ([name, values]) => `.${name} ${values.join(", ")}`;
  const barriers = [...of.barriers.numbers.map(number => `number ${number}`),
    ...of.barriers.computed ? ["some named by a register"] : []];
  const facts = [
    ["Parameters", size(of.parameter_bytes)],
    ["Shared memory", size(of.shared_bytes) + (of.dynamic_shared ? ", plus dynamic shared memory" : "")],
    ["Constant memory", size(of.constant_bytes)],
    ["Local memory", of.uses_local && of.local_bytes === 0 ? "used, none declared" : size(of.local_bytes)],
    ["Registers declared", list(of.registers).map(([type, count]) =>
      `${count.toLocaleString("en")} .${type}`).join(", ") || "none"],
    ["Barriers", barriers.join(", ") || "none"],
    ["Launch bounds", list(of.launch_bounds).map(bound).join("; ") || "none"],
    ["Instructions", of.instructions.total.toLocaleString("en")],
  ];
  const bars = (title, counts) => {
    const sorted = list(counts).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    const most = sorted[0]?.[1] ?? 1;
    return el("section", {}, el("h3", {}, title), el("table", {class: "bars"}, el("tbody", {},
      ...sorted.map(([name, count]) => el("tr", {}, el("th", {scope: "row"}, name),
        el("td", {class: "count"}, count.toLocaleString("en")),
        el("td", {}, el("meter", {min: 0, max: most, value: count,
          "aria-label": `${name}: ${count}`})))))));
  };
  return el("div", {class: "resources"},
    el("dl", {}, ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    of.parameters.length === 0 ? "" : el("section", {}, el("h3", {}, "Parameters"),
      el("table", {}, el("thead", {}, el("tr", {}, ...["Offset", "Size", "Alignment", "Type", "Name"]
        .map(head => el("th", {scope: "col"}, head)))),
      el("tbody", {}, ...of.parameters.map(param => el("tr", {},
        ...[param.offset, param.size, param.align].map(number => el("td", {class: "count"}, String(number))),
        el("td", {}, el("code", {}, param.type), param.pointer ? " pointer" : ""),
        el("td", {}, el("code", {}, shown(param.name)))))))),
    el("div", {class: "columns"}, bars("Instructions by class", of.instructions.by_class),
      bars("Instructions by opcode", of.instructions.by_opcode)),
    el("p", {class: "note"}, "Registers are virtual: the assembler allocates fewer."));
}
