
// The PTX with its findings. Lines come into the document where one looks, in chunks, and leave
// it again: a text may have millions.

const CHUNK = 200;
const LINE = 20;
/** Chunks further away than this, in pixels, are emptied. */
const AWAY = 4000;
/** A longer line is cut: one may be the whole text. */
const LONGEST = 2000;

const TOKEN = new RegExp([
  /(?<comment>\/\/.*|\/\*.*?(?:\*\/|$))/,
  /(?<string>"(?:[^"\\]|\\.)*"?)/,
  /(?<special>%(?:n?tid|n?ctaid|n?clusterid|(?:n?cluster_)?n?ctaid|laneid|n?warpid|n?smid|gridid|clock\w*|globaltimer\w*|lanemask_\w+|pm\d+\w*|envreg\d+|total_smem_size|dynamic_smem_size|aggr_smem_size|is_explicit_cluster|reserved_smem\w*|cluster_\w+)(?:\.[xyz])?\b)/,
  /(?<register>%[\w$]+)/,
  /(?<guard>@!?)/,
  /(?<word>\.?[A-Za-z_$][\w$]*(?:::\w+)*)/,
  /(?<number>\d[\w.]*)/,
  /(?<other>[^])/,
].map(part => part.source).join("|"), "g");

/** The tokens of a line: kind and text. */
function* tokens(line, commented) {
  let rest = 0;
  if (commented) {
    const end = line.indexOf("*/");
    rest = end < 0 ? line.length : end + 2;
    yield ["comment", line.slice(0, rest)];
  }
  // The first word of a statement says what it does; a directive has no opcode.
  let first = true, directive = false;
  for (const {0: text, groups, index} of line.slice(rest).matchAll(TOKEN)) {
    let kind = Object.keys(groups).find(name => groups[name] !== undefined);
    if (kind === "word") {
      const after = line.slice(rest + index + text.length);
      if (text.startsWith(".")) {
        directive ||= first;
        kind = directive ? "directive" : "modifier";
      } else if (first && /^\s*:(?!:)/.test(after)) kind = "label";
      else kind = first ? "opcode" : "word";
      if (kind !== "label") first = false;
    } else if (kind === "register" || kind === "special") {
      // A guard comes before what it guards.
      if (!/@!?$/.test(line.slice(0, rest + index))) first = false;
    } else if (/[;{}]/.test(text)) {
      first = true;
      directive = false;
    }
    yield [kind, text];
  }
}

/** A line in colour; marks are [start, end, class] within it. */
function coloured(line, commented, marks = [], described = () => undefined) {
  const made = [];
  let text = "", at = 0;
  const flush = () => {
    if (text) made.push(text);
    text = "";
  };
  for (const [kind, token] of tokens(line, commented)) {
    const cuts = new Set([at, at + token.length]);
    for (const [start, end] of marks) {
      for (const cut of [start, end]) if (cut > at && cut < at + token.length) cuts.add(cut);
    }
    const sorted = [...cuts].sort((a, b) => a - b);
    sorted.slice(1).forEach((end, index) => {
      const start = sorted[index], piece = shown(token.slice(start - at, end - at));
      const within = marks.filter(([from, to]) => from <= start && end <= to && from < to);
      if (within.length === 0 && ["other", "word", "guard"].includes(kind)) {
        text += piece;
        return;
      }
      flush();
      const names = [kind, ...within.map(([, , name]) => name)].join(" ");
      const about = kind === "register" ? described(token) : undefined;
      made.push(el("span", {class: names, title: about,
        "data-register": kind === "register" ? token : undefined}, piece));
    });
    at += token.length;
  }
  flush();
  return made;
}

class Source {
  constructor(text) {
    this.text = text;
    this.register = undefined;
    this.matches = {words: "", all: [], at: -1};
    const digits = String(text.lineCount).length;
    this.body = el("div", {class: "lines", onclick: event => this.clicked(event)});
    this.body.style.setProperty("--digits", digits);
    this.body.classList.toggle("located", text.locations.length > 0);
    this.chunks = [];
    for (let first = 1; first <= text.lineCount; first += CHUNK) {
      const end = Math.min(first + CHUNK, text.lineCount + 1);
      const chunk = el("div", {class: "chunk"});
      Object.assign(chunk, {first, end, filled: false});
      const inside = text.findingsIn(first, end - 1).length;
      chunk.style.height = `${(end - first) * LINE + inside * 110}px`;
      this.chunks.push(chunk);
    }
    this.body.append(...this.chunks);
    this.element = el("div", {class: "source"}, this.body);
    this.search = this.tools();
    this.watcher = new IntersectionObserver(entries => {
      for (const {target, isIntersecting} of entries) {
        if (isIntersecting) this.fill(target);
        else this.empty(target);
      }
    }, {root: main, rootMargin: `${AWAY}px 0px`});
    this.chunks.forEach(chunk => this.watcher.observe(chunk));
  }

  close() {
    this.watcher.disconnect();
  }

  fill(chunk) {
    if (chunk.filled) return;
    chunk.filled = true;
    chunk.style.height = "";
    const rows = [];
    for (let line = chunk.first; line < chunk.end; line++) rows.push(...this.rows(line));
    chunk.replaceChildren(...rows);
    if (this.register) this.mark(chunk);
  }

  empty(chunk) {
    if (!chunk.filled || chunk.contains(document.activeElement)) return;
    chunk.filled = false;
    chunk.style.height = `${chunk.getBoundingClientRect().height}px`;
    chunk.replaceChildren();
  }

  /** A line, and the findings below it. */
  rows(number) {
    const {text} = this;
    const found = text.findingsIn(number, number);
    const start = text.starts[number - 1];
    let line = text.line(number), cut = 0;
    if (line.length > LONGEST) {
      cut = line.length - LONGEST;
      line = line.slice(0, LONGEST);
    }
    const within = ([from, to]) => from < line.length && to > 0;
    const marks = found.map(one => [one.start - start,
      Math.max(one.end - start, one.start - start + 1), `mark ${one.severity}`]);
    marks.push(...this.matchesIn(start, start + line.length).map(([from, to, name]) =>
      [from - start, to - start, name]));
    const one = text.functionOf(number);
    const described = one && (name => describe(registerOf(one, name)));
    const code = el("code", {}, ...coloured(line, text.commented.has(number),
      marks.filter(within).map(([from, to, name]) =>
        [Math.max(from, 0), Math.min(to, line.length), name]), described));
    if (cut > 0) code.append(el("i", {class: "note"}, ` … and ${counted(cut, "more character")}`));
    const row = el("div", {class: "line", "data-line": number, tabindex: -1},
      el("a", {class: "line-number", href: toLine(text, number), tabindex: -1}, String(number)),
      this.location(number), this.block(number), code, this.branch(number));
    if (found.length > 0) row.classList.add("found");
    return [row, ...found.map(one => card(one))];
  }

  location(number) {
    const location = this.text.locationOf(number);
    if (!location || location.at !== number) return "";
    const file = location.file.split(/[\\/]/).at(-1);
    const into = location.into ? `\ninlined at ${location.into.file}:${location.into.line}` : "";
    return el("span", {class: "from", title: shown(`${location.file}:${location.line}`
      + `${location.column ? `:${location.column}` : ""}${into}`)},
      el("bdi", {}, shown(file)), `:${location.line}`);
  }

  block(number) {
    const here = this.text.control.blocks.get(number);
    return here
      ? el("a", {class: "block-link", tabindex: -1, title: "Show this block in the control flow",
        href: place({text: this.text.index, function: here.one.number, tab: "flow",
          block: here.number})}, `B${here.number}`)
      : "";
  }

  branch(number) {
    const here = this.text.control.branches.get(number);
    return here
      ? el("a", {class: `parts ${here.branch.parts}`, title: reason(here.branch),
        href: place({text: this.text.index, function: here.one.number, tab: "flow",
          block: here.branch.block})}, `◆ ${SPLIT[here.branch.parts]}`)
      : "";
  }

  /** Brings a line to the middle of the window. */
  reveal(line, finding) {
    const chunk = this.chunks[Math.floor((line - 1) / CHUNK)];
    if (!chunk) return;
    this.body.querySelectorAll(".target").forEach(row => row.classList.remove("target"));
    this.fill(chunk);
    const row = chunk.querySelector(`[data-line="${line}"]`);
    row.classList.add("target");
    const shownRow = finding ? cardBelow(row, finding) ?? row : row;
    shownRow.focus({preventScroll: true});
    const go = () => row.scrollIntoView({block: "center"});
    go();
    // Chunks around it are filled then, and may be higher than they were taken to be.
    requestAnimationFrame(() => requestAnimationFrame(go));
    const code = row.querySelector(".mark.error, .mark.warning");
    if (code) code.scrollIntoView({block: "nearest", inline: "nearest"});
  }

  revealAll(first, end) {
    this.reveal(first);
    for (const chunk of this.chunks) {
      if (chunk.end <= first || chunk.first > end || !chunk.filled) continue;
      chunk.querySelectorAll(".line").forEach(row => {
        const line = Number(row.dataset.line);
        if (line >= first && line <= end) row.classList.add("target");
      });
    }
  }

  /** A click on a register shows where else it stands. */
  clicked({target}) {
    const register = target.dataset?.register;
    if (!register) return;
    this.register = register === this.register ? undefined : register;
    this.chunks.filter(chunk => chunk.filled).forEach(chunk => this.mark(chunk));
  }

  mark(chunk) {
    chunk.querySelectorAll("[data-register]").forEach(span =>
      span.classList.toggle("same", span.dataset.register === this.register));
  }

  // The browser finds only what is in the document.
  tools() {
    this.count = el("span", {role: "status", class: "dim"});
    const field = el("input", {type: "search", id: "find", "aria-label": "Find in the text",
      placeholder: "Find in the text", autocomplete: "off", spellcheck: "false",
      oninput: () => this.find(field.value),
      onkeydown: event => {
        if (event.key === "Enter") {
          event.preventDefault();
          this.next(event.shiftKey ? -1 : 1);
          field.focus({preventScroll: true});
        }
      }});
    const step = (label, by, text) => el("button", {type: "button", class: "plain",
      "aria-label": label, onclick: () => this.next(by)}, text);
    return el("div", {class: "search"}, field, step("Previous match", -1, "↑"),
      step("Next match", 1, "↓"), this.count);
  }

  find(words) {
    const all = [], wanted = words.toLowerCase();
    if (wanted) {
      this.lower ??= this.text.source.toLowerCase();
      // Lower case may be longer than what it is made of; then places would be wrong.
      const within = this.lower.length === this.text.source.length ? this.lower : this.text.source;
      for (let at = within.indexOf(wanted); at >= 0; at = within.indexOf(wanted, at + 1)) {
        all.push(at);
      }
    }
    this.matches = {words, all, at: -1};
    this.count.textContent = !words ? "" : all.length === 1 ? "1 match"
      : `${all.length.toLocaleString("en")} matches`;
    this.again();
  }

  next(by) {
    const {all, at} = this.matches;
    if (all.length === 0) return;
    const top = this.topLine();
    this.matches.at = at < 0
      ? Math.max(all.findIndex(offset => this.text.lineOf(offset) >= top), 0)
      : (at + by + all.length) % all.length;
    const now = this.matches.at;
    this.count.textContent = `${(now + 1).toLocaleString("en")} of ${all.length.toLocaleString("en")}`;
    this.again();
    this.reveal(this.text.lineOf(all[now]));
  }

  /** The first line that is on the screen. */
  topLine() {
    const chunk = this.chunks.find(one => one.getBoundingClientRect().bottom > 0);
    const row = [...chunk?.querySelectorAll(".line") ?? []].find(
      one => one.getBoundingClientRect().top >= 0);
    return row ? Number(row.dataset.line) : 1;
  }

  matchesIn(start, end) {
    const {all, words, at} = this.matches;
    const made = [];
    for (let index = last(all, offset => offset + words.length <= start) + 1;
      index < all.length && all[index] < end; index++) {
      made.push([all[index], all[index] + words.length, index === at ? "match now" : "match"]);
    }
    return made;
  }

  /** Makes anew what is on the screen. */
  again() {
    for (const chunk of this.chunks.filter(one => one.filled)) {
      chunk.filled = false;
      this.fill(chunk);
    }
  }
}

const SPLIT = {
  thread: "parts threads of a warp",
  warp: "parts warps",
};

/** Why a branch is divergent, in words. */
function reason({parts, path, meets, block}) {
  const way = path.map(([name, line]) => `${name} (line ${line})`).join(" ← ");
  const who = parts === "thread"
    ? "Threads of one warp may take different ways here"
    : "Each warp takes one way here, and warps may take different ones";
  const why = path.length > 1 ? `: ${way}` : path.length ? `, by ${way}` : "";
  const where = meets === null || meets === undefined
    ? "They do not meet again: some leave." : `They meet again in block B${meets}.`;
  return `B${block}: ${who}${why}. ${where}`;
}

function describe(register) {
  if (!register) return undefined;
  const {name, type, same, on, how} = register;
  return `${name} .${type}: ${SAME[same]}${on ? `; depends on ${on}` : ""}${how ? `\n= ${how}` : ""}`;
}

/** A finding, as it stands under its line. */
function card(found) {
  const rule = rules.get(found.code);
  const parts = [el("p", {class: "says"},
    el("span", {class: `severity ${found.severity}`}, found.severity), " ",
    el("button", {type: "button", class: "code", onclick: () => explain(found.code),
      title: "Explain this rule"}, found.code), " ",
    el("span", {class: "rule"}, rule?.name ?? ""), " ",
    el("span", {class: "message"}, ...withLines(found.message, found.text)))];
  if (found.help) parts.push(el("p", {class: "help"}, el("b", {}, "Help: "), ...withLines(found.help, found.text)));
  if (found.fix) parts.push(diff(found.fix));
  if (found.from) {
    const into = found.inlined_at ? [", inlined at ", el("code", {}, shown(found.inlined_at))] : [];
    parts.push(el("p", {class: "from-line"}, "from ", el("code", {}, shown(found.from)), ...into));
  }
  const made = el("section", {class: `finding ${found.severity}`, tabindex: -1,
    "aria-label": `${found.severity} ${found.code}`}, ...parts);
  made.finding = found;
  return made;
}

function cardBelow(row, finding) {
  for (let at = row.nextElementSibling; at?.classList.contains("finding"); at = at.nextElementSibling) {
    if (at.finding === finding) return at;
  }
  return undefined;
}

function diff({safe, hunks}) {
  const lines = hunks.flatMap(({line, old, new: now}) => [
    ...old.map((text, index) => el("div", {class: "old"}, `${line + index} - ${shown(text)}`)),
    ...now.map(text => el("div", {class: "new"}, `${" ".repeat(String(line).length)} + ${shown(text)}`)),
  ]);
  return el("figure", {class: "fix"},
    el("figcaption", {}, safe ? "Fix, made by --fix"
      : "Fix that may change what the code does, made by --fix --unsafe-fixes"),
    el("pre", {tabindex: 0}, ...lines));
}
