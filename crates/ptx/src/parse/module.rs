//! Top-level items of a module: directives, variables, functions.

use nom::combinator::cut;
use nom::{Err, Parser};

use super::declaration::{attributes, linkage, parameters, starts_declaration, variables};
use super::directive::{directive, function_directives, is_directive};
use super::expression::literal_number;
use super::input::{Parsed, SyntaxError, Tokens, join, keyword, name, text};
use super::statement::{BodyReader, Buffers};
use crate::ast::{
    Attributes, Body, Directive, DirectiveKind, Function, FunctionKind, Item, Linkage, Module,
    Name, Span, Version,
};
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::token::TokenKind;

/// Parses a whole module. Errors are reported and omitted from the tree.
pub fn module<'t, 'a>(input: Tokens<'t, 'a>, report: &mut Report) -> Module<'a> {
    let buffers = Buffers::for_text(input.len());
    items(input, buffers, false, report)
}

/// Parses a module, and passes over the bodies of its functions, of which the span is known, and
/// over tables of integers.
pub fn outline<'t, 'a>(input: Tokens<'t, 'a>, report: &mut Report) -> Module<'a> {
    items(input, Buffers::default(), true, report)
}

fn items<'t, 'a>(
    input: Tokens<'t, 'a>,
    buffers: Buffers<'a>,
    outline: bool,
    report: &mut Report,
) -> Module<'a> {
    let mut reader = ModuleReader {
        module: Module::default(),
        buffers,
        outline,
        report,
    };
    let mut rest = input;
    while !rest.is_empty() {
        rest = match reader.item(rest) {
            // The parsers below consume at least one token; the check guarantees
            // that the loop terminates.
            Ok((after, ())) if after.len() < rest.len() => after,
            Ok(_) => rest.skip(),
            Err(Err::Error(problem) | Err::Failure(problem)) => {
                reader.report.add(problem.diagnostic(rest.source));
                skip_item(rest)
            }
            Err(Err::Incomplete(_)) => skip_item(rest),
        };
    }
    reader.module.mnemonics = reader.buffers.mnemonics.into_list();
    reader.module
}

/// `.func (returns) name (parameters) .noreturn`, the head of a function or kernel.
fn function_head<'t, 'a>(
    start: Tokens<'t, 'a>,
    input: Tokens<'t, 'a>,
    linkage: Linkage,
) -> Parsed<'t, 'a, Function<'a>> {
    let kind = if input.at_word("entry") {
        FunctionKind::Entry
    } else {
        FunctionKind::Func
    };
    let mut rest = input.skip();
    let mut attributes = Attributes::default();
    let mut returns = Vec::new();
    if kind == FunctionKind::Func {
        if rest.at_word("attribute") {
            (rest, ()) = cut(|rest| self::attributes(rest, &mut attributes)).parse(rest.skip())?;
        }
        if rest.at(TokenKind::ParenOpen) {
            (rest, returns) = parameters(rest, "")?;
        }
    }
    let (mut rest, name) = cut(name).parse(rest)?;
    let mut params = Vec::new();
    if rest.at(TokenKind::ParenOpen) {
        (rest, params) = parameters(rest, name.text)?;
    }
    let (rest, directives) = function_directives(rest, kind)?;
    let function = Function {
        kind,
        linkage,
        attributes,
        name,
        returns,
        params,
        directives,
        body: None,
        span: start.span_to(rest),
    };
    Ok((rest, function))
}

/// `.visible .func name (parameters);` inside a function, which declares it for the rest of the
/// module.
pub fn declared_function<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Function<'a>> {
    let linkage = linkage(input.word_text());
    let head = if linkage.is_some() {
        input.skip()
    } else {
        input
    };
    if !head.at_word("func") {
        return SyntaxError::expected(head, "`}`");
    }
    let (rest, function) = function_head(input, head, linkage.unwrap_or_default())?;
    match rest.peek().kind {
        TokenKind::Semicolon => Ok((rest.skip(), function)),
        // The body of another function: this one is not closed.
        _ => SyntaxError::expected(rest, "`;`, or `}` before this function"),
    }
}

/// Whether the next token only occurs outside function bodies.
pub fn starts_module_item(input: Tokens<'_, '_>) -> bool {
    input.at(TokenKind::Word)
        && matches!(
            input.word_text(),
            "version"
                | "target"
                | "address_size"
                | "entry"
                | "func"
                | "visible"
                | "alias"
                | "extern"
        )
}

/// Skips to the next word that can begin an item, past all braces. Semicolons do not count:
/// after a missing brace the following text is statements.
fn skip_item<'t, 'a>(input: Tokens<'t, 'a>) -> Tokens<'t, 'a> {
    let mut rest = input.skip();
    let mut braces = 0_u32;
    let mut statement_ended = false;
    loop {
        let kind = rest.peek().kind;
        match kind {
            TokenKind::End => return rest,
            TokenKind::BraceOpen => braces += 1,
            TokenKind::BraceClose => braces = braces.saturating_sub(1),
            TokenKind::Word if starts_module_item(rest) => return rest,
            TokenKind::Word if braces == 0 && is_directive(rest.word_text()) => return rest,
            // Otherwise `.shared` and `.weak` are modifiers.
            TokenKind::Word
                if statement_ended && braces == 0 && starts_variable(rest.word_text()) =>
            {
                return rest;
            }
            _ => {}
        }
        statement_ended = matches!(kind, TokenKind::Semicolon | TokenKind::BraceClose);
        rest = rest.skip();
    }
}

/// Whether an item may begin here, or the text ends.
fn ends_item(input: Tokens<'_, '_>) -> bool {
    let word = input.word_text();
    input.is_empty()
        || is_directive(word)
        || linkage(word).is_some()
        || starts_declaration(word)
        || matches!(word, "entry" | "func")
}

fn starts_variable(word: &str) -> bool {
    linkage(word).is_some() || matches!(word, "global" | "const" | "shared" | "tex")
}

struct ModuleReader<'r, 'a> {
    module: Module<'a>,
    buffers: Buffers<'a>,
    /// Bodies and tables of integers are passed over.
    outline: bool,
    report: &'r mut Report,
}

impl<'a> ModuleReader<'_, 'a> {
    fn item<'t>(&mut self, input: Tokens<'t, 'a>) -> Parsed<'t, 'a, ()> {
        match input.peek().kind {
            TokenKind::Word => {}
            TokenKind::At if input.peek_at(1).kind == TokenKind::At => return self.dwarf(input),
            TokenKind::BraceClose => {
                return SyntaxError::fatal(input.peek().span, Code::Brace, "unmatched `}`");
            }
            _ => return SyntaxError::expected(input, "a directive such as `.visible .entry`"),
        }
        match input.word_text() {
            "version" => self.version(input),
            "target" => self.target(input),
            "address_size" => self.address_size(input),
            word if is_directive(word) => {
                let (rest, directive) = cut(directive).parse(input).inspect_err(|_| {
                    // There is debug information, although it has errors.
                    if word == "section" {
                        self.module.items.push(Item::Directive(Directive {
                            kind: DirectiveKind::Section { labels: false },
                            text: "",
                            span: input.peek().span,
                        }));
                    }
                })?;
                self.module.items.push(Item::Directive(directive));
                Ok((rest, ()))
            }
            _ => self.declaration(input),
        }
    }

    fn version<'t>(&mut self, input: Tokens<'t, 'a>) -> Parsed<'t, 'a, ()> {
        let number = input.skip().peek();
        let version = text(input.source, number.span)
            .split_once('.')
            .and_then(|(major, minor)| {
                Some(Version {
                    major: version_number(major)?,
                    minor: version_number(minor)?,
                })
            });
        let same_line = !text(input.source, input.span_to(input.skip().skip())).contains('\n');
        let Some(version) = version.filter(|_| same_line) else {
            let message = "expected a version such as `.version 8.5`";
            return SyntaxError::fatal(input.peek().span, Code::Syntax, message);
        };
        let rest = input.skip().skip();
        let span = input.span_to(rest);
        if self.module.version.is_some() {
            self.report.add(
                Diagnostic::new(Code::Duplicate, span, "duplicate `.version`")
                    .help("a module has one `.version`, on its first line"),
            );
            return Ok((rest, ()));
        }
        self.module.version = Some((version, span));
        if !self.module.target.is_empty() || !self.module.items.is_empty() {
            self.misplaced(span, "`.version` must be the first directive of a module");
        }
        Ok((rest, ()))
    }

    fn target<'t>(&mut self, input: Tokens<'t, 'a>) -> Parsed<'t, 'a, ()> {
        let (rest, words) = super::declaration::names(input.skip())?;
        match self.module.address_size {
            // If two are in the wrong order, the first is misplaced.
            Some((_, span)) if self.module.target.is_empty() => {
                self.misplaced(span, "`.address_size` must follow `.target`");
            }
            None if self.module.items.is_empty() => {}
            _ => self.misplaced(input.span_to(rest), "`.target` must follow `.version`"),
        }
        self.module.target.extend(words);
        Ok((rest, ()))
    }

    fn address_size<'t>(&mut self, input: Tokens<'t, 'a>) -> Parsed<'t, 'a, ()> {
        let (rest, size) = cut(literal_number::<u32>).parse(input.skip())?;
        let span = input.span_to(rest);
        let Ok(bits @ (32 | 64)) = u8::try_from(size) else {
            return SyntaxError::fatal(span, Code::Range, "the address size must be 32 or 64");
        };
        if self.module.address_size.is_some() {
            let twice = Diagnostic::new(Code::Duplicate, span, "duplicate `.address_size`");
            self.report.add(twice);
            return Ok((rest, ()));
        }
        self.module.address_size = Some((bits, span));
        if !self.module.items.is_empty() {
            self.misplaced(span, "`.address_size` must follow `.target`");
        }
        Ok((rest, ()))
    }

    /// `@@DWARF`, to the end of the line.
    fn dwarf<'t>(&mut self, input: Tokens<'t, 'a>) -> Parsed<'t, 'a, ()> {
        keyword("DWARF")(input.skip().skip())?;
        let start = input.peek().span.start;
        let line = input.source.get(start as usize..).unwrap_or("");
        let line = line.lines().next().unwrap_or("").trim_end();
        let span = Span {
            start,
            end: start + line.len() as u32,
        };
        self.module.items.push(Item::Directive(Directive {
            kind: DirectiveKind::Dwarf,
            text: line,
            span,
        }));
        Ok((input.skip_to(span.end), ()))
    }

    fn misplaced(&mut self, span: Span, message: &'static str) {
        self.report.add(
            Diagnostic::new(Code::Syntax, span, message)
                .help("a module begins with `.version`, `.target` and `.address_size`"),
        );
    }

    /// A variable or a function, after its linkage.
    fn declaration<'t>(&mut self, input: Tokens<'t, 'a>) -> Parsed<'t, 'a, ()> {
        let linkage = linkage(input.word_text());
        let rest = if linkage.is_some() {
            input.skip()
        } else {
            input
        };
        let linkage = linkage.unwrap_or_default();
        if rest.at(TokenKind::Word) {
            match rest.word_text() {
                // `.common` is only for variables.
                "entry" | "func" if linkage != Linkage::Common => {
                    return self.function(input, rest, linkage);
                }
                word if starts_declaration(word) => return self.variables(input, rest, linkage),
                _ => {}
            }
        }
        SyntaxError::fatal(
            rest.peek().span,
            Code::UnknownDirective,
            "expected a directive of a module, such as `.visible .entry` or `.global`",
        )
    }

    fn variables<'t>(
        &mut self,
        start: Tokens<'t, 'a>,
        input: Tokens<'t, 'a>,
        linkage: Linkage,
    ) -> Parsed<'t, 'a, ()> {
        let (rest, variables) = variables(input, linkage, self.outline)?;
        // Otherwise than before another item, this is not a variable.
        if rest.at(TokenKind::Semicolon) || rest.at(TokenKind::Word) {
            let items = variables.into_iter().map(Item::Variable);
            self.module.items.extend(items);
        }
        if rest.at(TokenKind::Semicolon) {
            return Ok((rest.skip(), ()));
        }
        // ptxas stops at the same token.
        let expected = SyntaxError::expected::<()>(rest, "`,` or `;`");
        if let Err(Err::Error(problem)) = expected {
            let mut missing = problem.diagnostic(rest.source);
            missing.code = Code::Semicolon;
            self.report.add(missing);
        }
        // The rest of the same line belongs to the error.
        let same_line = !text(rest.source, start.span_to(rest.skip())).contains('\n');
        let rest = if rest.at(TokenKind::Word) && !same_line {
            rest
        } else {
            skip_item(rest)
        };
        Ok((rest, ()))
    }

    fn function<'t>(
        &mut self,
        start: Tokens<'t, 'a>,
        input: Tokens<'t, 'a>,
        linkage: Linkage,
    ) -> Parsed<'t, 'a, ()> {
        let (rest, mut function) = function_head(start, input, linkage)?;
        let rest = self.function_body(rest, &mut function);
        function.span = join(function.span, start.span_to(rest));
        self.module.items.push(Item::Function(function));
        Ok((rest, ()))
    }

    fn function_body<'t>(
        &mut self,
        input: Tokens<'t, 'a>,
        function: &mut Function<'a>,
    ) -> Tokens<'t, 'a> {
        let next = input.peek();
        let entry = function.kind == FunctionKind::Entry;
        let declarable = match function.directives.last() {
            Some(last) => !entry && last.name != "local_maxnreg",
            None => true,
        };
        let inside = match next.kind {
            TokenKind::BraceOpen => input.skip(),
            // Only some directives are allowed on a declaration.
            TokenKind::Semicolon if declarable => {
                return input.skip();
            }
            // The semicolon after the declaration of a function is optional.
            TokenKind::Word | TokenKind::End if !entry && declarable && ends_item(input) => {
                return input;
            }
            _ => {
                self.missing_body(input, function.name);
                // A body without its `{` is still parsed as a body.
                if next.kind == TokenKind::End || starts_module_item(input) {
                    return input;
                }
                if function.linkage == Linkage::Extern {
                    return skip_item(input);
                }
                input
            }
        };
        if self.outline {
            let (rest, body) = pass_over(next.span, inside);
            function.body = Some(body);
            return rest;
        }
        let mut reader = BodyReader::new(function.name, self.report, &mut self.buffers);
        let (rest, body) = reader.body(next.span, inside);
        let declared = reader.declared.into_iter();
        self.module.items.extend(declared.map(Item::Function));
        function.body = Some(body);
        rest
    }

    fn missing_body(&mut self, input: Tokens<'_, 'a>, function: Name<'a>) {
        let span = input.peek().span;
        let found = match text(input.source, span) {
            "" => "the end of the text".to_owned(),
            found => format!("`{found}`"),
        };
        self.report.add(Diagnostic::new(
            Code::Syntax,
            span,
            format!(
                "expected `{{` or `;` after the head of `{}`, found {found}",
                function.text
            ),
        ));
    }
}

/// A body of which only the span is known, up to the brace that closes it: braces in comments
/// count too.
fn pass_over<'t, 'a>(open: Span, input: Tokens<'t, 'a>) -> (Tokens<'t, 'a>, Body<'a>) {
    let text = input.source.as_bytes();
    let mut depth = 1_u32;
    let mut braces = memchr::memchr2_iter(b'{', b'}', &text[open.end as usize..]);
    let closing = braces.find(|at| {
        match text[open.end as usize + at] {
            b'{' => depth += 1,
            _ => depth -= 1,
        }
        depth == 0
    });
    let end = closing.map_or(text.len(), |at| open.end as usize + at + 1) as u32;
    let span = Span {
        start: open.start,
        end,
    };
    let body = Body {
        span,
        ..Body::default()
    };
    (input.skip_to(end), body)
}

/// The number of a version. ptxas keeps its lower 32 bits: `9.4294967296` is 9.0.
fn version_number(digits: &str) -> Option<u8> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().unwrap_or(u64::MAX);
    is_number.then(|| u8::try_from(number as u32).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::{Initializer, Space};
    use crate::names::Type;
    use crate::parse::read;

    fn codes(source: &str) -> Vec<Code> {
        read(source).diagnostics.iter().map(|d| d.code).collect()
    }

    #[test]
    fn reads_the_head_of_a_module() {
        let reading = read(
            "// made by hand\n.version 8.5\n.target sm_90a, debug\n.address_size 64\n\
             .file 1 \"a.cu\", 12, 34\n.section .debug_str { info: .b8 1, 2\n.b64 a-b }\n\
             .alias f, g;\n.pragma \"nounroll\";",
        );
        assert_eq!(reading.diagnostics, []);
        let module = reading.module;
        assert_eq!(
            module.version.map(|v| v.0),
            Some(Version { major: 8, minor: 5 })
        );
        assert_eq!(
            module.target.iter().map(|n| n.text).collect::<Vec<_>>(),
            ["sm_90a", "debug"]
        );
        assert_eq!(module.address_size.map(|a| a.0), Some(64));
        assert_eq!(module.items.len(), 4);
    }

    #[test]
    fn reads_variables() {
        let reading = read(
            ".visible .global .align 4 .f32 x[2][3] = {{1.0, 0f3F800000, -2.5}, {0}};\n\
             .const .u64 p[] = {generic(x)+8, x+-4+8, 0xFF00(x), f};\n\
             .extern .shared .align 16 .b8 dynamic[];\n\
             .global .attribute(.managed) .v2 .u32 a, b;\n\
             .global .samplerref s = { addr_mode_0 = wrap, force_unnormalized_coords = 1 };",
        );
        assert_eq!(reading.diagnostics, []);
        let variables: Vec<_> = reading
            .module
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Variable(variable) => Some(variable),
                _ => None,
            })
            .collect();
        assert_eq!(variables.len(), 6);
        assert_eq!(variables[0].dims, [Some(2), Some(3)]);
        assert_eq!((variables[0].ty, variables[0].align), (Type::F32, Some(4)));
        let Some(Initializer::List(pointers)) = &variables[1].init else {
            panic!("{:?}", variables[1]);
        };
        assert!(matches!(
            pointers[0],
            Initializer::Address {
                generic: true,
                offset: 8,
                ..
            }
        ));
        assert!(matches!(
            pointers[1],
            Initializer::Address {
                generic: false,
                offset: 4,
                ..
            }
        ));
        assert!(matches!(
            pointers[2],
            Initializer::Address {
                mask: Some(0xFF00),
                ..
            }
        ));
        assert_eq!(
            (variables[2].space, variables[2].linkage),
            (Space::Shared, Linkage::Extern)
        );
        assert_eq!(
            (variables[4].vector, variables[4].attributes.managed),
            (2, true)
        );
    }

    #[test]
    fn reads_functions() {
        let reading = read(
            ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n\
             .visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 8 .b8 s[24])\n\
             .maxntid 256, 2, 1\n.minnctapersm 2\n.pragma \"x\";\n{ ret; }\n.func f .noreturn { trap; }",
        );
        assert_eq!(reading.diagnostics, []);
        let functions: Vec<_> = reading
            .module
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Function(function) => Some(function),
                _ => None,
            })
            .collect();
        assert_eq!(functions.len(), 3);
        assert_eq!(
            (functions[0].returns.len(), functions[0].params.len()),
            (1, 2)
        );
        let pointer = functions[1].params[0].pointer;
        assert_eq!(
            pointer.map(|p| (p.space, p.align)),
            Some((Some(Space::Global), Some(16)))
        );
        assert_eq!(functions[1].directives[0].values, [256, 2, 1]);
        assert_eq!(functions[1].directives.len(), 3);
        assert_eq!(functions[2].directives[0].name, "noreturn");
    }

    #[test]
    fn mistakes_are_one_report_each() {
        assert_eq!(codes(".version x\n.target sm_90\n"), [Code::Syntax]);
        assert_eq!(
            codes(".entry k( .param .u64 a .param .u64 b) { ret; }"),
            [Code::Syntax]
        );
        assert_eq!(
            codes(".entry k() ret; }\n.entry l() { ret; }"),
            [Code::Syntax]
        );
        assert_eq!(
            codes(".entry k() { ret;\n.visible .entry l() { ret; }"),
            [Code::Brace]
        );
        assert_eq!(
            codes(".entry k() { ret; } }\n.entry l() { ret; }"),
            [Code::Brace]
        );
        assert_eq!(codes(".global .f33 x;\n.global .f32 y;"), [Code::Syntax]);
    }
}
