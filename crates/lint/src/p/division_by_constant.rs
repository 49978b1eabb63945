//! `div.u32 a, a, 10`

use super::integer_division::Division;
use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('P', 203),
    name: "division-by-constant",
    summary: "An integer division or remainder by a constant that is not a power of two.",
    why: "ptxas expands a 32-bit division into about 14 instructions, and a 64-bit division into \
          a call of about 60, even if the divisor is a constant. It expects the compiler to \
          replace the division by a multiplication.",
    instead: "Take the upper half of a product with the constant 2^(32+s) / divisor, and shift \
              it right by s: two instructions. The message has both numbers if they are exact \
              for all dividends. The remainder is the dividend minus the quotient times the \
              divisor.",
    bad: "\
.entry k(.param .u64 out)
{
	.reg .b32 a;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.u32 a, [p];
	div.u32 a, a, 10;
	st.global.u32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 out)
{
	.reg .b32 a;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.u32 a, [p];
	mul.hi.u32 a, a, 0xCCCCCCCD;
	shr.u32 a, a, 3;
	st.global.u32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for instruction in function.instructions() {
        let Some(division) = Division::of(function, instruction) else {
            continue;
        };
        let by = division.by;
        if by.is_power_of_two() {
            continue;
        }
        let (name, instructions) = (division.name(), division.instructions());
        let sign = if division.negative { "-" } else { "" };
        let finding = findings.add(
            instruction.opcode_span,
            format!(
                "a {name} by {sign}{by} takes about {instructions} instructions: ptxas does not \
                 optimize constant divisors",
            ),
        );
        let exact = u32::try_from(by).ok().and_then(reciprocal);
        let rest = if division.remainder {
            format!(", and subtract {by} times that for the remainder")
        } else {
            String::new()
        };
        match exact.filter(|_| !division.signed && division.bits == 32) {
            Some((factor, shift)) => finding.help(format!(
                "`mul.hi.u32` by 0x{factor:X}, then `shr.u32` by {shift} gives the quotient{rest}",
            )),
            None => finding.help(format!(
                "multiply by the reciprocal with `mul.hi`, and shift{rest}; compilers compute the constants",
            )),
        };
    }
}

/// A factor and shift for which the shifted upper half of the product is the quotient of every
/// 32-bit dividend. Some divisors need a 33-bit factor.
///
/// With `factor * by = 2^(32+shift) + error` and `error <= 2^shift`, the error of the product is
/// too small to reach the next quotient (Granlund and
/// Montgomery, "Division by Invariant Integers using Multiplication", 1994).
fn reciprocal(by: u32) -> Option<(u32, u32)> {
    (0..32).find_map(|shift| {
        let power = 1_u64 << (32 + shift);
        let factor = power.div_ceil(u64::from(by));
        let error = factor * u64::from(by) - power;
        let factor = u32::try_from(factor).ok()?;
        (error <= 1 << shift).then_some((factor, shift))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_divide() {
        assert_eq!(reciprocal(10), Some((0xCCCC_CCCD, 3)));
        assert_eq!(reciprocal(3), Some((0xAAAA_AAAB, 1)));
        assert_eq!(reciprocal(7), None);
        for by in (3..4000).chain([641, 1_000_000_007, u32::MAX - 1, u32::MAX]) {
            let Some((factor, shift)) = reciprocal(by) else {
                continue;
            };
            let near = (1..50).map(|n| u32::MAX / by / n * by);
            for dividend in near
                .flat_map(|n| [n, n.wrapping_sub(1), n | 1])
                .chain([0, u32::MAX])
            {
                let product = u64::from(dividend) * u64::from(factor);
                let quotient = (product >> 32 >> shift) as u32;
                assert_eq!(quotient, dividend / by, "{dividend} / {by}");
            }
        }
    }
}
