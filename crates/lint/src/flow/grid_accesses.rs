//! The accesses to global memory that two blocks of a grid may make to the same bytes.

use super::HashMap;
use super::accesses::SharedAccess;
use super::affine::{Linear, Term};
use super::context::{Flow, FunctionContext};
use super::evaluate::{Evaluator, Turns};
use super::lanes::Symbols;
use super::spans::FAR;
use super::values::Definition;
use ptx::names::{Opcode, SpecialRegister};

/// With more accesses, a kernel is not looked at.
const ACCESSES: usize = 48;

/// An access whose address is a sum of a base, thread, block and constants.
#[derive(Clone, Copy, Debug)]
pub(super) struct GridAccess {
    pub of: SharedAccess,
    address: Linear,
}

/// Those of bases that are written and not accessed at one place by each thread alone.
pub(super) fn meeting(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
) -> Option<Vec<GridAccess>> {
    let is_product = |term: &Term| match term {
        Term::Product(_) => true,
        Term::Value(value) => match flow.values.definition(*value) {
            Some(Definition::Written(id)) => flow
                .instructions
                .get(id)
                .is_some_and(|instruction| instruction.opcode == Opcode::Mul),
            _ => false,
        },
        _ => false,
    };
    let address = |of: &SharedAccess, base: Term| {
        let address = function.linear(of.access.address)?;
        let known = |term: &Term| {
            matches!(term, Term::Special(_) | Term::Parameter(..)) || is_product(term)
        };
        let mut terms = address.terms().iter();
        let all = terms.all(|(term, _)| *term == base || known(term));
        (all && !matches!(base, Term::Value(_))).then_some(address)
    };
    let based = || {
        let accesses = function.global_accesses().iter();
        accesses.filter_map(|of| Some((of, of.base?)))
    };
    // Most accesses are reads of what nobody writes.
    let mut of_base: HashMap<Term, Vec<GridAccess>> = HashMap::default();
    for (of, base) in based().filter(|(of, _)| of.writes()) {
        if !of_base.contains_key(&base) && address(of, base).is_some() {
            of_base.insert(base, Vec::new());
        }
    }
    if of_base.is_empty() {
        return None;
    }
    for (of, base) in based() {
        if let Some(accesses) = of_base.get_mut(&base)
            && let Some(address) = address(of, base)
        {
            accesses.push(GridAccess { of: *of, address });
        }
    }
    let mut found = Vec::new();
    for accesses in of_base.into_values() {
        let address = accesses.first()?.address;
        let of_block = address.terms().iter().any(|(term, _)| {
            is_product(term)
                || matches!(term, Term::Special(way) if way.text().starts_with("%ctaid"))
        });
        let own = of_block && accesses.iter().all(|access| access.address == address);
        if !own {
            found.extend(accesses);
        }
    }
    found.sort_unstable_by_key(|access| access.of.id);
    (!found.is_empty() && found.len() <= ACCESSES).then_some(found)
}

/// Where all threads of a block together access memory.
struct Place {
    of: SharedAccess,
    /// What is unknown of the address besides the number of the block.
    symbols: Symbols,
    /// From the first byte to behind the last, in the block of number 0.
    bytes: (i64, i64),
    /// How far on the next block lies.
    stride: i64,
}

impl Place {
    /// Whether the block of number `own` comes near to what the block of number `other` writes.
    fn meets(&self, own: i64, write: &Place, other: i64) -> bool {
        let within = |place: &Place, number: i64| {
            let shift = place.stride.saturating_mul(number);
            let (first, end) = place.bytes;
            (first.saturating_add(shift), end.saturating_add(shift))
        };
        let ((first, end), (from, to)) = (within(self, own), within(write, other));
        self.symbols == write.symbols && first < to && from < end
    }
}

/// The accesses that may meet one of the other block in one of these pairs of blocks, for the shape
/// of the evaluator: no condition is asked for, and no thread apart. In most kernels there is none.
pub(super) fn near(
    accesses: &[GridAccess],
    evaluator: &mut Evaluator<'_, '_, '_>,
    register: SpecialRegister,
    pairs: &[(i64, i64)],
) -> Vec<SharedAccess> {
    let places = places(accesses, evaluator, register);
    let writes = || places.iter().filter(|place| place.of.writes());
    let is_near = |place: &&Place| {
        let mut pairs = pairs.iter();
        pairs.any(|(one, other)| {
            writes().any(|write| place.meets(*other, write, *one))
                || place.of.writes() && places.iter().any(|read| read.meets(*other, place, *one))
        })
    };
    places
        .iter()
        .filter(is_near)
        .map(|place| place.of)
        .collect()
}

/// An address that has been worked out.
struct Known {
    address: Linear,
    symbols: Symbols,
    range: (i64, i64),
    stride: i64,
}

fn places(
    accesses: &[GridAccess],
    evaluator: &mut Evaluator<'_, '_, '_>,
    register: SpecialRegister,
) -> Vec<Place> {
    let mut known: Vec<Known> = Vec::new();
    let mut places = Vec::with_capacity(accesses.len());
    for GridAccess { of, address } in accesses {
        // Most addresses are a constant apart from another.
        let alike = |known: &Known| known.address.terms() == address.terms();
        let at = match known.iter().position(alike) {
            Some(at) => at,
            None => {
                let Some(found) = worked_out(of, *address, evaluator, register) else {
                    continue;
                };
                known.push(found);
                known.len() - 1
            }
        };
        let known = &known[at];
        let Some(apart) = address.constant.checked_sub(known.address.constant) else {
            continue;
        };
        let (least, most) = known.range;
        let end = most.saturating_add_unsigned(of.access.bytes);
        places.push(Place {
            of: *of,
            symbols: known.symbols,
            bytes: (least.saturating_add(apart), end.saturating_add(apart)),
            stride: known.stride,
        });
    }
    places
}

/// `None` for an address of which too little is known.
fn worked_out(
    of: &SharedAccess,
    address: Linear,
    evaluator: &mut Evaluator<'_, '_, '_>,
    register: SpecialRegister,
) -> Option<Known> {
    let block = evaluator.flow.graph.block_of(of.id);
    let place = evaluator.place(block, Turns::default());
    let sum = evaluator.operand(of.access.address, place).sum()?;
    let range = sum.lanes.range();
    if range.0 < -FAR || range.1 > FAR {
        return None;
    }
    let (symbols, stride) = evaluator.in_block(&sum.symbols, register, 1)?;
    Some(Known {
        address,
        symbols,
        range,
        stride,
    })
}
