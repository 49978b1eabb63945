//! What each diagnostic means at length: why it is one, and an example with
//! its mending.

use super::diagnostic::Code;

/// What a [`Code`] means.
///
/// ```
/// use ptxkit_ptx::diagnostic::Code;
/// let explanation = Code::MissingModifier.explanation();
/// assert!(explanation.wrong.contains("div.f32") && explanation.right.contains("div.rn.f32"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// One line.
    pub what: &'static str,
    /// Why ptxas refuses it, and what to do.
    pub why: &'static str,
    /// A module that has the mistake.
    pub wrong: &'static str,
    /// The same without it.
    pub right: &'static str,
}

/// A kernel of these lines.
macro_rules! kernel {
    ($body:literal) => {
        concat!(
            ".version 9.0\n.target sm_90\n\n.entry k()\n{\n",
            $body,
            "}\n"
        )
    };
}

impl Code {
    /// What it means, why, and an example.
    pub const fn explanation(self) -> Explanation {
        let (what, why, wrong, right) = match self {
            Code::Character => (
                "A byte that begins no token.",
                "PTX is ASCII text: outside of comments and strings there are letters, digits, \
                 `_ $ %` and a few marks. A byte beyond these often comes with text that was \
                 copied from a document: typographic quotes, dashes, spaces that do not break.",
                kernel!("\tret; \u{2013}\n"),
                kernel!("\tret;\n"),
            ),
            Code::Unterminated => (
                "A comment or string without an end.",
                "`/*` goes on to the next `*/`, and comments do not nest; a string ends in its \
                 line. All behind an open one is lost.",
                ".version 9.0\n.target sm_90\n/* no code yet\n",
                ".version 9.0\n.target sm_90\n/* no code yet */\n",
            ),
            Code::Number => (
                "A malformed number, or one that its place cannot hold.",
                "Integers have at most 64 bits. `0f` is followed by exactly 8 and `0d` by \
                 exactly 16 hexadecimal digits, the bits of the float.",
                kernel!("\t.reg .f32 a;\n\tmov.f32 a, 0f3F80;\n\tret;\n"),
                kernel!("\t.reg .f32 a;\n\tmov.f32 a, 0f3F800000;\n\tret;\n"),
            ),
            Code::Syntax => (
                "Something else stands where the grammar wants a certain thing.",
                "The message names what would go on here. Operands are separated by commas, \
                 addresses stand in brackets, vectors in braces.",
                kernel!("\t.reg .b32 a;\n\tadd.s32 a, a a;\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\tadd.s32 a, a, a;\n\tret;\n"),
            ),
            Code::Semicolon => (
                "A statement without its `;`.",
                "Lines mean nothing in PTX: a statement ends at its semicolon only.",
                kernel!("\t.reg .b32 a;\n\tmov.b32 a, 1\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\tmov.b32 a, 1;\n\tret;\n"),
            ),
            Code::Brace => (
                "A brace without its partner.",
                "Bodies, blocks and lists begin with `{` and end with `}`.",
                ".version 9.0\n.target sm_90\n\n.entry k()\n{\n\tret;\n",
                kernel!("\tret;\n"),
            ),
            Code::Limit => (
                "More nesting, names or bytes than this reader takes.",
                "Texts that no compiler writes could fill the memory or the stack; bounds far \
                 above what programs need keep that away.",
                "",
                "",
            ),
            Code::MissingVersion => (
                "No `.version` line.",
                "Every module begins with the version of the language that it is written in: \
                 it decides which instructions there are.",
                ".target sm_90\n\n.entry k()\n{\n\tret;\n}\n",
                kernel!("\tret;\n"),
            ),
            Code::MissingTarget => (
                "No `.target` line.",
                "The line after `.version` names the oldest GPU that the module is for.",
                ".version 9.0\n\n.entry k()\n{\n\tret;\n}\n",
                kernel!("\tret;\n"),
            ),
            Code::UnknownTarget => (
                "A `.target` that no toolkit knows.",
                "Targets are written `sm_` with the compute capability and, for what only one \
                 GPU or one family has, an `a` or `f`: `sm_80`, `sm_90a`, `sm_100f`.",
                ".version 9.0\n.target sm_9O\n\n.entry k()\n{\n\tret;\n}\n",
                kernel!("\tret;\n"),
            ),
            Code::UnknownVersion => (
                "A `.version` that no toolkit knows.",
                "Not every number was a version: 1.6, 2.4 and 6.6 never were. A later one than \
                 the toolkit's is refused, too.",
                ".version 6.6\n.target sm_70\n\n.entry k()\n{\n\tret;\n}\n",
                ".version 6.5\n.target sm_70\n\n.entry k()\n{\n\tret;\n}\n",
            ),
            Code::UnknownOpcode => (
                "A word that is no opcode.",
                "The first word of an instruction is none that PTX ISA 9.5 has; the help names \
                 the nearest.",
                kernel!("\t.reg .b32 a;\n\tmove.b32 a, 1;\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\tmov.b32 a, 1;\n\tret;\n"),
            ),
            Code::UnknownModifier => (
                "A word that is no modifier.",
                "A word behind a dot is none that any instruction of PTX ISA 9.5 has; the help \
                 names the nearest.",
                kernel!("\t.reg .f32 a;\n\tadd.f23 a, a, a;\n\tret;\n"),
                kernel!("\t.reg .f32 a;\n\tadd.f32 a, a, a;\n\tret;\n"),
            ),
            Code::Form => (
                "A modifier that its instruction does not take, or takes elsewhere.",
                "Each instruction has forms: which types, roundings, spaces and other words \
                 stand together. Modifiers may come in any order, types only in the one that the \
                 instruction has: `cvt.f32.s32` converts from `.s32` to `.f32`.",
                kernel!("\t.reg .b32 a;\n\tmul.lo.sat.s32 a, a, a;\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\tmul.lo.s32 a, a, a;\n\tret;\n"),
            ),
            Code::MissingModifier => (
                "A rounding mode, type or other modifier that must be written.",
                "What has no good default has to be said: how a division rounds, whether a \
                 product is its low or its high half.",
                kernel!("\t.reg .f32 a;\n\tdiv.f32 a, a, a;\n\tret;\n"),
                kernel!("\t.reg .f32 a;\n\tdiv.rn.f32 a, a, a;\n\tret;\n"),
            ),
            Code::UnknownDirective => (
                "A directive that its place does not take.",
                "Directives belong to modules, functions or statements, and some exclude one \
                 another: a block size is required (`.reqntid`) or bounded (`.maxntid`).",
                ".version 9.0\n.target sm_90\n\n.entry k()\n.maxntid 64\n.reqntid 64\n{\n\tret;\n}\n",
                ".version 9.0\n.target sm_90\n\n.entry k()\n.reqntid 64\n{\n\tret;\n}\n",
            ),
            Code::Undeclared => (
                "A name that nothing declares.",
                "Registers, variables and functions are declared before their use, labels \
                 anywhere in the same block or one around it. Names declared in a block are gone \
                 behind its `}`.",
                kernel!("\t.reg .b32 a;\n\tmov.b32 b, 1;\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\tmov.b32 a, 1;\n\tret;\n"),
            ),
            Code::Duplicate => (
                "A name declared twice in one scope.",
                "A block may hide the names of the blocks around it, but has each name of its \
                 own once. `.reg .b32 %r<4>` declares `%r0` to `%r3`.",
                kernel!("\t.reg .b32 a;\n\t.reg .b64 a;\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\t{\n\t.reg .b64 a;\n\t}\n\tret;\n"),
            ),
            Code::OperandCount => (
                "Too few or too many operands.",
                "The result comes first, then what is read, in the order that the instruction \
                 has. Vectors have as many elements as `.v2`, `.v4` or the shape says.",
                kernel!("\t.reg .b32 a;\n\tadd.s32 a, 1;\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\tadd.s32 a, a, 1;\n\tret;\n"),
            ),
            Code::OperandKind => (
                "An operand of a kind that its place does not take.",
                "Results go to registers. What is read is a register or a constant; special \
                 registers are read by `mov` and `cvt`, memory by `ld`, addresses of variables \
                 by `mov`.",
                kernel!("\t.reg .b32 a;\n\tadd.u32 a, %tid.x, 1;\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\tmov.u32 a, %tid.x;\n\tadd.u32 a, a, 1;\n\tret;\n"),
            ),
            Code::OperandType => (
                "An operand of a type that its instruction does not take.",
                "A register agrees with an instruction of the same width if either is of bits \
                 (`.b32`), both are integers, or both are the same float. Loads, stores and \
                 conversions take wider registers.",
                kernel!("\t.reg .f32 a;\n\tadd.s32 a, a, 1;\n\tret;\n"),
                kernel!("\t.reg .s32 a;\n\tadd.s32 a, a, 1;\n\tret;\n"),
            ),
            Code::Guard => (
                "A guard that is no predicate register.",
                "`@p` and `@!p` ask a `.pred` register, which `setp` and others write.",
                kernel!("\t.reg .b32 a;\n\t@a ret;\n"),
                kernel!("\t.reg .b32 a;\n\t.reg .pred p;\n\tsetp.ne.b32 p, a, 0;\n\t@p ret;\n"),
            ),
            Code::StateSpace => (
                "An address in another state space than the instruction says.",
                "A variable lies in the space that its declaration names, and instructions of \
                 that space reach it. `.const` memory is only read, as are the parameters of a \
                 kernel.",
                kernel!("\t.reg .b32 a;\n\t.shared .b32 s;\n\tld.global.b32 a, [s];\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\t.shared .b32 s;\n\tld.shared.b32 a, [s];\n\tret;\n"),
            ),
            Code::Call => (
                "A call that does not fit the function.",
                "A call passes as many arguments and takes as many results as the function was \
                 declared with, of the same types.",
                concat!(
                    ".version 9.0\n.target sm_90\n\n.func f(.reg .b32 x)\n{\n\tret;\n}\n\n",
                    ".entry k()\n{\n\tcall f;\n\tret;\n}\n"
                ),
                concat!(
                    ".version 9.0\n.target sm_90\n\n.func f(.reg .b32 x)\n{\n\tret;\n}\n\n",
                    ".entry k()\n{\n\t.reg .b32 a;\n\tcall f, (a);\n\tret;\n}\n"
                ),
            ),
            Code::Range => (
                "A constant outside the range that its place allows.",
                "A block has 16 barriers, numbered from 0; threads meet there in whole warps of \
                 32; `cp.async` copies 4, 8 or 16 bytes.",
                kernel!("\tbar.sync 16;\n\tret;\n"),
                kernel!("\tbar.sync 15;\n\tret;\n"),
            ),
            Code::VersionFloor => (
                "An instruction newer than the module's `.version`.",
                "Instructions and modifiers came with a version of the language. A higher \
                 `.version` has them, and needs a driver or toolkit that knows it.",
                ".version 6.0\n.target sm_60\n\n.entry k()\n{\n\t.reg .b32 a;\n\tactivemask.b32 a;\n\tret;\n}\n",
                ".version 6.2\n.target sm_60\n\n.entry k()\n{\n\t.reg .b32 a;\n\tactivemask.b32 a;\n\tret;\n}\n",
            ),
            Code::TargetFloor => (
                "An instruction that the module's `.target` does not have.",
                "What a GPU brought is there for its `.target` and later ones; what belongs to \
                 one GPU alone needs its `a` (`sm_90a`), what belongs to a family an `f` or `a` \
                 of that family.",
                ".version 9.0\n.target sm_75\n\n.entry k()\n{\n\tcp.async.wait_all;\n\tret;\n}\n",
                ".version 9.0\n.target sm_80\n\n.entry k()\n{\n\tcp.async.wait_all;\n\tret;\n}\n",
            ),
            Code::Unresolved => (
                "A function that is called and defined nowhere.",
                "A module that is compiled alone defines what it declares, but for a few \
                 functions that every program has, such as `vprintf`. It is found when code is \
                 made: a module may be linked with another.",
                concat!(
                    ".version 9.0\n.target sm_90\n.address_size 64\n\n.extern .func f();\n\n",
                    ".entry k()\n{\n\tcall f;\n\tret;\n}\n"
                ),
                concat!(
                    ".version 9.0\n.target sm_90\n.address_size 64\n\n.func f()\n{\n\tret;\n}\n\n",
                    ".entry k()\n{\n\tcall f;\n\tret;\n}\n"
                ),
            ),
            Code::TooMuchMemory => (
                "More shared or constant memory than a kernel or module can have.",
                "A kernel has 49152 bytes of `.shared` variables with a size, a module 65536 \
                 bytes of `.const`. More shared memory is had with `.extern .shared x[]`, whose \
                 size the launch says.",
                kernel!("\t.shared .b8 s[50000];\n\tret;\n"),
                kernel!("\t.shared .b8 s[49152];\n\tret;\n"),
            ),
        };
        Explanation {
            what,
            why,
            wrong,
            right,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckOptions, Level, check_with, read};

    fn codes(source: &str) -> Vec<Code> {
        let reading = read(source);
        let options = CheckOptions {
            level: Level::Codegen,
            ..CheckOptions::default()
        };
        let found = check_with(&reading.module, source, &options);
        let all = reading.diagnostics.iter().chain(&found);
        all.map(|diagnostic| diagnostic.code).collect()
    }

    #[test]
    fn examples_show_what_they_explain() {
        let shown = |code: &&Code| **code != Code::Limit;
        for &code in Code::ALL.iter().filter(shown) {
            let Explanation { wrong, right, .. } = code.explanation();
            assert_eq!(codes(wrong), [code], "{code}: {wrong}");
            assert_eq!(codes(right), [], "{code}: {right}");
        }
    }
}
