//! Changes of a text by spans.

use ptx::Ptx;
use ptx::ast::Span;

use crate::error::Error;

/// Texts that take the place of parts of a source.
#[derive(Debug, Default)]
pub struct Changes {
    list: Vec<Change>,
}

#[derive(Debug)]
struct Change {
    span: Span,
    text: String,
    /// Of one name: it yields to what replaces the text around it.
    is_name: bool,
}

/// An edited module.
#[derive(Debug)]
pub struct Edited {
    /// The new text, which has been read and checked.
    pub ptx: Ptx,
    origins: Origins,
}

/// The parts of a text that another one had: where they are, where they were, and their length,
/// in the order of the new text.
type Origins = Vec<(u32, u32, u32)>;

impl Edited {
    pub(super) fn new(text: String, name: &str, origins: Origins) -> Result<Edited, Error> {
        let wrong = |_| Error::Missing {
            name: ".version".to_owned(),
        };
        let ptx = Ptx::from_bytes(text, name).map_err(wrong)?;
        Ok(Edited { ptx, origins })
    }

    /// Where a byte of the new text was before; `None` for what was added.
    pub fn origin(&self, offset: u32) -> Option<u32> {
        origin(&self.origins, offset)
    }
}

fn origin(origins: &Origins, offset: u32) -> Option<u32> {
    let after = origins.partition_point(|(start, ..)| *start <= offset);
    let (start, was, length) = *origins.get(after.checked_sub(1)?)?;
    let distance = offset - start;
    (distance < length).then_some(was + distance)
}

impl Changes {
    /// Puts a text in the place of a span. Of insertions at one place, the first one comes first.
    pub fn replace(&mut self, span: Span, text: String) {
        self.list.push(Change {
            span,
            text,
            is_name: false,
        });
    }

    /// Puts another name in the place of one, where that remains.
    pub fn rename(&mut self, span: Span, name: &str) {
        self.list.push(Change {
            span,
            text: name.to_owned(),
            is_name: true,
        });
    }

    /// Puts lines before a statement, indented as it is.
    pub fn before(&mut self, source: &str, span: Span, lines: &str) {
        let indent = indentation(source, span.start);
        let text: String = lines
            .lines()
            .map(|line| format!("{line}\n{indent}"))
            .collect();
        let at = Span {
            end: span.start,
            ..span
        };
        self.replace(at, text);
    }

    /// Puts lines after a statement and the comment that follows it on its line.
    pub fn after(&mut self, source: &str, span: Span, lines: &str) {
        if lines.is_empty() {
            return;
        }
        let indent = indentation(source, span.start);
        let rest = source.get(span.end as usize..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default();
        let is_comment = line.trim_start().starts_with("//");
        let at = if is_comment {
            span.end + line.len() as u32
        } else {
            span.end
        };
        let mut text: String = lines
            .lines()
            .map(|line| format!("\n{indent}{line}"))
            .collect();
        if !is_comment && !line.trim().is_empty() {
            text.push('\n');
            text.push_str(indent);
        }
        self.replace(Span { start: at, end: at }, text);
    }

    /// Puts lines in the place of a statement.
    pub fn instead(&mut self, source: &str, span: Span, lines: &str) {
        let indent = indentation(source, span.start);
        let lines: Vec<_> = lines.lines().collect();
        self.replace(span, lines.join(&format!("\n{indent}")));
    }

    /// Removes a statement; of one on its own line also the line, unless a label follows.
    pub fn remove(&mut self, source: &str, span: Span) {
        let indent = indentation(source, span.start);
        let rest = source.get(span.end as usize..).unwrap_or_default();
        let line = rest.strip_prefix('\n');
        let is_line = line.is_some_and(|next| {
            let text = next.strip_prefix(indent);
            text.is_some_and(|text| !text.starts_with(char::is_whitespace))
        });
        let after = if is_line { 1 + indent.len() as u32 } else { 0 };
        let end = span.end + after;
        self.replace(Span { end, ..span }, String::new());
    }

    /// The changed text, and where its parts were.
    pub fn apply(&self, source: &str) -> Result<(String, Origins), Error> {
        let whole = vec![(0, 0, source.len() as u32)];
        self.apply_after(source, &whole)
    }

    /// The same for a text that was changed before.
    pub fn apply_after(&self, source: &str, before: &Origins) -> Result<(String, Origins), Error> {
        let mut list: Vec<_> = self.list.iter().collect();
        // A stable sort.
        list.sort_by_key(|change| (change.span.start, change.is_name));
        let mut text = String::with_capacity(source.len() + source.len() / 4);
        let mut origins = Origins::new();
        // The end of what is done, and of what was replaced.
        let (mut done, mut replaced) = (0, 0);
        let mut keep = |text: &mut String, from: u32, to: u32| {
            let part = source.get(from as usize..to as usize);
            let at = text.len() as u32;
            text.push_str(part?);
            // The parts that this one consists of.
            let first = before.partition_point(|(start, _, length)| start + length <= from);
            for (start, was, length) in &before[first..] {
                if *start >= to {
                    break;
                }
                let (begin, end) = (from.max(*start), to.min(start + length));
                origins.push((at + begin - from, was + begin - start, end - begin));
            }
            Some(())
        };
        for change in list {
            let Span { start, end } = change.span;
            if change.is_name && end <= replaced {
                continue;
            }
            let overlap = || Error::Overlap {
                text: change.text.trim().to_owned(),
            };
            if start < done || end < start {
                return Err(overlap());
            }
            keep(&mut text, done, start).ok_or_else(overlap)?;
            text.push_str(&change.text);
            done = end;
            if !change.is_name {
                replaced = end;
            }
        }
        let end = source.len() as u32;
        keep(&mut text, done, end).ok_or_else(|| Error::Overlap {
            text: String::new(),
        })?;
        Ok((text, origins))
    }
}

/// The white space that a line begins with.
fn indentation(source: &str, at: u32) -> &str {
    let before = source.get(..at as usize).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = &before[start..];
    &line[..line.len() - line.trim_start().len()]
}
