//! Long explanations of diagnostics, each with a wrong and a fixed example.

use super::diagnostic::Code;

/// The explanation of a [`Code`].
///
/// ```
/// use ptxkit_ptx::diagnostic::Code;
/// let explanation = Code::MissingModifier.explanation();
/// assert!(explanation.wrong.contains("div.f32") && explanation.right.contains("div.rn.f32"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// A one-line summary.
    pub what: &'static str,
    /// Why ptxas rejects it, and how to fix it.
    pub why: &'static str,
    /// A module with the mistake.
    pub wrong: &'static str,
    /// The module without it.
    pub right: &'static str,
}

/// A module with a kernel of these lines.
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
    /// The explanation of this code.
    pub const fn explanation(self) -> Explanation {
        let (what, why, wrong, right) = match self {
            Code::Character => (
                "A byte that does not start a token.",
                "PTX is ASCII text: outside of comments and strings there are letters, digits, \
                 `_ $ %` and some punctuation. Other bytes often come from text copied out of a \
                 document: typographic quotes, dashes, non-breaking spaces.",
                kernel!("\tret; \u{2013}\n"),
                kernel!("\tret;\n"),
            ),
            Code::Unterminated => (
                "An unterminated comment or string.",
                "`/*` extends to the next `*/`, and comments do not nest. A string ends with `\"`. The \
                 text after an unterminated comment is lost.",
                ".version 9.0\n.target sm_90\n/* no code yet\n",
                ".version 9.0\n.target sm_90\n/* no code yet */\n",
            ),
            Code::Number => (
                "A malformed or too large number.",
                "Integers have at most 64 bits. `0f` is followed by exactly 8 and `0d` by \
                 exactly 16 hexadecimal digits, the bits of the float.",
                kernel!("\t.reg .f32 a;\n\tmov.f32 a, 0f3F80;\n\tret;\n"),
                kernel!("\t.reg .f32 a;\n\tmov.f32 a, 0f3F800000;\n\tret;\n"),
            ),
            Code::Syntax => (
                "A syntax error.",
                "The message says what was expected. Operands are separated by commas, addresses \
                 are in brackets, vectors in braces.",
                kernel!("\t.reg .b32 a;\n\tadd.s32 a, a a;\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\tadd.s32 a, a, a;\n\tret;\n"),
            ),
            Code::Semicolon => (
                "A missing `;`.",
                "Line breaks have no meaning in PTX: only a semicolon ends a statement.",
                kernel!("\t.reg .b32 a;\n\tmov.b32 a, 1\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\tmov.b32 a, 1;\n\tret;\n"),
            ),
            Code::Brace => (
                "An unmatched brace.",
                "Bodies, blocks and lists begin with `{` and end with `}`.",
                ".version 9.0\n.target sm_90\n\n.entry k()\n{\n\tret;\n",
                kernel!("\tret;\n"),
            ),
            Code::Limit => (
                "A limit of the parser is exceeded.",
                "Text that no compiler generates could exhaust memory or the stack. The limits are \
                 far above what programs need.",
                "",
                "",
            ),
            Code::MissingVersion => (
                "A missing `.version`.",
                "Every module begins with its version of the language, which determines the \
                 available instructions.",
                ".target sm_90\n\n.entry k()\n{\n\tret;\n}\n",
                kernel!("\tret;\n"),
            ),
            Code::MissingTarget => (
                "A missing `.target`.",
                "The line after `.version` names the oldest GPU architecture that the module supports.",
                ".version 9.0\n\n.entry k()\n{\n\tret;\n}\n",
                kernel!("\tret;\n"),
            ),
            Code::UnknownTarget => (
                "An unknown `.target`.",
                "A target is `sm_` with the compute capability. The suffix `a` or `f` stands for the \
                 features of one GPU or one family: `sm_80`, `sm_90a`, `sm_100f`.",
                ".version 9.0\n.target sm_9O\n\n.entry k()\n{\n\tret;\n}\n",
                kernel!("\tret;\n"),
            ),
            Code::UnknownVersion => (
                "An unknown `.version`.",
                "Not every number is a version: 1.6, 2.4 and 6.6 do not exist. A toolkit also rejects \
                 versions newer than its own.",
                ".version 6.6\n.target sm_70\n\n.entry k()\n{\n\tret;\n}\n",
                ".version 6.5\n.target sm_70\n\n.entry k()\n{\n\tret;\n}\n",
            ),
            Code::UnknownOpcode => (
                "An unknown opcode.",
                "PTX ISA 9.5 has no instruction with this first word. The help line suggests the \
                 closest one.",
                kernel!("\t.reg .b32 a;\n\tmove.b32 a, 1;\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\tmov.b32 a, 1;\n\tret;\n"),
            ),
            Code::UnknownModifier => (
                "An unknown modifier.",
                "No instruction of PTX ISA 9.5 has this modifier. The help line suggests the closest \
                 one.",
                kernel!("\t.reg .f32 a;\n\tadd.f23 a, a, a;\n\tret;\n"),
                kernel!("\t.reg .f32 a;\n\tadd.f32 a, a, a;\n\tret;\n"),
            ),
            Code::Form => (
                "A modifier that the instruction does not take, or not in this position.",
                "Each instruction has forms: valid combinations of types, rounding modes, state \
                 spaces and other modifiers. The order of modifiers is free, that of types is not: \
                 `cvt.f32.s32` converts from `.s32` to `.f32`.",
                kernel!("\t.reg .b32 a;\n\tmul.lo.sat.s32 a, a, a;\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\tmul.lo.s32 a, a, a;\n\tret;\n"),
            ),
            Code::MissingModifier => (
                "A missing modifier, such as a rounding mode or type.",
                "Some modifiers have no default: the rounding mode of a division, the low or high \
                 half of a product.",
                kernel!("\t.reg .f32 a;\n\tdiv.f32 a, a, a;\n\tret;\n"),
                kernel!("\t.reg .f32 a;\n\tdiv.rn.f32 a, a, a;\n\tret;\n"),
            ),
            Code::UnknownDirective => (
                "A directive in a wrong position.",
                "Directives belong to modules, functions or statements, and some are mutually \
                 exclusive: a block size is required (`.reqntid`) or bounded (`.maxntid`).",
                ".version 9.0\n.target sm_90\n\n.entry k()\n.maxntid 64\n.reqntid 64\n{\n\tret;\n}\n",
                ".version 9.0\n.target sm_90\n\n.entry k()\n.reqntid 64\n{\n\tret;\n}\n",
            ),
            Code::Undeclared => (
                "An undeclared name.",
                "Registers, variables and functions are declared before their use, labels anywhere \
                 in the same or an enclosing block. The scope of a name ends with the `}` of its \
                 block.",
                kernel!("\t.reg .b32 a;\n\tmov.b32 b, 1;\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\tmov.b32 a, 1;\n\tret;\n"),
            ),
            Code::Duplicate => (
                "A duplicate declaration in one scope.",
                "A block may shadow the names of enclosing blocks, but declares each name only \
                 once. `.reg .b32 %r<4>` declares `%r0` to `%r3`.",
                kernel!("\t.reg .b32 a;\n\t.reg .b64 a;\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\t{\n\t.reg .b64 a;\n\t}\n\tret;\n"),
            ),
            Code::OperandCount => (
                "A wrong number of operands.",
                "The result comes first, then the sources in the order of the instruction. The \
                 number of elements of a vector is that of `.v2`, `.v4` or the shape.",
                kernel!("\t.reg .b32 a;\n\tadd.s32 a, 1;\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\tadd.s32 a, a, 1;\n\tret;\n"),
            ),
            Code::OperandKind => (
                "An operand of a wrong kind.",
                "Results are written to registers. Sources are registers or constants. `mov` and \
                 `cvt` read special registers, `ld` reads memory, `mov` takes the address of a \
                 variable.",
                kernel!("\t.reg .b32 a;\n\tadd.u32 a, %tid.x, 1;\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\tmov.u32 a, %tid.x;\n\tadd.u32 a, a, 1;\n\tret;\n"),
            ),
            Code::OperandType => (
                "An operand of a wrong type.",
                "A register matches the type of an instruction if the width is the same and either \
                 is untyped (`.b32`), both are integers, or both are the same float type. Loads, \
                 stores and conversions accept wider registers.",
                kernel!("\t.reg .f32 a;\n\tadd.s32 a, a, 1;\n\tret;\n"),
                kernel!("\t.reg .s32 a;\n\tadd.s32 a, a, 1;\n\tret;\n"),
            ),
            Code::Guard => (
                "A guard that is not a predicate register.",
                "The guard in `@p` or `@!p` is a `.pred` register. `setp` and other instructions write it.",
                kernel!("\t.reg .b32 a;\n\t@a ret;\n"),
                kernel!("\t.reg .b32 a;\n\t.reg .pred p;\n\tsetp.ne.b32 p, a, 0;\n\t@p ret;\n"),
            ),
            Code::StateSpace => (
                "An address in a wrong state space.",
                "Only instructions of the state space in its declaration access a variable. \
                 `.const` memory and the parameters of a kernel are read-only.",
                kernel!("\t.reg .b32 a;\n\t.shared .b32 s;\n\tld.global.b32 a, [s];\n\tret;\n"),
                kernel!("\t.reg .b32 a;\n\t.shared .b32 s;\n\tld.shared.b32 a, [s];\n\tret;\n"),
            ),
            Code::Call => (
                "A call that does not match the signature of the function.",
                "The numbers and types of arguments and results of a call are those of the \
                 declaration of the function.",
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
                "A constant out of range.",
                "For example, a block has 16 barriers, numbered from 0; the thread count of a \
                 barrier is a multiple of the warp size, 32; `cp.async` copies 4, 8 or 16 bytes.",
                kernel!("\tbar.sync 16;\n\tret;\n"),
                kernel!("\tbar.sync 15;\n\tret;\n"),
            ),
            Code::VersionFloor => (
                "An instruction that needs a newer `.version`.",
                "Instructions and modifiers are introduced with a version of the language. A higher \
                 `.version` needs a driver or toolkit that supports it.",
                ".version 6.0\n.target sm_60\n\n.entry k()\n{\n\t.reg .b32 a;\n\tactivemask.b32 a;\n\tret;\n}\n",
                ".version 6.2\n.target sm_60\n\n.entry k()\n{\n\t.reg .b32 a;\n\tactivemask.b32 a;\n\tret;\n}\n",
            ),
            Code::TargetFloor => (
                "An instruction that the `.target` does not support.",
                "A `.target` supports the instructions of its GPU and of earlier ones. Features of \
                 one GPU need the suffix `a` (`sm_90a`), those of a family a suffix `f` or `a` of that \
                 family.",
                ".version 9.0\n.target sm_75\n\n.entry k()\n{\n\tcp.async.wait_all;\n\tret;\n}\n",
                ".version 9.0\n.target sm_80\n\n.entry k()\n{\n\tcp.async.wait_all;\n\tret;\n}\n",
            ),
            Code::Unresolved => (
                "A function without a definition.",
                "A module that is compiled by itself must define the functions it declares, except \
                 system calls such as `vprintf`. ptxas reports it at code generation, because a \
                 module may also be linked with others.",
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
                "Too much shared or constant memory.",
                "The limits are 49152 bytes of `.shared` variables with a size for a kernel, and \
                 65536 bytes of `.const` for a module. For more shared memory declare \
                 `.extern .shared x[]`, whose size the launch sets.",
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
        let has_example = |code: &&Code| **code != Code::Limit;
        for &code in Code::ALL.iter().filter(has_example) {
            let Explanation { wrong, right, .. } = code.explanation();
            assert_eq!(codes(wrong), [code], "{code}: {wrong}");
            assert_eq!(codes(right), [], "{code}: {right}");
        }
    }
}
