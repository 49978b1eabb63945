//! `mul.rn.f32` and `add.rn.f32` of the product

use crate::flow::{Definition, Reference};
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::names::{Modifier, Opcode, Type};

pub static RULE: Rule = Rule {
    code: Code::new('P', 208),
    name: "unfused-product",
    summary: "A product that a second instruction adds, both with `.rn`.",
    why: "`mul` and `add` with an explicit rounding mode are never fused: that is its purpose. \
          They take two instructions and round twice, where `fma` is one instruction and rounds \
          once.",
    instead: "Use `fma.rn`, or omit the rounding mode (`-fmad=true` of nvcc, the default, and \
              `*` instead of `__fmul_rn`), unless the result must be that of two separate \
              operations.",
    bad: "\
.entry k(.param .u64 out)
{
	.reg .f32 a, b;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.v2.f32 {a, b}, [p];
	mul.rn.f32 a, a, b;
	add.rn.f32 a, a, b;
	st.global.f32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 out)
{
	.reg .f32 a, b;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.v2.f32 {a, b}, [p];
	fma.rn.f32 a, a, b, b;
	st.global.f32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for instruction in function.instructions() {
        if !matches!(instruction.opcode, Opcode::Add | Opcode::Sub) {
            continue;
        }
        let modifiers = &function.mnemonic(instruction).modifiers;
        let ty = modifiers.types().next();
        if !matches!(ty, Some(Type::F32 | Type::F64)) || !modifiers.has(Modifier::Rn) {
            continue;
        }
        let Some(flow) = function.flow() else {
            return;
        };
        let first = instruction.operands.start as usize;
        let product = [first + 1, first + 2].into_iter().find_map(|place| {
            let Reference::Register(_) = flow.instructions.reference(place) else {
                return None;
            };
            let value = flow.values.of_operand(place);
            let Definition::Written(id) = flow.values.definition(value)? else {
                return None;
            };
            let product = flow.instructions.get(id)?;
            let of = &function.mnemonic(product).modifiers;
            let same = product.opcode == Opcode::Mul
                && of.types().next() == ty
                && of.has(Modifier::Rn)
                && of.has(Modifier::Ftz) == modifiers.has(Modifier::Ftz)
                && !of.has(Modifier::Sat);
            let alone = flow.values.read_count(value) == 1 && flow.values.prior(value).is_none();
            (same && alone).then_some(product)
        });
        if product.is_some() {
            findings
                .add(
                    instruction.opcode_span,
                    "2 instructions for a product and this sum, instead of 1 `fma`",
                )
                .help("use `fma.rn`, which rounds once");
        }
    }
}
