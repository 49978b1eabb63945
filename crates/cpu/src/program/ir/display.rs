//! The text of a program, for dumps and tests:
//!
//! ```text
//! kernel add (line 4), shared 0, local 0
//! block0:
//!     ld.param.u64 %rd0, [param+0]                ; line 8
//!     add.u32 %r1, %r0, 1                         ; line 9
//!     branch %p3, block1, block2
//! ```
//!
//! The prefix of a register is its class: `%p` predicates, `%rs`, `%r` and `%rd` integers of 16, 32
//! and 64 bits, `%f` and `%fd` floats.

use std::fmt::{self, Write};

use super::{
    Arg, ArgList, Base, BlockId, Guard, Instruction, Program, Reg, RegClass, Step, Storage,
    Terminator,
};
use ptx::ast::FloatValue;

/// The column of the comments with line numbers.
const COMMENT: usize = 60;

impl fmt::Display for Program<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "kernel {} (line {}), shared {}, local {}",
            self.name, self.line, self.shared_bytes, self.local_bytes
        )?;
        for (number, block) in self.blocks.iter().enumerate() {
            writeln!(f, "block{number}:")?;
            for step in &block.steps {
                let (text, line) = match step {
                    Step::Instruction(i) => (self.instruction(i), i.line),
                    Step::SystemCall {
                        call,
                        args,
                        result,
                        line,
                    } => {
                        let result = result.map(|reg| format!("{} = ", self.register(reg)));
                        let args = self.list_text(*args);
                        let text = format!("{}call {call:?}({args})", result.unwrap_or_default());
                        (text, *line)
                    }
                };
                write_line(f, &text, line)?;
            }
            let (text, line) = self.terminator(&block.terminator);
            write_line(f, &text, line)?;
        }
        Ok(())
    }
}

/// A line of a block, with the line of the PTX if there is one.
fn write_line(f: &mut fmt::Formatter<'_>, text: &str, line: u32) -> fmt::Result {
    match line {
        0 => writeln!(f, "    {text}"),
        _ => writeln!(f, "    {text:COMMENT$} ; line {line}"),
    }
}

fn block(id: BlockId) -> String {
    format!("block{}", id.0)
}

fn blocks(ids: &[BlockId]) -> String {
    let names: Vec<String> = ids.iter().map(|id| block(*id)).collect();
    format!("[{}]", names.join(", "))
}

impl Program<'_> {
    fn register(&self, reg: Reg) -> String {
        let prefix = match self.registers.get(reg.index()) {
            Some(RegClass::Pred) => "p",
            Some(RegClass::I16) => "rs",
            Some(RegClass::I32) => "r",
            Some(RegClass::I64) => "rd",
            Some(RegClass::F32) => "f",
            Some(RegClass::F64) => "fd",
            // The verifier finds it.
            None => "undeclared",
        };
        format!("%{prefix}{}", reg.0)
    }

    fn guard(&self, guard: Guard) -> String {
        let not = if guard.negated { "!" } else { "" };
        format!("{not}{}", self.register(guard.reg))
    }

    fn instruction(&self, i: &Instruction) -> String {
        let mut text = String::new();
        if let Some(guard) = i.guard {
            text = format!("@{} ", self.guard(guard));
        }
        text += i.opcode.text();
        for modifier in i.modifiers.as_slice() {
            text += ".";
            text += modifier.text();
        }
        let operands = self.list_text(i.args);
        if !operands.is_empty() {
            text += " ";
            text += &operands;
        }
        text
    }

    fn list_text(&self, list: ArgList) -> String {
        let args: Vec<String> = self.list(list).iter().map(|arg| self.arg(*arg)).collect();
        args.join(", ")
    }

    fn arg(&self, arg: Arg) -> String {
        match arg {
            Arg::Reg(reg) => self.register(reg),
            Arg::Int(value) => value.cast_signed().to_string(),
            Arg::Float(FloatValue::F32(bits)) => format!("0f{bits:08X}"),
            Arg::Float(FloatValue::F64(bits)) => format!("0d{bits:016X}"),
            Arg::Special(special) => special.text().to_owned(),
            Arg::Symbol(storage, offset) => with_offset(place(storage), offset.bytes()),
            Arg::Address(base, offset) => {
                let base = match base {
                    Base::Reg(reg) => self.register(reg),
                    Base::Storage(storage) => place(storage),
                    Base::Absolute => "0".to_owned(),
                };
                format!("[{}]", with_offset(base, offset.bytes()))
            }
            Arg::List(list) => format!("{{{}}}", self.list_text(list)),
            Arg::Not(reg) => format!("!{}", self.register(reg)),
            Arg::Select {
                reg,
                negated,
                selector,
            } => {
                let not = if negated { "-" } else { "" };
                format!("{not}{}.{}", self.register(reg), selector.text())
            }
            Arg::Sink => "_".to_owned(),
        }
    }

    /// The text of a terminator, and its line.
    fn terminator(&self, terminator: &Terminator) -> (String, u32) {
        match terminator {
            Terminator::Jump(to) => (format!("jump {}", block(*to)), 0),
            Terminator::Branch {
                predicate,
                then,
                otherwise,
            } => {
                let predicate = self.guard(*predicate);
                let text = format!(
                    "branch {predicate}, {}, {}",
                    block(*then),
                    block(*otherwise)
                );
                (text, 0)
            }
            Terminator::Table {
                index,
                targets,
                otherwise,
                line,
            } => {
                let mut text = format!("table {}, {}", self.arg(*index), blocks(targets));
                if let Some(otherwise) = otherwise {
                    let _ = write!(text, ", {}", block(*otherwise)); // a String takes all
                }
                (text, *line)
            }
            Terminator::Exit => ("exit".to_owned(), 0),
            Terminator::Fault {
                kind,
                address,
                line,
            } => {
                let address = address.map(|reg| format!(", {}", self.register(reg)));
                let text = format!("fault {kind:?}{}", address.unwrap_or_default());
                (text, *line)
            }
            Terminator::Sync { instruction, next } => {
                let text = format!("sync {}, {}", self.instruction(instruction), block(*next));
                (text, instruction.line)
            }
        }
    }
}

fn with_offset(base: String, offset: i64) -> String {
    match offset {
        0 => base,
        _ => format!("{base}{offset:+}"),
    }
}

fn place(storage: Storage) -> String {
    match storage {
        Storage::Global(n) => format!("global{n}"),
        Storage::Shared(at) => format!("shared+{at}"),
        Storage::DynamicShared => "dynamic_shared".to_owned(),
        Storage::Local(at) => format!("local+{at}"),
        Storage::Param(at) => format!("param+{at}"),
        Storage::CallParam(n) => format!("call_param{n}"),
        Storage::Stack(at) => format!("stack+{at}"),
    }
}
