//! The table of fragments: the registers of each operand, and which element of a matrix is
//! in which register of which lane.
//!
//! All `mma` but that of quad pairs ([`super::quad_pair`]) have one scheme. A lane is in
//! group `lane / 4` and has place `lane % 4` there. A register with `e` elements holds, over
//! the 32 lanes, a block of 8 lines of `4 * e` elements: line `group`, elements
//! `place * e` and on. So the bytes of a register, lane after lane, are a block line by line.
//! The lines are rows of A and columns of B.
//!
//! - A of 16 rows: registers 0, 2, … are blocks of rows 0 to 7, side by side along `k`;
//!   1, 3, … those of rows 8 to 15. Of 8 rows: all side by side.
//! - B: all side by side.
//! - C and D: a lane holds elements `2 * place` and `2 * place + 1` of its row, and for 16
//!   rows those of row `group + 8` as well.

use super::element::Element;
use super::operation::{Code, Operands, Operation};
use super::tensor_transfer::Tile;

/// What stands behind C where A and B have scales: those of A, which byte and which thread is the
/// first that has them, and the same of B.
pub const SCALES: [(usize, bool); 4] = [(1, false), (2, false), (1, false), (2, false)];

/// The registers of each operand that is a fragment. `None` for a form that does not exist.
pub fn operands(operation: &Operation) -> Option<Operands> {
    let [m, n, k] = operation.shape;
    let [d, a, b, c] = operation.elements;
    if [m, n, k].iter().any(|size| !(1..=256).contains(size)) {
        return None;
    }
    // Registers of a fragment with this number of elements.
    let registers = |elements: u32, element: Element| match element {
        Element::F64 => ((elements / 32) as usize, true),
        _ => ((elements * element.container() / 1024) as usize, false),
    };
    let none = (0, false);
    let sparse = operation.has(Operation::SPARSE);
    let behind = match operation.scales() {
        None => usize::from(sparse),
        Some(_) => SCALES.iter().map(|(count, _)| count).sum(),
    };
    let behind = (behind, false);
    let (counts, writes) = match operation.code {
        Code::Mma => {
            // Four quad pairs have a product each.
            let products = if is_quad_pair(operation) { 4 } else { 1 };
            let stored = if sparse { k / 2 } else { k };
            (
                [
                    registers(products * m * n, d),
                    registers(products * m * stored, a),
                    registers(products * n * k, b),
                    registers(products * m * n, c),
                    behind,
                ],
                true,
            )
        }
        Code::WmmaMma => (
            [
                registers(m * n, d),
                factor(m * k, a),
                factor(n * k, b),
                registers(m * n, c),
                none,
            ],
            true,
        ),
        Code::WarpGroupMma => {
            // Each warp has a quarter of the rows.
            let in_registers = operation.has(Operation::A_IN_REGISTERS);
            let a = if in_registers { (4, false) } else { none };
            ([registers(m / 4 * n, d), a, behind, none, none], true)
        }
        Code::LoadA => ([factor(m * k, a), none, none, none, none], true),
        Code::LoadB => ([factor(n * k, a), none, none, none, none], true),
        Code::LoadC => ([registers(m * n, a), none, none, none, none], true),
        Code::StoreD => ([registers(m * n, a), none, none, none, none], false),
        Code::LoadMatrix => ([(k as usize, false), none, none, none, none], true),
        Code::StoreMatrix => ([(k as usize, false), none, none, none, none], false),
        Code::MoveMatrix => ([(1, false), (1, false), none, none, none], true),
        Code::TensorLoad | Code::TensorStore => {
            let count = (n * Tile::from_number(m)?.registers()) as usize;
            let loads = operation.code == Code::TensorLoad;
            ([(count, false), none, none, none, none], loads)
        }
    };
    let operands = Operands { counts, writes };
    (exists(operation) && counts[0].0 > 0).then_some(operands)
}

/// Halves of A and B have 8 registers in every shape; what is more than the matrix needs
/// repeats it.
fn factor(elements: u32, element: Element) -> (usize, bool) {
    match element {
        Element::F64 => ((elements / 32) as usize, true),
        Element::F16 => (8, false),
        _ => ((elements * element.bits() / 1024) as usize, false),
    }
}

/// `m8n8k4` of halves, which four groups of eight lanes compute each for itself.
pub(super) fn is_quad_pair(operation: &Operation) -> bool {
    operation.shape == [8, 8, 4] && operation.elements[1] == Element::F16
}

/// Whether the instruction is one that this module computes.
fn exists(operation: &Operation) -> bool {
    use Element::*;
    let [d, a, b, c] = operation.elements;
    let [m, n, k] = operation.shape;
    let saturates = operation.has(Operation::SATURATES);
    let sparse = operation.has(Operation::SPARSE);
    let shape = (m, n, k);
    let float_sum = |element| matches!(element, F16 | F32);
    let narrow = |element| matches!(element, E4m3 | E5m2 | E2m3 | E3m2 | E2m1);
    let ue4m3 = operation.has(Operation::UE4M3);
    match (operation.code, operation.scales()) {
        (_, None) => {}
        (Code::Mma, Some(scales)) if !sparse && (d, c) == (F32, F32) => {
            return match (a, b) {
                (E2m1x2, E2m1x2) => shape == (16, 8, 64) && (scales == 4 || scales == 2 && !ue4m3),
                _ => narrow(a) && narrow(b) && shape == (16, 8, 32) && scales == 1 && !ue4m3,
            };
        }
        _ => return false,
    }
    match operation.code {
        Code::Mma if sparse => match (a, b) {
            (F16, F16) => matches!(shape, (16, 8, 16 | 32)) && float_sum(d) && c == d,
            (Bf16, Bf16) => matches!(shape, (16, 8, 16 | 32)) && (d, c) == (F32, F32),
            (Tf32, Tf32) => matches!(shape, (16, 8, 8 | 16)) && (d, c) == (F32, F32),
            (S8 | U8, S8 | U8) => matches!(shape, (16, 8, 32 | 64)) && (d, c) == (S32, S32),
            (S4 | U4, S4 | U4) => matches!(shape, (16, 8, 64 | 128)) && (d, c) == (S32, S32),
            _ => narrow(a) && narrow(b) && shape == (16, 8, 64) && float_sum(d) && c == d,
        },
        Code::Mma => match (a, b) {
            (F16, F16) if shape == (8, 8, 4) => float_sum(d) && (c == d || (d, c) == (F32, F16)),
            (F16, F16) => matches!(shape, (16, 8, 8 | 16)) && float_sum(d) && c == d,
            (Bf16, Bf16) => matches!(shape, (16, 8, 8 | 16)) && (d, c) == (F32, F32),
            (Tf32, Tf32) => matches!(shape, (16, 8, 4 | 8)) && (d, c) == (F32, F32),
            (F64, F64) => matches!(shape, (8, 8, 4) | (16, 8, 4 | 8 | 16)) && (d, c) == (F64, F64),
            (E4m3 | E5m2, E4m3 | E5m2) if shape == (16, 8, 16) => float_sum(d) && c == d,
            (S8 | U8, S8 | U8) => {
                matches!(shape, (8, 8, 16) | (16, 8, 16 | 32)) && (d, c) == (S32, S32)
            }
            (S4 | U4, S4 | U4) => {
                matches!(shape, (8, 8, 32) | (16, 8, 32 | 64)) && (d, c) == (S32, S32)
            }
            (B1, B1) => {
                matches!(shape, (8, 8, 128) | (16, 8, 128 | 256))
                    && (d, c) == (S32, S32)
                    && !saturates
            }
            _ => narrow(a) && narrow(b) && shape == (16, 8, 32) && float_sum(d) && c == d,
        },
        Code::WmmaMma => {
            wmma_shape(shape, a)
                && a == b
                && match a {
                    F16 => float_sum(d) && float_sum(c) && !saturates,
                    Bf16 | Tf32 => (d, c) == (F32, F32),
                    F64 => (d, c) == (F64, F64),
                    _ => (d, c) == (S32, S32),
                }
        }
        Code::WarpGroupMma => {
            let flags = [
                Operation::TRANSPOSED,
                Operation::TRANSPOSED_B,
                Operation::NEGATED_A,
                Operation::NEGATED_B,
            ];
            let [transposed_a, transposed_b, negated_a, negated_b] =
                flags.map(|flag| operation.has(flag));
            let transposed = transposed_a || transposed_b;
            let negated = negated_a || negated_b;
            let types = match (a, b) {
                (F16, F16) => float_sum(d),
                (Bf16, Bf16) => d == F32,
                (Tf32, Tf32) => d == F32 && !transposed,
                (E4m3 | E5m2, E4m3 | E5m2) => float_sum(d) && !transposed,
                (S8 | U8, S8 | U8) => d == S32 && !transposed && !negated,
                (B1, B1) => d == S32 && !transposed && !negated && !saturates && !sparse,
                _ => false,
            };
            let in_registers = operation.has(Operation::A_IN_REGISTERS);
            types
                && c == d
                && m == 64
                && n.is_multiple_of(8)
                && k * a.bits() == if sparse { 512 } else { 256 }
                && !(in_registers && transposed_a)
        }
        Code::LoadA | Code::LoadB => wmma_shape(shape, a),
        Code::LoadC | Code::StoreD => match a {
            F16 => wmma_shape(shape, F16),
            F32 => wmma_shape(shape, F16) || shape == (16, 16, 8),
            S32 => wmma_shape(shape, S8) || matches!(shape, (8, 8, 32 | 128)),
            F64 => shape == (8, 8, 4),
            _ => false,
        },
        Code::LoadMatrix | Code::StoreMatrix => (m, n, a) == (8, 8, B16) && matches!(k, 1 | 2 | 4),
        Code::MoveMatrix => (m, n, k, a) == (8, 8, 1, B16),
        Code::TensorLoad | Code::TensorStore => {
            let tile = Tile::from_number(m);
            n.is_power_of_two() && tile.is_some_and(|tile| n * tile.registers() <= 128)
        }
    }
}

/// Whether `wmma` has A and B of these elements in a shape.
fn wmma_shape(shape: (u32, u32, u32), element: Element) -> bool {
    use Element::*;
    match element {
        F16 | Bf16 | S8 | U8 => matches!(shape, (16, 16, 16) | (8, 32, 16) | (32, 8, 16)),
        Tf32 => shape == (16, 16, 8),
        F64 => shape == (8, 8, 4),
        S4 | U4 => shape == (8, 8, 32),
        B1 => shape == (8, 8, 128),
        _ => false,
    }
}

/// A `mma` that is a part of a `wmma`: the first registers of its A, B, C and D.
///
/// `m16n16` are two products side by side, `m32n8` two below each other. `m8n32` is
/// computed transposed: the lines of its B are in registers as rows of A are elsewhere, and
/// the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub a: usize,
    pub b: usize,
    pub c: usize,
    pub d: usize,
}

/// The parts of a `wmma.mma`. With `transposed`, `a` of a part is the first register of B.
pub(super) fn parts(operation: &Operation) -> (bool, usize, [Part; 2]) {
    let [m, n, k] = operation.shape;
    let [d, a, _, c] = operation.elements;
    // Registers of a product with 16 rows.
    let sum = |element: Element| if element == Element::F16 { 2 } else { 4 };
    let rows = (16 * k * a.bits() / 1024) as usize;
    let part = |number: usize| {
        let (a, b) = match (m, n) {
            (16, 16) => (0, number * rows / 2),
            _ => (number * rows, 0),
        };
        Part {
            a,
            b,
            c: number * sum(c),
            d: number * sum(d),
        }
    };
    let count = if m * n == 256 { 2 } else { 1 };
    (m == 8 && n == 32, count, [part(0), part(1)])
}

/// The elements of a `wmma` fragment in one register of a lane: the first, and those that
/// follow it along the other dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Row and column of the first element.
    pub row: u32,
    pub column: u32,
    /// Whether the following elements are in the same row; otherwise in the same column.
    pub along_row: bool,
}

/// Where the elements of register `register` of `lane` are in the matrix that a `wmma`
/// transfer moves.
pub(super) fn place(operation: &Operation, register: u32, lane: u32) -> Place {
    let [m, n, k] = operation.shape;
    let element = operation.elements[0];
    let (group, place) = (lane / 4, lane % 4);
    let in_register = (32 / element.bits()).max(1);
    match operation.code {
        Code::LoadC | Code::StoreD => {
            // Registers of 32 bits and more hold one element, of the two side by side.
            let (block, at) = match element {
                Element::F16 => (register, 2 * place),
                _ => (register / 2, 2 * place + register % 2),
            };
            let (line, at) = match (m, n) {
                // Two products of 16 rows, side by side.
                (16, 16) => (8 * (block % 2) + group, 8 * (block / 2) + at),
                _ => (8 * block + group, at),
            };
            match (m, n) {
                (8, 32) => Place {
                    row: at,
                    column: line,
                    along_row: false,
                },
                _ => Place {
                    row: line,
                    column: at,
                    along_row: true,
                },
            }
        }
        _ => {
            let of_a = operation.code == Code::LoadA;
            let lines = if of_a { m } else { n };
            let needed = (lines * k * element.bits() / 1024).max(1);
            let register = match element {
                Element::F64 => register,
                _ => register % needed,
            };
            // Whether the lines are laid out as the rows of A in `mma`.
            let as_rows = match (m, n) {
                (8, 32) => !of_a,
                _ => of_a,
            };
            let along = k / (4 * in_register);
            let (line, step) = if as_rows && lines >= 16 {
                let in_product = 2 * along;
                let (product, register) = (register / in_product, register % in_product);
                (16 * product + 8 * (register % 2), register / 2)
            } else {
                (8 * (register / along), register % along)
            };
            let (line, at) = (line + group, (4 * step + place) * in_register);
            if of_a {
                Place {
                    row: line,
                    column: at,
                    along_row: true,
                }
            } else {
                Place {
                    row: at,
                    column: line,
                    along_row: false,
                }
            }
        }
    }
}
