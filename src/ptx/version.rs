//! Which `.version` and `.target` a module needs, and saying a lower one.

use super::ast::{Body, Instruction, Item, Module, Span, Statement, Version};
use super::isa;
use super::isa::target::{Since, Target};

/// What a module must say at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Floor {
    /// The lowest `.version`; 0.0 if every one will do.
    pub version: Version,
    /// The number of `sm_90`; 0 if every target will do.
    pub target: u16,
}

/// The number of `sm_90a` or `compute_90`: 90.
pub fn target_number(target: &str) -> Option<u16> {
    Target::from_text(target).map(|target| target.number)
}

/// The `.version` since which a `.target` exists; `None` for one that ptxas
/// does not know.
pub fn version_for_target(target: &str) -> Option<Version> {
    Target::from_text(target)?.since()
}

/// The lowest `.version` and `.target` that the instructions of a module need,
/// as far as the table knows them.
///
/// ```
/// let source = ".version 9.0\n.target sm_90\n.entry k() { .reg .b32 r; activemask.b32 r; }";
/// let floor = ptxkit::ptx::version::needed(&ptxkit::ptx::read(source).module);
/// assert_eq!((floor.version.major, floor.version.minor, floor.target), (6, 2, 30));
/// ```
pub fn needed(module: &Module<'_>) -> Floor {
    let mut floor = Floor {
        version: Version { major: 1, minor: 0 },
        target: 0,
    };
    for item in &module.items {
        let Item::Function(function) = item else {
            continue;
        };
        let Some(body) = &function.body else {
            continue;
        };
        for statement in &body.statements {
            if let Statement::Instruction(instruction) = statement {
                let own = instruction_floor(module, instruction, body);
                floor.version = floor.version.max(own.version);
                floor.target = floor.target.max(own.target);
            }
        }
    }
    floor
}

/// The least of the rows that an instruction may be.
fn instruction_floor(module: &Module<'_>, instruction: &Instruction<'_>, body: &Body<'_>) -> Floor {
    let operands = body.list(instruction.operands).len();
    let modifiers = &module.mnemonic(instruction).modifiers;
    isa::forms_of(instruction.opcode, modifiers)
        .filter(|form| form.open_operands || operands <= form.operands.len())
        .filter_map(|form| form.fit(modifiers).ok())
        .map(|fit| Floor {
            version: fit
                .since
                .iter()
                .map(|s| s.version)
                .max()
                .unwrap_or_default(),
            target: fit
                .since
                .iter()
                .filter_map(|s| lowest(s))
                .max()
                .unwrap_or(0),
        })
        .min()
        .unwrap_or_default()
}

fn lowest(since: &Since) -> Option<u16> {
    since.targets.iter().map(|rule| rule.target.number).min()
}

/// `source` with another number in its `.version` line and nothing else
/// changed; `None` if it has no such line.
///
/// A driver older than a toolkit refuses its `.version`, though it often has
/// all the instructions: compare with [`needed`] first.
///
/// ```
/// use ptxkit::ptx::{ast::Version, version::lowered};
/// let lower = lowered(".version 9.0\n.target sm_80\n", Version { major: 8, minor: 0 });
/// assert_eq!(lower.as_deref(), Some(".version 8.0\n.target sm_80\n"));
/// ```
pub fn lowered(source: &str, version: Version) -> Option<String> {
    let head = super::parse::read_head(source, &mut Default::default());
    let (_, Span { start, end }) = head.version?;
    let before = source.get(..start as usize)?;
    let after = source.get(end as usize..)?;
    let Version { major, minor } = version;
    Some(format!("{before}.version {major}.{minor}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::read;

    #[test]
    fn the_newest_instruction_decides() {
        let source = ".version 9.0\n.target sm_100\n.entry k() { .reg .f32 f; .reg .b16 h;\n\
             add.f32 f, f, f; cvt.rn.bf16.f32 h, f; }";
        let floor = needed(&read(source).module);
        assert_eq!(
            (floor.version, floor.target),
            (Version { major: 7, minor: 0 }, 80)
        );
    }

    #[test]
    fn lowering_changes_one_line() {
        let source = "// v\n.version 9.0 // here\n.target sm_90\n";
        let lower = lowered(source, Version { major: 8, minor: 0 });
        assert_eq!(
            lower.as_deref(),
            Some("// v\n.version 8.0 // here\n.target sm_90\n")
        );
        assert_eq!(
            lowered(".target sm_90", Version { major: 8, minor: 0 }),
            None
        );
    }

    #[test]
    fn targets_have_numbers() {
        assert_eq!(target_number("sm_90a"), Some(90));
        assert_eq!(target_number("sm_x"), None);
        assert_eq!(
            version_for_target("sm_90a"),
            Some(Version { major: 8, minor: 0 })
        );
    }
}
