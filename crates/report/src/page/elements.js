
// Elements and numbers. Text comes into elements as text, never as HTML.

/** el("p", {class: "note", onclick: () => …}, "text", el("b")) */
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(2).filter(child => child !== undefined && child !== ""));
  return made;
}

/** Characters that would not be seen, or would turn the order of others, are shown by number. */
function shown(text) {
  return String(text).replace(
    /[\0-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    found => `\\u{${found.charCodeAt(0).toString(16)}}`);
}

/** `code` as code. */
function coded(text) {
  return String(text).split(/(`[^`]+`)/).map(part => part.length > 2 && part.startsWith("`")
    ? el("code", {}, shown(part.slice(1, -1))) : shown(part));
}

function count(number) {
  return number.toLocaleString("en");
}

function counted(number, what) {
  return `${count(number)} ${what}${number === 1 ? "" : "s"}`;
}

/** Seconds, with three digits and the unit that fits. */
function time(seconds) {
  if (!(seconds > 0)) return "0 s";
  for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) {
    if (seconds >= size * 0.9995) return `${digits(seconds / size)} ${unit}`;
  }
  return `${Math.round(seconds * 1e9)} ns`;
}

function bytes(number) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (number >= size) return `${digits(number / size)} ${unit}`;
  }
  return `${count(number)} B`;
}

function digits(number) {
  return number >= 1000 ? count(Math.round(number))
    : number.toLocaleString("en", {maximumSignificantDigits: 3});
}

/** `4 × 2` of [4, 2, 1]. */
function dimensions([x, y, z]) {
  const all = z !== 1 ? [x, y, z] : y !== 1 ? [x, y] : [x];
  return all.map(count).join(" × ");
}

/** The name of a kernel: its last part stands out, for those of templates are long. */
function named(title) {
  const [before, name, after] = parts(title);
  return [el("span", {class: "dim"}, shown(before)), el("b", {}, shown(name)),
    el("span", {class: "dim"}, shown(after))];
}

/** `void a::b<c>(d)` as `void a::`, `b`, `<c>(d)` */
function parts(title) {
  let depth = 0, from = 0;
  for (let at = 0; at < title.length; at++) {
    const letter = title[at];
    if (depth === 0 && letter === " ") from = at + 1;
    if (depth === 0 && letter === ":" && title[at + 1] === ":") from = at + 2;
    if (depth === 0 && at > from && (letter === "(" || letter === "<")) {
      return [title.slice(0, from), title.slice(from, at), title.slice(at)];
    }
    if ("(<".includes(letter)) depth++;
    if (")>".includes(letter)) depth--;
  }
  return [title.slice(0, from), title.slice(from), ""];
}

/** Text of several lines: the first one, and the rest on demand. */
function folded(text) {
  const [first, ...rest] = text.split("\n");
  return [el("span", {class: "cause"}, ...coded(first)), rest.length === 0 ? ""
    : el("details", {}, el("summary", {}, counted(rest.length, "more line")),
      el("pre", {}, shown(rest.join("\n"))))];
}
