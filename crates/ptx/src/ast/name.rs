//! Names, and places in the source.

/// A range of bytes of the source, end exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Byte offset of the first byte.
    pub start: u32,
    /// Byte offset behind the last byte.
    pub end: u32,
}

/// An identifier.
///
/// Where it stands follows from its text being a part of the source, so that a
/// name takes no more than a reference: a module has millions.
///
/// ```
/// let source = ".version 8.0\n.target sm_90a\n";
/// let target = ptxkit_ptx::read(source).module.target[0];
/// assert_eq!((target.text, target.span(source).start), ("sm_90a", 21));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name<'a> {
    /// As written, with its `%` or `$`.
    pub text: &'a str,
}

impl Name<'_> {
    /// Where this mention stands, not the declaration; the start of the text
    /// if the name is none of `source`.
    pub fn span(self, source: &str) -> Span {
        let start = (self.text.as_ptr() as usize).wrapping_sub(source.as_ptr() as usize);
        match start.checked_add(self.text.len()) {
            Some(end) if end <= source.len() => Span {
                start: start as u32,
                end: end as u32,
            },
            _ => Span::default(),
        }
    }
}
