//! Fences between threads, and the threads that an operation reaches (PTX ISA, "Scope").

use ptx::ast::Mnemonic;
use ptx::names::{Modifier, Opcode};

/// The threads that an atomic or a fence orders, the fewest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Those of a block.
    Block,
    /// Those of a cluster of blocks.
    Cluster,
    /// Those of a device.
    Device,
    /// All.
    System,
}

impl Scope {
    /// That of an atomic: the device where nothing is said.
    pub fn of_atomic(mnemonic: &Mnemonic<'_>) -> Scope {
        Scope::written(mnemonic).unwrap_or(Scope::Device)
    }

    /// That of a fence between threads; `None` for one between proxies, and for what is no
    /// fence.
    pub fn of_fence(mnemonic: &Mnemonic<'_>) -> Option<Scope> {
        const WORDS: [Modifier; 7] = [
            Modifier::Sc,
            Modifier::AcqRel,
            Modifier::Cta,
            Modifier::Cluster,
            Modifier::Gpu,
            Modifier::Gl,
            Modifier::Sys,
        ];
        let mut words = mnemonic.modifiers.as_slice().iter();
        let fence = matches!(mnemonic.opcode, Opcode::Fence | Opcode::Membar)
            && words.all(|word| WORDS.contains(word));
        fence.then(|| Scope::written(mnemonic))?
    }

    fn written(mnemonic: &Mnemonic<'_>) -> Option<Scope> {
        let mut words = mnemonic.modifiers.as_slice().iter();
        words.find_map(|word| {
            Some(match word {
                Modifier::Cta => Scope::Block,
                Modifier::Cluster => Scope::Cluster,
                Modifier::Gpu | Modifier::Gl => Scope::Device,
                Modifier::Sys => Scope::System,
                _ => return None,
            })
        })
    }
}
