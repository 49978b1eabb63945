//! One instruction (PTX ISA, "Instruction Statements").

use nom::Err;

use super::input::{Problem, Tokens, name, text};
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
        let guard = match rest.at(TokenKind::At) {
            true => Some(guard(rest)?),
            false => None,
        };
        let word = rest.peek();
        if word.kind != TokenKind::Identifier {
            return step(rest, Problem::expected(*rest, "an instruction"));
        }
        rest.advance_to(mnemonic_end(rest.source, word.span.end));
        // White space between the words.
        while rest.at(TokenKind::Word) {
            rest.advance();
        }
        let opcode_span = rest.span_from(word.span.start);
        let mnemonic = match self.store.mnemonics.known(text(rest.source, opcode_span)) {
            Some(mnemonic) => mnemonic,
            None => self.new_mnemonic(*rest, opcode_span)?,
        };
        let (opcode, known) = match self.store.mnemonics.get(mnemonic) {
            Some(m) => (m.opcode, !m.modifiers.has(Modifier::UNKNOWN)),
            None => (Opcode::Unknown, true),
        };
        // What follows a word that is no opcode may be anything, so one report
        // has to do for the whole statement.
        let operands = if opcode == Opcode::Unknown {
            self.unknown_opcode(rest, start, word.span)
        } else {
            // Of instructions without rows in the table not all words are known.
            if !known && !isa::forms(opcode).is_empty() {
                self.unknown_modifier(opcode, rest.skip_to(word.span.end));
            }
            let operands = self.store.pool.operands(rest, opcode == Opcode::Call)?;
            if !rest.at(TokenKind::Semicolon) {
                step(rest, self.semicolon(*rest))?;
                // What has no end is not judged: its last word may be the
                // first of what follows.
                return Ok(());
            }
            rest.advance();
            operands
        };
        let operands = match guard {
            Some(guard) => self.store.pool.guard(guard, operands),
            None => operands,
        };
        self.store
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

    /// Takes up a mnemonic that is new to this module.
    fn new_mnemonic(&mut self, rest: Tokens<'_, 'a>, span: Span) -> Outcome<MnemonicId> {
        let mut words = Vec::new();
        let mut word = rest.skip_to(span.start);
        while word.passed() < span.end {
            words.push(word.word_text());
            word.advance();
        }
        let learnt = self.store.mnemonics.learn(text(rest.source, span), &words);
        learnt.map_err(|TooMany| {
            let message = "no instruction has this many modifiers";
            Err::Failure(Problem::new(span, Code::Limit, message))
        })
    }

    /// Reports the opcode at `word`, and gives the operands of the statement if
    /// it has some.
    fn unknown_opcode(&mut self, rest: &mut Tokens<'_, 'a>, start: u32, word: Span) -> List {
        self.broken = true;
        let opcode = text(rest.source, word);
        let mut after = rest.skip_to(start).skip_to(word.end);
        while after.at(TokenKind::Word) && is_modifier(after.word_text()) {
            after.advance();
        }
        let operands = self.store.pool.operands(&mut after, true);
        if let (Ok(operands), true) = (&operands, after.at(TokenKind::Semicolon)) {
            let suggests = self.report.wants_suggestions();
            self.report.add(no_opcode(opcode, word, suggests));
            *rest = after.skip();
            return *operands;
        }
        // Where it ends to be an instruction; a word alone on its line is a
        // label rather than one.
        let end = match operands {
            Err(Err::Error(problem) | Err::Failure(problem)) => problem.span,
            _ => after.peek().span,
        };
        let gap = Span {
            start: word.end,
            end: end.start,
        };
        if text(rest.source, gap).contains('\n') {
            let message = format!("expected `:` after `{opcode}`, which is no instruction");
            self.report.add(Diagnostic::new(Code::Syntax, end, message));
            *rest = rest.skip_to(start).skip_to(end.start);
        } else {
            let suggests = self.report.wants_suggestions();
            self.report.add(no_opcode(opcode, word, suggests));
            *rest = skip_statement(rest.skip_to(start));
        }
        List::default()
    }

    /// Reports the first of `words` that nothing knows.
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
            format!("no instruction has a modifier `.{word}`"),
        );
        if self.report.wants_suggestions() {
            // Of some that are as near the one that fits was meant.
            let all = Modifier::ALL.iter().map(|m| m.text());
            diagnostic.help = suggestion(word, isa::words(opcode, &before).chain(all));
        }
        self.report.add(diagnostic);
    }
}

/// Whether a word may follow an opcode: all modifiers but those that begin
/// declarations too.
fn is_modifier(word: &str) -> bool {
    word != "reg" && modifier(word).is_some()
}

fn no_opcode(opcode: &str, span: Span, suggests: bool) -> Diagnostic {
    let message = format!("no instruction is called `{opcode}`");
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
