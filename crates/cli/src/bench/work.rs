//! What a launch computes and moves: counted, by the executions of each instruction.

use ptxkit::ptx::ast::Modifiers;
use ptxkit::ptx::isa::{self, Effect};
use ptxkit::ptx::names::{Modifier, Opcode, Type};

/// The threads that execute one `mma`, and one `wgmma`.
const WARP: u64 = 32;
const WARPGROUP: u64 = 128;

/// The work of one launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Work {
    /// Floating-point operations; an fma has two.
    pub f16: u64,
    pub f32: u64,
    pub f64: u64,
    /// Those of matrix instructions, of all types.
    pub matrix: u64,
    /// Bytes that threads load from and store to global memory, whether from a cache or not.
    pub loaded: u64,
    pub stored: u64,
}

impl Work {
    /// Of instructions with their executions.
    pub fn of<'m>(executions: impl Iterator<Item = (Opcode, &'m Modifiers, u64)>) -> Work {
        let mut work = Work::default();
        let mut matrix_of_warps = 0_u64;
        for (opcode, modifiers, times) in executions {
            if times == 0 {
                continue;
            }
            let ty = modifiers.types().next();
            if let Some(each) = matrix(opcode, modifiers) {
                matrix_of_warps = matrix_of_warps.saturating_add(each.saturating_mul(times));
            } else if let Some(each) = operations(opcode) {
                let (count, parts) = match ty {
                    Some(Type::F64) => (&mut work.f64, 1),
                    Some(Type::F32) => (&mut work.f32, 1),
                    Some(Type::F32x2) => (&mut work.f32, 2),
                    Some(Type::F16 | Type::Bf16) => (&mut work.f16, 1),
                    Some(Type::F16x2 | Type::Bf16x2) => (&mut work.f16, 2),
                    _ => continue,
                };
                *count = count.saturating_add(times.saturating_mul(each * parts));
            }
            let elsewhere = [
                Modifier::Shared,
                Modifier::Local,
                Modifier::Param,
                Modifier::Const,
            ];
            if modifiers.first_of(&elsewhere).is_some() {
                continue;
            }
            let vector = match modifiers.first_of(&[Modifier::V2, Modifier::V4, Modifier::V8]) {
                Some(Modifier::V2) => 2,
                Some(Modifier::V4) => 4,
                Some(_) => 8,
                None => 1,
            };
            let bytes = modifiers.types().last().map_or(0, Type::bytes) * vector;
            let bytes = bytes.saturating_mul(times);
            let effect = isa::meaning(opcode, modifiers).effect;
            if matches!(effect, Effect::Load | Effect::Update) {
                work.loaded = work.loaded.saturating_add(bytes);
            }
            if matches!(effect, Effect::Store | Effect::Update) {
                work.stored = work.stored.saturating_add(bytes);
            }
        }
        work.matrix = matrix_of_warps;
        work
    }

    /// All floating-point operations.
    pub fn operations(&self) -> u64 {
        [self.f16, self.f32, self.f64, self.matrix]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

/// Floating-point operations of an instruction on one number.
fn operations(opcode: Opcode) -> Option<u64> {
    match opcode {
        Opcode::Fma | Opcode::Mad => Some(2),
        Opcode::Add
        | Opcode::Sub
        | Opcode::Mul
        | Opcode::Div
        | Opcode::Rcp
        | Opcode::Sqrt
        | Opcode::Rsqrt
        | Opcode::Sin
        | Opcode::Cos
        | Opcode::Lg2
        | Opcode::Ex2
        | Opcode::Tanh => Some(1),
        _ => None,
    }
}

/// The operations that each thread has of a product of matrices, by its shape: `m16n8k16`.
fn matrix(opcode: Opcode, modifiers: &Modifiers) -> Option<u64> {
    let threads = match opcode {
        Opcode::Mma => WARP,
        Opcode::Wmma if modifiers.has(Modifier::Mma) => WARP,
        Opcode::Wgmma if modifiers.has(Modifier::MmaAsync) => WARPGROUP,
        _ => return None,
    };
    let shape = modifiers.as_slice().iter().find_map(|word| {
        let (m, rest) = word.text().strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        let number = |text: &str| text.parse::<u64>().ok();
        Some(number(m)? * number(n)? * number(k)?)
    })?;
    Some(2 * shape / threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(instructions: &[(&str, u64)]) -> Work {
        let parsed: Vec<_> = instructions
            .iter()
            .map(|(text, times)| {
                let mut words = text.split('.');
                let opcode = words.next().and_then(Opcode::from_text).unwrap();
                let mut modifiers = Modifiers::NONE;
                for word in words {
                    assert!(modifiers.push(Modifier::from_text(word).unwrap()));
                }
                (opcode, modifiers, *times)
            })
            .collect();
        Work::of(parsed.iter().map(|(opcode, m, times)| (*opcode, m, *times)))
    }

    #[test]
    fn arithmetic_is_counted_by_type() {
        let work = of(&[
            ("fma.rn.f32", 10),
            ("add.f32", 3),
            ("add.s32", 100),
            ("mul.rn.f64", 4),
            ("fma.rn.f16x2", 5),
            ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 32),
        ]);
        assert_eq!((work.f32, work.f64, work.f16), (23, 4, 20));
        assert_eq!(work.matrix, 2 * 16 * 8 * 16);
        assert_eq!(work.operations(), 23 + 4 + 20 + 4096);
    }

    #[test]
    fn bytes_of_global_memory_are_counted() {
        let work = of(&[
            ("ld.global.v4.f32", 2),
            ("st.f64", 3),
            ("atom.global.add.u32", 5),
            ("ld.shared.f32", 100),
            ("ld.param.u64", 100),
        ]);
        assert_eq!((work.loaded, work.stored), (32 + 20, 24 + 20));
    }
}
