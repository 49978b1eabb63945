//! Finds the comments of a source, which are not in the syntax tree.

use crate::ast::Span;

/// `// …`, `/* … */`, or a line marker (`# 1 "kernel.ptx"`), which the lexer also skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comment {
    /// The span, without the line break.
    pub span: Span,
    /// Whether there is other text before it on its line.
    pub trailing: bool,
}

/// All comments, in source order.
pub fn comments(source: &str) -> Vec<Comment> {
    let bytes = source.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    let mut blank = true;
    while let Some(&byte) = bytes.get(at) {
        let end = match (byte, bytes.get(at + 1)) {
            (b'/', Some(b'/')) | (b'#', _) => line_end(bytes, at),
            (b'/', Some(b'*')) => source[at + 2..]
                .find("*/")
                .map_or(bytes.len(), |length| at + 2 + length + 2),
            (b'"', _) => {
                at = string_end(bytes, at);
                blank = false;
                continue;
            }
            _ => {
                blank = byte == b'\n' || (blank && byte.is_ascii_whitespace());
                at += 1;
                continue;
            }
        };
        let length = source[at..end].trim_end().len();
        found.push(Comment {
            span: Span {
                start: at as u32,
                end: (at + length) as u32,
            },
            trailing: !blank,
        });
        at = end;
    }
    found
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    let rest = &bytes[from..];
    from + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
}

/// A string has no escapes, and may span several lines.
fn string_end(bytes: &[u8], from: usize) -> usize {
    let inside = from + 1;
    match bytes[inside..].iter().position(|b| *b == b'"') {
        Some(length) => inside + length + 1,
        None => line_end(bytes, inside),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_know_whether_they_stand_alone() {
        let source = "// a\n x /* b */ y // c \n\t/* d\n */ .file 1 \"no // comment\"";
        let found: Vec<_> = comments(source)
            .into_iter()
            .map(|c| {
                let text = &source[c.span.start as usize..c.span.end as usize];
                (text, c.trailing)
            })
            .collect();
        assert_eq!(
            found,
            [
                ("// a", false),
                ("/* b */", true),
                ("// c", true),
                ("/* d\n */", false)
            ]
        );
    }

    #[test]
    fn what_does_not_end_ends_with_the_text() {
        assert_eq!(comments("/* x").len(), 1);
        assert_eq!(comments("\"x // y").len(), 0);
        assert_eq!(comments("/").len(), 0);
    }
}
