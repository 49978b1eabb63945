//! Shrinks a kernel for as long as its modes differ.

use crate::kernel::{Class, Count, Initial, Kernel, Operand, Register, Stmt, Uniform};

/// The most attempts for one kernel.
const ATTEMPTS: usize = 3000;

/// Shrinks a kernel. `fails` runs a smaller one, and returns whether it still shows the fault.
pub fn reduce(kernel: &Kernel, mut fails: impl FnMut(&Kernel) -> bool) -> Kernel {
    let mut best = kernel.clone();
    let mut attempts = 0;
    let mut attempt = |best: &mut Kernel, smaller: Kernel| {
        attempts += 1;
        let better = attempts <= ATTEMPTS && is_valid(&smaller) && fails(&smaller);
        if better {
            *best = smaller;
        }
        better
    };
    loop {
        let before = size(&best);
        launch(&mut best, &mut attempt);
        // Long runs of statements first, then single ones.
        for length in [32, 8, 3, 1] {
            remove(&mut best, length, &mut attempt);
        }
        unwrap(&mut best, &mut attempt);
        simplify(&mut best, &mut attempt);
        if size(&best) >= before {
            return best;
        }
    }
}

type Attempt<'a> = dyn FnMut(&mut Kernel, Kernel) -> bool + 'a;

/// A number that falls with each step.
fn size(kernel: &Kernel) -> usize {
    let registers = |operand: &&Operand| matches!(operand, Operand::Register(_));
    let mut total = kernel.grid as usize + kernel.threads() as usize;
    total += kernel.parameters.iter().sum::<u32>() as usize;
    total += kernel
        .initial
        .iter()
        .filter(|(_, initial)| !matches!(initial, Initial::Constant(0)))
        .count();
    visit(kernel, &mut |statement| {
        total += match statement {
            Stmt::Op(op) => {
                let guard = usize::from(op.guard.is_some());
                10 + op.text.len() + guard + op.operands.iter().filter(registers).count()
            }
            Stmt::If { masked, .. } => 10 + usize::from(*masked),
            Stmt::Loop(Count::Constant(count), _) => 10 + *count as usize,
            _ => 12,
        }
    });
    total + 20 * kernel.functions.len()
}

fn visit(kernel: &Kernel, with: &mut impl FnMut(&Stmt)) {
    fn list(statements: &[Stmt], with: &mut impl FnMut(&Stmt)) {
        for statement in statements {
            with(statement);
            for body in statement.children() {
                list(body, with);
            }
        }
    }
    for function in &kernel.functions {
        list(&function.body, with);
    }
    list(&kernel.body, with);
}

/// The list of statements with this number, in the order of the text.
fn nth_list(kernel: &mut Kernel, number: usize) -> Option<&mut Vec<Stmt>> {
    fn find<'k>(list: &'k mut Vec<Stmt>, left: &mut usize) -> Option<&'k mut Vec<Stmt>> {
        if *left == 0 {
            return Some(list);
        }
        *left -= 1;
        list.iter_mut()
            .flat_map(Stmt::children_mut)
            .find_map(|body| find(body, left))
    }
    let mut left = number;
    let functions = kernel
        .functions
        .iter_mut()
        .map(|function| &mut function.body);
    [&mut kernel.body]
        .into_iter()
        .chain(functions)
        .find_map(|list| find(list, &mut left))
}

fn launch(best: &mut Kernel, attempt: &mut Attempt<'_>) {
    for grid in [1, 2, 3] {
        if grid < best.grid {
            let grid_of = Kernel {
                grid,
                ..best.clone()
            };
            if attempt(best, grid_of) {
                break;
            }
        }
    }
    for block in [[1, 1], [2, 1], [32, 1], [33, 1], [64, 1]] {
        if block[0] * block[1] < best.threads() || best.block[1] > 1 {
            let smaller = Kernel {
                block,
                ..best.clone()
            };
            if attempt(best, smaller) {
                break;
            }
        }
    }
}

fn remove(best: &mut Kernel, length: usize, attempt: &mut Attempt<'_>) {
    for number in 0.. {
        let Some(statements) = nth_list(best, number).map(|list| list.len()) else {
            return;
        };
        let mut at = statements;
        while at > 0 {
            let from = at.saturating_sub(length);
            let mut smaller = best.clone();
            if let Some(list) = nth_list(&mut smaller, number) {
                list.drain(from..at);
            }
            attempt(best, smaller);
            at = from;
        }
    }
}

/// Replaces statements by what is inside them.
fn unwrap(best: &mut Kernel, attempt: &mut Attempt<'_>) {
    for number in 0.. {
        let Some(statements) = nth_list(best, number).map(|list| list.len()) else {
            return;
        };
        for at in (0..statements).rev() {
            let children = match nth_list(best, number).and_then(|list| list.get(at)) {
                Some(statement) => statement.children().len(),
                None => 0,
            };
            for child in 0..children {
                let mut smaller = best.clone();
                if let Some(list) = nth_list(&mut smaller, number) {
                    let body = list[at].children_mut().remove(child).split_off(0);
                    list.splice(at..=at, body);
                }
                if attempt(best, smaller) {
                    break;
                }
            }
        }
    }
}

/// Simplifies statements, operands and first values.
fn simplify(best: &mut Kernel, attempt: &mut Attempt<'_>) {
    while let Some(last) = best.functions.len().checked_sub(1) {
        let mut smaller = best.clone();
        smaller.functions.truncate(last);
        if !attempt(best, smaller) {
            break;
        }
    }
    for number in 0..best.functions.len() {
        if best.functions[number].recursive {
            let mut smaller = best.clone();
            smaller.functions[number].recursive = false;
            attempt(best, smaller);
        }
    }
    for number in 0..best.initial.len() {
        let register = best.initial[number].0;
        let simple = [
            Initial::Constant(0),
            Initial::Constant(1),
            Initial::Thread(1, 0),
        ];
        for value in simple {
            if best.initial[number].1 == value {
                break;
            }
            let mut smaller = best.clone();
            smaller.initial[number] = (register, value);
            if attempt(best, smaller) {
                break;
            }
        }
    }
    for number in 0..4 {
        for value in 0..best.parameters[number] {
            let mut smaller = best.clone();
            smaller.parameters[number] = value;
            if attempt(best, smaller) {
                break;
            }
        }
    }
    for number in 0.. {
        let Some(statements) = nth_list(best, number).map(|list| list.len()) else {
            return;
        };
        for at in 0..statements {
            for variant in 0.. {
                let mut smaller = best.clone();
                let statement = nth_list(&mut smaller, number).and_then(|list| list.get_mut(at));
                match statement.map(|statement| simpler(statement, variant)) {
                    Some(Change::Made) => {
                        attempt(best, smaller);
                    }
                    Some(Change::None) => {}
                    Some(Change::End) | None => break,
                }
            }
        }
    }
}

enum Change {
    Made,
    None,
    /// There are no more variants.
    End,
}

fn simpler(statement: &mut Stmt, variant: usize) -> Change {
    match statement {
        Stmt::Op(op) => {
            if variant == 0 {
                return match op.guard.take() {
                    Some(_) => Change::Made,
                    None => Change::None,
                };
            }
            let Some(operand) = op.operands.get_mut(variant - 1) else {
                return Change::End;
            };
            // Only where a constant may stand: `is_valid` cannot know, the front end does.
            match operand {
                Operand::Register(Register {
                    class: Class::Word | Class::Double,
                    ..
                }) => *operand = Operand::Integer(1),
                Operand::Float(bits) if *bits != 0x3F80_0000 => {
                    *operand = Operand::Float(0x3F80_0000)
                }
                Operand::Integer(value) if *value > 1 => *value = 1,
                _ => return Change::None,
            }
            Change::Made
        }
        Stmt::If { masked, .. } | Stmt::Switch { masked, .. } if variant == 0 && *masked => {
            *masked = false;
            Change::Made
        }
        Stmt::Loop(count, _) if variant == 0 => match count {
            Count::Constant(1) => Change::End,
            _ => {
                *count = Count::Constant(1);
                Change::Made
            }
        },
        Stmt::Loop(count, _) if variant == 1 => match count {
            Count::Constant(1 | 2) => Change::End,
            _ => {
                *count = Count::Constant(2);
                Change::Made
            }
        },
        Stmt::UniformIf(condition, _) if variant == 0 => match condition {
            Uniform::Parameter(..) => Change::End,
            Uniform::AnyOfBlock(_) => {
                *condition = Uniform::Parameter(0, 0);
                Change::Made
            }
        },
        _ => Change::End,
    }
}

/// Whether warp operations and barriers stand where they may.
pub fn is_valid(kernel: &Kernel) -> bool {
    let full = kernel.has_full_warps();
    let needs: Vec<bool> = kernel
        .functions
        .iter()
        .map(|function| function.warp)
        .collect();
    let functions = kernel
        .functions
        .iter()
        .enumerate()
        .all(|(number, function)| {
            let place = Place {
                warp: function.warp,
                block: false,
                full: false,
                function: Some(number),
            };
            valid_list(&function.body, place, &needs)
        });
    let place = Place {
        warp: true,
        block: true,
        full,
        function: None,
    };
    functions && valid_list(&kernel.body, place, &needs)
}

#[derive(Clone, Copy)]
struct Place {
    warp: bool,
    block: bool,
    full: bool,
    function: Option<usize>,
}

fn valid_list(statements: &[Stmt], place: Place, needs: &[bool]) -> bool {
    statements.iter().all(|statement| {
        let divergent = |masked: bool| Place {
            warp: place.warp && masked,
            block: false,
            full: false,
            ..place
        };
        let inner = match statement {
            Stmt::Op(op) => {
                let has = |word: &str| op.text.iter().any(|line| line.contains(word));
                let block = ["bar.sync", "barrier.sync", "bar.red"]
                    .iter()
                    .any(|word| has(word));
                // Those with a tested mask have a `selp`.
                let full = has("shfl") && !has("selp");
                return (!block || place.block)
                    && (!has("$m") || place.warp)
                    && (!full || place.full);
            }
            Stmt::Call { function, .. } => {
                let before = place.function.is_none_or(|caller| *function < caller);
                return before
                    && needs
                        .get(*function)
                        .is_some_and(|needs| !needs || place.warp);
            }
            Stmt::Return(_) => return place.function.is_some(),
            Stmt::UniformIf(..) => {
                if place.block {
                    place
                } else {
                    return false;
                }
            }
            Stmt::Loop(Count::Constant(_) | Count::Parameter(_), _) => place,
            Stmt::If { masked, .. } | Stmt::Switch { masked, .. } => divergent(*masked),
            Stmt::Loop(Count::Register { masked, .. }, _) => divergent(*masked),
            Stmt::Irreducible { .. } => divergent(false),
        };
        statement
            .children()
            .iter()
            .all(|body| valid_list(body, inner, needs))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Options, generate};

    /// Each instruction is found in the smallest kernel with it.
    #[test]
    fn one_instruction_is_left() {
        for word in ["bar.red", "shfl", "st.local", "atom.global"] {
            let has = |kernel: &Kernel| kernel.ptx().contains(word);
            let mut kernels = (0..).map(|seed| generate(seed, Options::default()));
            let Some(kernel) = kernels.find(|kernel| has(kernel)) else {
                continue;
            };
            let reduced = reduce(&kernel, has);
            let mut ops = 0;
            visit(&reduced, &mut |statement| {
                ops += usize::from(matches!(statement, Stmt::Op(_)))
            });
            assert!(ops <= 1, "{}", reduced.ptx());
            assert_eq!(
                (reduced.grid, reduced.threads()),
                (1, reduced.threads().min(32))
            );
        }
    }
}
