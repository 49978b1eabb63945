//! Lines, indentation, and the comments between them.

use super::comments::{Comment, comments};
use crate::ast::Span;

/// Tabs before a line at most: blocks may nest thousands deep.
const MAX_TABS: usize = 8;

/// A text as it grows, line by line.
pub struct Layout<'s> {
    pub out: String,
    /// `None` where the tree alone is printed.
    pub source: Option<&'s str>,
    comments: std::vec::IntoIter<Comment>,
    /// Up to where the source has been printed.
    printed: u32,
    /// The last line ends in a comment that nothing may follow.
    closed: bool,
    /// A blank line comes next.
    apart: bool,
}

impl<'s> Layout<'s> {
    pub fn new(source: Option<&'s str>) -> Layout<'s> {
        Layout {
            out: String::with_capacity(source.map_or(0, str::len)),
            source,
            comments: source.map(comments).unwrap_or_default().into_iter(),
            printed: 0,
            closed: false,
            apart: false,
        }
    }

    pub fn finish(mut self) -> String {
        self.comments_before(u32::MAX, 0);
        self.out
    }

    /// Comes before the line of what stands at `span`.
    pub fn before(&mut self, span: Span, tabs: usize) {
        if self.source.is_some() {
            self.comments_before(span.start, tabs);
        }
        self.blank_line_before(span.start);
        self.printed = self.printed.max(span.end);
    }

    /// What comes next, with the comments before it, has a blank line above it.
    pub fn set_apart(&mut self) {
        self.apart = true;
    }

    /// Like [`before`](Self::before), with no blank line between.
    pub fn close_before(&mut self, span: Span, tabs: usize) {
        if self.source.is_some() {
            self.comments_before(span.start, tabs);
            self.printed = self.printed.max(span.end);
        }
    }

    /// A line of what `span` holds, without its line break.
    pub fn line(&mut self, span: Span, tabs: usize, text: impl FnOnce(&mut String)) {
        self.before(span, tabs);
        self.write(tabs, text);
    }

    /// A line that stands nowhere in the source, or whose place has been seen to.
    pub fn write(&mut self, tabs: usize, text: impl FnOnce(&mut String)) {
        self.indent(tabs);
        text(&mut self.out);
        self.out.push('\n');
        self.closed = false;
    }

    /// The places that end at `end` have been printed: blank lines count from
    /// there.
    pub fn printed_to(&mut self, end: u32) {
        self.printed = self.printed.max(end);
    }

    fn indent(&mut self, tabs: usize) {
        let tabs = tabs.min(MAX_TABS);
        self.out.extend(std::iter::repeat_n('\t', tabs));
    }

    fn comments_before(&mut self, end: u32, tabs: usize) {
        while let Some(&comment) = self.comments.as_slice().first()
            && comment.span.start < end
        {
            self.comments.next();
            self.comment(comment, tabs);
        }
    }

    /// Leaves out comments that were printed with what they stand in.
    pub fn drop_comments_before(&mut self, end: u32) {
        while self
            .comments
            .as_slice()
            .first()
            .is_some_and(|comment| comment.span.start < end)
        {
            self.comments.next();
        }
    }

    fn comment(&mut self, comment: Comment, tabs: usize) {
        let Some(text) = self
            .source
            .and_then(|source| source.get(comment.span.start as usize..comment.span.end as usize))
        else {
            return;
        };
        // A marker is one only at the start of a line.
        let marker = text.starts_with('#');
        let one_line = !text.contains('\n');
        let follows = comment.trailing && one_line && !marker && !self.closed;
        if follows && self.out.ends_with('\n') && !self.out.ends_with("\n\n") {
            self.out.pop();
            self.out.push(' ');
        } else {
            self.blank_line_before(comment.span.start);
            self.indent(if marker { 0 } else { tabs });
        }
        for (index, line) in text.lines().enumerate() {
            if index > 0 {
                self.out.push('\n');
            }
            self.out.push_str(line.trim_end());
        }
        self.out.push('\n');
        self.closed = text.starts_with("//");
        self.printed = self.printed.max(comment.span.end);
    }

    /// Keeps one of the blank lines between what was printed and `start`, and
    /// sets apart what shall be.
    fn blank_line_before(&mut self, start: u32) {
        let between = self
            .source
            .and_then(|source| source.as_bytes().get(self.printed as usize..start as usize));
        let breaks = between.map_or(0, |bytes| bytes.iter().filter(|b| **b == b'\n').count());
        // The first line of a block needs no air.
        let kept = breaks > 1 && !self.out.ends_with("{\n");
        let wanted = std::mem::take(&mut self.apart) || kept;
        if wanted && !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }
}
