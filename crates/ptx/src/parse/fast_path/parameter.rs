//! Parameters of a function: `(.param .u64 .ptr .align 1 a, .param .align 4 .b8 b[8])`.

use super::text::Text;
use crate::ast::{Attributes, Linkage, PointerAttribute, Space, Variable};
use crate::names::Type;
use crate::parse::declaration::space;

/// The parameters in the parentheses that open at `start`, and the end of the list.
pub fn parameters(source: &str, start: usize) -> Option<(Vec<Variable<'_>>, usize)> {
    const USUAL: usize = 8;
    let mut text = Text {
        source,
        at: start + 1,
    };
    let mut found = Vec::with_capacity(USUAL);
    loop {
        text.skip_blanks()?;
        found.push(text.parameter()?);
        match text.skip_blanks()? {
            b',' => text.at += 1,
            b')' => return Some((found, text.at + 1)),
            _ => return None,
        }
    }
}

impl<'a> Text<'a> {
    fn parameter(&mut self) -> Option<Variable<'a>> {
        let start = self.at;
        let space = space(self.word()?).filter(|space| *space == Space::Param)?;
        let mut word = self.word()?;
        let mut align = None;
        if word == "align" {
            align = Some(self.alignment()?);
            word = self.word()?;
        }
        let ty = Type::from_text(word)?;
        let pointer = self.pointer()?;
        let name = self.declared_name()?;
        let mut dims = Vec::new();
        if self.byte()? == b'[' {
            dims.push(Some(self.between(b']')?));
        }
        Some(Variable {
            linkage: Linkage::None,
            space,
            bank: None,
            align,
            ty,
            vector: 1,
            name,
            count: None,
            dims,
            init: None,
            pointer,
            attributes: Attributes::default(),
            span: self.span_from(start),
        })
    }

    /// `16` and the blanks after it.
    pub fn alignment(&mut self) -> Option<u32> {
        let align = u32::try_from(self.unsigned()?).ok()?;
        if !matches!(self.byte()?, b' ' | b'\t') {
            return None;
        }
        self.skip_blanks()?;
        Some(align)
    }

    /// `.ptr .global .align 16`, if it is there.
    fn pointer(&mut self) -> Option<Option<PointerAttribute>> {
        if self.byte()? != b'.' {
            return Some(None);
        }
        if self.word()? != "ptr" {
            return None;
        }
        let mut pointer = PointerAttribute {
            space: None,
            bank: None,
            align: None,
        };
        while self.byte()? == b'.' {
            match self.word()? {
                "align" => {
                    pointer.align = Some(self.alignment()?);
                    break;
                }
                _ if pointer.space.is_some() => return None,
                word => {
                    let spaces = [Space::Global, Space::Local, Space::Shared];
                    pointer.space = Some(space(word).filter(|space| spaces.contains(space))?);
                }
            }
        }
        Some(Some(pointer))
    }
}
