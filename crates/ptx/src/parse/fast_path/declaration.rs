//! Registers and variables of a function: `.reg .b32 %r<9>;`.

use super::text::Text;
use crate::ast::{Attributes, Linkage, Statement, Variable};
use crate::names::Type;
use crate::parse::space::space;

/// The maximum N of `%r<N>`. Nothing is allocated for it; ptxas 13.5 runs out of memory at
/// about twice as many.
pub const MAX_REGISTERS: u32 = 1 << 31;

impl<'a> Text<'a> {
    /// Parses a declaration after its first word, including the semicolon. On `None` some of the variables
    /// may already be among the statements.
    pub fn declaration(
        &mut self,
        word: &str,
        start: usize,
        statements: &mut Vec<Statement<'a>>,
    ) -> Option<()> {
        let space = space(word)?;
        let mut align = None;
        let mut word = self.word()?;
        if word == "align" {
            align = Some(self.alignment()?);
            word = self.word()?;
        }
        let ty = Type::from_text(word)?;
        loop {
            let mut variable = Variable {
                linkage: Linkage::None,
                space,
                bank: None,
                align,
                ty,
                vector: 1,
                name: self.declared_name()?,
                count: None,
                dims: Vec::new(),
                init: None,
                pointer: None,
                attributes: Attributes::default(),
                span: self.span_from(start),
            };
            match self.byte()? {
                b'<' => variable.count = Some(self.count()?),
                b'[' => variable.dims = vec![Some(self.between(b']')?)],
                _ => {}
            }
            variable.span = self.span_from(start);
            statements.push(Statement::Variable(Box::new(variable)));
            match self.byte()? {
                b',' => self.at += 1,
                b';' => break,
                _ => return None,
            }
            self.skip_blanks()?;
        }
        self.at += 1;
        Some(())
    }

    /// `<9>`
    fn count(&mut self) -> Option<u32> {
        let count = u32::try_from(self.between(b'>')?).ok()?;
        (count <= MAX_REGISTERS).then_some(count)
    }

    /// A number between two delimiters.
    pub fn between(&mut self, last: u8) -> Option<u64> {
        self.at += 1;
        let number = self.unsigned()?;
        if self.byte()? != last {
            return None;
        }
        self.at += 1;
        Some(number)
    }
}
