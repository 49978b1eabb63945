//! Parameters of a function: `(.param .u64 .ptr .align 1 a, .param .align 4 .b8 b[8])`.

use super::text::Text;
use crate::ast::{Attributes, Linkage, PointerAttribute, Space, Variable};
use crate::names::Type;
use crate::parse::space::space;

/// The parameters in the parentheses that open at `start`, and the end of the list. Compilers
/// begin their names with that of the function.
pub fn parameters<'a>(
    source: &'a str,
    start: usize,
    function: &'a str,
) -> Option<(Vec<Variable<'a>>, usize)> {
    const USUAL: usize = 8;
    let mut text = Text {
        function,
        ..Text::new(source, start + 1)
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

#[cfg(test)]
mod tests {
    use crate::parse::read;

    #[test]
    fn parameters_are_read_as_by_the_parsers_of_tokens() {
        for list in [
            "(.param .u64 a)",
            "(\n\t.param .u64 k_param_0,\n\t.param .align 4 .b8 k_param_1[8]\n)",
            "( .param .u64 .ptr .align 1 a , .param .f32 b )",
            "(.param .u64 .ptr a, .param .u64 .ptr .global .align 16 b)",
            "(.param .u64 .ptr .shared b)",
            "(.param .u64 .ptr .const b)",
            "(.param .u64 .ptr .global .local b)",
            "(.param .u64 .ptr .align a)",
            "(.param .u64 .align 8 a)",
            "(.align 8 .param .u64 a)",
            "(.param .param .u64 a)",
            "(.param .u64)",
            "(.param a)",
            "(.u64 a)",
            "(.reg .u64 %a)",
            "(.param .v2 .f32 a)",
            "(.param .u64 k, .param .u64 k2)",
            "(.param .u64 k$)",
            "(.param .u64 k.a)",
            "(.param .u64 k\u{e9})",
            "(.param .u64 _)",
            "(.param .u64 WARP_SZ)",
            "(.param .u64 %a)",
            "(.param .u64 function_name)",
            "(.param .b8 a[])",
            "(.param .b8 a[08])",
            "(.param .b8 a[0x10])",
            "(.param .b8 a[2][3])",
            "(.param .b8 a [2])",
            "(.param .b8 a[ 2 ])",
            "(.param .align 3 .b8 a[2])",
            "(.param .align 4294967296 .b8 a[2])",
            "(.param .u64 a,)",
            "(.param .u64 a .param .u64 b)",
            "(.param .u64 a; .param .u64 b)",
            "(.param .u64 a // the first\n, .param .u64 b)",
            "(.param .u64 a\u{e9})",
            "()",
            "(",
        ] {
            for kind in [".entry k", ".func k"] {
                let text = format!("{kind}{list}\n{{\n\tret;\n}}\n// the end\n");
                let slow = text.replace(".u64 ", ".u64\u{c}");
                let slow = slow.replace(".param ", ".param\u{c}");
                assert_eq!(read(&text), read(&slow), "{text}");
            }
        }
    }
}
