//! `ptxcheck cfg`: the control-flow graph of a kernel.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use input::ShowName as _;
use layout::backends::svg::SVGWriter;
use layout::gv::{DotParser, GraphBuilder};

use super::texts::{no_kernel, texts_without_errors};
use lint::flow::{BlockId, Graph, InstructionId, Instructions};
use lint::{Flow, FunctionContext, ModuleContext};
use ptx::ast::{Function, Item, Module, Span, Statement};
use ptx::read;
use terminal::failure::{Failure, MISMATCHES, VERIFIED};
use terminal::output::print;

/// The arguments of `ptxcheck cfg`.
#[derive(Debug, clap::Args)]
pub struct CfgArgs {
    /// A file with PTX; `-` is standard input
    file: PathBuf,
    /// The kernel or function; optional if the file has only one
    #[arg(long, short)]
    kernel: Option<String>,
    /// The format; the default follows from the name of --output
    #[arg(long, visible_alias = "format", value_name = "FORMAT", value_enum)]
    output_format: Option<GraphFormat>,
    /// The file to write, instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The most instructions to show of a block
    #[arg(long, value_name = "N", default_value_t = 12)]
    lines: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum GraphFormat {
    /// For Graphviz
    Dot,
    /// For a browser
    Svg,
}

impl GraphFormat {
    /// The format by the extension of a file; dot without one.
    fn named(path: Option<&Path>) -> Result<GraphFormat, Failure> {
        let extension = path.and_then(Path::extension).unwrap_or_default();
        match extension.to_ascii_lowercase().to_string_lossy().as_ref() {
            "svg" => Ok(GraphFormat::Svg),
            "" | "dot" | "gv" => Ok(GraphFormat::Dot),
            other => Err(Failure::new(format!("unknown graph format .{other}"))
                .help("name it .svg or .dot, or give --output-format")),
        }
    }
}

/// The maximum number of blocks of an SVG: the layout of more takes minutes.
const MAX_SVG_BLOCKS: usize = 400;

/// Writes the graph; returns the exit status.
///
/// # Errors
/// The file cannot be read, has no such kernel, or the graph is too large.
pub fn run(args: &CfgArgs) -> Result<u8, Failure> {
    let Some(texts) = texts_without_errors(&args.file)? else {
        return Ok(MISMATCHES);
    };
    let mut names = Vec::new();
    for text in &texts {
        let reading = read(&text.source);
        let all = functions(&reading.module);
        names.extend(all.map(|function| function.name.text.to_owned()));
    }
    let wanted = match (&args.kernel, names.as_slice()) {
        (Some(name), all) if all.contains(name) => name,
        (Some(name), all) => return Err(no_kernel(name, all, &args.file)),
        (None, [one]) => one,
        (None, all) => {
            let failure = Failure::new(format!("{}: which kernel?", args.file.shown()));
            return Err(match all.first() {
                Some(first) => failure.help(format!(
                    "it has {}; choose one with --kernel, such as `{first}`",
                    all.len()
                )),
                None => failure.help("it has no kernels"),
            });
        }
    };
    let Some(dot) = texts
        .iter()
        .find_map(|text| dot(&text.source, wanted, args.lines))
    else {
        let message = "its control flow takes too many steps to analyse";
        return Err(Failure::new(format!("`{wanted}`: {message}")));
    };
    let picture = match args.output_format {
        Some(picture) => picture,
        None => GraphFormat::named(args.output.as_deref())?,
    };
    let written = match picture {
        GraphFormat::Dot => dot.text,
        GraphFormat::Svg if dot.blocks > MAX_SVG_BLOCKS => {
            return Err(
                Failure::new(format!("`{wanted}` has {} blocks", dot.blocks))
                    .help("write --output-format dot, and draw it with `sfdp -Tsvg`"),
            );
        }
        GraphFormat::Svg => svg(&dot.text)?,
    };
    match &args.output {
        None => print(&written),
        Some(path) => std::fs::write(path, written)
            .map_err(|error| Failure::new(format!("{}: {error}", path.shown())))?,
    }
    Ok(VERIFIED)
}

fn functions<'m, 'a>(module: &'m Module<'a>) -> impl Iterator<Item = &'m Function<'a>> {
    module.items.iter().filter_map(|item| match item {
        Item::Function(function) if function.body.is_some() => Some(function),
        _ => None,
    })
}

/// A graph in Graphviz's DOT language.
struct Dot {
    text: String,
    blocks: usize,
}

/// `None` if the module has no such function, or its analysis takes too many steps.
fn dot(source: &str, name: &str, lines: usize) -> Option<Dot> {
    let reading = read(source);
    let context = ModuleContext::new(&reading.module, source, None, None);
    let mut functions = context.functions();
    let function = functions.find(|function| function.function.name.text == name)?;
    let Flow {
        instructions,
        graph,
        ..
    } = function.flow()?;
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "digraph \"{}\" {{", escaped(name));
    let _ = writeln!(out, "\tnode [shape=box, fontname=\"monospace\"];");
    for (index, block) in graph.blocks.iter().enumerate() {
        let id = BlockId(index as u32);
        let mut text = String::new();
        if id == BlockId::ENTRY {
            text = format!("{}\\l", escaped(name));
        }
        for label in labels(&function, instructions, graph, id) {
            let _ = write!(text, "{}:\\l", escaped(label));
        }
        let count = (block.end - block.start) as usize;
        // For a long block the last instructions are shown, as they include the branch.
        let left_out = count.saturating_sub(lines);
        if left_out > 0 {
            let _ = write!(text, "  ... {left_out} more\\l");
        }
        for step in block.steps().skip(left_out) {
            let _ = write!(
                text,
                "  {}\\l",
                escaped(&instruction(instructions, step, source))
            );
        }
        if text.is_empty() {
            text = "(empty)\\l".to_owned();
        }
        let style = if graph.is_reached(id) {
            ""
        } else {
            ", style=\"dashed\""
        };
        let _ = writeln!(out, "\tb{index} [label=\"{text}\"{style}];");
    }
    for index in 0..graph.blocks.len() {
        let from = BlockId(index as u32);
        for to in graph.successors(from) {
            let _ = writeln!(
                out,
                "\tb{index} -> b{}{};",
                to.0,
                Edge::new(instructions, graph, from, to).attributes()
            );
        }
    }
    out += "}\n";
    Some(Dot {
        text: out,
        blocks: graph.blocks.len(),
    })
}

/// The labels before the first instruction of a block.
pub fn labels<'f, 'a>(
    function: &FunctionContext<'f, 'a>,
    instructions: &Instructions<'_, '_>,
    graph: &Graph,
    block: BlockId,
) -> Vec<&'a str> {
    let Some(first) = graph.blocks[block.index()].steps().next() else {
        return Vec::new();
    };
    let Some(step) = instructions.steps.get(first.index()) else {
        return Vec::new();
    };
    let before = function
        .body
        .statements
        .get(..step.statement as usize)
        .unwrap_or(&[]);
    let mut labels: Vec<&str> = before
        .iter()
        .rev()
        .take_while(|statement| !matches!(statement, Statement::Instruction(_)))
        .filter_map(|statement| match statement {
            Statement::Label(name) => Some(name.text),
            _ => None,
        })
        .collect();
    labels.reverse();
    labels
}

/// An instruction on one line.
fn instruction(instructions: &Instructions<'_, '_>, step: InstructionId, source: &str) -> String {
    let Some(Span { start, end }) = instructions.get(step).map(|instruction| instruction.span)
    else {
        return String::new();
    };
    let text = source.get(start as usize..end as usize).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An edge of the graph.
pub struct Edge<'a> {
    /// The predicate under which it is taken, where its block has another edge, and whether it
    /// is taken where that is false.
    pub guard: Option<(bool, &'a str)>,
    /// It leads to a block that dominates its own: the back edge of a loop.
    pub back: bool,
}

impl<'a> Edge<'a> {
    pub fn new(
        instructions: &Instructions<'_, 'a>,
        graph: &Graph,
        from: BlockId,
        to: BlockId,
    ) -> Edge<'a> {
        let block = graph.blocks[from.index()];
        let last = block
            .steps()
            .next_back()
            .and_then(|last| instructions.get(last));
        let guard = last.and_then(|last| instructions.body.guard(last));
        let guard = guard.filter(|_| graph.successors(from).count() > 1);
        let falls = graph.blocks[to.index()].start == block.end;
        Edge {
            guard: guard.map(|guard| (guard.negated != falls, guard.predicate.text)),
            back: graph.dominates(to, from),
        }
    }

    /// Its attributes in DOT.
    fn attributes(&self) -> String {
        let mut attributes = Vec::new();
        if let Some((negated, predicate)) = self.guard {
            let not = if negated { "!" } else { "" };
            attributes.push(format!("label=\"{not}{}\"", escaped(predicate)));
        }
        if self.back {
            attributes.push("color=\"blue\"".to_owned());
        }
        if attributes.is_empty() {
            String::new()
        } else {
            format!(" [{}]", attributes.join(", "))
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// # Errors
/// The layout library rejects the graph.
fn svg(dot: &str) -> Result<String, Failure> {
    let help = "write --output-format dot, and draw it with Graphviz";
    let graph = DotParser::new(dot)
        .process()
        .map_err(|error| Failure::new(error).help(help))?;
    let mut builder = GraphBuilder::new();
    builder.visit_graph(&graph);
    let mut writer = SVGWriter::new();
    builder.get().do_it(false, false, false, &mut writer);
    Ok(writer.finalize())
}
