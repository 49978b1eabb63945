//! Where groups that wait for the block keep their registers.

use super::Isa;
use super::builder::Variable;

/// What a group keeps of a variable.
#[derive(Clone, Copy)]
pub(super) enum PartKind {
    Vector,
    Mask,
    /// A general-purpose register, of 32 or 64 bits.
    Int {
        wide: bool,
    },
}

/// A variable of a register, and its offset among those of the group.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub variable: Variable,
    pub kind: PartKind,
    pub offset: i32,
}

/// The layout of a group's registers.
pub(super) struct PackedRegisters {
    /// By register: its parts, if it is live at a sync point.
    pub parts: Vec<Vec<Part>>,
    /// The size of all registers of a group: whole lines.
    pub bytes: u32,
}

impl PackedRegisters {
    pub fn new(registers: Vec<Vec<(Variable, PartKind)>>, isa: Isa) -> PackedRegisters {
        let size = |kind: PartKind| match (kind, isa) {
            (PartKind::Vector, _) => 64,
            // AVX2 has vectors for masks.
            (PartKind::Mask, Isa::Avx2) => 64,
            (PartKind::Mask, Isa::Avx512) => 2,
            (PartKind::Int { wide }, _) => 4 << u32::from(wide),
        };
        let place = |parts: Vec<(Variable, PartKind)>| {
            let parts = parts.into_iter().map(|(variable, kind)| Part {
                variable,
                kind,
                offset: 0,
            });
            parts.collect()
        };
        let mut parts: Vec<Vec<Part>> = registers.into_iter().map(place).collect();
        // The largest come first, so that each is aligned.
        let mut end = 0;
        let mut all: Vec<&mut Part> = parts.iter_mut().flatten().collect();
        all.sort_by_key(|part| std::cmp::Reverse(size(part.kind)));
        for part in all {
            part.offset = end;
            end += size(part.kind);
        }
        PackedRegisters {
            parts,
            bytes: end.cast_unsigned().next_multiple_of(64),
        }
    }
}
