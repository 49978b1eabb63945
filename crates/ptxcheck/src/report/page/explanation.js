
// The explanation of a rule, beside the text.

const panel = document.getElementById("explanation");

function explain(code) {
  const rule = rules.get(code);
  if (!rule) return;
  const count = findings.filter(found => found.code === code).length;
  panel.replaceChildren(
    el("div", {class: "bar"},
      el("span", {class: "code"}, rule.code),
      el("span", {class: "grow"}),
      el("button", {type: "button", class: "plain", onclick: closeExplanation,
        "aria-label": "Close the explanation"}, "✕")),
    el("div", {class: "prose"}, ...markdown(rule.explanation)),
    el("p", {}, el("a", {href: place({rule: code})},
      count === 1 ? `The finding of ${code}` : `All ${counted(count, "finding")} of ${code}`)));
  panel.dataset.code = code;
  panel.hidden = false;
  panel.scrollTop = 0;
  document.body.classList.add("explained");
}

function closeExplanation() {
  panel.hidden = true;
  document.body.classList.remove("explained");
}

/** The part of Markdown that explanations are written in. */
function markdown(text) {
  const made = [];
  for (const block of text.split(/(```\w*\n[^]*?\n```)/)) {
    const code = /^```\w*\n([^]*)\n```$/.exec(block);
    if (code) {
      made.push(el("pre", {tabindex: 0}, ...code[1].split("\n").flatMap(
        line => [...coloured(line, false), "\n"])));
      continue;
    }
    for (const paragraph of block.split(/\n{2,}/).filter(part => part.trim())) {
      const heading = /^(#+) (.*)$/.exec(paragraph.trim());
      const items = paragraph.trim().split(/\n(?=[-*] )/);
      if (heading) {
        made.push(el(`h${heading[1].length + 1}`, {}, ...coded(heading[2])));
      } else if (items.every(item => /^[-*] /.test(item))) {
        made.push(el("ul", {}, ...items.map(item => el("li", {}, ...coded(item.slice(2))))));
      } else {
        made.push(el("p", {}, ...coded(paragraph.trim())));
      }
    }
  }
  return made;
}
