//! `// größer`

use crate::{Check, Code, Findings, ModuleContext, Rule};
use ptx::ast::Span;
use ptx::printer::comments::comments;

pub static RULE: Rule = Rule {
    code: Code::new('D', 203),
    name: "non-ascii-comment",
    summary: "A comment with non-ASCII characters.",
    why: "PTX is ASCII text. The assembler of CUDA 13.5 accepts such a comment; that of 13.0 \
          rejects the whole module, as do drivers of that version.",
    instead: "Write the comment in ASCII.",
    bad: ".entry k()\n{\n\tret; // gr\u{f6}\u{df}er\n}\n",
    good: ".entry k()\n{\n\tret; // larger\n}\n",
    default: false,
    check: Check::Module(check),
};

fn check(context: &ModuleContext<'_, '_>, findings: &mut Findings) {
    let source = context.source;
    if source.is_ascii() {
        return;
    }
    for comment in comments(source) {
        let Span { start, end } = comment.span;
        let Some(text) = source.get(start as usize..end as usize) else {
            continue;
        };
        // A line marker, for which assemblers report an error.
        if text.starts_with('#') {
            continue;
        }
        let Some((at, character)) = text.char_indices().find(|(_, c)| !c.is_ascii()) else {
            continue;
        };
        let start = start + at as u32;
        let span = Span {
            start,
            end: start + character.len_utf8() as u32,
        };
        let message = format!("older assemblers reject `{character}`, which is not ASCII");
        findings.add(span, message).help("write comments in ASCII");
    }
}
