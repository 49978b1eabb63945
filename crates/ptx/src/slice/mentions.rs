//! Finds what each function and variable of a module refers to.

use super::graph::{Graph, Kind, NodeId};
use super::numbered::Stems;
use super::whole::Whole;
use super::{HostAccess, addresses};
use crate::ast::{
    Body, DirectiveKind, Initializer, Item, Module, Name, Space, Statement, Variable,
};

/// The graph of a module. The error is a reason why the module cannot be cut.
pub fn graph<'a>(module: &Module<'a>, access: HostAccess) -> Result<Graph<'a>, Whole> {
    let mut graph = Graph::new(access);
    let mut owners = Vec::with_capacity(module.items.len());
    for (index, item) in module.items.iter().enumerate() {
        owners.push(graph.declare(index as u32, item)?);
    }
    // The item by which a node was last mentioned: each mention counts once.
    let mut mentioned = vec![None; graph.nodes.len()];
    for (index, item) in module.items.iter().enumerate() {
        let Some(owner) = owners[index] else {
            continue;
        };
        let mut mentions = Mentions {
            graph: &mut graph,
            mentioned: &mut mentioned,
            item: index,
            owner,
            functions: false,
            globals: false,
        };
        match item {
            Item::Variable(variable) => mentions.initializer(variable)?,
            Item::Function(function) => {
                if let Some(body) = &function.body {
                    mentions.body(module, body)?;
                }
            }
            Item::Directive(directive) => {
                if let DirectiveKind::Alias { function, .. } = directive.kind {
                    mentions.name(function);
                }
            }
        }
    }
    Ok(graph)
}

/// Adds what one item mentions to the graph.
struct Mentions<'g, 'a> {
    graph: &'g mut Graph<'a>,
    mentioned: &'g mut [Option<usize>],
    item: usize,
    owner: NodeId,
    /// Whether a function or kernel is among them.
    functions: bool,
    /// Whether a `.global` variable is among them that may be copied so far.
    globals: bool,
}

impl<'a> Mentions<'_, 'a> {
    fn name(&mut self, name: Name<'a>) -> Option<NodeId> {
        let found = self.graph.find(name.text)?;
        let last = &mut self.mentioned[found as usize];
        if *last != Some(self.item) {
            *last = Some(self.item);
            let node = self.graph.node(found);
            match node.kind {
                Kind::Kernel | Kind::Function => self.functions = true,
                Kind::Global => self.globals |= !node.single,
                Kind::Const | Kind::Scratch => {}
            }
            self.graph.node_mut(self.owner).uses.push(found);
        }
        Some(found)
    }

    /// What the host stores at load is an address that anything may use.
    fn initializer(&mut self, variable: &Variable<'a>) -> Result<(), Whole> {
        // Most initializers are long lists of numbers.
        let mut open: Vec<&Initializer<'a>> = variable.init.iter().collect();
        while let Some(value) = open.pop() {
            match value {
                Initializer::Address { name, .. } => {
                    if let Some(node) = self.name(*name) {
                        self.address(node)?;
                    }
                }
                Initializer::List(values) => {
                    let parts = values.iter().rev();
                    open.extend(parts.filter(|value| {
                        matches!(value, Initializer::Address { .. } | Initializer::List(_))
                    }));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The address of a node is stored.
    fn address(&mut self, node: NodeId) -> Result<(), Whole> {
        match self.graph.node(node).kind {
            Kind::Kernel => {
                let name = self.graph.node(node).name;
                return Err(Whole::DeviceLaunch(name.to_owned()));
            }
            Kind::Function => self.graph.node_mut(self.owner).indirect = true,
            Kind::Global => self.graph.node_mut(node).single = true,
            Kind::Const | Kind::Scratch => {}
        }
        Ok(())
    }

    fn body(&mut self, module: &Module<'a>, body: &Body<'a>) -> Result<(), Whole> {
        for operand in &body.operands {
            if let Some(name) = operand.name()
                && !name.text.starts_with('%')
            {
                self.name(name);
            }
        }
        for statement in &body.statements {
            match statement {
                Statement::Variable(variable) => self.declared(variable)?,
                Statement::Targets(targets) if targets.calls => {
                    for name in &targets.targets {
                        self.name(*name);
                    }
                    self.graph.node_mut(self.owner).indirect = true;
                }
                Statement::Prototype(_) => self.graph.node_mut(self.owner).indirect = true,
                _ => {}
            }
        }
        if self.functions || self.globals {
            let found = addresses::follow(module, body, self.graph);
            for node in found {
                self.address(node)?;
            }
        }
        Ok(())
    }

    /// A variable that is declared in a function.
    fn declared(&mut self, variable: &Variable<'a>) -> Result<(), Whole> {
        if variable.count.is_some() && !variable.name.text.starts_with('%') {
            let ranges = Stems::of_range(variable.name.text);
            let owner = self.graph.node_mut(self.owner);
            owner.kept = owner.kept.join(ranges);
        }
        // It lives as long as the module, and is one for all that call the function.
        if variable.space == Space::Global {
            self.graph.node_mut(self.owner).single = true;
        }
        self.initializer(variable)
    }
}
