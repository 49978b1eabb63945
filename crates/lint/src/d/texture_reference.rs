//! `.global .texref image;`

use crate::{Check, Code, Findings, ModuleContext, Rule};
use ptx::ast::{Item, Space};
use ptx::names::Type;

pub static RULE: Rule = Rule {
    code: Code::new('D', 102),
    name: "texture-reference",
    summary: "A texture or surface reference, which the host binds by name.",
    why: "The host binds memory to such a variable with `cuModuleGetTexRef` and `cuTexRefSet…`, \
          which are deprecated; the CUDA runtime removed its equivalents in CUDA 12. All running \
          kernels share one binding. `.tex` variables were removed in PTX 1.5.",
    instead: "Pass a texture or surface object as a `.u64` parameter: `tex` and `suld` take the \
              register. `cuTexObjectCreate` creates the object, with its sampler.",
    bad: "\
.global .texref image;

.entry k(.param .u64 out)
{
	.reg .f32 v<4>;
	.reg .b32 x;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 x, 0;
	tex.1d.v4.f32.s32 {v0, v1, v2, v3}, [image, {x}];
	st.global.v4.f32 [p], {v0, v1, v2, v3};
	ret;
}
",
    good: "\
.entry k(.param .u64 out, .param .u64 image)
{
	.reg .f32 v<4>;
	.reg .b32 x;
	.reg .b64 p, t;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.param.u64 t, [image];
	mov.u32 x, 0;
	tex.1d.v4.f32.s32 {v0, v1, v2, v3}, [t, {x}];
	st.global.v4.f32 [p], {v0, v1, v2, v3};
	ret;
}
",
    default: false,
    check: Check::Module(check),
};

fn check(context: &ModuleContext<'_, '_>, findings: &mut Findings) {
    for item in &context.module.items {
        let Item::Variable(variable) = item else {
            continue;
        };
        let what = match (variable.space, variable.ty) {
            (Space::Tex, _) | (_, Type::Texref) => "a texture",
            (_, Type::Surfref) => "a surface",
            _ => continue,
        };
        let name = variable.name.text;
        let message = format!("`{name}` is {what} reference, which is deprecated");
        findings
            .add(variable.name.span(context.source), message)
            .help("pass a texture or surface object as a `.u64` parameter");
    }
}
