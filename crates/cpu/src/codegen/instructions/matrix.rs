//! Operations on matrices: their description by slots, and the operands in requests.

use cranelift_codegen::ir::{Value, types};

use super::memory::space_of;
use crate::codegen::emitter::{EmitResult, Emitter};
use crate::math::rounding::Rounding;
use crate::matrix::{Code, Element, NO_SLOT, Operation, SCALES, Tile, operands};
use crate::program::{Arg, Base, Instruction, LoweringError, Program, Reg, Storage};
use ptx::ast::Modifiers;
use ptx::names::{Modifier as M, Opcode as O};

/// The fragments of an instruction in the order of its operands.
fn fragments<'p>(program: &'p Program<'_>, i: &'p Instruction) -> impl Iterator<Item = &'p [Arg]> {
    let args = program.list(i.args).iter().enumerate();
    let args = args.filter(|(n, arg)| i.is_fragment(*n, **arg));
    args.map(|(_, arg)| match arg {
        Arg::List(list) => program.list(*list),
        single => std::slice::from_ref(single),
    })
}

/// The registers that the operation reads.
pub(in crate::codegen) fn sources(program: &Program<'_>, i: &Instruction) -> Vec<Reg> {
    let results = usize::from(program.has_destination(i) && !i.keeps_destination());
    let mut registers = Vec::new();
    for arg in fragments(program, i).skip(results).flatten() {
        program.registers_of(*arg, &mut |reg| registers.push(reg));
    }
    registers
}

/// Whether threads store operands in their requests.
pub(in crate::codegen) fn has_request(program: &Program<'_>, i: &Instruction) -> bool {
    let mut args = program.list(i.args).iter().enumerate();
    i.opcode != O::Mma && args.any(|(n, arg)| !i.is_fragment(n, *arg))
}

/// The operation whose registers have these slots.
pub(in crate::codegen) fn operation(
    program: &Program<'_>,
    i: &Instruction,
    slots: &[Option<u32>],
) -> EmitResult<Operation> {
    let unsupported = |reason: &str| LoweringError::unsupported(i.span, reason);
    let mut operation =
        describe(program, i).ok_or_else(|| unsupported("unsupported form of matrices"))?;
    let operands =
        operands(&operation).ok_or_else(|| unsupported("unsupported shape or type of matrices"))?;
    let behind = match operation.scales() {
        Some(_) => &SCALES[..],
        None => &operands.counts[4..],
    };
    let expected = operands.counts[..4].iter().chain(behind);
    let mut expected = expected.filter(|(count, _)| *count > 0);
    let results = usize::from(program.has_destination(i));
    for (n, fragment) in fragments(program, i).enumerate() {
        let (count, wide) = expected.next().copied().unwrap_or_default();
        if fragment.len() != count {
            return Err(unsupported("an unexpected number of registers"));
        }
        for arg in fragment {
            let slot = match *arg {
                Arg::Sink if n < results => NO_SLOT,
                Arg::Reg(reg) => {
                    let bytes = if wide { 8 } else { 4 };
                    let found = program.registers[reg.index()].bytes();
                    // Bytes and threads of scales have 16 bits, and constants in their place 32.
                    if found != bytes && !(n > 4 && found == 2) {
                        return Err(unsupported("registers of another width"));
                    }
                    match slots[reg.index()] {
                        Some(slot) => slot,
                        None if n < results => NO_SLOT,
                        None => return Err(unsupported("an operand that is not stored")),
                    }
                }
                _ => return Err(unsupported("unsupported kind of operand")),
            };
            operation.slots.push(slot);
        }
    }
    match expected.next() {
        None => Ok(operation),
        Some(_) => Err(unsupported("an operand is missing")),
    }
}

/// The operation without its slots; `None` if a word of it is unknown.
fn describe(program: &Program<'_>, i: &Instruction) -> Option<Operation> {
    let m = &i.modifiers;
    let words = || m.as_slice().iter().map(|word| word.text());
    if i.opcode == O::Tcgen05 {
        return describe_tensor(i);
    }
    let code = match i.opcode {
        O::Mma => Code::Mma,
        O::Ldmatrix => Code::LoadMatrix,
        O::Stmatrix => Code::StoreMatrix,
        O::Movmatrix => Code::MoveMatrix,
        O::Wmma if m.has(M::Mma) => Code::WmmaMma,
        O::Wgmma => Code::WarpGroupMma,
        O::Wmma => match words().take(2).collect::<Vec<_>>()[..] {
            ["load", "a"] => Code::LoadA,
            ["load", "b"] => Code::LoadB,
            ["load", "c"] => Code::LoadC,
            ["store", "d"] => Code::StoreD,
            _ => return None,
        },
        _ => return None,
    };
    let mut shape = words().find_map(shape)?;
    let elements: Vec<Element> = words().filter_map(Element::from_text).collect();
    let elements = match (code, &elements[..]) {
        (Code::Mma | Code::WmmaMma, &[d, a, b, c]) => [d, a, b, c],
        // Halves go without saying.
        (Code::WmmaMma, &[d, c]) => [d, Element::F16, Element::F16, c],
        // D is C.
        (Code::WarpGroupMma, &[d, a, b]) => [d, a, b, d],
        (Code::Mma | Code::WmmaMma | Code::WarpGroupMma, _) => return None,
        (_, &[element]) => [element; 4],
        _ => return None,
    };
    if matches!(
        code,
        Code::LoadMatrix | Code::StoreMatrix | Code::MoveMatrix
    ) {
        shape[2] = match m.first_of(&[M::X1, M::X2, M::X4]) {
            Some(M::X4) => 4,
            Some(M::X2) => 2,
            _ => 1,
        };
    }
    let rounding = match m.first_of(&[M::Rz, M::Rm, M::Rp]) {
        Some(M::Rz) => Rounding::Zero,
        Some(M::Rm) => Rounding::Down,
        Some(M::Rp) => Rounding::Up,
        _ => Rounding::Nearest,
    };
    let mut columns = words().filter(|word| matches!(*word, "row" | "col"));
    let [first, second] = [0; 2].map(|_: u32| columns.next() == Some("col"));
    let flag = |bit: u32, set: bool| if set { bit } else { 0 };
    let address = program.list(i.args).iter().find_map(|arg| match arg {
        Arg::Address(Base::Storage(storage), _) => Some(*storage),
        _ => None,
    });
    let shared = m.first_of(&[M::Shared, M::SharedCta]).is_some()
        || matches!(address, Some(Storage::Shared(_) | Storage::DynamicShared));
    let sparse = m.first_of(&[M::Sp, M::SpOrderedMetadata]).is_some();
    let selector = match program.list(i.args).get(4 + usize::from(code == Code::Mma)) {
        Some(Arg::Int(lanes)) if sparse => *lanes as u32 & 3,
        _ => 0,
    };
    let mut elements = elements;
    let scaled = if m.has(M::BlockScale) {
        if m.first_of(&[M::KindMxf4, M::KindMxf4nvf4]).is_some() {
            elements[1..3].fill(Element::E2m1x2);
        }
        scale_flags(m)
    } else {
        // Kinds with scales, which are refused without them.
        let kinds = [M::KindMxf8f6f4, M::KindMxf4, M::KindMxf4nvf4];
        if m.first_of(&kinds).is_some() {
            return None;
        }
        0
    };
    let of_group = match code {
        Code::WarpGroupMma => warp_group_flags(program, i)?,
        _ => 0,
    };
    Some(Operation {
        code,
        shape,
        elements,
        flags: of_group
            | scaled
            | flag(Operation::TRANSPOSED, m.has(M::Trans))
            | flag(Operation::SHARED, shared)
            | flag(Operation::SATURATES, m.has(M::Satfinite))
            | flag(Operation::XOR, m.has(M::Xor))
            | flag(Operation::A_COLUMNS, first)
            | flag(Operation::B_COLUMNS, second)
            | flag(Operation::SPARSE, sparse)
            | selector << Operation::SELECTOR
            | (rounding as u32) << Operation::ROUNDING,
        slots: Vec::new(),
    })
}

/// The same for a load or store of tensor memory.
fn describe_tensor(i: &Instruction) -> Option<Operation> {
    let m = &i.modifiers;
    let words = || m.as_slice().iter().map(|word| word.text());
    let code = match m.first_of(&[M::Ld, M::St])? {
        M::Ld if m.has(M::Red) => return None,
        M::Ld => Code::TensorLoad,
        _ => Code::TensorStore,
    };
    let packs = m.first_of(&[M::Pack16b, M::Unpack16b]).is_some();
    let repeated = words().find_map(|word| word.strip_prefix('x')?.parse().ok())?;
    Some(Operation {
        code,
        shape: [words().find_map(Tile::from_text)? as u32, repeated, 1],
        elements: [Element::S32; 4],
        flags: if packs { Operation::PACKS } else { 0 },
        slots: Vec::new(),
    })
}

/// What the operands of `wgmma.mma_async` say of A and B: the signs behind `scale-d`, and for
/// halves, whether those in memory are transposed. `None` for other operands.
fn warp_group_flags(program: &Program<'_>, i: &Instruction) -> Option<u32> {
    let args = program.list(i.args);
    let in_registers = matches!(args.get(1)?, Arg::List(_));
    let number = |arg: &Arg| match arg {
        Arg::Int(number) => Some(number.cast_signed()),
        _ => None,
    };
    // Behind the descriptors and whether D is added; metadata and their lanes come before that.
    let first = if i.modifiers.has(M::Sp) { 6 } else { 4 };
    let numbers: Vec<i64> = args
        .get(first..)?
        .iter()
        .map(number)
        .collect::<Option<_>>()?;
    let (negated_a, negated_b, transposed) = match numbers[..] {
        [] => (false, false, &[][..]),
        [a, b, ref transposed @ ..] => (a == -1, b == -1, transposed),
        _ => return None,
    };
    let (transposed_a, transposed_b) = match (in_registers, transposed) {
        (_, []) => (false, false),
        (true, [b]) => (false, *b == 1),
        (false, [a, b]) => (*a == 1, *b == 1),
        _ => return None,
    };
    let flags = [
        (Operation::A_IN_REGISTERS, in_registers),
        (Operation::NEGATED_A, negated_a),
        (Operation::NEGATED_B, negated_b),
        (Operation::TRANSPOSED, transposed_a),
        (Operation::TRANSPOSED_B, transposed_b),
    ];
    let set = flags.into_iter().filter(|(_, set)| *set);
    Some(set.fold(0, |all, (flag, _)| all | flag))
}

/// How many scales `mma` has for a row of A, and of which type.
fn scale_flags(m: &Modifiers) -> u32 {
    let scales = match m.first_of(&[M::ScaleVec1X, M::ScaleVec2X, M::ScaleVec4X]) {
        Some(M::ScaleVec4X) => 3,
        Some(M::ScaleVec2X) => 2,
        None if m.has(M::KindMxf4) => 2,
        _ => 1,
    };
    let type_ = if m.has(M::Ue4m3) { Operation::UE4M3 } else { 0 };
    scales << Operation::SCALES | type_
}

/// `m16n8k16`, or `m8n8`.
fn shape(word: &str) -> Option<[u32; 3]> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k').unwrap_or((rest, "1"));
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}

impl Emitter<'_, '_> {
    /// The operands in the request: the address of a transfer, and the elements from a row
    /// or column to the next. Of `wgmma` the descriptors of A and B, and whether D is added.
    pub fn matrix_request(&mut self, i: &Instruction) -> EmitResult<Vec<Value>> {
        let mut values = Vec::new();
        if i.opcode == O::Wgmma {
            values.push(match self.arg(i, 1)? {
                Arg::List(_) => self.int(types::I64, 0),
                _ => self.operand(i, 1, types::I64)?,
            });
            values.push(self.operand(i, 2, types::I64)?);
            let adds = if i.modifiers.has(M::Sp) { 5 } else { 3 };
            values.push(self.predicate(i, adds)?);
            return Ok(values);
        }
        // Its operands are registers, but for the selector of a sparse one.
        if i.opcode == O::Mma {
            return Ok(values);
        }
        if i.opcode == O::Tcgen05 {
            let (mut address, mut further) = (None, 0);
            for n in 0..self.arg_count(i) {
                match self.arg(i, n)? {
                    Arg::Address(..) => address = Some(self.address_value(i, n)?.1),
                    Arg::Int(columns) => further = columns,
                    _ => {}
                }
            }
            values.extend(address);
            values.push(self.int(types::I64, further));
            return Ok(values);
        }
        for n in 0..self.arg_count(i) {
            if i.is_fragment(n, self.arg(i, n)?) {
                continue;
            }
            if !values.is_empty() {
                values.push(self.operand(i, n, types::I32)?);
                continue;
            }
            let (base, offset) = self.address(i, n)?;
            values.push(self.address_in(space_of(i), base, offset));
        }
        if values.len() == 1
            && let Some(operation) = describe(self.program, i)
        {
            values.push(self.int(types::I32, operation.default_distance().into()));
        }
        Ok(values)
    }
}
