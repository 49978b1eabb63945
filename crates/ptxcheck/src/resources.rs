//! `ptxcheck resources`: the resources of each kernel that PTX declares.
//!
//! Registers are virtual registers: the assembler allocates fewer.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use serde::Serialize;

use super::texts::{no_kernel, texts_without_errors};
use ptx::ast::{
    Body, Function, Instruction, Item, Modifiers, Module, Operand, Space, Statement, Variable,
};
use ptx::isa::{self, Class};
use ptx::names::{Modifier, Opcode, Type};
use ptx::read;
use ptx::signature::{KernelSignature, after, layout, signatures};
use terminal::failure::{Failure, MISMATCHES, VERIFIED};
use terminal::output::{Format, json_line, print};

/// The arguments of `ptxcheck resources`.
#[derive(Debug, clap::Args)]
pub struct ResourcesArgs {
    /// A file with PTX; `-` is standard input
    file: PathBuf,
    /// Only this kernel
    #[arg(long, short)]
    kernel: Option<String>,
    /// The output format
    #[arg(
        long,
        visible_alias = "format",
        value_name = "FORMAT",
        value_enum,
        default_value_t
    )]
    output_format: Format,
}

/// Prints the resources, in the order of the text; returns the exit status.
///
/// # Errors
/// The file cannot be read, or has no such kernel.
pub fn run(args: &ResourcesArgs) -> Result<u8, Failure> {
    let Some(texts) = texts_without_errors(&args.file)? else {
        return Ok(MISMATCHES);
    };
    let mut kernels = Vec::new();
    for text in &texts {
        let reading = read(&text.source);
        kernels.extend(resources(&reading.module, &text.source, &text.name));
    }
    if let Some(name) = &args.kernel {
        let all: Vec<String> = kernels.iter().map(|kernel| kernel.kernel.clone()).collect();
        kernels.retain(|kernel| kernel.kernel == *name);
        if kernels.is_empty() {
            return Err(no_kernel(name, &all, &args.file));
        }
    }
    print(&match args.output_format {
        Format::Json => json_line(&kernels),
        Format::Text => kernels
            .iter()
            .map(Resources::text)
            .collect::<Vec<_>>()
            .join("\n"),
    });
    Ok(VERIFIED)
}

/// The resources of one kernel.
#[derive(Debug, Serialize)]
pub struct Resources {
    file: String,
    pub kernel: String,
    line: u32,
    parameter_bytes: u32,
    parameters: Vec<Parameter>,
    /// Of the kernel and all functions that it calls, like the next two fields.
    shared_bytes: u32,
    /// Whether the launch may add dynamic shared memory.
    dynamic_shared: bool,
    local_bytes: u64,
    constant_bytes: u64,
    /// Whether it, or a function that it calls, declares or accesses local memory.
    uses_local: bool,
    /// By type.
    registers: BTreeMap<&'static str, u64>,
    barriers: Barriers,
    /// `maxntid`, `reqntid`, `minnctapersm`, `maxnreg` …
    launch_bounds: BTreeMap<String, Vec<u32>>,
    instructions: InstructionMix,
}

#[derive(Debug, Serialize)]
struct Parameter {
    name: String,
    #[serde(rename = "type")]
    ty: String,
    offset: u32,
    size: u32,
    align: u32,
    pointer: bool,
}

/// The block-wide barriers that it uses.
#[derive(Debug, Default, Serialize)]
struct Barriers {
    numbers: BTreeSet<u64>,
    /// Whether some numbers are in a register.
    computed: bool,
}

/// The instructions of the kernel itself.
#[derive(Debug, Default, Serialize)]
struct InstructionMix {
    total: u64,
    by_class: BTreeMap<&'static str, u64>,
    by_opcode: BTreeMap<&'static str, u64>,
}

/// The resources of each kernel with a body, in the order of the text.
pub fn resources(module: &Module<'_>, source: &str, file: &str) -> Vec<Resources> {
    let functions: HashMap<&str, &Function<'_>> = functions(module)
        .filter(|function| function.body.is_some())
        .map(|function| (function.name.text, function))
        .collect();
    let variables: HashMap<&str, &Variable<'_>> = module
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Variable(variable) => Some((variable.name.text, variable)),
            _ => None,
        })
        .collect();
    let mnemonics = module.mnemonics.iter();
    let classes: Vec<_> = mnemonics
        .map(|mnemonic| {
            let meaning = isa::meaning(mnemonic.opcode, &mnemonic.modifiers);
            class(meaning.class, &mnemonic.modifiers)
        })
        .collect();
    let kernel = |signature: KernelSignature| {
        let function = functions.get(signature.name.as_str())?;
        let body = function.body.as_ref()?;
        let reached = Reached::from(body, &functions, &variables, module);
        let launch_bounds = function
            .directives
            .iter()
            .filter(|bound| !bound.values.is_empty());
        Some(Resources {
            file: file.to_owned(),
            kernel: signature.name,
            line: signature.line,
            parameter_bytes: signature.param_bytes,
            parameters: signature
                .params
                .into_iter()
                .map(|param| Parameter {
                    name: param.name,
                    ty: format!(
                        "{}.{}{}",
                        if param.vector > 1 {
                            format!(".v{}", param.vector)
                        } else {
                            String::new()
                        },
                        param.ty.text(),
                        param.dims.map_or(String::new(), |_| format!(
                            "[{}]",
                            u64::from(param.size) / param.ty.bytes().max(1)
                        )),
                    ),
                    offset: param.offset,
                    size: param.size,
                    align: param.align,
                    pointer: param.pointer.is_some(),
                })
                .collect(),
            shared_bytes: signature.static_shared,
            dynamic_shared: reached.dynamic_shared,
            local_bytes: reached.local,
            constant_bytes: reached.constant,
            uses_local: reached.uses_local,
            registers: registers(body),
            barriers: barriers(body),
            launch_bounds: launch_bounds
                .map(|bound| (bound.name.to_owned(), bound.values.clone()))
                .collect(),
            instructions: mix(body, &classes),
        })
    };
    signatures(module, source)
        .into_iter()
        .filter_map(kernel)
        .collect()
}

fn functions<'m, 'a>(module: &'m Module<'a>) -> impl Iterator<Item = &'m Function<'a>> {
    module.items.iter().filter_map(|item| match item {
        Item::Function(function) => Some(function),
        _ => None,
    })
}

fn instructions<'b, 'a>(body: &'b Body<'a>) -> impl Iterator<Item = &'b Instruction> {
    body.statements
        .iter()
        .filter_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction),
            _ => None,
        })
}

/// The names that a kernel and all functions it calls use.
#[derive(Default)]
struct Reached {
    local: u64,
    constant: u64,
    dynamic_shared: bool,
    uses_local: bool,
}

impl Reached {
    fn from<'m, 'a>(
        body: &'m Body<'a>,
        functions: &HashMap<&str, &'m Function<'a>>,
        variables: &HashMap<&str, &Variable<'_>>,
        module: &Module<'a>,
    ) -> Reached {
        let mut reached = Reached::default();
        let mut seen = HashSet::new();
        let mut open = vec![body];
        while let Some(body) = open.pop() {
            for statement in &body.statements {
                match statement {
                    Statement::Variable(variable) => reached.variable(variable),
                    Statement::Instruction(instruction) => {
                        let modifiers = &module.mnemonic(instruction).modifiers;
                        let memory = matches!(instruction.opcode, Opcode::Ld | Opcode::St);
                        reached.uses_local |= memory && modifiers.has(Modifier::Local);
                    }
                    _ => {}
                }
            }
            let names = body.operands.iter().filter_map(Operand::name);
            for name in names.map(|name| name.text) {
                if seen.insert(name) {
                    if let Some(variable) = variables.get(name) {
                        reached.variable(variable);
                    }
                    open.extend(
                        functions
                            .get(name)
                            .and_then(|function| function.body.as_ref()),
                    );
                }
            }
        }
        reached
    }

    fn variable(&mut self, variable: &Variable<'_>) {
        match variable.space {
            Space::Local => {
                self.local = after(self.local, variable);
                self.uses_local = true;
            }
            Space::Const => self.constant = after(self.constant, variable),
            Space::Shared => self.dynamic_shared |= layout(variable).0 == 0,
            _ => {}
        }
    }
}

fn registers(body: &Body<'_>) -> BTreeMap<&'static str, u64> {
    let mut registers = BTreeMap::new();
    for statement in &body.statements {
        if let Statement::Variable(variable) = statement
            && variable.space == Space::Reg
        {
            let count = u64::from(variable.count.unwrap_or(1)) * u64::from(variable.vector);
            *registers.entry(variable.ty.text()).or_insert(0) += count;
        }
    }
    registers
}

fn barriers(body: &Body<'_>) -> Barriers {
    let mut barriers = Barriers::default();
    for instruction in instructions(body) {
        if !matches!(instruction.opcode, Opcode::Bar | Opcode::Barrier) {
            continue;
        }
        // The number is the first operand, after the result of a `.red`.
        let operands = body.list(instruction.operands);
        match operands
            .iter()
            .find(|operand| matches!(operand, Operand::Integer(_)))
        {
            Some(Operand::Integer(number)) => {
                barriers.numbers.insert(number.value);
            }
            _ if operands.is_empty() => {}
            _ => barriers.computed = true,
        }
    }
    barriers
}

/// `classes` has that of each mnemonic.
fn mix(body: &Body<'_>, classes: &[&'static str]) -> InstructionMix {
    let mut mix = InstructionMix::default();
    for instruction in instructions(body) {
        let class = classes[instruction.mnemonic.index()];
        mix.total += 1;
        *mix.by_class.entry(class).or_insert(0) += 1;
        *mix.by_opcode.entry(instruction.opcode.text()).or_insert(0) += 1;
    }
    mix
}

/// What an instruction is counted as.
fn class(class: Class, modifiers: &Modifiers) -> &'static str {
    let space = || {
        let spaces = [
            (Modifier::Global, "global memory"),
            (Modifier::Shared, "shared memory"),
            (Modifier::SharedCta, "shared memory"),
            (Modifier::SharedCluster, "shared memory"),
            (Modifier::Local, "local memory"),
            (Modifier::Const, "constant memory"),
            (Modifier::Param, "parameters"),
        ];
        let named = spaces.into_iter().find(|(word, _)| modifiers.has(*word));
        named.map_or("generic memory", |(_, name)| name)
    };
    match class {
        Class::Memory => space(),
        Class::Atomic => "atomics",
        Class::Copy => "asynchronous copies and caches",
        Class::Matrix => "matrix",
        Class::Texture => "textures and surfaces",
        Class::Barrier => "barriers and fences",
        Class::Warp => "warp",
        Class::Control => "control flow",
        Class::Compare => "comparison and selection",
        Class::Convert => "conversion",
        Class::Move => "moves",
        Class::Arithmetic => match modifiers.types().last() {
            Some(Type::F64) => "64-bit float",
            Some(Type::F32 | Type::F32x2) => "32-bit float",
            Some(Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2) => "16-bit float",
            Some(Type::Pred) => "comparison and selection",
            Some(_) => "integer",
            None => "other",
        },
        Class::Other => "other",
    }
}

impl Resources {
    fn text(&self) -> String {
        let mut out = format!("{} ({}:{})\n", self.kernel, self.file, self.line);
        let mut line = |name: &str, text: String| {
            out += &format!("  {name:<13}{text}\n");
        };
        line("parameters", bytes(u64::from(self.parameter_bytes)));
        for Parameter {
            name,
            ty,
            offset,
            pointer,
            ..
        } in &self.parameters
        {
            let pointer = if *pointer { "  pointer" } else { "" };
            line("", format!("{offset:>5}  {ty:<10} {name}{pointer}"));
        }
        let dynamic = if self.dynamic_shared {
            ", plus dynamic shared memory"
        } else {
            ""
        };
        line("shared", bytes(u64::from(self.shared_bytes)) + dynamic);
        line("constant", bytes(self.constant_bytes));
        let used = match (self.uses_local, self.local_bytes) {
            (true, 0) => "used, none declared".to_owned(),
            (_, declared) => bytes(declared),
        };
        line("local", used);
        line(
            "registers",
            counted(&self.registers, |name| format!(".{name}")),
        );
        line("barriers", self.barriers.text());
        for (name, values) in &self.launch_bounds {
            let values: Vec<String> = values.iter().map(u32::to_string).collect();
            line("bound", format!(".{name} {}", values.join(", ")));
        }
        let InstructionMix {
            total, by_class, ..
        } = &self.instructions;
        line("instructions", total.to_string());
        let mut classes: Vec<_> = by_class.iter().collect();
        classes.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), **name));
        for (name, count) in classes {
            line("", format!("{count:>5}  {name}"));
        }
        out
    }
}

impl Barriers {
    fn text(&self) -> String {
        let numbers: Vec<String> = self.numbers.iter().map(u64::to_string).collect();
        let known = match numbers.as_slice() {
            [] => None,
            [one] => Some(format!("1, number {one}")),
            all => Some(format!("{}, numbers {}", all.len(), all.join(" "))),
        };
        let computed = self.computed.then(|| "some named by a register".to_owned());
        let all: Vec<String> = known.into_iter().chain(computed).collect();
        if all.is_empty() {
            "none".to_owned()
        } else {
            all.join("; ")
        }
    }
}

fn bytes(count: u64) -> String {
    match count {
        0 => "none".to_owned(),
        1 => "1 byte".to_owned(),
        _ => format!("{count} bytes"),
    }
}

fn counted(counts: &BTreeMap<&'static str, u64>, name: impl Fn(&str) -> String) -> String {
    let parts: Vec<String> = counts
        .iter()
        .map(|(what, count)| format!("{count} {}", name(what)))
        .collect();
    if parts.is_empty() {
        "none".to_owned()
    } else {
        parts.join(", ") + " declared"
    }
}
