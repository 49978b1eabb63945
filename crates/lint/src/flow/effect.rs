//! The effects of an instruction: its results, control transfer, memory access.

use super::affine;
use super::memory::AccessShape;
use ptx::ast::Mnemonic;
use ptx::isa::{self, Meaning, Outcome};
use ptx::names::{Modifier, Opcode, Type};

/// How an instruction transfers control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// To the next instruction.
    FallThrough,
    /// `bra`
    Jump,
    /// `brx.idx`
    IndirectJump,
    /// `ret`, `exit`
    Return,
    /// `trap`: nothing behind it is executed.
    Trap,
}

impl Terminator {
    fn of(effect: isa::Effect) -> Terminator {
        use isa::Effect as E;
        match effect {
            E::Jump => Terminator::Jump,
            E::Table => Terminator::IndirectJump,
            E::Return | E::Exit => Terminator::Return,
            E::Trap => Terminator::Trap,
            E::Pure | E::Load | E::Store | E::Update | E::Fetch | E::Call | E::Effectful => {
                Terminator::FallThrough
            }
        }
    }
}

/// The effects that all instructions with one [`Mnemonic`] share.
#[derive(Clone, Debug)]
pub struct Effect {
    /// What the table says.
    pub meaning: Meaning,
    /// The number of operands that are written; they come first.
    pub writes: u8,
    /// How it transfers control.
    pub terminator: Terminator,
    /// It has no side effects.
    pub pure: bool,
    /// The type of each operand where the mnemonic has it.
    pub types: Vec<Option<Type>>,
    /// Its result may be a sum of its operands, times constants.
    pub sums: bool,
    /// It may do something with an mbarrier.
    pub at_mbarriers: bool,
    /// Its memory access, if it is one.
    pub access: Option<AccessShape>,
}

/// The modifiers of other instructions that concern mbarriers.
const OF_MBARRIERS: [Modifier; 4] = [
    Modifier::Mbarrier,
    Modifier::MbarrierArriveOne,
    Modifier::MbarrierCompleteTxBytes,
    Modifier::MbarrierCompleteTx16B,
];

impl Effect {
    /// Read from the instruction table.
    pub fn of(mnemonic: &Mnemonic<'_>) -> Effect {
        let modifiers = &mnemonic.modifiers;
        let meaning = isa::meaning(mnemonic.opcode, modifiers);
        let forms = isa::candidates(mnemonic.opcode, modifiers).into_iter();
        let mut fitting = forms.filter_map(|form| Some((form, form.fit(modifiers).ok()?)));
        let mut writes = 0;
        let mut types = Vec::new();
        if let Some((form, fit)) = fitting.next() {
            writes = form.writes(modifiers);
            types = form.operand_types(modifiers, &fit);
        }
        let param = meaning.effect == isa::Effect::Load && modifiers.has(Modifier::Param);
        Effect {
            meaning,
            writes,
            terminator: Terminator::of(meaning.effect),
            pure: writes > 0 && meaning.is_pure(),
            types,
            sums: (meaning.result == Outcome::Linear || param)
                && affine::is_sum(mnemonic.opcode)
                && modifiers.types().all(is_integer),
            at_mbarriers: mnemonic.opcode == Opcode::Mbarrier
                || modifiers.first_of(&OF_MBARRIERS).is_some(),
            access: AccessShape::of(meaning.effect, writes, modifiers),
        }
    }
}

/// Whether values of the type are whole numbers, or bits.
pub const fn is_integer(ty: Type) -> bool {
    matches!(
        ty,
        Type::B8
            | Type::B16
            | Type::B32
            | Type::B64
            | Type::U8
            | Type::U16
            | Type::U32
            | Type::U64
            | Type::S8
            | Type::S16
            | Type::S32
            | Type::S64
    )
}
