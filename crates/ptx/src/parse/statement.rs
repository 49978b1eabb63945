//! Statements of function bodies (PTX ISA, "Syntax").

use nom::combinator::cut;
use nom::{Err, Parser};

use super::declaration::{linkage, names, parameters, starts_declaration, variables};
use super::directive::{directive, function_directives};
use super::expression::literal_number;
use super::fast_path::Skimmer;
use super::input::{Parsed, SyntaxError, Tokens, keyword, name, text, token};
use super::mnemonic::Mnemonics;
use super::module::{declared_function, starts_module_item};
use super::operand::{Outcome, Pool, offset};
use crate::ast::{
    Body, Directive, DirectiveKind, Function, FunctionKind, Inlined, Linkage, Location, Name,
    Place, Prototype, Span, Statement, Targets,
};
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::token::TokenKind;

/// The maximum nesting of blocks in ptxas 13.5.
const MAX_BLOCKS: usize = 1663;

/// Buffers that are reused from one body to the next.
#[derive(Debug, Default)]
pub struct Buffers<'a> {
    pub mnemonics: Mnemonics<'a>,
    pub(super) pool: Pool<'a>,
    pub(super) statements: Vec<Statement<'a>>,
}

impl Buffers<'_> {
    /// Reserves capacity for a text of this size, as if it were one function. Unused capacity
    /// costs nothing. Growing step by step instead may make the allocator return the memory of
    /// each module to the system, which must map and clear it again for the next one.
    pub fn for_text(bytes: usize) -> Self {
        const MAX_RESERVED: usize = 16 << 20;
        let bytes = bytes.min(MAX_RESERVED);
        let mut buffers = Buffers::default();
        // If this fails, the buffers grow on demand.
        let _ = buffers.statements.try_reserve(bytes / 32);
        let _ = buffers.pool.operands.try_reserve(bytes / 16);
        buffers
    }
}

/// Parses bodies, statement by statement.
pub struct BodyReader<'r, 'a> {
    pub(super) report: &'r mut Report,
    pub(super) buffers: &'r mut Buffers<'a>,
    /// Functions that the body declares. They become items of the module.
    pub declared: Vec<Function<'a>>,
    /// Whether the body has syntax errors.
    pub(super) broken: bool,
    /// The number of open blocks inside the body.
    pub(super) blocks: usize,
    /// The name of the function.
    pub(super) function: &'a str,
    /// Passes over instructions like others before.
    pub(super) skimmer: Option<&'r mut Skimmer<'a>>,
}

impl<'r, 'a> BodyReader<'r, 'a> {
    /// Of the function of this name.
    pub fn new(function: Name<'a>, report: &'r mut Report, buffers: &'r mut Buffers<'a>) -> Self {
        BodyReader {
            report,
            buffers,
            declared: Vec::new(),
            broken: false,
            blocks: 0,
            function: function.text,
            skimmer: None,
        }
    }

    /// Parses everything up to the brace that closes the one before `input`. Errors are reported
    /// and omitted.
    pub fn body<'t>(&mut self, open: Span, input: Tokens<'t, 'a>) -> (Tokens<'t, 'a>, Body<'a>) {
        let rest = self.statements(input);
        let body = Body {
            statements: exact(&mut self.buffers.statements),
            operands: exact(&mut self.buffers.pool.operands),
            broken: self.broken,
            span: Span {
                start: open.start,
                end: input.span_to(rest).end.max(open.end),
            },
        };
        (rest, body)
    }

    /// The same, where the body stays in the buffers.
    pub(super) fn statements<'t>(&mut self, input: Tokens<'t, 'a>) -> Tokens<'t, 'a> {
        let mut rest = input;
        loop {
            let next = rest.peek();
            match next.kind {
                TokenKind::BraceOpen => {
                    rest.advance();
                    self.open_block(next.span);
                }
                TokenKind::BraceClose => {
                    rest.advance();
                    if self.blocks == 0 {
                        break;
                    }
                    self.close_block(next.span);
                }
                _ if next.kind == TokenKind::End || starts_module_item(rest) => {
                    if rest.at_word("target") {
                        self.target(&mut rest);
                        continue;
                    }
                    let found = match declared_function(rest) {
                        Ok((after, function)) => {
                            self.declared.push(function);
                            rest = after;
                            continue;
                        }
                        Err(Err::Error(problem) | Err::Failure(problem)) => problem.span,
                        Err(Err::Incomplete(_)) => next.span,
                    };
                    let inner = self.blocks > 0;
                    let what = if inner { "a block" } else { "the function" };
                    self.broken = true;
                    self.report.add(
                        Diagnostic::new(Code::Brace, found, "expected `}` before this")
                            .help(format!("{what} above it is never closed")),
                    );
                    break;
                }
                _ => {
                    let start = next.span.start as usize;
                    match self.fast_statements(rest.source, start) {
                        end if end > start => rest.advance_to(end as u32),
                        _ => self.statement_or_skip(&mut rest),
                    }
                }
            }
        }
        rest
    }

    /// Blocks beyond the limit are matched, but omitted from the tree, because a name is looked up
    /// in all enclosing blocks.
    pub(super) fn open_block(&mut self, brace: Span) {
        self.blocks += 1;
        if self.blocks <= MAX_BLOCKS {
            self.buffers.statements.push(Statement::Begin(brace));
        } else if self.blocks == MAX_BLOCKS + 1 {
            self.report.add(Diagnostic::new(
                Code::Limit,
                brace,
                "these blocks are nested too deeply",
            ));
        }
    }

    /// A block must be open.
    pub(super) fn close_block(&mut self, brace: Span) {
        self.blocks -= 1;
        if self.blocks < MAX_BLOCKS {
            self.buffers.statements.push(Statement::End(brace));
        }
    }

    /// A `.target` is allowed here too. Elsewhere it ends skipped text.
    #[cold]
    fn target(&mut self, rest: &mut Tokens<'_, 'a>) {
        let start = *rest;
        match names(start.skip()) {
            Ok((after, words)) => {
                let span = start.span_to(after);
                let directive = Directive {
                    kind: DirectiveKind::Target(words),
                    text: text(start.source, span),
                    span,
                };
                let statement = Statement::Directive(Box::new(directive));
                self.buffers.statements.push(statement);
                *rest = after;
            }
            Err(Err::Error(problem) | Err::Failure(problem)) => {
                self.broken = true;
                self.report.add(problem.diagnostic(rest.source));
                *rest = skip_statement(start.skip());
            }
            Err(Err::Incomplete(_)) => *rest = start.skip(),
        }
    }

    fn statement_or_skip(&mut self, rest: &mut Tokens<'_, 'a>) {
        let known = self.buffers.statements.len();
        let start = rest.peek().span;
        let problem = match self.statement(rest) {
            // The parsers below consume at least one token; the check guarantees
            // that the loop terminates.
            Ok(()) if rest.passed() > start.start => return,
            Ok(()) => return rest.advance(),
            Err(Err::Error(problem) | Err::Failure(problem)) => Some(problem),
            Err(Err::Incomplete(_)) => None,
        };
        self.broken = true;
        self.buffers.statements.truncate(known);
        if let Some(problem) = problem {
            self.report.add(problem.diagnostic(rest.source));
        }
        *rest = skip_statement(rest.skip_to(start.start));
    }

    fn statement(&mut self, rest: &mut Tokens<'_, 'a>) -> Outcome<()> {
        let (after, ()) = match rest.peek().kind {
            TokenKind::Identifier if is_label(rest) => self.label(*rest)?,
            TokenKind::Identifier | TokenKind::At => return self.instruction(rest),
            TokenKind::Word => self.directive(*rest)?,
            _ => SyntaxError::expected(*rest, "a statement")?,
        };
        *rest = after;
        Ok(())
    }

    /// The semicolon after a statement. If it is missing at the end of a line, parsing continues
    /// with the next line.
    pub(super) fn semicolon<'t>(&mut self, rest: Tokens<'t, 'a>) -> Parsed<'t, 'a, ()> {
        if rest.at(TokenKind::Semicolon) {
            return Ok((rest.skip(), ()));
        }
        let gap = Span {
            start: rest.passed(),
            end: rest.peek().span.start,
        };
        let line_ends = text(rest.source, gap).contains('\n');
        if !line_ends && !matches!(rest.peek().kind, TokenKind::BraceClose | TokenKind::End) {
            return SyntaxError::expected(rest, "`,` or `;`");
        }
        self.broken = true;
        self.report.add(
            Diagnostic::new(
                Code::Semicolon,
                rest.peek().span,
                "expected `;` before this",
            )
            .help("end the statement above with `;`"),
        );
        Ok((rest, ()))
    }

    /// `name:`, with the directive of some labels.
    fn label<'t>(&mut self, input: Tokens<'t, 'a>) -> Parsed<'t, 'a, ()> {
        let (rest, name) = name(input)?;
        if name.text == "_" {
            return SyntaxError::expected(input, "a label with a name");
        }
        let after = rest.skip();
        let rest = match after.word_text() {
            "branchtargets" | "calltargets" if after.at(TokenKind::Word) => {
                let calls = after.word_text() == "calltargets";
                let (rest, targets) = cut(names).parse(after.skip())?;
                self.buffers
                    .statements
                    .push(Statement::Targets(Box::new(Targets {
                        name,
                        calls,
                        targets,
                        span: input.span_to(rest),
                    })));
                rest
            }
            "callprototype" if after.at(TokenKind::Word) => {
                cut(|rest| self.prototype(name, input, rest))
                    .parse(after.skip())?
                    .0
            }
            _ => {
                self.buffers.statements.push(Statement::Label(name));
                return Ok((after, ()));
            }
        };
        self.semicolon(rest)
    }

    /// `(returns) _ (parameters) .noreturn`
    fn prototype<'t>(
        &mut self,
        label: Name<'a>,
        start: Tokens<'t, 'a>,
        input: Tokens<'t, 'a>,
    ) -> Parsed<'t, 'a, ()> {
        let mut rest = input;
        let mut returns = Vec::new();
        if rest.at(TokenKind::ParenOpen) {
            (rest, returns) = parameters(rest, "")?;
        }
        let (mut rest, _) = keyword("_")(rest)?;
        let mut params = Vec::new();
        if rest.at(TokenKind::ParenOpen) {
            (rest, params) = parameters(rest, "")?;
        }
        let (rest, directives) = function_directives(rest, FunctionKind::Func)?;
        if let Some(registers) = directives.iter().find(|d| d.name == "local_maxnreg") {
            return SyntaxError::fatal(
                registers.span,
                Code::UnknownDirective,
                "this directive is not allowed on a prototype",
            );
        }
        self.buffers
            .statements
            .push(Statement::Prototype(Box::new(Prototype {
                name: label,
                returns,
                params,
                directives,
                span: start.span_to(rest),
            })));
        Ok((rest, ()))
    }

    fn directive<'t>(&mut self, input: Tokens<'t, 'a>) -> Parsed<'t, 'a, ()> {
        let word = input.word_text();
        if starts_declaration(word) {
            return self.variables(input);
        }
        if linkage(word).is_some() {
            // `.weak` also begins modifiers, so it does not begin an item here.
            if input.skip().at_word("func") {
                let (rest, function) = declared_function(input)?;
                self.declared.push(function);
                return Ok((rest, ()));
            }
            return SyntaxError::fatal(
                input.skip().peek().span,
                Code::UnknownDirective,
                "a declaration inside a function cannot have linkage",
            );
        }
        match word {
            "loc" => self.location(input, false),
            "loc_intermediate" => self.location(input, true),
            "pragma" => {
                let (rest, directive) = cut(directive).parse(input)?;
                self.buffers
                    .statements
                    .push(Statement::Directive(Box::new(directive)));
                Ok((rest, ()))
            }
            _ => SyntaxError::fatal(
                input.peek().span,
                Code::UnknownDirective,
                "unknown directive inside a function",
            ),
        }
    }

    fn variables<'t>(&mut self, input: Tokens<'t, 'a>) -> Parsed<'t, 'a, ()> {
        let (rest, variables) = variables(input, Linkage::None, false)?;
        self.buffers
            .statements
            .extend(variables.into_iter().map(Box::new).map(Statement::Variable));
        self.semicolon(rest)
    }

    /// `.loc 1 20 7`, and `, function_name $L__info, inlined_at 1 30 2` of
    /// inlined code.
    fn location<'t>(&mut self, input: Tokens<'t, 'a>, intermediate: bool) -> Parsed<'t, 'a, ()> {
        let (rest, place) = place(input.skip())?;
        let (rest, inlined) = match rest.peek().kind {
            TokenKind::Comma if !intermediate => cut(inlined).map(Some).parse(rest.skip())?,
            _ => (rest, None),
        };
        self.buffers
            .statements
            .push(Statement::Location(Box::new(Location {
                intermediate,
                place,
                inlined,
                span: input.span_to(rest),
            })));
        Ok((rest, ()))
    }
}

/// `1 20 7`
fn place<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Place> {
    let (rest, (file, line, column)) =
        (literal_number, literal_number, literal_number).parse(input)?;
    Ok((rest, Place { file, line, column }))
}

/// `function_name $L__info_string0+4, inlined_at 1 30 2`
fn inlined<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Inlined<'a>> {
    let (rest, _) = keyword("function_name")(input)?;
    let (rest, (function, offset)) = (name, offset).parse(rest)?;
    let (rest, _) = token(TokenKind::Comma)(rest)?;
    let (rest, _) = keyword("inlined_at")(rest)?;
    let (rest, at) = place(rest)?;
    Ok((
        rest,
        Inlined {
            function,
            offset,
            at,
        },
    ))
}

/// Takes the contents of `list` into an allocation of exact size. The list keeps its memory
/// for the next body, unless it is large.
fn exact<T>(list: &mut Vec<T>) -> Vec<T> {
    const MAX_RETAINED: usize = 1 << 16;
    if list.len() > MAX_RETAINED {
        let mut taken = std::mem::take(list);
        taken.shrink_to_fit();
        return taken;
    }
    let mut exact = Vec::with_capacity(list.len());
    exact.append(list);
    exact
}

/// Whether a colon follows the next name. For most instructions the byte after the opcode
/// already excludes it.
fn is_label(input: &Tokens<'_, '_>) -> bool {
    let end = input.peek().span.end as usize;
    match input.source.as_bytes().get(end) {
        Some(b'.' | b';') => false,
        _ => input.skip().at(TokenKind::Colon),
    }
}

/// Skips past the semicolon that ends the statement at `input`, or to the brace or module item
/// that ends it without one.
pub(super) fn skip_statement<'t, 'a>(input: Tokens<'t, 'a>) -> Tokens<'t, 'a> {
    let mut rest = input;
    let mut braces = 0_u32;
    loop {
        match rest.peek().kind {
            TokenKind::End => return rest,
            TokenKind::Semicolon => return rest.skip(),
            TokenKind::BraceOpen => braces += 1,
            TokenKind::BraceClose if braces == 0 => return rest,
            TokenKind::BraceClose => braces -= 1,
            TokenKind::Word if starts_module_item(rest) => return rest,
            _ => {}
        }
        rest = rest.skip();
    }
}

#[cfg(test)]
mod tests {
    use super::MAX_BLOCKS;
    use crate::ast::{Item, Operand, Statement};
    use crate::diagnostic::Code;
    use crate::parse::read;

    fn statements(body: &str) -> (Vec<String>, Vec<Code>) {
        let source = format!(".version 8.0\n.target sm_90\n.entry k() {{\n{body}\n}}\n");
        let reading = read(&source);
        let codes = reading.diagnostics.iter().map(|d| d.code).collect();
        let Some(Item::Function(function)) = reading.module.items.first() else {
            return (Vec::new(), codes);
        };
        let Some(body) = &function.body else {
            return (Vec::new(), codes);
        };
        let summary = body.statements.iter().map(|s| match s {
            Statement::Instruction(i) => {
                let operands = body.list(i.operands);
                let words = &reading.module.mnemonic(i).text;
                format!("{words}/{}", operands.len())
            }
            Statement::Label(name) => format!("{}:", name.text),
            Statement::Variable(v) => format!(".{:?} {}", v.space, v.name.text),
            Statement::Begin(_) => "{".into(),
            Statement::End(_) => "}".into(),
            other => format!("{other:?}")
                .chars()
                .take_while(|c| c.is_alphabetic())
                .collect(),
        });
        (summary.collect(), codes)
    }

    #[test]
    fn every_form_of_operand() {
        let (summary, codes) = statements(
            "mov.b64 {%r1, _}, %rd1; setp.lt.and.s32 %p|%q, %r1, -4, !%z;\n\
             ld.global.v2.f32 {%f1, %f2}, [%rd1+-8]; call (r), f, (a, 1), proto; call.uni g;\n\
             tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [t, {%f5, %f6}]; vadd.s32.u32.s32 %r1, %r2.b0, -%r3.h1;\n\
             mov.u32 %r1, %tid.x; mov.u64 %rd1, name+4; @!%p bra L; L: ret;",
        );
        assert_eq!(codes, []);
        assert_eq!(
            summary,
            [
                "mov.b64/2",
                "setp.lt.and.s32/4",
                "ld.global.v2.f32/2",
                "call/4",
                "call.uni/1",
                "tex.2d.v4.f32.f32/2",
                "vadd.s32.u32.s32/3",
                "mov.u32/2",
                "mov.u64/2",
                "bra/1",
                "L:",
                "ret/0"
            ]
        );
    }

    #[test]
    fn a_mistake_costs_its_statement_alone() {
        let (summary, codes) = statements(
            "add.s32 %r1, , %r2;\n  mov.u32 %r1, {%r2 %r3};\n adds.u32 %r1, %r2;\n ret;",
        );
        assert_eq!(codes, [Code::Syntax, Code::Syntax, Code::UnknownOpcode]);
        assert_eq!(summary, ["adds.u32/2", "ret/0"]);
    }

    #[test]
    fn a_forgotten_semicolon_costs_its_statement_alone() {
        let (summary, codes) = statements("mov.u32 %r1, 4\nadd.u32 %r1, %r1, 1;\nret");
        assert_eq!(codes, [Code::Semicolon, Code::Semicolon]);
        assert_eq!(summary, ["add.u32/3"]);
    }

    #[test]
    fn a_target_without_a_word_is_skipped() {
        let (summary, codes) = statements(".target; .target sm_80\n.target 1 ret;\nret;");
        assert_eq!(codes, [Code::Syntax, Code::Syntax]);
        assert_eq!(summary, ["Directive", "ret/0"]);
    }

    #[test]
    fn labels_name_tables_and_prototypes() {
        let (summary, codes) = statements(
            "t: .branchtargets A, B;\n p: .callprototype (.param .b32 _) _ (.param .b64 _);\n\
             c: .calltargets f;\n .loc 1 2 3, function_name $L, inlined_at 1 4 5\n{ .reg .b32 x, y<2>; }",
        );
        assert_eq!(codes, []);
        assert_eq!(
            summary,
            [
                "Targets",
                "Prototype",
                "Targets",
                "Location",
                "{",
                ".Reg x",
                ".Reg y",
                "}"
            ]
        );
    }

    #[test]
    fn deep_nesting_is_refused() {
        let (_, codes) = statements(&format!("mov.u32 {};", "{".repeat(10_000)));
        assert!(codes.contains(&Code::Limit));

        let blocks = |depth| format!("{} ret; {}", "{".repeat(depth), "}".repeat(depth));
        let (summary, codes) = statements(&blocks(MAX_BLOCKS));
        assert_eq!((summary.len(), codes), (2 * MAX_BLOCKS + 1, vec![]));
        let (summary, codes) = statements(&blocks(200_000));
        assert_eq!(
            (summary.len(), codes),
            (2 * MAX_BLOCKS + 1, vec![Code::Limit])
        );
    }

    #[test]
    fn lists_share_the_pool() {
        let source = ".entry k() { mov.b64 {%a, %b}, {%c, %d}; }";
        let reading = read(source);
        let Some(Item::Function(function)) = reading.module.items.first() else {
            panic!("no function in {:?}", reading.module);
        };
        let Some(body) = &function.body else {
            panic!("no body");
        };
        let Statement::Instruction(instruction) = &body.statements[0] else {
            panic!("no instruction");
        };
        let names: Vec<_> = body
            .list(instruction.operands)
            .iter()
            .flat_map(|o| match o {
                Operand::Vector(list, _) => body.list(*list),
                _ => &[],
            })
            .map(|o| match o {
                Operand::Name(name) => name.text,
                _ => "?",
            })
            .collect();
        assert_eq!(names, ["%a", "%b", "%c", "%d"]);
    }
}
