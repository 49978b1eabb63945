//! Statements in the form that compilers generate, by the fast path.

use super::fast_path::{Text, begins_statement};
use super::statement::BodyReader;
use crate::ast::{Guard, Instruction, Name, Span, Statement};
use crate::names::Opcode;

impl<'a> BodyReader<'_, 'a> {
    /// Parses statements from `start` as long as the fast path supports them. Returns the end of the last
    /// one.
    pub(super) fn fast_statements(&mut self, source: &'a str, start: usize) -> usize {
        let mut text = Text {
            function: self.function,
            ..Text::new(source, start)
        };
        let mut end = start;
        loop {
            let read = text.skip_to_token().and_then(|first| match first {
                b'a'..=b'z' | b'@' => self.fast_or_skimmed(&mut text),
                b'$' | b'_' | b'A'..=b'Z' => self.fast_label(&mut text),
                b'.' => self.fast_directive(&mut text),
                b'{' => {
                    self.open_block(text.advance());
                    Some(())
                }
                // The closing brace of the function is not parsed here.
                b'}' if self.blocks > 0 => {
                    self.close_block(text.advance());
                    Some(())
                }
                _ => None,
            });
            match read {
                Some(()) => end = text.at,
                None => return end,
            }
        }
    }

    /// An instruction, which is passed over if one like it was read before.
    fn fast_or_skimmed(&mut self, text: &mut Text<'a>) -> Option<()> {
        let mut key = None;
        if let Some(skimmer) = &mut self.skimmer {
            let start = text.at;
            skimmer.follow(&self.buffers.statements);
            key = skimmer.key(text, &self.buffers.mnemonics);
            if key.is_some_and(|key| skimmer.has(key)) {
                return Some(());
            }
            text.at = start;
        }
        self.fast_instruction(text)?;
        if let (Some(key), Some(skimmer)) = (key, &mut self.skimmer) {
            skimmer.add(key);
        }
        Some(())
    }

    #[inline]
    fn fast_instruction(&mut self, text: &mut Text<'a>) -> Option<()> {
        let start = text.at;
        let mut guard = None;
        if text.byte()? == b'@' {
            text.at += 1;
            let negated = text.byte()? == b'!';
            text.at += usize::from(negated);
            let predicate = match text.byte()? {
                b'%' => text.register()?.0,
                _ => text.declared_name()?,
            };
            if !matches!(text.byte()?, b' ' | b'\t') {
                return None;
            }
            text.skip_blanks()?;
            guard = Some(Guard { predicate, negated });
        }
        let opcode = text.at;
        let bytes = text.source.as_bytes();
        let mnemonics = &self.buffers.mnemonics;
        let mnemonic = match mnemonics.before_blank(bytes, opcode) {
            Some(mnemonic) => mnemonic,
            None => self.buffers.mnemonics.read(text.source, opcode)?,
        };
        text.at = mnemonic.end;
        text.skip_blanks()?;
        let pool = &mut self.buffers.pool;
        let mark = pool.operands.len();
        // A statement that failed leaves its operands behind.
        pool.open.clear();
        let operands = match mnemonic.opcode {
            Opcode::Call => text.call(pool),
            _ => text.operands(pool, mark),
        };
        let Some(operands) = operands else {
            pool.operands.truncate(mark);
            return None;
        };
        let operands = match guard {
            Some(guard) => pool.guard(guard, operands),
            None => operands,
        };
        self.buffers
            .statements
            .push(Statement::Instruction(Instruction {
                guarded: guard.is_some(),
                opcode: mnemonic.opcode,
                mnemonic: mnemonic.id,
                operands,
                span: text.span_from(start),
                opcode_span: Span {
                    start: opcode as u32,
                    end: mnemonic.end as u32,
                },
            }));
        Some(())
    }

    /// `$L__BB0_2:`
    fn fast_label(&mut self, text: &mut Text<'a>) -> Option<()> {
        let start = text.at;
        text.skip_name()?;
        let label = Name {
            text: text.since(start)?,
        };
        if text.byte()? != b':' || label.text == "_" {
            return None;
        }
        text.at += 1;
        let bytes = text.source.as_bytes();
        match text.next_token()? {
            // It may be the label of `.branchtargets` or a similar directive.
            (at, b'.') if matches!(bytes.get(at + 1), Some(b'b' | b'c')) => return None,
            (_, b'.') => {}
            (_, first) if begins_statement(first) => {}
            _ => return None,
        }
        self.buffers.statements.push(Statement::Label(label));
        Some(())
    }

    fn fast_directive(&mut self, text: &mut Text<'a>) -> Option<()> {
        let statements = &mut self.buffers.statements;
        let mark = statements.len();
        let start = text.at;
        let read = match text.word()? {
            "loc" => text.location(start).map(|location| {
                statements.push(Statement::Location(Box::new(location)));
            }),
            word => text.declaration(word, start, statements),
        };
        if read.is_none() {
            statements.truncate(mark);
        }
        read
    }
}
