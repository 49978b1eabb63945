//! Which lines the threads of a grid execute.
//!
//! At the start of each basic block stands code that counts, and marks the thread in a word of its
//! warp; at each instruction with a guard too, under that guard. So the numbers do not depend on
//! how a device runs its warps.

use std::fmt::Write as _;

use super::Insertions;
use super::load::Loaded;
use crate::errors::of_driver;
use crate::run;
use crate::sample::Sample;
use ptxkit::driver::DeviceBuffer;
use ptxkit::ptx::ast::{FunctionKind, Modifiers, Module, Statement};
use ptxkit::ptx::diagnostic::LineIndex;
use ptxkit::ptx::isa::{self, Effect};
use ptxkit::ptx::names::Opcode;
use terminal::failure::Failure;

/// The most memory for the masks.
const MAX_MASKS: u64 = 1 << 30;
/// Threads of a warp.
pub const WARP: u64 = 32;

/// A module that counts.
#[derive(Debug)]
pub struct Instrumented {
    pub text: String,
    /// The variables for the addresses of the counters and of the masks.
    counters: String,
    masks: String,
    /// The number of counters.
    probes: usize,
    functions: Vec<FunctionProbes>,
}

#[derive(Debug)]
struct FunctionProbes {
    name: String,
    kernel: bool,
    /// Its first and last line.
    lines: (u32, u32),
    instructions: Vec<InstructionProbes>,
}

#[derive(Debug)]
struct InstructionProbes {
    line: u32,
    /// The counter of its block.
    block: usize,
    /// The counter behind its guard.
    guard: Option<usize>,
    opcode: Opcode,
    modifiers: Modifiers,
    jumps: bool,
}

/// Instruments a module without errors; `None` if it does not say the size of addresses.
pub fn instrument(module: &Module<'_>, source: &str) -> Option<Instrumented> {
    let prefix = super::prefix(source);
    let index = LineIndex::new(source);
    let mut insertions = Insertions::default();
    let (counters, masks) = (format!("{prefix}_counters"), format!("{prefix}_masks"));
    insertions.add(
        super::head_end(module)?,
        format!(
            " .visible .global .align 8 .u64 {counters}; .visible .global .align 8 .u64 {masks};"
        ),
    );
    let mut functions = Vec::new();
    let mut probes = 0;
    let mut entries = Vec::new();
    for (function, body) in super::bodies(module) {
        entries.push(body.span.start + 1);
        let mut instructions = Vec::new();
        let mut block = None;
        for statement in &body.statements {
            let instruction = match statement {
                Statement::Instruction(instruction) => instruction,
                Statement::Label(_) => {
                    block = None;
                    continue;
                }
                _ => continue,
            };
            let mut count = |guard: &str| {
                let number = probes;
                probes += 1;
                insertions.add(
                    instruction.span.start,
                    format!(
                        "{guard}red.global.add.u64 [%{prefix}_counters+{}], %{prefix}_one; \
                         {guard}red.global.or.b32 [%{prefix}_masks+{}], %{prefix}_lane; ",
                        8 * number,
                        4 * number
                    ),
                );
                number
            };
            let block_probe = *block.get_or_insert_with(|| count(""));
            let guard = body.guard(instruction).map(|guard| {
                let not = if guard.negated { "!" } else { "" };
                count(&format!("@{not}{} ", guard.predicate.text))
            });
            let mnemonic = module.mnemonic(instruction);
            let effect = isa::meaning(mnemonic.opcode, &mnemonic.modifiers).effect;
            // Behind these, fewer threads may go on.
            if matches!(
                effect,
                Effect::Jump
                    | Effect::Table
                    | Effect::Return
                    | Effect::Exit
                    | Effect::Trap
                    | Effect::Call
            ) {
                block = None;
            }
            instructions.push(InstructionProbes {
                line: index.locate(instruction.span.start).line,
                block: block_probe,
                guard,
                opcode: mnemonic.opcode,
                modifiers: mnemonic.modifiers,
                jumps: effect == Effect::Jump,
            });
        }
        functions.push(FunctionProbes {
            name: function.name.text.to_owned(),
            kernel: function.kind == FunctionKind::Entry,
            lines: (
                index.locate(function.span.start).line,
                index.locate(function.span.end).line,
            ),
            instructions,
        });
    }
    for start in entries {
        insertions.add(start, entry(&prefix, probes));
    }
    Some(Instrumented {
        text: insertions.apply(source),
        counters,
        masks,
        probes,
        functions,
    })
}

/// At the start of a function: the warp, by its number in the grid, and the thread's bit in it.
fn entry(prefix: &str, probes: usize) -> String {
    let mut code = format!(
        " .reg .b64 %{prefix}_counters, %{prefix}_masks, %{prefix}_one, %{prefix}_warp; \
         .reg .b32 %{prefix}_lane, %{prefix}_x, %{prefix}_y, %{prefix}_z; \
         ld.global.u64 %{prefix}_counters, [{prefix}_counters]; \
         ld.global.u64 %{prefix}_masks, [{prefix}_masks]; mov.u64 %{prefix}_one, 1;"
    );
    let mut add = |text: &str| {
        // Writing to a String cannot fail.
        let _ = write!(code, " {}", text.replace('@', &format!("%{prefix}_")));
    };
    // The block's number.
    add("mov.u32 @x, %ctaid.z; mov.u32 @y, %nctaid.y; mov.u32 @z, %ctaid.y;");
    add("mad.lo.u32 @x, @x, @y, @z; mov.u32 @y, %nctaid.x; mul.wide.u32 @warp, @x, @y;");
    add("mov.u32 @x, %ctaid.x; cvt.u64.u32 @one, @x; add.u64 @warp, @warp, @one;");
    // Times the warps of a block.
    add("mov.u32 @x, %ntid.x; mov.u32 @y, %ntid.y; mul.lo.u32 @x, @x, @y;");
    add("mov.u32 @y, %ntid.z; mul.lo.u32 @x, @x, @y; add.u32 @x, @x, 31; shr.u32 @x, @x, 5;");
    add("cvt.u64.u32 @one, @x; mul.lo.u64 @warp, @warp, @one;");
    // The thread's number in the block.
    add("mov.u32 @x, %tid.z; mov.u32 @y, %ntid.y; mov.u32 @z, %tid.y;");
    add("mad.lo.u32 @x, @x, @y, @z; mov.u32 @y, %ntid.x; mov.u32 @z, %tid.x;");
    add("mad.lo.u32 @x, @x, @y, @z; and.b32 @y, @x, 31; mov.u32 @lane, 1;");
    add("shl.b32 @lane, @lane, @y; shr.u32 @x, @x, 5; cvt.u64.u32 @one, @x;");
    add("add.u64 @warp, @warp, @one;");
    add(&format!(
        "mad.lo.u64 @masks, @warp, {}, @masks; mov.u64 @one, 1;",
        4 * probes
    ));
    code
}

/// How often something was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Count {
    pub executions: u64,
    /// Threads that did it at least once.
    pub threads: u64,
    /// Warps in which some threads did it and some never.
    pub partial_warps: u64,
}

/// A line with instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LineCount {
    pub line: u32,
    #[serde(flatten)]
    pub count: Count,
    /// Of a branch with a guard: how often it was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<u64>,
    /// Of the same: how often threads came to it.
    #[serde(skip)]
    pub reached: u64,
}

/// A function with its lines.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FunctionCount {
    pub name: String,
    pub kernel: bool,
    #[serde(skip)]
    pub extent: (u32, u32),
    /// The times it was entered.
    pub entered: u64,
    pub lines: Vec<LineCount>,
}

impl FunctionCount {
    /// Lines that were executed.
    pub fn covered(&self) -> usize {
        let executed = |line: &&LineCount| line.count.executions > 0;
        self.lines.iter().filter(executed).count()
    }
}

impl Instrumented {
    /// Launches the loaded kernel, and returns the counters and the masks.
    ///
    /// # Errors
    /// The grid has too many warps, or the kernel fails.
    pub fn run(&self, loaded: &Loaded, sample: &Sample) -> Result<(Vec<u64>, Vec<u32>), Failure> {
        let extents = sample.grid.iter().map(|extent| u64::from(*extent));
        let block: u64 = sample
            .block
            .iter()
            .map(|extent| u64::from(*extent))
            .product();
        let warps = extents.fold(block.div_ceil(WARP), u64::saturating_mul);
        let words = warps.saturating_mul(self.probes as u64);
        if words > MAX_MASKS / 4 {
            return Err(Failure::new(format!(
                "{warps} warps at {} places are too many to count",
                self.probes
            ))
            .help("launch fewer blocks with --grid, or remove kernels from the file"));
        }
        let (context, failed) = (loaded.context(), |error| of_driver(&error));
        let counters: DeviceBuffer<u64> =
            DeviceBuffer::zeroed(context, self.probes.max(1)).map_err(failed)?;
        // Not more than MAX_MASKS, which an address space holds.
        let masks: DeviceBuffer<u32> =
            DeviceBuffer::zeroed(context, (words as usize).max(1)).map_err(failed)?;
        loaded.set(&self.counters, counters.address())?;
        loaded.set(&self.masks, masks.address())?;
        if let Some(error) = loaded.launch(sample, |_| Ok(()))?.error {
            return Err(run::fault(&sample.kernel, &error, loaded.kind));
        }
        let counters = counters.to_vec().map_err(failed)?;
        Ok((counters, masks.to_vec().map_err(failed)?))
    }

    /// How often each instruction was executed.
    pub fn executions<'c>(
        &'c self,
        counters: &'c [u64],
    ) -> impl Iterator<Item = (Opcode, &'c Modifiers, u64)> {
        let functions = self.functions.iter();
        let instructions = functions.flat_map(|function| &function.instructions);
        instructions.map(|instruction| {
            let probe = instruction.guard.unwrap_or(instruction.block);
            let executions = counters.get(probe).copied().unwrap_or(0);
            (instruction.opcode, &instruction.modifiers, executions)
        })
    }

    /// What the counters and the masks say, for blocks of so many threads.
    pub fn counts(&self, counters: &[u64], masks: &[u32], block: u64) -> Vec<FunctionCount> {
        let warps = block.div_ceil(WARP).max(1);
        let full = |warp: u64| match block - (warp % warps) * WARP {
            rest if rest < WARP => (1_u32 << rest) - 1,
            _ => u32::MAX,
        };
        let mut of = vec![Count::default(); self.probes];
        for (number, count) in of.iter_mut().enumerate() {
            count.executions = counters.get(number).copied().unwrap_or(0);
        }
        for (warp, masks) in (0..).zip(masks.chunks_exact(self.probes.max(1))) {
            for (count, mask) in of.iter_mut().zip(masks) {
                count.threads += u64::from(mask.count_ones());
                count.partial_warps += u64::from(*mask != 0 && *mask != full(warp));
            }
        }
        self.functions
            .iter()
            .map(|function| FunctionCount {
                name: function.name.clone(),
                kernel: function.kernel,
                extent: function.lines,
                entered: function
                    .instructions
                    .first()
                    .map_or(0, |first| of[first.block].executions),
                lines: lines_of(&function.instructions, &of),
            })
            .collect()
    }
}

/// One count for each line: of several instructions the one that was executed most.
fn lines_of(instructions: &[InstructionProbes], of: &[Count]) -> Vec<LineCount> {
    let mut lines: Vec<LineCount> = Vec::new();
    for instruction in instructions {
        let reached = of[instruction.block];
        let own = instruction.guard.map(|guard| of[guard]);
        // A branch is executed by those who do not take it, too.
        let (count, taken) = if instruction.jumps {
            (reached, own.map(|own| own.executions))
        } else {
            (own.unwrap_or(reached), None)
        };
        let new = LineCount {
            line: instruction.line,
            count,
            taken,
            reached: reached.executions,
        };
        match lines.last_mut() {
            Some(last) if last.line == new.line => {
                if new.count.executions > last.count.executions {
                    last.count = new.count;
                }
                if new.taken.is_some() {
                    (last.taken, last.reached) = (new.taken, new.reached);
                }
            }
            _ => lines.push(new),
        }
    }
    lines
}
