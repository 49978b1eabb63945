
// The control-flow graph of a kernel.

const LETTER = 6.65;
const ROW = 15;
/** More blocks than this are drawn without their instructions. */
const DETAILED = 300;
const WIDEST = 54;

class Flow {
  constructor(one) {
    this.one = one;
    this.zoom = 1;
    const {flow} = one;
    this.element = el("div", {class: "flow"});
    if (!flow || flow.block_count === 0) {
      this.element.append(el("p", {class: "note"},
        flow ? `This ${kind(one)} has no instructions.` : unknown(one)));
      return;
    }
    const {blocks, branches, block_count: count} = flow;
    if (blocks.length === 0) {
      this.element.append(el("p", {class: "note", id: "too-large"},
        `This ${kind(one)} has ${counted(count, "block")}. A graph of so many is not drawn: `,
        el("code", {}, `ptxcheck cfg --kernel '${shown(one.name)}' --output-format dot`),
        " writes it for Graphviz."), this.branchList(branches));
      return;
    }
    this.drawing = el("div", {class: "drawing", tabindex: 0, role: "group",
      "aria-label": "Control-flow graph"});
    this.element.append(this.toolbar(blocks, branches), this.branchList(branches), this.drawing);
    this.drawing.append(this.draw(blocks, branches));
    this.drawing.addEventListener("wheel", event => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.scale(this.zoom * (event.deltaY < 0 ? 1.15 : 1 / 1.15), event);
    }, {passive: false});
    this.drags();
  }

  /** To be called when it is on the screen, for only then it has a size. */
  shownNow() {
    if (this.picture) this.fit();
    this.fitted = true;
  }

  toolbar(blocks, branches) {
    const button = (text, label, onclick) =>
      el("button", {type: "button", class: "plain", "aria-label": label, title: label, onclick}, text);
    const loops = blocks.reduce((sum, {edges}) => sum + edges.filter(([, , back]) => back).length, 0);
    return el("div", {class: "tools"},
      el("span", {}, [counted(blocks.length, "block"), counted(loops, "back edge"),
        branches.length === 1 ? "1 divergent branch" : `${branches.length} divergent branches`].join(", ")),
      el("span", {class: "legend"},
        el("span", {class: "key thread"}, "◆ parts threads of a warp"),
        el("span", {class: "key warp"}, "◆ parts warps"),
        el("span", {class: "key back"}, "back edge"),
        blocks.some(block => block.unreachable) ? el("span", {class: "key unreachable"}, "unreachable") : ""),
      el("span", {class: "grow"}),
      button("−", "Smaller", () => this.scale(this.zoom / 1.25)),
      button("+", "Larger", () => this.scale(this.zoom * 1.25)),
      button("1:1", "Full size", () => this.scale(1)),
      button("Fit", "Fit into the window", () => this.fit(true)));
  }

  branchList(branches) {
    if (branches.length === 0) return "";
    const list = el("ol", {class: "branches"});
    shortened(branches, 40, branch => el("li", {class: branch.parts},
      this.one.flow.blocks.length > 0
        ? el("button", {type: "button", class: "link", onclick: () => this.choose(branch.block)}, `B${branch.block}`)
        : `B${branch.block}`, " ",
      el("a", {href: toLine(this.one.text, branch.line)}, `line ${branch.line}`), " ",
      withLines(reason(branch).replace(/^B\d+: /, "").replace(/\(line/g, "(line"), this.one.text)),
    made => list.append(made));
    return el("details", {class: "reasons"},
      el("summary", {}, branches.length === 1 ? "Why the branch is divergent"
        : `Why the ${branches.length} branches are divergent`), list);
  }

  draw(blocks, branches) {
    const {text} = this.one;
    const detailed = blocks.length <= DETAILED;
    const divergent = new Map(branches.map(branch => [branch.block, branch]));
    const nodes = blocks.map((block, number) => {
      const branch = divergent.get(number);
      const lines = detailed ? this.linesOf(block) : [];
      const head = `B${number}${(block.labels ?? []).map(label => ` ${label}:`).join("")}`;
      const foot = branch ? `◆ ${branch.path.map(([name]) => name).join(" ← ") || SPLIT[branch.parts]}` : "";
      const where = block.count === 0 ? "empty" : block.first_line === block.last_line
        ? `line ${block.first_line}` : `lines ${block.first_line}–${block.last_line}`;
      const texts = [head.length + where.length + 4, foot.length + 2, ...lines.map(line => line.length)];
      const letters = Math.min(Math.max(...texts, 16), WIDEST);
      const found = block.count === 0 ? [] : text.findingsIn(block.first_line, block.last_line);
      return {number, block, branch, lines, head, foot, where, found,
        width: letters * LETTER + 20,
        height: 26 + (lines.length ? lines.length * ROW + 8 : 0) + (foot ? 22 : 0),
        edges: block.edges.map(([to, guard, back]) => ({to, guard, back}))};
    });
    const {left, width, height, edges} = layout(nodes);
    this.size = {width, height};
    this.groups = [];
    this.picture = svg("svg", {viewBox: `${n(left)} 0 ${n(width)} ${n(height)}`, class: "cfg"},
      svg("defs", {}, ...["plain", "back", "thread", "warp"].map(name =>
        svg("marker", {id: `head-${name}`, class: `head ${name}`, viewBox: "0 0 8 8", refX: 7, refY: 4,
          markerWidth: 7, markerHeight: 7, orient: "auto"}, svg("path", {d: "M0 0L8 4L0 8z"})))),
      svg("g", {class: "edges"}, ...edges.map(edge => this.edge(edge, divergent))),
      ...nodes.map(node => this.node(node)));
    return this.picture;
  }

  linesOf({shown: spans, count}) {
    const {source} = this.one.text;
    const lines = [];
    for (let at = 0; at < spans.length; at += 2) {
      const line = source.slice(spans[at], spans[at] + Math.min(spans[at + 1], 400));
      lines.push(shown(line.replace(/\s+/g, " ")));
    }
    const left = count - lines.length;
    if (left > 0) lines.splice(6, 0, `⋯ ${left} more`);
    return lines;
  }

  edge({path, label, edge, from, to, back, cut, ends}, divergent) {
    const branch = divergent.get(from);
    const name = branch ? branch.parts : back ? "back" : "plain";
    const guard = edge.guard ? clipped(shown(edge.guard), 14) : "";
    const about = `B${from} → B${to}${edge.guard ? ` if ${shown(edge.guard)}` : ""}`
      + `${back ? ", back edge" : ""}${branch ? `\n${reason(branch)}` : ""}`;
    return svg("g", {class: `edge ${name}${back ? " back" : ""}`},
      svg("title", {}, about),
      svg("path", {class: "wide", d: path}),
      svg("path", {d: path, "marker-end": `url(#head-${name})`}),
      guard ? svg("text", {x: n(label.x), y: n(label.y)}, guard) : "",
      cut ? svg("text", {x: n(ends.x), y: n(ends.y), "text-anchor": "middle"}, `B${to}`) : "");
  }

  node({number, block, branch, lines, head, foot, where, found, x, y, width, height}) {
    const left = x - width / 2;
    const state = countsOf(found);
    const name = `Block ${number}, ${where}, ${counted(block.count, "instruction")}`
      + (found.length ? `, ${counted(found.length, "finding")}` : "")
      + (branch ? `. Divergent: ${reason(branch)}` : "")
      + (block.unreachable ? ". Unreachable" : "");
    const room = Math.floor((width - 20) / LETTER);
    const open = () => {
      if (block.count > 0) go({text: this.one.text.index, line: block.first_line, to: block.last_line});
    };
    const group = svg("g", {class: ["block", branch?.parts, block.unreachable && "unreachable"]
      .filter(Boolean).join(" "), tabindex: 0, role: "link", "aria-label": name, "data-block": number,
      onclick: () => { if (!this.dragged) open(); },
      onkeydown: event => {
        if (event.key === "Enter") open();
        else this.step(event, block, number);
      }},
    svg("title", {}, branch ? reason(branch) : name),
    svg("rect", {class: "box", x: n(left), y: n(y), width: n(width), height: n(height), rx: 5}),
    svg("path", {class: "band", d: `M${n(left)} ${n(y + 25)}h${n(width)}`}),
    svg("text", {class: "title", x: n(left + 10), y: n(y + 17)}, clipped(shown(head), room - where.length - 2)),
    svg("text", {class: "where", x: n(left + width - 10), y: n(y + 17), "text-anchor": "end"}, where),
    ...lines.map((line, at) => svg("text", {class: "code", x: n(left + 10), y: n(y + 42 + at * ROW)},
      clipped(line, room))));
    if (foot) {
      group.append(svg("rect", {class: "foot", x: n(left), y: n(y + height - 22), width: n(width), height: 22, rx: 5}),
        svg("text", {class: "why", x: n(left + 10), y: n(y + height - 7)}, clipped(shown(foot), room)));
    }
    if (found.length) {
      const kind = state.errors ? "error" : "warning";
      group.append(svg("circle", {class: `dot ${kind}`, cx: n(left + width), cy: n(y), r: 9}),
        svg("text", {class: `dot ${kind}`, x: n(left + width), y: n(y + 4), "text-anchor": "middle"},
          String(found.length)));
    }
    this.groups[number] = group;
    return group;
  }

  /** The arrow keys go along edges. */
  step(event, block, number) {
    const before = () => this.one.flow.blocks.findIndex(({edges}) => edges.some(([to]) => to === number));
    const next = {
      ArrowDown: () => block.edges[0]?.[0],
      ArrowRight: () => block.edges[1]?.[0],
      ArrowUp: before,
    }[event.key]?.();
    if (next === undefined || next < 0) return;
    event.preventDefault();
    this.choose(next);
  }

  choose(number) {
    const group = this.groups?.[number];
    if (!group) return;
    this.groups.forEach(one => one.classList.toggle("chosen", one === group));
    if (this.zoom < 0.6) this.scale(0.8);
    const {x, y, width, height} = group.getBoundingClientRect();
    const frame = this.drawing.getBoundingClientRect();
    this.drawing.scrollBy(x + width / 2 - frame.x - frame.width / 2,
      y + height / 2 - frame.y - Math.min(frame.height, innerHeight) / 2);
    group.focus({preventScroll: true});
  }

  scale(zoom, around) {
    const box = this.drawing.getBoundingClientRect();
    const at = around ? [around.clientX - box.x, around.clientY - box.y] : [box.width / 2, box.height / 2];
    const point = [(this.drawing.scrollLeft + at[0]) / this.zoom, (this.drawing.scrollTop + at[1]) / this.zoom];
    this.zoom = Math.min(Math.max(zoom, 0.05), 3);
    this.picture.setAttribute("width", n(this.size.width * this.zoom));
    this.picture.setAttribute("height", n(this.size.height * this.zoom));
    this.drawing.scrollTo(point[0] * this.zoom - at[0], point[1] * this.zoom - at[1]);
  }

  /** As large as it can be read, or with `whole` so small that all is seen, or all of its width. */
  fit(whole) {
    const {clientWidth, clientHeight} = this.drawing;
    const wide = Math.min(clientWidth / this.size.width, 1);
    const all = Math.min(wide, clientHeight / this.size.height);
    this.scale(!whole ? Math.max(all, 0.7) : all > 0.2 ? all : wide);
    const entry = this.groups[0].getBoundingClientRect(), box = this.drawing.getBoundingClientRect();
    this.drawing.scrollTop = 0;
    this.drawing.scrollLeft += entry.x + entry.width / 2 - box.x - box.width / 2;
  }

  drags() {
    let from;
    this.drawing.addEventListener("pointerdown", event => {
      if (event.button !== 0) return;
      from = [event.clientX, event.clientY, this.drawing.scrollLeft, this.drawing.scrollTop];
      this.dragged = false;
    });
    this.drawing.addEventListener("pointermove", event => {
      if (!from || !(event.buttons & 1)) return;
      const [x, y] = [event.clientX - from[0], event.clientY - from[1]];
      if (Math.abs(x) + Math.abs(y) > 5) this.dragged = true;
      if (this.dragged) this.drawing.scrollTo(from[2] - x, from[3] - y);
    });
    this.drawing.addEventListener("pointerup", () => { from = undefined; });
  }
}

function clipped(text, most) {
  return text.length <= most ? text : `${text.slice(0, Math.max(most - 1, 1))}…`;
}

function kind(one) {
  return one.kernel ? "kernel" : "function";
}

/** Why there is nothing to show of a function. */
function unknown(one) {
  return one.broken || one.text.errors > 0
    ? `Nothing is known of this ${kind(one)}: it has errors.`
    : `The control flow of this ${kind(one)} takes too many steps to analyse.`;
}
