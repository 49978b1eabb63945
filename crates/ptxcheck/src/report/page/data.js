"use strict";

// The data of the page, and what is worked out of it when it is first wanted.

const data = JSON.parse(document.getElementById("data").textContent);
const rules = new Map(data.rules.map(rule => [rule.code, rule]));

/** One PTX text. */
class Text {
  constructor(given, index) {
    Object.assign(this, given);
    this.index = index;
    this.errors = this.findings.filter(found => found.severity === "error").length;
    this.warnings = this.findings.length - this.errors;
    this.functions.forEach((one, number) => {
      one.number = number;
      one.text = this;
      one.title = one.demangled ?? one.name;
      one.findings = this.findingsIn(one.first_line, one.last_line);
    });
    this.findings.forEach(found => { found.text = this; });
  }

  /** The offset of each line; as in an editor, each "\n" ends one. */
  get starts() {
    const starts = [0];
    for (let at = this.source.indexOf("\n"); at >= 0; at = this.source.indexOf("\n", at + 1)) {
      starts.push(at + 1);
    }
    return once(this, "starts", starts);
  }

  get lineCount() {
    const {starts, source} = this;
    return starts.length - (starts.at(-1) === source.length && starts.length > 1 ? 1 : 0);
  }

  /** The text of a line, from 1, without its end. */
  line(number) {
    const end = this.starts[number] ?? this.source.length + 1;
    const text = this.source.slice(this.starts[number - 1], end - 1);
    return text.endsWith("\r") ? text.slice(0, -1) : text;
  }

  lineOf(offset) {
    return last(this.starts, start => start <= offset) + 1;
  }

  /** The function of a line, if it lies in one. */
  functionOf(line) {
    const found = this.functions[last(this.functions, one => one.first_line <= line)];
    return found && line <= found.last_line ? found : undefined;
  }

  /** The findings of some lines: they are in the order of the text. */
  findingsIn(first, end) {
    return this.findings.slice(last(this.findings, found => found.line < first) + 1,
      last(this.findings, found => found.line <= end) + 1);
  }

  /** The line of the source that a line of PTX was compiled from. */
  locationOf(line) {
    const known = this.locations[last(this.locations, ([at]) => at <= line)];
    const one = this.functionOf(line);
    if (!known || !one || known[0] < one.first_line) return undefined;
    const [at, file, number, column, intoFile, intoLine] = known;
    const into = intoFile === undefined ? undefined : {file: this.files[intoFile], line: intoLine};
    return {at, file: this.files[file], line: number, column, into};
  }

  /** The blocks and the divergent branches that stand at a line. */
  get control() {
    const blocks = new Map(), branches = new Map();
    for (const one of this.functions) {
      one.flow?.blocks.forEach((block, number) => {
        if (block.count > 0 && !blocks.has(block.first_line)) {
          blocks.set(block.first_line, {one, number});
        }
      });
      for (const branch of one.flow?.branches ?? []) {
        branches.set(branch.line, {one, branch});
      }
    }
    return once(this, "control", {blocks, branches});
  }

  /** The lines that begin within a comment. */
  get commented() {
    const lines = new Set();
    if (this.source.includes("/*")) {
      const pattern = /\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)|"[^"\n]*"/g;
      for (const {0: token, index} of this.source.matchAll(pattern)) {
        if (!token.startsWith("/*") || !token.includes("\n")) continue;
        const first = this.lineOf(index), end = this.lineOf(index + token.length - 1);
        for (let line = first + 1; line <= end; line++) lines.add(line);
      }
    }
    return once(this, "commented", lines);
  }
}

/** The registers of a function. */
function registersOf(one) {
  one.rows ??= (one.registers ?? []).map(([name, kind, reads, lines]) =>
    ({name, reads, lines, ...one.text.kinds[kind]}));
  return one.rows;
}

/** One of them; of several with the name in several scopes, the last. */
function registerOf(one, name) {
  one.byName ??= new Map(registersOf(one).map(row => [row.name, row]));
  return one.byName.get(name);
}

/** Which threads share a value, in words. */
const SAME = {
  grid: "uniform",
  block: "uniform in a block",
  warp: "uniform in a warp",
  thread: "differs between threads",
};

/** The index of the last element of which it holds, in a list where it holds of a start; or -1. */
function last(list, holds) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(list[middle])) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function once(object, name, value) {
  Object.defineProperty(object, name, {value});
  return value;
}

const texts = data.texts.map((text, index) => new Text(text, index));
const findings = texts.flatMap(text => text.findings);
