//! Cuts a module into slices: modules of one kernel or a few, each with all that its
//! kernels reach, which compile alone and mean what they mean in the whole.

mod addresses;
mod graph;
mod groups;
mod mentions;
mod numbered;
mod pieces;
#[cfg(test)]
mod tests;
mod text;
mod whole;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Function, FunctionKind, Item, Module, Space};
use graph::{Graph, Node};
use groups::Group;
use numbered::Stems;
use text::{Head, Piece};
pub use whole::Whole;

/// A shorter text is not [`cut`]: it compiles soon enough.
pub const SHORTEST: usize = 64 << 10;

/// Cuts a module by kernel. Compiles nothing, and takes time in proportion to the text.
///
/// A slice has one kernel, or several that must stay together: they share a `.global`
/// variable that a kernel or the host may write, or use addresses of functions. With
/// them come all functions, `.shared` and `.const` variables and constant `.global`
/// variables that they reach; of these each slice has a copy.
///
/// The module was read from `source`, without errors. With errors the slices lack
/// what could not be read.
///
/// ```
/// use ptxkit_ptx::{read, slice::{Whole, cut}};
///
/// let kernels: String = (0..20)
///     .map(|n| format!(".entry k{n}() {{ {} ret; }}\n", "bar.sync 0;".repeat(400)))
///     .collect();
/// let source = format!(".version 8.0\n.target sm_80\n.address_size 64\n{kernels}");
/// let slices = cut(&source, &read(&source).module);
/// assert_eq!(slices.slices().len(), 20);
/// let k7 = slices.kernel("k7").unwrap();
/// let text = slices.slices()[k7].text(&source);
/// assert!(text.starts_with(".version 8.0\n.target sm_80\n.address_size 64\n.entry k7() {"));
///
/// let small = ".version 8.0\n.target sm_80\n.entry k() { ret; }";
/// let slices = cut(small, &read(small).module);
/// assert_eq!(slices.whole(), Some(&Whole::FewKernels(1)));
/// assert_eq!(slices.slices()[0].text(small), small);
/// ```
pub fn cut(source: &str, module: &Module<'_>) -> Slices {
    cut_for(source, module, HostAccess::Writes)
}

/// Cuts a module as [`cut`] does, for a host that accesses variables in this way.
///
/// ```
/// use ptxkit_ptx::{read, slice::{HostAccess, Placement, cut, cut_for}};
///
/// let kernels: String = (0..20)
///     .map(|n| format!(".entry k{n}() {{ .reg .f32 %f; ld.const.f32 %f, [scale]; {} ret; }}\n", "bar.sync 0;".repeat(400)))
///     .collect();
/// let source = format!(".version 8.0\n.target sm_80\n.address_size 64\n.const .f32 scale;\n{kernels}");
/// let module = read(&source).module;
/// assert_eq!(cut(&source, &module).slices().len(), 20);
/// // All kernels read the one variable that the host has the address of.
/// assert_eq!(cut_for(&source, &module, HostAccess::Addresses).slices().len(), 1);
/// ```
pub fn cut_for(source: &str, module: &Module<'_>, access: HostAccess) -> Slices {
    cut_within(
        source,
        module,
        &Limits {
            access,
            ..Limits::of(source)
        },
    )
}

/// How the host accesses the variables of a module that is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostAccess {
    /// A variable that no kernel writes may have copies: what the host writes goes to each.
    #[default]
    Writes,
    /// A variable that the host can find by name has one address.
    Addresses,
}

/// Cuts a module wherever that keeps its meaning, also where it saves no time.
///
/// ```
/// use ptxkit_ptx::{read, slice::cut_always};
///
/// let source = ".version 8.0\n.target sm_80\n.entry a() { ret; }\n.entry b() { ret; }";
/// assert_eq!(cut_always(source, &read(source).module).slices().len(), 2);
/// ```
pub fn cut_always(source: &str, module: &Module<'_>) -> Slices {
    cut_always_for(source, module, HostAccess::Writes)
}

/// Cuts a module as [`cut_always`] does, for a host that accesses variables in this way.
pub fn cut_always_for(source: &str, module: &Module<'_>, access: HostAccess) -> Slices {
    let limits = Limits {
        kernels: 1,
        text: 0,
        slice: 100,
        // A short text, too, may reach all its functions from each kernel.
        steps: (source.len() / 4).max(1 << 16),
        access,
        ..Limits::of(source)
    };
    cut_within(source, module, &limits)
}

fn cut_within(source: &str, module: &Module<'_>, limits: &Limits) -> Slices {
    match Slices::cut(source, module, limits) {
        Ok(slices) => slices,
        Err(whole) => Slices::uncut(whole, module),
    }
}

/// When a module is cut.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// The least kernels.
    kernels: usize,
    /// The least length of the text.
    text: usize,
    /// The most per cent of the text in one slice.
    slice: u64,
    /// The most bytes of copies: of text, or of device memory where that is more.
    copies: u64,
    /// The most nodes that are reached, counted once for each kernel.
    steps: usize,
    access: HostAccess,
}

impl Limits {
    fn of(source: &str) -> Limits {
        Limits {
            kernels: 8,
            text: SHORTEST,
            slice: 50,
            copies: 4 << 20,
            // Linear in the text.
            steps: source.len() / 4,
            access: HostAccess::Writes,
        }
    }
}

/// The slices of a module.
#[derive(Clone, Debug)]
pub struct Slices {
    whole: Option<Whole>,
    slices: Vec<Slice>,
    /// The kernels in the order of the source: the slice, and the place in it.
    kernels: Vec<(usize, usize)>,
    by_name: HashMap<String, usize>,
    /// The slices that have a variable.
    variables: HashMap<String, Variable>,
}

#[derive(Clone, Debug)]
enum Variable {
    Single(usize),
    Copies(Vec<usize>),
}

/// Where a variable of the module is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement<'s> {
    /// In the slice with this index alone.
    Single(usize),
    /// A variable that no kernel writes, with a copy in each of these slices. What the host
    /// writes belongs into each.
    Copies(&'s [usize]),
}

impl Slices {
    /// The error is the reason why the module stays whole.
    fn cut(source: &str, module: &Module<'_>, limits: &Limits) -> Result<Slices, Whole> {
        let kernels = kernels(module).count();
        if kernels < limits.kernels {
            return Err(Whole::FewKernels(kernels));
        }
        if source.len() < limits.text {
            return Err(Whole::Small);
        }
        let head = Arc::new(pieces::head(source, module)?);
        let graph = mentions::graph(module, limits.access)?;
        let groups = groups::groups(&graph, limits.steps, limits.copies)?;
        let pieces = pieces::pieces(source, module);
        let all: u64 = pieces.iter().map(Piece::bytes).sum();
        let mut slices = Slices {
            whole: None,
            slices: Vec::with_capacity(groups.len()),
            kernels: Vec::new(),
            by_name: HashMap::new(),
            variables: HashMap::new(),
        };
        let mut order = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            let slice = Slice::new(&graph, group, &head, &pieces);
            if !group.kernels.is_empty() && slice.bytes() * 100 > all * limits.slice {
                return Err(Whole::OneSlice);
            }
            for (place, (kernel, name)) in group.kernels.iter().zip(&slice.kernels).enumerate() {
                order.push((*kernel, (index, place)));
                slices.by_name.insert(name.clone(), index);
            }
            let nodes = group.nodes.iter().map(|node| graph.node(*node));
            for node in nodes.filter(|node| node.visible) {
                slices.place(node, index);
            }
            slices.slices.push(slice);
        }
        order.sort_unstable();
        slices.kernels = order.into_iter().map(|(_, place)| place).collect();
        Ok(slices)
    }

    /// Notes that a slice has a variable.
    fn place(&mut self, variable: &Node<'_>, slice: usize) {
        let name = variable.name.to_owned();
        if variable.single {
            self.variables.insert(name, Variable::Single(slice));
            return;
        }
        let copies = self.variables.entry(name);
        let copies = copies.or_insert_with(|| Variable::Copies(Vec::new()));
        if let Variable::Copies(slices) = copies {
            slices.push(slice);
        }
    }

    /// The module as its only slice.
    fn uncut(whole: Whole, module: &Module<'_>) -> Slices {
        let mut variables = HashMap::new();
        for item in &module.items {
            if let Item::Variable(variable) = item
                && graph::is_visible(variable)
            {
                let placed = match variable.space {
                    Space::Const => Variable::Copies(vec![0]),
                    _ => Variable::Single(0),
                };
                variables.insert(variable.name.text.to_owned(), placed);
            }
        }
        let names = kernels(module).map(|kernel| kernel.name.text.to_owned());
        let slice = Slice {
            kernels: names.collect(),
            content: Content::Whole,
        };
        Slices {
            whole: Some(whole),
            kernels: (0..slice.kernels.len()).map(|index| (0, index)).collect(),
            by_name: slice.kernels.iter().map(|name| (name.clone(), 0)).collect(),
            slices: vec![slice],
            variables,
        }
    }

    /// Why the module is not cut: it is then its only slice. `None` if it is cut.
    pub fn whole(&self) -> Option<&Whole> {
        self.whole.as_ref()
    }

    /// The slices, in the order of their first kernels.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// The index of the slice that has the kernel of this name.
    pub fn kernel(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The kernels, in the order of the source.
    pub fn kernel_names(&self) -> impl Iterator<Item = &str> {
        let names = self.kernels.iter();
        names.filter_map(|(slice, kernel)| {
            Some(self.slices.get(*slice)?.kernels.get(*kernel)?.as_str())
        })
    }

    /// Where a variable is that the host can access: a `.global` or `.const` variable of the module, private ones
    /// included. `None` for those with a name that a compiler invented, as `$str`.
    pub fn variable(&self, name: &str) -> Option<Placement<'_>> {
        Some(match self.variables.get(name)? {
            Variable::Single(slice) => Placement::Single(*slice),
            Variable::Copies(slices) => Placement::Copies(slices),
        })
    }
}

/// The kernels of a module, in the order of the source.
fn kernels<'m, 'a>(module: &'m Module<'a>) -> impl Iterator<Item = &'m Function<'a>> {
    module.items.iter().filter_map(|item| match item {
        Item::Function(function)
            if function.kind == FunctionKind::Entry && function.body.is_some() =>
        {
            Some(function)
        }
        _ => None,
    })
}

/// A part of a module that compiles alone.
#[derive(Clone, Debug)]
pub struct Slice {
    kernels: Vec<String>,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Whole,
    Cut {
        head: Arc<Head>,
        pieces: Vec<Piece>,
        /// The shapes of names that are not numbered anew.
        kept: Stems,
    },
}

impl Slice {
    fn new(graph: &Graph<'_>, group: &Group, head: &Arc<Head>, pieces: &[Piece]) -> Slice {
        let nodes = group.nodes.iter().map(|node| graph.node(*node));
        let mut items = graph.common.clone();
        let mut kept = Stems::default();
        for node in nodes {
            items.extend(&node.items);
            kept = kept.join(node.kept);
        }
        items.sort_unstable();
        let pieces = items.iter().filter_map(|item| pieces.get(*item as usize));
        let kernels = group.kernels.iter();
        Slice {
            kernels: kernels
                .map(|kernel| graph.node(*kernel).name.to_owned())
                .collect(),
            content: Content::Cut {
                head: Arc::clone(head),
                pieces: pieces.copied().collect(),
                kept,
            },
        }
    }

    /// The length in the source.
    fn bytes(&self) -> u64 {
        match &self.content {
            Content::Whole => 0,
            Content::Cut { pieces, .. } => pieces.iter().map(Piece::bytes).sum(),
        }
    }

    /// The kernels in it, in the order of the source. A slice with variables that no
    /// kernel uses has none.
    pub fn kernels(&self) -> &[String] {
        &self.kernels
    }

    /// The PTX of the slice, a complete module, which is made anew by each call. `source`
    /// is the text that was cut; of another, the result has no meaning.
    ///
    /// It does not depend on what else is in the module: comments are omitted, and what
    /// compilers number through a module is numbered through the slice.
    pub fn text<'s>(&self, source: &'s str) -> Cow<'s, str> {
        match &self.content {
            Content::Whole => source.into(),
            Content::Cut { head, pieces, kept } => {
                text::write(source, head, pieces, *kept).text.into()
            }
        }
    }

    /// The line of `source` from which a line of the slice's text comes, both from 1:
    /// for what the driver says of the text. `None` for a line that was added, and past
    /// the end.
    pub fn original_line(&self, source: &str, line: u32) -> Option<u32> {
        let Content::Cut { head, pieces, kept } = &self.content else {
            return Some(line);
        };
        let text = text::write(source, head, pieces, *kept);
        let start = *text.lines.get((line as usize).checked_sub(1)?)?;
        let before = source.get(..start? as usize)?;
        Some(before.bytes().filter(|byte| *byte == b'\n').count() as u32 + 1)
    }
}
