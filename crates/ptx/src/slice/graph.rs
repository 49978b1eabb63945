//! The functions and variables of a module, and which of them refer to which.

use super::HostAccess;
use super::numbered::Stems;
use super::whole::Whole;
use crate::ast::{DirectiveKind, Function, FunctionKind, Item, Linkage, Space, Variable};
use crate::name_map::NameMap;
use crate::names::Type;
use crate::signature::layout;

/// The index of a [`Node`].
pub type NodeId = u32;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Kernel,
    /// A function without a body is an alias, or of another module.
    Function,
    Global,
    Const,
    /// A variable in `.shared` memory and the like: each kernel has its own.
    Scratch,
}

/// A function or variable of a module, with all its declarations.
#[derive(Debug)]
pub struct Node<'a> {
    pub name: &'a str,
    pub kind: Kind,
    /// Its items in the module.
    pub items: Vec<u32>,
    /// Whether it has a body or storage here.
    pub defined: bool,
    /// Whether the host can find it by name: not of a kernel, which it always can.
    pub visible: bool,
    /// Whether a copy would behave differently: a variable that kernels or the host
    /// write, say.
    pub single: bool,
    /// Whether it depends on addresses of functions.
    pub indirect: bool,
    /// What a copy costs: the length of the text, or what it takes on the device.
    pub bytes: u64,
    /// The nodes that it refers to.
    pub uses: Vec<NodeId>,
    /// The shapes of names that must stay as they are where this is.
    pub kept: Stems,
}

/// The nodes of a module. [`graph`](super::mentions::graph) builds it.
#[derive(Debug, Default)]
pub struct Graph<'a> {
    pub nodes: Vec<Node<'a>>,
    access: HostAccess,
    names: NameMap<'a, NodeId>,
    /// The items that belong into each slice: `.pragma`.
    pub common: Vec<u32>,
}

impl<'a> Graph<'a> {
    pub fn new(access: HostAccess) -> Graph<'a> {
        Graph {
            access,
            ..Graph::default()
        }
    }

    /// The node of this name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.names.get(name).copied()
    }

    pub fn node(&self, node: NodeId) -> &Node<'a> {
        &self.nodes[node as usize]
    }

    pub fn node_mut(&mut self, node: NodeId) -> &mut Node<'a> {
        &mut self.nodes[node as usize]
    }

    /// Adds an item, and returns the node that it declares. The error is a reason why the
    /// module cannot be cut.
    pub fn declare(&mut self, item: u32, declared: &Item<'a>) -> Result<Option<NodeId>, Whole> {
        match declared {
            Item::Variable(variable) => self.variable(item, variable).map(Some),
            Item::Function(function) => self.function(item, function).map(Some),
            Item::Directive(directive) => match &directive.kind {
                DirectiveKind::Alias { name, .. } => {
                    let node = self.named(name.text, Kind::Function);
                    self.add(node, item, true, directive.text.len() as u64);
                    Ok(Some(node))
                }
                DirectiveKind::Pragma(_) => {
                    self.common.push(item);
                    Ok(None)
                }
                _ => Ok(None),
            },
        }
    }

    fn function(&mut self, item: u32, function: &Function<'a>) -> Result<NodeId, Whole> {
        let (kind, defined) = (function.kind, function.body.is_some());
        if function.body.as_ref().is_some_and(|body| body.broken) {
            return Err(Whole::Broken);
        }
        if let Some(param) = function.params.iter().find(|param| is_reference(param)) {
            return Err(Whole::References(param.name.text.to_owned()));
        }
        let node = match kind {
            FunctionKind::Entry => self.named(function.name.text, Kind::Kernel),
            FunctionKind::Func => self.named(function.name.text, Kind::Function),
        };
        let text = u64::from(function.span.end.saturating_sub(function.span.start));
        self.add(node, item, defined, text);
        let node_mut = self.node_mut(node);
        node_mut.kept = node_mut.kept.join(Stems::of_name(function.name.text));
        Ok(node)
    }

    fn variable(&mut self, item: u32, variable: &Variable<'a>) -> Result<NodeId, Whole> {
        let name = variable.name.text;
        if is_reference(variable) {
            return Err(Whole::References(name.to_owned()));
        }
        let kind = match variable.space {
            Space::Reg => return Err(Whole::ModuleRegisters),
            Space::Global => Kind::Global,
            Space::Const => Kind::Const,
            _ => Kind::Scratch,
        };
        let node = self.named(name, kind);
        let defined = variable.linkage != Linkage::Extern || variable.space == Space::Shared;
        let text = u64::from(variable.span.end.saturating_sub(variable.span.start));
        let size = match kind {
            Kind::Global | Kind::Const => layout(variable).0,
            _ => 0,
        };
        self.add(node, item, defined, text.max(size));
        let visible = is_visible(variable);
        let exported = visible && variable.linkage != Linkage::None;
        let attributes = variable.attributes;
        let placed = attributes.managed || attributes.unified.is_some();
        let by_address = visible && self.access == HostAccess::Addresses;
        let node_mut = self.node_mut(node);
        node_mut.visible |= visible;
        node_mut.single |= by_address || kind == Kind::Global && (exported || placed);
        if visible || variable.linkage != Linkage::None || placed {
            node_mut.kept = node_mut.kept.join(Stems::of_name(name));
        }
        Ok(node)
    }

    /// The node of this name, which may be new.
    fn named(&mut self, name: &'a str, kind: Kind) -> NodeId {
        let new = self.nodes.len() as NodeId;
        let node = *self.names.entry(name).or_insert(new);
        if node == new {
            self.nodes.push(Node {
                name,
                kind,
                items: Vec::new(),
                defined: false,
                visible: false,
                single: false,
                indirect: false,
                bytes: 0,
                uses: Vec::new(),
                kept: Stems::default(),
            });
        }
        node
    }

    fn add(&mut self, node: NodeId, item: u32, defined: bool, bytes: u64) {
        let node = self.node_mut(node);
        node.items.push(item);
        node.defined |= defined;
        node.bytes = node.bytes.saturating_add(bytes);
    }
}

/// Whether the host can find a variable by its name. Drivers find private ones too, and since CUDA 13 nvcc makes all
/// private, unless `-rdc` is given. The names that compilers invent are theirs alone.
pub fn is_visible(variable: &Variable<'_>) -> bool {
    let name = variable.name.text;
    let is_of_compiler =
        || Stems::of_name(name) != Stems::default() || name.starts_with("__cudart_");
    matches!(variable.space, Space::Global | Space::Const)
        && match variable.linkage {
            Linkage::Visible | Linkage::Weak | Linkage::Common => true,
            Linkage::None => !is_of_compiler(),
            _ => false,
        }
}

/// Whether the host binds something to it by name.
fn is_reference(variable: &Variable<'_>) -> bool {
    matches!(variable.ty, Type::Texref | Type::Samplerref | Type::Surfref)
        || variable.space == Space::Tex
}
