
// Elements. Text comes into them as text, never as HTML.

function element(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(2).filter(child => child !== undefined && child !== ""));
  return made;
}

/** el("p", {class: "note"}, "text", el("b")) */
function el(tag, attributes, ...children) {
  return element(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return element(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** Characters that would not be seen, or would turn the order of others, are shown by number. */
function shown(text) {
  return text.replace(
    /[\0-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    found => `\\u{${found.charCodeAt(0).toString(16)}}`);
}

function counted(count, what) {
  return `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
}

/** The address of a place on the page. */
function place(parts) {
  const words = Object.entries(parts).filter(([, value]) => value !== undefined);
  return "#" + words.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
}

function toLine(text, line) {
  return place({text: text.index, line});
}

/** "lines 3 and 7" with a link on each number, if the text has so many lines. */
function withLines(message, text) {
  const parts = [];
  let done = 0;
  for (const {0: words, index} of message.matchAll(/\blines? \d+(?:(?:, | and )\d+(?![\w.]))*/g)) {
    for (const {0: number, index: at} of words.matchAll(/\d+/g)) {
      if (Number(number) < 1 || Number(number) > text.lineCount) continue;
      parts.push(...coded(message.slice(done, index + at)));
      parts.push(el("a", {href: toLine(text, number)}, number));
      done = index + at + number.length;
    }
  }
  return [...parts, ...coded(message.slice(done))];
}

/** `code` as code. */
function coded(text) {
  return text.split(/(`[^`]+`)/).map(part => part.length > 2 && part.startsWith("`")
    ? el("code", {}, shown(part.slice(1, -1))) : shown(part));
}

/** The name of a kernel: its last part stands out, for those of templates are long. */
function named(one, short) {
  const [before, name, after] = parts(one.title);
  return el("span", {class: "name", title: shown(short ? `${one.title}\n${one.name}` : one.name)},
    el("span", {class: "dim"}, short ? "" : shown(before)), el("b", {}, shown(name)),
    el("span", {class: "dim"}, shown(after)));
}

/** `void a::b<c>(d)` as `void a::`, `b`, `<c>(d)` */
function parts(title) {
  let depth = 0, from = 0;
  for (let at = 0; at < title.length; at++) {
    const letter = title[at];
    if (depth === 0 && letter === " ") from = at + 1;
    if (depth === 0 && letter === ":" && title[at + 1] === ":") from = at + 2;
    if (depth === 0 && (letter === "(" && at > from || letter === "<")) {
      const rest = title.slice(at);
      const next = end(rest);
      if (letter === "<" && rest.slice(next, next + 2) === "::") {
        at += next - 1;
        continue;
      }
      return [title.slice(0, from), title.slice(from, at), rest];
    }
    if ("(<".includes(letter)) depth++;
    if (")>".includes(letter)) depth--;
  }
  return [title.slice(0, from), title.slice(from), ""];
}

/** Where what the first bracket opens is closed. */
function end(text) {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    if ("(<".includes(text[at])) depth++;
    if (")>".includes(text[at]) && --depth === 0) return at + 1;
  }
  return text.length;
}

/** How many errors and warnings. */
function badges({errors, warnings}) {
  const one = (kind, count) => count > 0
    ? el("span", {class: `badge ${kind}`, title: counted(count, kind)},
      el("span", {class: "hidden"}, `${kind}s: `), count.toLocaleString("en"))
    : "";
  return [one("error", errors), one("warning", warnings)];
}

function countsOf(list) {
  const errors = list.filter(found => found.severity === "error").length;
  return {errors, warnings: list.length - errors};
}

/** A list of which only the first are there until one asks for the rest. */
function shortened(all, most, made, add) {
  all.slice(0, most).forEach(one => add(made(one)));
  if (all.length > most) {
    const more = el("button", {type: "button", class: "more", onclick: () => {
      more.remove();
      shortened(all.slice(most), most * 4, made, add);
    }}, `Show ${Math.min(all.length - most, most * 4).toLocaleString("en")} more of `
      + all.length.toLocaleString("en"));
    add(more);
  }
}
