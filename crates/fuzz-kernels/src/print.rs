//! Writes a kernel as PTX.

use std::fmt::Write as _;

use crate::kernel::{
    CONSTANTS, Class, Count, Float, Function, Guard, Initial, Kernel, LOCAL_BYTES, Op, Operand,
    RESULTS_AT, Register, SHARED_BYTES, Stmt, THREAD_BYTES, Uniform,
};

/// The name of the kernel.
pub const NAME: &str = "fuzzed";

impl Kernel {
    /// The kernel as a PTX module.
    pub fn ptx(&self) -> String {
        let functions: Vec<String> = (0..self.functions.len())
            .map(|number| function(self, number))
            .collect();
        let (body, registers) = Body::print(self, &self.body, Some(0));
        let uses = |word: &str| {
            let mut texts = functions.iter().chain([&body]);
            texts.any(|text| text.contains(word))
        };
        let shared = uses("%own") || uses("%exchange") || uses("[sums");
        let mut ptx = String::from(".version 8.3\n.target sm_90\n.address_size 64\n");
        if uses("constants") {
            let values: Vec<String> = CONSTANTS.iter().map(|value| value.to_string()).collect();
            let _ = writeln!(
                ptx,
                ".const .align 16 .b32 constants[16] = {{{}}};",
                values.join(", ")
            );
        }
        if shared {
            let threads = self.threads() as usize;
            let _ = writeln!(
                ptx,
                ".shared .align 16 .b8 owned[{}];",
                threads * SHARED_BYTES
            );
            let _ = writeln!(ptx, ".shared .align 16 .b8 exchanged[{}];", threads * 8);
            let _ = writeln!(ptx, ".shared .align 16 .b8 sums[32];");
        }
        for function in functions {
            ptx += &function;
        }
        ptx += &format!(
            ".visible .entry {NAME}(.param .u64 in, .param .u64 out, .param .u64 totals,\n    \
             .param .u32 u0, .param .u32 u1, .param .u32 u2, .param .u32 u3)\n{{\n{registers}"
        );
        ptx += "ld.param.u64 %in, [in];\nld.param.u64 %slot, [out];\nld.param.u64 %totals, [totals];\n";
        for number in 0..4 {
            let _ = writeln!(ptx, "ld.param.u32 %u{number}, [u{number}];");
        }
        ptx += &threads(&body, shared);
        let _ = write!(
            ptx,
            "mov.u32 %sr0, %ctaid.x;\nmad.lo.u32 %sr0, %sr0, %threads, %me;\n\
             mad.wide.u32 %slot, %sr0, {THREAD_BYTES}, %slot;\n"
        );
        // The lanes of the warp that the block has.
        ptx += "and.b32 %sr0, %me, 0xffffffe0;\nsub.u32 %sr0, %threads, %sr0;\n\
                min.u32 %sr0, %sr0, 32;\nsub.u32 %sr0, 32, %sr0;\nmov.b32 %m0, -1;\nshr.u32 %m0, %m0, %sr0;\n";
        if body.contains("%local") {
            ptx += &local();
        }
        if shared {
            ptx += "setp.eq.u32 %sp0, %me, 0;\n\
                    @%sp0 st.shared.v4.b32 [sums], {0, 0, 0, 0};\n\
                    @%sp0 st.shared.v4.b32 [sums+16], {0, 0, 0, 0};\n\
                    st.shared.v4.b32 [%own], {%me, 1, -1, %me};\n\
                    st.shared.v4.b32 [%own+16], {%me, 0x3f800000, 0, 7};\n\
                    st.shared.v2.b32 [%exchange], {%me, 3};\n\
                    bar.sync 0;\n";
        }
        for &(register, initial) in &self.initial {
            if body.contains(&name(register)) {
                first(&mut ptx, register, initial);
            }
        }
        ptx += &body;
        results(&mut ptx, &body);
        ptx += "ret;\n}\n";
        ptx
    }
}

/// The registers whose values are results: those that the body names.
pub fn results_of(kernel: &Kernel) -> Vec<Register> {
    let (body, _) = Body::print(kernel, &kernel.body, Some(0));
    let registers = Class::ALL
        .into_iter()
        .flat_map(|class| (0..class.count()).map(move |number| Register { class, number }));
    registers
        .filter(|&register| body.contains(&name(register)))
        .collect()
}

/// The number of the thread, and addresses that depend on it.
fn threads(body: &str, shared: bool) -> String {
    let mut text = String::from(
        "mov.u32 %sr0, %tid.x;\nmov.u32 %sr1, %tid.y;\nmov.u32 %sr2, %ntid.x;\n\
         mov.u32 %threads, %ntid.y;\nmad.lo.u32 %me, %sr1, %sr2, %sr0;\n\
         mul.lo.u32 %threads, %threads, %sr2;\n",
    );
    if shared {
        let _ = write!(
            text,
            "mov.u32 %own, owned;\nmad.lo.u32 %own, %me, {SHARED_BYTES}, %own;\n\
             mov.u32 %exchanges, exchanged;\nmad.lo.u32 %exchange, %me, 8, %exchanges;\n"
        );
    }
    if body.contains("%local") {
        text += "mov.u32 %local, locals;\n";
    }
    text
}

/// The first values of the array in local memory.
fn local() -> String {
    (0..LOCAL_BYTES / 16)
        .map(|n| {
            format!(
                "st.local.v4.b32 [%local+{}], {{%me, {n}, -1, 0x3f800000}};\n",
                n * 16
            )
        })
        .collect()
}

fn first(ptx: &mut String, register: Register, initial: Initial) {
    let name = name(register);
    let predicate = register.class == Class::Predicate;
    let (load, to) = match register.class {
        Class::Half => ("b16", &*name),
        Class::Word => ("b32", &*name),
        Class::Double => ("b64", &*name),
        Class::Predicate => ("b32", "%sr1"),
    };
    let _ = match initial {
        Initial::Constant(value) if register.class == Class::Half => {
            writeln!(ptx, "mov.b16 {to}, {};", value as u16)
        }
        Initial::Constant(value) => writeln!(ptx, "mov.{load} {to}, {value:#x};"),
        Initial::Thread(factor, summand) => {
            let _ = writeln!(ptx, "mad.lo.u32 %sr1, %me, {factor}, {summand};");
            match register.class {
                Class::Half => writeln!(ptx, "cvt.u16.u32 {to}, %sr1;"),
                Class::Word => writeln!(ptx, "mov.b32 {to}, %sr1;"),
                Class::Double => writeln!(ptx, "cvt.s64.s32 {to}, %sr1;"),
                Class::Predicate => Ok(()),
            }
        }
        Initial::Input(offset) => writeln!(
            ptx,
            "mad.wide.u32 %sd0, %me, 8, %in;\nld.global.{load} {to}, [%sd0+{offset}];"
        ),
    };
    if predicate {
        let _ = writeln!(ptx, "and.b32 %sr1, %sr1, 1;\nsetp.ne.u32 {name}, %sr1, 0;");
    }
}

/// Stores the registers of the body behind the memory of the thread.
fn results(ptx: &mut String, body: &str) {
    let mut at = RESULTS_AT;
    for class in Class::ALL {
        let (kind, bytes) = match class {
            Class::Word => ("b32", 4),
            Class::Double => ("b64", 8),
            Class::Half => ("b16", 2),
            Class::Predicate => ("b8", 1),
        };
        for number in 0..class.count() {
            let mut from = name(Register { class, number });
            let to = at;
            at += bytes;
            if !body.contains(&from) {
                continue;
            }
            if class == Class::Predicate {
                let _ = writeln!(ptx, "selp.b32 %sr0, 1, 0, {from};");
                from = "%sr0".to_owned();
            }
            let _ = writeln!(ptx, "st.global.{kind} [%slot+{to}], {from};");
        }
    }
}

fn function(kernel: &Kernel, number: usize) -> String {
    let Function {
        body,
        recursive,
        warp,
    } = &kernel.functions[number];
    let (body, registers) = Body::print(kernel, body, warp.then_some(0));
    let shared = body.contains("%own") || body.contains("%exchange") || body.contains("[sums");
    let mut ptx = format!(
        ".func (.param .align 8 .b8 result[16]) f{number}(.param .align 8 .b8 values[24],\n    \
         .param .b32 depth, .param .b32 mask, .param .b64 in, .param .b64 slot, .param .b64 totals)\n{{\n{registers}\
         ld.param.b64 %in, [in];\nld.param.b64 %slot, [slot];\nld.param.b64 %totals, [totals];\n\
         ld.param.b32 %depth, [depth];\nld.param.b32 %m0, [mask];\n"
    );
    ptx += &threads(&body, shared);
    if body.contains("%local") {
        ptx += &local();
    }
    ptx += "ld.param.b32 %r0, [values];\nld.param.b16 %h0, [values+4];\nld.param.b64 %d0, [values+8];\n\
            ld.param.b32 %r1, [values+16];\n";
    for class in Class::ALL {
        let taken = match class {
            Class::Word => 2,
            Class::Half | Class::Double => 1,
            Class::Predicate => 0,
        };
        for number in taken..class.count() {
            let name = name(Register { class, number });
            if !body.contains(&name) {
                continue;
            }
            let value = (number as u32).wrapping_mul(0x3779_79B9);
            let _ = match class {
                Class::Word => writeln!(ptx, "xor.b32 {name}, %r0, {value:#x};"),
                Class::Double => writeln!(ptx, "xor.b64 {name}, %d0, {value:#x};"),
                Class::Half => writeln!(ptx, "xor.b16 {name}, %h0, {};", value as u16),
                Class::Predicate => writeln!(
                    ptx,
                    "and.b32 %sr0, %r1, {};\nsetp.ne.u32 {name}, %sr0, 0;",
                    1 << number
                ),
            };
        }
    }
    ptx += &body;
    if *recursive {
        ptx += "setp.eq.u32 %sp0, %depth, 0;\n@%sp0 bra RETURN;\nsub.u32 %depth, %depth, 1;\n";
        call(&mut ptx, number, [0, 0, 0], [2, 1], "%depth", "%m0");
        ptx += "xor.b32 %r0, %r0, %r2;\nadd.u64 %d0, %d0, %d1;\n";
    }
    ptx += "RETURN:\nst.param.b32 [result], %r0;\nst.param.b64 [result+8], %d0;\nret;\n}\n";
    ptx
}

fn call(
    ptx: &mut String,
    function: usize,
    [word, half, double]: [usize; 3],
    [to_word, to_double]: [usize; 2],
    depth: &str,
    mask: &str,
) {
    let _ = write!(
        ptx,
        "{{\n.param .align 8 .b8 from[16];\n.param .align 8 .b8 a[24];\n.param .b32 b;\n\
         .param .b32 c;\n.param .b64 d;\n.param .b64 e;\n.param .b64 f;\n\
         st.param.b32 [a], %r{word};\nst.param.b16 [a+4], %h{half};\nst.param.b64 [a+8], %d{double};\n\
         st.param.b32 [a+16], %me;\nst.param.b32 [b], {depth};\nst.param.b32 [c], {mask};\n\
         st.param.b64 [d], %in;\nst.param.b64 [e], %slot;\nst.param.b64 [f], %totals;\n\
         call (from), f{function}, (a, b, c, d, e, f);\n\
         ld.param.b32 %r{to_word}, [from];\nld.param.b64 %d{to_double}, [from+8];\n}}\n"
    );
}

/// The name of a register.
pub fn name(register: Register) -> String {
    format!("{}{}", register.class.prefix(), register.number)
}

fn operand(operand: &Operand) -> String {
    match *operand {
        Operand::Register(register) => name(register),
        Operand::Integer(value) => match value {
            0..1000 => value.to_string(),
            _ => format!("{value:#x}"),
        },
        Operand::Float(bits) => format!("0f{bits:08X}"),
        Operand::Double(bits) => format!("0d{bits:016X}"),
    }
}

fn predicate(guard: Guard) -> String {
    format!(
        "{}%p{}",
        if guard.negated { "!" } else { "" },
        guard.predicate
    )
}

/// The instructions of an operation, without guards and NaNs, with operands in their places.
pub fn instructions(op: &Op, mask: &str) -> Vec<(bool, String)> {
    let line = |line: &String| {
        let mut text = line.replace("$m", mask);
        // From the last, so that `$1` is not part of `$10`.
        for (number, of) in op.operands.iter().enumerate().rev() {
            text = text.replace(&format!("${number}"), &operand(of));
        }
        match text.strip_prefix('?') {
            Some(guarded) => (true, guarded.to_owned()),
            None => (false, text),
        }
    };
    op.text.iter().map(line).collect()
}

/// The statements of a function, as text.
struct Body<'k> {
    kernel: &'k Kernel,
    text: String,
    /// The number of constructs so far, for labels.
    labels: usize,
    /// The most masks and loops inside one another.
    depth: usize,
}

impl<'k> Body<'k> {
    /// The text and the declarations of the registers. `mask`: the number of the register with
    /// the mask of the lanes that enter.
    fn print(kernel: &'k Kernel, statements: &[Stmt], mask: Option<usize>) -> (String, String) {
        let mut body = Body {
            kernel,
            text: String::new(),
            labels: 0,
            depth: 0,
        };
        body.list(statements, mask, 0);
        let depth = body.depth + 1;
        let mut registers = String::new();
        for class in Class::ALL {
            let (kind, prefix) = match class {
                Class::Half => (".b16", "%h"),
                Class::Word => (".b32", "%r"),
                Class::Double => (".b64", "%d"),
                Class::Predicate => (".pred", "%p"),
            };
            let _ = writeln!(registers, ".reg {kind} {prefix}<{}>;", class.count());
        }
        let _ = write!(
            registers,
            ".reg .b32 %sr<5>;\n.reg .b64 %sd<3>;\n.reg .b16 %sh<2>;\n.reg .pred %sp<4>;\n\
             .reg .b32 %m<{depth}>;\n.reg .b32 %l<{depth}>;\n.reg .b32 %c<{depth}>;\n.reg .pred %lp<{depth}>;\n\
             .reg .b32 %me, %threads, %own, %exchange, %exchanges, %local, %depth, %u<4>;\n\
             .reg .b64 %in, %slot, %totals;\n"
        );
        if body.text.contains("%local") {
            let _ = writeln!(registers, ".local .align 16 .b8 locals[{LOCAL_BYTES}];");
        }
        (body.text, registers)
    }

    fn line(&mut self, line: impl AsRef<str>) {
        self.text += line.as_ref();
        self.text += "\n";
    }

    fn label(&mut self) -> usize {
        self.labels += 1;
        self.labels
    }

    fn list(&mut self, statements: &[Stmt], mask: Option<usize>, depth: usize) {
        self.depth = self.depth.max(depth);
        for statement in statements {
            self.statement(statement, mask, depth);
        }
    }

    fn statement(&mut self, statement: &Stmt, mask: Option<usize>, depth: usize) {
        let inside = depth + 1;
        match statement {
            Stmt::Op(op) => self.op(op, mask),
            Stmt::UniformIf(condition, body) => {
                let n = self.label();
                match condition {
                    Uniform::Parameter(parameter, value) => {
                        self.line(format!("setp.lt.u32 %lp{depth}, %u{parameter}, {value};"));
                    }
                    Uniform::AnyOfBlock(predicate) => {
                        self.line(format!("bar.red.or.pred %lp{depth}, 0, %p{predicate};\nnot.pred %lp{depth}, %lp{depth};"));
                    }
                }
                self.line(format!("@%lp{depth} bra.uni END{n};"));
                self.list(body, mask, inside);
                self.line(format!("END{n}:"));
            }
            Stmt::If {
                condition,
                masked,
                then,
                otherwise,
            } => {
                let n = self.label();
                let outer = mask.filter(|_| *masked);
                if let Some(outer) = outer {
                    self.line(format!(
                        "vote.sync.ballot.b32 %m{inside}, {}, %m{outer};",
                        predicate(*condition)
                    ));
                }
                let skip = predicate(Guard {
                    negated: !condition.negated,
                    ..*condition
                });
                let inner = outer.map(|_| inside);
                let to = if otherwise.is_empty() { "END" } else { "ELSE" };
                self.line(format!("@{skip} bra {to}{n};"));
                self.list(then, inner, inside);
                if !otherwise.is_empty() {
                    self.line(format!("bra END{n};\nELSE{n}:"));
                    if let Some(outer) = outer {
                        self.line(format!("xor.b32 %m{inside}, %m{inside}, %m{outer};"));
                    }
                    self.list(otherwise, inner, inside);
                }
                self.line(format!("END{n}:"));
            }
            Stmt::Loop(count, body) => self.counted_loop(*count, body, mask, depth),
            Stmt::Switch {
                selector,
                masked,
                arms,
            } => {
                let n = self.label();
                self.line(format!("rem.u32 %c{depth}, %r{selector}, {};", arms.len()));
                let outer = mask.filter(|_| *masked);
                if let Some(outer) = outer {
                    self.line(format!(
                        "match.any.sync.b32 %m{inside}, %c{depth}, %m{outer};"
                    ));
                }
                let names: Vec<String> =
                    (0..arms.len()).map(|arm| format!("ARM{n}_{arm}")).collect();
                self.line(format!("TARGETS{n}: .branchtargets {};", names.join(", ")));
                self.line(format!("brx.idx %c{depth}, TARGETS{n};"));
                for (arm, name) in arms.iter().zip(&names) {
                    self.line(format!("{name}:"));
                    self.list(arm, outer.map(|_| inside), inside);
                    self.line(format!("bra END{n};"));
                }
                self.line(format!("END{n}:"));
                self.converge(mask);
            }
            Stmt::Irreducible {
                entry,
                count,
                first,
                second,
            } => {
                let n = self.label();
                self.line(format!(
                    "mov.u32 %l{depth}, 0;\nand.b32 %c{depth}, %r{count}, 3;"
                ));
                self.line(format!("@{} bra SECOND{n};\nFIRST{n}:", predicate(*entry)));
                self.list(first, None, inside);
                self.line(format!("SECOND{n}:"));
                self.list(second, None, inside);
                self.line(format!(
                    "add.u32 %l{depth}, %l{depth}, 1;\nsetp.le.u32 %lp{depth}, %l{depth}, %c{depth};\n\
                     @%lp{depth} bra FIRST{n};"
                ));
                self.converge(mask);
            }
            Stmt::Call {
                function,
                arguments,
                results,
                depth,
            } => {
                self.line(format!("and.b32 %sr0, %r{depth}, 3;"));
                let mask = mask.map_or("0".to_owned(), |mask| format!("%m{mask}"));
                call(
                    &mut self.text,
                    *function,
                    *arguments,
                    *results,
                    "%sr0",
                    &mask,
                );
            }
            Stmt::Return(guard) => self.line(format!("@{} bra RETURN;", predicate(*guard))),
        }
    }

    /// The lanes of a warp may be apart behind code without structure, and barriers need them
    /// together.
    fn converge(&mut self, mask: Option<usize>) {
        if let Some(mask) = mask {
            self.line(format!("bar.warp.sync %m{mask};"));
        }
    }

    fn counted_loop(&mut self, count: Count, body: &[Stmt], mask: Option<usize>, depth: usize) {
        let (n, inside) = (self.label(), depth + 1);
        let (l, c, lp) = (
            format!("%l{depth}"),
            format!("%c{depth}"),
            format!("%lp{depth}"),
        );
        self.line(format!("mov.u32 {l}, 0;"));
        match count {
            Count::Constant(limit) => {
                self.line(format!("LOOP{n}:"));
                self.list(body, mask, inside);
                self.line(format!(
                    "add.u32 {l}, {l}, 1;\nsetp.lt.u32 {lp}, {l}, {limit};\n@{lp} bra LOOP{n};"
                ));
            }
            Count::Parameter(parameter) => {
                self.line(format!(
                    "LOOP{n}:\nsetp.ge.u32 {lp}, {l}, %u{parameter};\n@{lp} bra.uni END{n};"
                ));
                self.list(body, mask, inside);
                self.line(format!("add.u32 {l}, {l}, 1;\nbra.uni LOOP{n};\nEND{n}:"));
            }
            Count::Register { register, masked } => {
                let outer = mask.filter(|_| masked);
                self.line(format!("and.b32 {c}, %r{register}, 3;"));
                if let Some(outer) = outer {
                    self.line(format!("mov.b32 %m{inside}, %m{outer};"));
                }
                self.line(format!("LOOP{n}:\nsetp.ge.u32 {lp}, {l}, {c};"));
                if outer.is_some() {
                    self.line(format!(
                        "vote.sync.ballot.b32 %m{inside}, !{lp}, %m{inside};"
                    ));
                }
                self.line(format!("@{lp} bra END{n};"));
                self.list(body, outer.map(|_| inside), inside);
                self.line(format!("add.u32 {l}, {l}, 1;\nbra LOOP{n};\nEND{n}:"));
            }
        }
    }

    fn op(&mut self, op: &Op, mask: Option<usize>) {
        // No operation with a mask stands where there is none.
        let mask = format!("%m{}", mask.unwrap_or(0));
        let guard = op.guard.map(predicate);
        for (guarded, text) in instructions(op, &mask) {
            match &guard {
                Some(guard) if guarded => self.line(format!("@{guard} {text};")),
                _ => self.line(format!("{text};")),
            }
        }
        if self.kernel.nan_bits {
            return;
        }
        for &(index, float) in &op.floats {
            self.canonical(&operand(&op.operands[index]), float, op.guard);
        }
    }

    /// Replaces a NaN by the canonical one: which one an operation returns differs between
    /// processors.
    fn canonical(&mut self, register: &str, float: Float, guard: Option<Guard>) {
        let (kind, to) = match float {
            Float::F32 => ("f32", "%sp2"),
            Float::F64 => ("f64", "%sp2"),
            Float::F16 => ("f16", "%sp2"),
            Float::Bf16 => ("bf16", "%sp2"),
            Float::F16x2 => ("f16x2", "%sp2|%sp3"),
            Float::Bf16x2 => ("bf16x2", "%sp2|%sp3"),
        };
        let (and, guard) = match guard {
            None => ("", String::new()),
            Some(Guard { predicate, negated }) => {
                let copy = if negated { "not" } else { "mov" };
                self.line(format!("{copy}.pred %sp1, %p{predicate};"));
                (".and", ", %sp1".to_owned())
            }
        };
        self.line(format!(
            "setp.nan{and}.{kind} {to}, {register}, {register}{guard};"
        ));
        match float {
            Float::F32 => self.line(format!("@%sp2 mov.b32 {register}, 0x7fffffff;")),
            Float::F64 => self.line(format!("@%sp2 mov.b64 {register}, 0x7fffffffffffffff;")),
            Float::F16 | Float::Bf16 => self.line(format!("@%sp2 mov.b16 {register}, 0x7fff;")),
            Float::F16x2 | Float::Bf16x2 => self.line(format!(
                "@%sp2 or.b32 {register}, {register}, 0x7fff;\n@%sp2 and.b32 {register}, {register}, 0xffff7fff;\n\
                 @%sp3 or.b32 {register}, {register}, 0x7fff0000;\n@%sp3 and.b32 {register}, {register}, 0x7fffffff;"
            )),
        }
    }
}
