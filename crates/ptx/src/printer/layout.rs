//! Lines, indentation, and the comments between them.

use super::comments::{Comment, comments};
use crate::ast::Span;

/// The maximum indentation in tabs: blocks may be nested thousands deep.
const MAX_TABS: usize = 8;

/// The output, written line by line.
pub struct Layout<'s> {
    pub out: String,
    /// `None` if only the tree is printed.
    pub source: Option<&'s str>,
    comments: std::vec::IntoIter<Comment>,
    /// The end of the source printed so far.
    printed: u32,
    /// Whether the last line ends in a line comment, so that nothing may follow on it.
    closed: bool,
    /// Whether to print a blank line next.
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

    /// Prints comments and blank lines before the item at `span`.
    pub fn before(&mut self, span: Span, tabs: usize) {
        if self.source.is_some() {
            self.comments_before(span.start, tabs);
        }
        self.blank_line_before(span.start);
        self.printed = self.printed.max(span.end);
    }

    /// Requests a blank line before the next item and its comments.
    pub fn blank_line_before_next(&mut self) {
        self.apart = true;
    }

    /// Like [`before`](Self::before), but without a blank line.
    pub fn close_before(&mut self, span: Span, tabs: usize) {
        if self.source.is_some() {
            self.comments_before(span.start, tabs);
            self.printed = self.printed.max(span.end);
        }
    }

    /// Prints the line of the item at `span`, without its line break.
    pub fn line(&mut self, span: Span, tabs: usize, text: impl FnOnce(&mut String)) {
        self.before(span, tabs);
        self.write(tabs, text);
    }

    /// Prints a line without a span in the source.
    pub fn write(&mut self, tabs: usize, text: impl FnOnce(&mut String)) {
        self.indent(tabs);
        text(&mut self.out);
        self.out.push('\n');
        self.closed = false;
    }

    /// Marks the source up to `end` as printed. Blank lines count from there.
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

    /// Drops comments that were printed as part of an item.
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
        // A line marker must be at the start of a line.
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

    /// Keeps at most one blank line between the printed text and `start`, and prints a requested
    /// one.
    fn blank_line_before(&mut self, start: u32) {
        let between = self
            .source
            .and_then(|source| source.as_bytes().get(self.printed as usize..start as usize));
        let breaks = between.map_or(0, |bytes| bytes.iter().filter(|b| **b == b'\n').count());
        // No blank line at the start of a block.
        let keep_blank_line = breaks > 1 && !self.out.ends_with("{\n");
        let blank_line = std::mem::take(&mut self.apart) || keep_blank_line;
        if blank_line && !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }
}
