//! One instruction (PTX ISA, "Instruction Statements").

use nom::Err;

use super::input::{SyntaxError, Tokens, name, text};
use super::mnemonic::{TooMany, modifier};
use super::operand::{Outcome, step};
use super::statement::{BodyReader, skip_statement};
use crate::ast::{Guard, Instruction, List, MnemonicId, Span, Statement};
use crate::diagnostic::{Code, Diagnostic, suggestion};
use crate::isa;
use crate::names::{Modifier, Opcode};
use crate::token::{TokenKind, mnemonic_end};

impl<'a> BodyReader<'_, 'a> {
    /// `@!p opcode.modifiers operands;`
    pub(super) fn instruction(&mut self, rest: &mut Tokens<'_, 'a>) -> Outcome<()> {
        let start = rest.peek().span.start;
        let guard = if rest.at(TokenKind::At) {
            Some(guard(rest)?)
        } else {
            None
        };
        let word = rest.peek();
        if word.kind != TokenKind::Identifier {
            return step(rest, SyntaxError::expected(*rest, "an instruction"));
        }
        rest.advance_to(mnemonic_end(rest.source, word.span.end));
        // White space between the words.
        while rest.at(TokenKind::Word) {
            rest.advance();
        }
        let opcode_span = rest.span_from(word.span.start);
        let mnemonic = match self.buffers.mnemonics.known(text(rest.source, opcode_span)) {
            Some(mnemonic) => mnemonic,
            None => self.new_mnemonic(*rest, opcode_span)?,
        };
        let (opcode, known) = match self.buffers.mnemonics.get(mnemonic) {
            Some(m) => (m.opcode, !m.modifiers.has(Modifier::UNKNOWN)),
            None => (Opcode::Unknown, true),
        };
        // The text after an unknown opcode may be anything, so report one error for the whole
        // statement.
        let operands = if opcode == Opcode::Unknown {
            self.unknown_opcode(rest, start, word.span)
        } else {
            // Instructions without rows in the table may have other words.
            if !known && !isa::forms(opcode).is_empty() {
                self.unknown_modifier(opcode, rest.skip_to(word.span.end));
            }
            let operands = self.buffers.pool.operands(rest, opcode == Opcode::Call)?;
            if !rest.at(TokenKind::Semicolon) {
                step(rest, self.semicolon(*rest))?;
                // Without an end the statement is not checked: its last word may belong to
                // the next one.
                return Ok(());
            }
            rest.advance();
            operands
        };
        let operands = match guard {
            Some(guard) => self.buffers.pool.guard(guard, operands),
            None => operands,
        };
        self.buffers
            .statements
            .push(Statement::Instruction(Instruction {
                guarded: guard.is_some(),
                opcode,
                mnemonic,
                operands,
                span: rest.span_from(start),
                opcode_span,
            }));
        Ok(())
    }

    /// Adds a mnemonic that is new to this module.
    fn new_mnemonic(&mut self, rest: Tokens<'_, 'a>, span: Span) -> Outcome<MnemonicId> {
        let mut words = Vec::new();
        let mut word = rest.skip_to(span.start);
        while word.passed() < span.end {
            words.push(word.word_text());
            word.advance();
        }
        let learnt = self
            .buffers
            .mnemonics
            .insert(text(rest.source, span), &words);
        learnt.map_err(|TooMany| {
            let message = "too many modifiers";
            Err::Failure(SyntaxError::new(span, Code::Limit, message))
        })
    }

    /// Reports the unknown opcode at `word`, and returns the operands of the statement, if any.
    fn unknown_opcode(&mut self, rest: &mut Tokens<'_, 'a>, start: u32, word: Span) -> List {
        self.broken = true;
        let opcode = text(rest.source, word);
        let mut after = rest.skip_to(start).skip_to(word.end);
        while after.at(TokenKind::Word) && is_modifier(after.word_text()) {
            after.advance();
        }
        let operands = self.buffers.pool.operands(&mut after, true);
        if let (Ok(operands), true) = (&operands, after.at(TokenKind::Semicolon)) {
            let suggests = self.report.wants_suggestions();
            self.report.add(no_opcode(opcode, word, suggests));
            *rest = after.skip();
            return *operands;
        }
        // The end of the statement, if it is an instruction; a word on a line by itself is
        // rather a label.
        let end = match operands {
            Err(Err::Error(problem) | Err::Failure(problem)) => problem.span,
            _ => after.peek().span,
        };
        let gap = Span {
            start: word.end,
            end: end.start,
        };
        if text(rest.source, gap).contains('\n') {
            let message = format!("expected `:` after `{opcode}`, which is not an instruction");
            self.report.add(Diagnostic::new(Code::Syntax, end, message));
            *rest = rest.skip_to(start).skip_to(end.start);
        } else {
            let suggests = self.report.wants_suggestions();
            self.report.add(no_opcode(opcode, word, suggests));
            *rest = skip_statement(rest.skip_to(start));
        }
        List::default()
    }

    /// Reports the first unknown one of `words`.
    #[cold]
    fn unknown_modifier(&mut self, opcode: Opcode, words: Tokens<'_, 'a>) {
        let mut rest = words;
        let mut before = Vec::new();
        while let Some(word) = modifier(rest.word_text()) {
            before.push(word);
            rest = rest.skip();
        }
        let word = rest.word_text();
        let mut diagnostic = Diagnostic::new(
            Code::UnknownModifier,
            rest.peek().span,
            format!("unknown modifier `.{word}`"),
        );
        if self.report.wants_suggestions() {
            // Among equally similar words prefer one that the instruction takes.
            let all = Modifier::ALL.iter().map(|m| m.text());
            diagnostic.help = suggestion(word, isa::words(opcode, &before).chain(all));
        }
        self.report.add(diagnostic);
    }
}

/// Whether a word may follow an opcode: all modifiers except those that also begin
/// declarations.
fn is_modifier(word: &str) -> bool {
    word != "reg" && modifier(word).is_some()
}

fn no_opcode(opcode: &str, span: Span, suggests: bool) -> Diagnostic {
    let message = format!("unknown instruction `{opcode}`");
    let mut diagnostic = Diagnostic::new(Code::UnknownOpcode, span, message);
    if suggests {
        diagnostic.help = suggestion(opcode, Opcode::ALL.iter().map(|o| o.text()));
    }
    diagnostic
}

/// `@p`, `@!p`
fn guard<'a>(rest: &mut Tokens<'_, 'a>) -> Outcome<Guard<'a>> {
    rest.advance();
    let negated = rest.at(TokenKind::Not);
    if negated {
        rest.advance();
    }
    let predicate = step(rest, name(*rest))?;
    Ok(Guard { predicate, negated })
}
