//! A reference interpreter: executes the statements of a kernel, not its PTX, and shares nothing
//! with the compiler of the CPU device.
//!
//! The threads of a block execute each statement together, those for which a branch holds. So
//! barriers need no work, and the lanes of a warp operation are the threads at it. Kernels with
//! other instructions than those here have no result.

use std::collections::HashMap;

use crate::kernel::{
    Class, Count, Guard, Initial, Kernel, Op, RESULTS_AT, Register, SHARED_BYTES, Stmt,
    THREAD_BYTES, TOTALS_BYTES, Uniform,
};
use crate::memory::{TOTALS_BYTE, digest, input};
use crate::print::{instructions, name, results_of};

/// Addresses of the buffers.
const INPUT: u64 = 1 << 40;
const OUTPUT: u64 = 2 << 40;
const SHARED: u64 = 4096;

/// The digest of a kernel's results; `None` if it is not of the subset.
pub fn run(kernel: &Kernel) -> Option<u64> {
    let mut output = vec![0; kernel.output_bytes()];
    let input = input();
    let results = results_of(kernel);
    for block in 0..kernel.grid {
        let mut state = Block::new(kernel, block, &input, output);
        let all: Vec<usize> = (0..state.threads.len()).collect();
        state.list(&kernel.body, &all)?;
        state.store_results(&results)?;
        output = state.output;
    }
    Some(digest(&output, &[TOTALS_BYTE; TOTALS_BYTES]))
}

/// The registers of a thread.
type Thread = HashMap<String, u64>;

struct Block<'k> {
    kernel: &'k Kernel,
    input: &'k [u8],
    output: Vec<u8>,
    shared: Vec<u8>,
    threads: Vec<Thread>,
}

/// The classes in the order of the output, with their bytes.
fn bytes(class: Class) -> usize {
    match class {
        Class::Word => 4,
        Class::Double => 8,
        Class::Half => 2,
        Class::Predicate => 1,
    }
}

impl<'k> Block<'k> {
    fn new(kernel: &'k Kernel, block: u32, input: &'k [u8], output: Vec<u8>) -> Block<'k> {
        let count = kernel.threads();
        let exchanges = SHARED + u64::from(count) * SHARED_BYTES as u64;
        let mut state = Block {
            kernel,
            input,
            output,
            shared: vec![0; count as usize * (SHARED_BYTES + 8)],
            threads: Vec::new(),
        };
        for me in 0..count {
            let mut thread = Thread::new();
            let slot = OUTPUT + u64::from(block * count + me) * THREAD_BYTES as u64;
            let own = SHARED + u64::from(me) * SHARED_BYTES as u64;
            let exchange = exchanges + u64::from(me) * 8;
            for (name, value) in [
                ("%me", u64::from(me)),
                ("%threads", u64::from(count)),
                ("%in", INPUT),
                ("%slot", slot),
                ("%own", own),
                ("%exchange", exchange),
                ("%exchanges", exchanges),
            ] {
                thread.insert(name.to_owned(), value);
            }
            for &(register, initial) in &kernel.initial {
                thread.insert(name(register), first(input, me, register, initial));
            }
            state.threads.push(thread);
            let words = [me, 1, u32::MAX, me, me, 0x3F80_0000, 0, 7];
            for (number, word) in words.into_iter().enumerate() {
                state.store(own + number as u64 * 4, u64::from(word), 4);
            }
            state.store(exchange, u64::from(me) | 3 << 32, 8);
        }
        state
    }

    fn store_results(&mut self, results: &[Register]) -> Option<()> {
        for thread in 0..self.threads.len() {
            let mut at = self.threads[thread]["%slot"] + RESULTS_AT as u64;
            for class in Class::ALL {
                for number in 0..class.count() {
                    let register = Register { class, number };
                    if results.contains(&register) {
                        let value = *self.threads[thread].get(&name(register))?;
                        self.store(at, value, bytes(class))?;
                    }
                    at += bytes(class) as u64;
                }
            }
        }
        Some(())
    }

    fn memory(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        let (memory, start) = match address {
            OUTPUT.. => (&mut self.output, OUTPUT),
            SHARED..INPUT => (&mut self.shared, SHARED),
            _ => return None,
        };
        let at = (address - start) as usize;
        memory.get_mut(at..at + bytes)
    }

    fn store(&mut self, address: u64, value: u64, bytes: usize) -> Option<()> {
        self.memory(address, bytes)?
            .copy_from_slice(&value.to_le_bytes()[..bytes]);
        Some(())
    }

    fn load(&mut self, address: u64, bytes: usize) -> Option<u64> {
        let mut word = [0; 8];
        match address {
            INPUT..OUTPUT => {
                let at = (address - INPUT) as usize;
                word[..bytes].copy_from_slice(self.input.get(at..at + bytes)?);
            }
            _ => word[..bytes].copy_from_slice(self.memory(address, bytes)?),
        }
        Some(u64::from_le_bytes(word))
    }

    fn holds(&self, thread: usize, guard: Guard) -> bool {
        let value = self.threads[thread].get(&format!("%p{}", guard.predicate));
        (value.copied().unwrap_or(0) != 0) != guard.negated
    }

    fn word(&self, thread: usize, register: usize) -> u64 {
        let value = self.threads[thread].get(&format!("%r{register}"));
        value.copied().unwrap_or(0)
    }

    fn list(&mut self, statements: &[Stmt], active: &[usize]) -> Option<()> {
        if active.is_empty() {
            return Some(());
        }
        statements
            .iter()
            .try_for_each(|statement| self.statement(statement, active))
    }

    fn statement(&mut self, statement: &Stmt, active: &[usize]) -> Option<()> {
        match statement {
            Stmt::Op(op) => self.op(op, active),
            Stmt::UniformIf(condition, body) => {
                let taken = match *condition {
                    Uniform::Parameter(parameter, value) => {
                        self.kernel.parameters[parameter] >= value
                    }
                    Uniform::AnyOfBlock(predicate) => active.iter().any(|&thread| {
                        let negated = false;
                        self.holds(thread, Guard { predicate, negated })
                    }),
                };
                if taken {
                    self.list(body, active)
                } else {
                    Some(())
                }
            }
            Stmt::If {
                condition,
                then,
                otherwise,
                ..
            } => {
                let (first, second): (Vec<usize>, Vec<usize>) = active
                    .iter()
                    .partition(|&&thread| self.holds(thread, *condition));
                self.list(then, &first)?;
                self.list(otherwise, &second)
            }
            Stmt::Loop(count, body) => {
                let limits: Vec<u64> = active
                    .iter()
                    .map(|&thread| match *count {
                        Count::Constant(count) => u64::from(count.max(1)),
                        Count::Parameter(parameter) => u64::from(self.kernel.parameters[parameter]),
                        Count::Register { register, .. } => self.word(thread, register) & 3,
                    })
                    .collect();
                for iteration in 0.. {
                    let left = active.iter().zip(&limits);
                    let left: Vec<usize> = left
                        .filter(|&(_, &limit)| iteration < limit)
                        .map(|(&thread, _)| thread)
                        .collect();
                    if left.is_empty() {
                        break;
                    }
                    self.list(body, &left)?;
                }
                Some(())
            }
            Stmt::Switch { selector, arms, .. } => {
                let arm = |thread: &usize| self.word(*thread, *selector) as usize % arms.len();
                let chosen: Vec<usize> = active.iter().map(arm).collect();
                for (number, body) in arms.iter().enumerate() {
                    let threads = active.iter().zip(&chosen);
                    let threads: Vec<usize> = threads
                        .filter(|&(_, &arm)| arm == number)
                        .map(|(&thread, _)| thread)
                        .collect();
                    self.list(body, &threads)?;
                }
                Some(())
            }
            Stmt::Irreducible {
                entry,
                count,
                first,
                second,
            } => {
                // Nothing inside depends on other threads.
                for &thread in active {
                    let last = self.word(thread, *count) & 3;
                    let mut skip = self.holds(thread, *entry);
                    for _ in 0..=last {
                        if !skip {
                            self.list(first, &[thread])?;
                        }
                        skip = false;
                        self.list(second, &[thread])?;
                    }
                }
                Some(())
            }
            Stmt::Call { .. } | Stmt::Return(_) => None,
        }
    }

    fn op(&mut self, op: &Op, active: &[usize]) -> Option<()> {
        if !op.floats.is_empty() {
            return None;
        }
        for (guarded, text) in instructions(op, "%mask") {
            let guard = op.guard.filter(|_| guarded);
            let executing: Vec<usize> = active
                .iter()
                .copied()
                .filter(|&thread| guard.is_none_or(|guard| self.holds(thread, guard)))
                .collect();
            self.instruction(&text, &executing)?;
        }
        Some(())
    }

    /// The value of a source operand.
    fn value(&self, thread: usize, operand: &str, active: &[usize]) -> Option<u64> {
        if let Some(inner) = operand.strip_prefix('!') {
            return Some(u64::from(self.value(thread, inner, active)? == 0));
        }
        if operand == "%mask" {
            let lanes = active.iter().filter(|&&other| other / 32 == thread / 32);
            return Some(lanes.fold(0, |mask, lane| mask | 1 << (lane % 32)));
        }
        match operand.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None if operand.starts_with('%') => self.threads[thread].get(operand).copied(),
            None => operand.parse().ok(),
        }
    }

    fn instruction(&mut self, text: &str, active: &[usize]) -> Option<()> {
        let (mnemonic, operands) = text.split_once(' ').unwrap_or((text, ""));
        let words: Vec<&str> = mnemonic.split('.').collect();
        let operands: Vec<&str> = operands.split(", ").collect();
        // Instructions with two results are not of the subset.
        if operands[0].contains('|') {
            return None;
        }
        match words[0] {
            "bar" | "barrier" => {
                return matches!(words[1..], ["sync"] | ["warp", "sync"]).then_some(());
            }
            "ld" | "st" => return self.access(&words, &operands, active),
            "vote" | "redux" | "shfl" => return self.warp(&words, &operands, active),
            _ => {}
        }
        for &thread in active {
            let sources: Option<Vec<u64>> = operands[1..]
                .iter()
                .map(|operand| self.value(thread, operand, active))
                .collect();
            let value = compute(&words, &sources?)?;
            self.threads[thread].insert(operands[0].to_owned(), value);
        }
        Some(())
    }

    fn access(&mut self, words: &[&str], operands: &[&str], active: &[usize]) -> Option<()> {
        if !matches!(words.last(), Some(&("u32" | "b32" | "s32"))) || words.contains(&"v2") {
            return None;
        }
        let store = words[0] == "st";
        let (address, register) = if store {
            (operands[0], operands.get(1)?)
        } else {
            (operands.get(1)?.to_owned(), &operands[0])
        };
        let address = address.strip_prefix('[')?.strip_suffix(']')?;
        let (base, offset) = match address.split_once('+') {
            Some((base, offset)) => (base, offset.parse().ok()?),
            None => (address, 0_u64),
        };
        for &thread in active {
            let mut address = self.value(thread, base, active)?.wrapping_add(offset);
            if words.contains(&"shared") {
                address &= 0xFFFF_FFFF;
            }
            if store {
                let value = self.value(thread, register, active)?;
                self.store(address, value, 4)?;
            } else {
                let mut value = self.load(address, 4)?;
                // A wider register takes the sign.
                if words.contains(&"s32") && register.starts_with("%d") {
                    value = i64::from(value as i32) as u64;
                }
                self.threads[thread].insert((*register).to_owned(), value);
            }
        }
        Some(())
    }

    fn warp(&mut self, words: &[&str], operands: &[&str], active: &[usize]) -> Option<()> {
        let mut results = Vec::new();
        for &thread in active {
            let warp: Vec<usize> = active
                .iter()
                .copied()
                .filter(|other| other / 32 == thread / 32)
                .collect();
            let values: Option<Vec<u64>> = warp
                .iter()
                .map(|&lane| self.value(lane, operands[1], active))
                .collect();
            let values = values?;
            let lane = thread as u64 % 32;
            let result = match words {
                ["vote", "sync", "ballot", _] => warp
                    .iter()
                    .zip(&values)
                    .fold(0, |all, (lane, &value)| all | value << (lane % 32)),
                ["vote", "sync", "all", _] => u64::from(values.iter().all(|&value| value != 0)),
                ["vote", "sync", "any", _] => u64::from(values.iter().any(|&value| value != 0)),
                ["redux", "sync", operation, kind] => {
                    let words = [*operation, *kind];
                    let all = values.into_iter().map(Some);
                    all.reduce(|a, b| compute(&words, &[a?, b?])).flatten()?
                }
                ["shfl", "sync", kind @ ("idx" | "bfly"), _] => {
                    let by = self.value(thread, operands[2], active)? & 31;
                    let source = if *kind == "idx" { by } else { lane ^ by };
                    let from = warp.iter().position(|lane| *lane as u64 % 32 == source);
                    // A lane that does not take part has no value; the kernel drops it.
                    from.map_or(0, |from| values[from])
                }
                _ => return None,
            };
            results.push(result);
        }
        for (&thread, result) in active.iter().zip(results) {
            self.threads[thread].insert(operands[0].to_owned(), result);
        }
        Some(())
    }
}

fn first(input: &[u8], me: u32, register: Register, initial: Initial) -> u64 {
    let value = match initial {
        Initial::Constant(value) => value,
        Initial::Thread(factor, summand) => {
            let value = me.wrapping_mul(factor).wrapping_add(summand);
            match register.class {
                Class::Double => i64::from(value as i32) as u64,
                _ => u64::from(value),
            }
        }
        Initial::Input(offset) => {
            let at = offset as usize + me as usize * 8;
            let mut word = [0; 8];
            word.copy_from_slice(&input[at..at + 8]);
            u64::from_le_bytes(word)
        }
    };
    match register.class {
        Class::Word => value & 0xFFFF_FFFF,
        Class::Double => value,
        Class::Half => value & 0xFFFF,
        Class::Predicate => value & 1,
    }
}

/// The result of an instruction without side effects; `None` if it is not of the subset.
fn compute(words: &[&str], sources: &[u64]) -> Option<u64> {
    let kind = *words.last()?;
    let bits = match kind {
        "u32" | "s32" | "b32" => 32,
        "u64" | "s64" | "b64" => 64,
        "pred" => 1,
        _ => return None,
    };
    let mask = u64::MAX >> (64 - bits);
    let signed = kind.starts_with('s');
    let get = |number: usize| sources.get(number).map(|value| value & mask);
    // The value as a number, with its sign.
    let number = |value: u64| {
        if signed {
            i128::from((value << (64 - bits)) as i64 >> (64 - bits))
        } else {
            i128::from(value)
        }
    };
    let a = get(0)?;
    let b = get(1).unwrap_or(0);
    let c = get(2).unwrap_or(0);
    let (x, y) = (number(a), number(b));
    let shift = sources.get(1).map_or(0, |value| value & 0xFFFF_FFFF);
    let result = match *words {
        ["add", _] => x + y,
        ["sub", _] => x - y,
        ["mul", "lo", _] => x * y,
        ["mul", "hi", _] if bits == 32 => (x * y) >> 32,
        ["mul", "wide", _] => return Some((x * y) as u64),
        ["mad", "lo", _] => x * y + number(c),
        ["min", _] => x.min(y),
        ["max", _] => x.max(y),
        ["neg", "s32"] => -x,
        ["abs", "s32"] => x.abs(),
        ["div", "u32"] => x.checked_div(y)?,
        ["rem", "u32"] => x.checked_rem(y)?,
        ["and", _] => i128::from(a & b),
        ["or", _] => i128::from(a | b),
        ["xor", _] => i128::from(a ^ b),
        ["not", "pred"] => i128::from(a ^ 1),
        ["not", "b32"] => i128::from(!a & mask),
        ["shl", _] if shift >= bits => 0,
        ["shl", _] => i128::from(a) << shift,
        ["shr", _] => x >> shift.min(bits),
        ["popc", "b32"] => i128::from(a.count_ones()),
        ["clz", "b32"] => i128::from((a as u32).leading_zeros()),
        ["brev", "b32"] => i128::from((a as u32).reverse_bits()),
        ["mov", _] => i128::from(a),
        ["selp", "b32"] => i128::from(if sources.get(2)? & 1 != 0 { a } else { b }),
        ["cvt", to @ ("u64" | "s64"), "u32" | "s32"] => {
            // To 64 bits, by the sign of the source.
            let _ = to;
            return Some(x as u64);
        }
        ["cvt", "u32" | "s32", "u64" | "s64"] => return Some(a & 0xFFFF_FFFF),
        ["setp", comparison, _] => {
            return Some(u64::from(match comparison {
                "eq" => x == y,
                "ne" => x != y,
                "lt" | "lo" => x < y,
                "le" | "ls" => x <= y,
                "gt" | "hi" => x > y,
                "ge" | "hs" => x >= y,
                _ => return None,
            }));
        }
        _ => return None,
    };
    Some(result as u64 & mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::generate::{Options, generate};
    use crate::job::Job;
    use crate::mode::Mode;

    #[test]
    fn first_code_and_reference_agree() {
        let mut device = Device::new(Mode::Baseline).expect("the CPU device");
        let mut compared = 0;
        for seed in 0..60 {
            let kernel = generate(seed, Options::default());
            if let Some(expected) = run(&kernel) {
                let digest = device.run(&Job::new(&kernel)).expect("the kernel runs");
                assert_eq!(digest, expected, "seed {seed}");
                compared += 1;
            }
        }
        assert!(compared > 10, "{compared}");
    }
}
