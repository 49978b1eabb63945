
// The timeline: a row for each stream and host thread, on a canvas that shows any part of the time.

const KINDS = {load: "Loads", compile: "Compilations", copy: "Copies and fills", launch: "Launches"};
const ROW = 26, NAMES = 150, AXIS = 24;

/** The rows of processes: events in the order of their starts, in seconds since `zero`. */
function rowsOf(some) {
  const rows = [];
  for (const process of some) {
    const lanes = new Map();
    const offset = (process.started - zero) / 1000;
    for (const event of process.records.flatMap(record => record.events ?? [])) {
      if (!lanes.has(event.lane)) lanes.set(event.lane, []);
      lanes.get(event.lane).push({...event, start: event.start + offset});
    }
    const inOrder = [...lanes].sort(([a], [b]) => rank(process.lanes.get(a)) - rank(process.lanes.get(b)) || a - b);
    for (const [lane, events] of inOrder) {
      events.sort((a, b) => a.start - b.start);
      const name = process.lanes.get(lane) ?? `lane ${lane}`;
      const nests = events.some(event => event.kind === "load");
      rows.push({nests, name: some.length > 1 ? `${process.id}: ${name}` : name, events, process});
    }
  }
  return rows;
}

/** Host threads stand above the streams that they give work to. */
function rank(name) {
  return ["host", "default", "stream"].findIndex(word => name?.startsWith(word)) >>> 0;
}

/** `onkernel` is called with the process and the name of a kernel that is clicked. */
function timeline(some, dropped, onkernel) {
  const rows = rowsOf(some);
  const events = rows.flatMap(row => row.events);
  if (events.length === 0) return "";
  // A loop: a process has more events than a call may have arguments.
  let [first, last] = [Infinity, -Infinity];
  for (const event of events) {
    first = Math.min(first, event.start);
    last = Math.max(last, event.start + event.seconds);
  }
  const margin = Math.max((last - first) * 0.01, 1e-6);
  const whole = [first - margin, last + margin];
  let [from, to] = whole;
  let dragged, hovered;

  const kinds = Object.keys(KINDS).filter(kind => events.some(event => event.kind === kind));
  const canvas = el("canvas", {tabindex: 0, role: "img",
    "aria-label": `Timeline of ${counted(events.length, "event")} in ${time(last - first)}. The tables below have the sums.`});
  const range = el("span", {class: "dim", id: "range"});
  const context = canvas.getContext("2d");
  let width = 0;
  const height = rows.length * ROW + AXIS;

  const x = seconds => NAMES + (seconds - from) / (to - from) * (width - NAMES);
  const at = pixel => from + (pixel - NAMES) / (width - NAMES) * (to - from);

  function draw() {
    const style = getComputedStyle(document.documentElement);
    const colour = name => style.getPropertyValue(`--${name}`).trim();
    const paints = paintsOf();
    width = canvas.clientWidth;
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = `12px ${colour("sans")}`;
    context.textBaseline = "middle";
    axis(paints);
    rows.forEach((row, index) => bars(row, index * ROW + AXIS, paints));
    if (dragged?.to !== undefined && !dragged.pans) {
      context.fillStyle = paints.select;
      context.fillRect(Math.min(dragged.from, dragged.to), AXIS, Math.abs(dragged.to - dragged.from), height - AXIS);
    }
    range.textContent = to - from > (whole[1] - whole[0]) * 0.999999 ? `${time(last - first)} in all`
      : `${time(to - from)} of ${time(last - first)}`;
  }

  function axis(paints) {
    const rough = (to - from) / Math.max((width - NAMES) / 110, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(size => size * power).find(size => size >= rough);
    context.textAlign = "center";
    for (let tick = Math.ceil((from - first) / step); first + tick * step <= to; tick++) {
      const place = x(first + tick * step);
      if (place < NAMES + 20 || place > width - 24) continue;
      context.fillStyle = paints.line;
      context.fillRect(Math.round(place), AXIS - 4, 1, height);
      context.fillStyle = paints.dim;
      context.fillText(tick === 0 ? "0" : time(tick * step).replace(/^0 s$/, "0"), place, AXIS / 2);
    }
  }

  function bars(row, top, paints) {
    context.fillStyle = paints.line;
    context.fillRect(0, top, width, 1);
    context.textAlign = "left";
    context.fillStyle = paints.text;
    context.fillText(fit(row.name, NAMES - 12), 2, top + ROW / 2 + 1);
    context.save();
    context.beginPath();
    context.rect(NAMES, top, width - NAMES, ROW);
    context.clip();
    let [lastKind, lastEnd] = ["", -1];
    for (const event of row.events) {
      if (event.start > to) break;
      if (event.start + event.seconds < from) continue;
      const left = Math.max(x(event.start), NAMES - 1);
      const right = Math.min(Math.max(x(event.start + event.seconds), left + 1.5), width);
      // What lies under the last pixel that was drawn would not be seen.
      if (event.kind === lastKind && right <= lastEnd && !event.fault) continue;
      [lastKind, lastEnd] = [event.kind, right];
      const [y, size] = place(row, event, top);
      context.fillStyle = event.fault ? paints.error : paints[event.kind];
      context.fillRect(left, y, right - left, size);
      if (event === hovered) {
        context.strokeStyle = paints.text;
        context.strokeRect(left + 0.5, y + 0.5, Math.max(right - left - 1, 1), size - 1);
      }
      if (right - left > 40 && size > 12) {
        context.fillStyle = paints.onBar;
        context.fillText(fit(titleOf(event), right - left - 8), left + 4, y + size / 2 + 1);
      }
    }
    context.restore();
  }

  /** Compilations lie in the lower half of the load that waits for them. */
  function place(row, event, top) {
    return event.kind === "compile" && row.nests ? [top + ROW / 2 + 1, ROW / 2 - 4] : [top + 4, ROW - 7];
  }

  function fit(text, room) {
    if (context.measureText(text).width <= room) return text;
    let length = Math.floor(text.length * room / context.measureText(text).width);
    while (length > 0 && context.measureText(`${text.slice(0, length)}…`).width > room) length--;
    return length > 2 ? `${text.slice(0, length)}…` : "";
  }

  function paintsOf() {
    // A canvas does not know light-dark(): an element resolves it.
    const probe = el("span", {hidden: true});
    document.body.append(probe);
    const names = {load: "load", compile: "compile", copy: "copy", launch: "launch", error: "error", line: "line",
      text: "text", dim: "dim", onBar: "on-bar", select: "select"};
    const paints = {};
    for (const [name, variable] of Object.entries(names)) {
      probe.style.color = `var(--${variable})`;
      paints[name] = getComputedStyle(probe).color;
    }
    probe.remove();
    return paints;
  }

  function find(mouse) {
    const row = rows[Math.floor((mouse.offsetY - AXIS) / ROW)];
    if (!row || mouse.offsetX < NAMES) return {};
    const [low, high] = [at(mouse.offsetX - 2), at(mouse.offsetX + 2)];
    // The last one is drawn above the others.
    return {row, event: row.events.findLast(event => event.start <= high && event.start + event.seconds >= low)};
  }

  function hover(mouse) {
    const {event} = find(mouse);
    if (event !== hovered) {
      hovered = event;
      draw();
    }
    const tip = document.getElementById("tip");
    tip.hidden = !event;
    canvas.style.cursor = event?.kind === "launch" ? "pointer" : "crosshair";
    if (!event) return;
    tip.replaceChildren(...about(event, first));
    const {clientX, clientY} = mouse;
    tip.style.left = `${Math.min(clientX + 12, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  }

  function show(start, end) {
    const size = Math.min(Math.max(end - start, 1e-7), whole[1] - whole[0]);
    from = Math.min(Math.max(start, whole[0]), whole[1] - size);
    to = from + size;
    draw();
  }

  const zoom = (middle, factor) => show(middle - (middle - from) * factor, middle + (to - middle) * factor);
  const reset = () => show(...whole);

  canvas.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const by = (event.deltaX || event.deltaY) / 500 * (to - from);
      show(from + by, to + by);
    } else {
      zoom(at(Math.max(event.offsetX, NAMES)), 1.0015 ** event.deltaY);
    }
  }, {passive: false});
  canvas.addEventListener("pointerdown", event => {
    if (event.button !== 0 || event.offsetX < NAMES) return;
    canvas.setPointerCapture(event.pointerId);
    dragged = {from: event.offsetX, pans: event.shiftKey, view: [from, to]};
  });
  canvas.addEventListener("pointermove", event => {
    if (!dragged) return hover(event);
    dragged.to = Math.max(event.offsetX, NAMES);
    if (dragged.pans) {
      const by = (dragged.from - dragged.to) / (width - NAMES) * (to - from);
      show(dragged.view[0] + by, dragged.view[1] + by);
    } else draw();
  });
  canvas.addEventListener("pointerup", event => {
    const drag = dragged;
    dragged = undefined;
    if (!drag) return;
    if (drag.to !== undefined && Math.abs(drag.to - drag.from) > 4) {
      if (!drag.pans) show(...[at(drag.from), at(drag.to)].sort((a, b) => a - b));
      return;
    }
    draw();
    const {row, event: found} = find(event);
    if (found?.kind === "launch") onkernel(row.process, found.name);
  });
  canvas.addEventListener("pointerleave", () => {
    document.getElementById("tip").hidden = true;
    if (hovered) { hovered = undefined; draw(); }
  });
  canvas.addEventListener("dblclick", reset);
  canvas.addEventListener("keydown", event => {
    const step = (to - from) / 5;
    const moves = {ArrowLeft: () => show(from - step, to - step), ArrowRight: () => show(from + step, to + step),
      "+": () => zoom((from + to) / 2, 0.5), "=": () => zoom((from + to) / 2, 0.5),
      "-": () => zoom((from + to) / 2, 2), 0: reset};
    if (event.ctrlKey || event.metaKey || !Object.hasOwn(moves, event.key)) return;
    event.preventDefault();
    moves[event.key]();
  });
  canvas.style.height = `${height}px`;
  new ResizeObserver(draw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.addEventListener("theme", draw);

  return el("section", {id: "timeline"},
    el("h2", {}, "Timeline ", range),
    el("div", {class: "tools"},
      ...kinds.map(kind => el("span", {class: `key ${kind}`}, KINDS[kind])),
      el("span", {class: "grow"}),
      el("button", {type: "button", title: "Zoom in (+)", onclick: () => zoom((from + to) / 2, 0.5)}, "+"),
      el("button", {type: "button", title: "Zoom out (-)", onclick: () => zoom((from + to) / 2, 2)}, "−"),
      el("button", {type: "button", title: "Show everything (0)", onclick: reset}, "All")),
    el("div", {class: "canvas"}, canvas),
    el("p", {class: "note"}, "Drag to zoom, Shift and drag to move, Ctrl and wheel to zoom at the pointer, double-click "
      + "for everything. Click a launch for its kernel.",
      dropped ? ` The timeline has the first ${counted(events.length, "event")}; ${count(dropped)} more are in the `
        + "sums alone. `--trace` keeps up to a million." .replaceAll("`", "") : ""));
}

const titles = new Map(records.flatMap(record => record.kernels ?? [])
  .map(kernel => [kernel.name, kernel.demangled ?? kernel.name]));

function titleOf(event) {
  return event.kind === "launch" || event.kind === "compile" ? shown(titles.get(event.name) ?? event.name)
    : event.kind === "copy" && event.bytes !== undefined ? `${event.name}, ${bytes(event.bytes)}` : shown(event.name);
}

/** What a bar stands for. */
function about(event, first) {
  const kind = {load: "Load", compile: "Compilation", copy: "Copy", launch: "Launch"}[event.kind];
  const lines = [`${time(event.seconds)}, from ${time(event.start - first)}`];
  if (event.grid) lines.push(`${dimensions(event.grid)} blocks of ${dimensions(event.block)} threads`);
  if (event.bytes !== undefined && event.seconds > 0) lines.push(`${bytes(event.bytes / event.seconds)}/s`);
  return [el("b", {}, `${kind}: ${titleOf(event)}`), ...lines.map(line => el("div", {}, line)),
    event.fault ? el("div", {class: "bad"}, shown(event.fault.split("\n")[0])) : ""].filter(Boolean);
}
