//! The effects of an instruction: its results, control transfer, memory access.

use crate::memory::AccessShape;
use ptx::ast::Mnemonic;
use ptx::isa::{self, Kind, Presence, Scale, TypeBase};
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

/// The effects that all instructions with one [`Mnemonic`] share.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The number of operands that are written; they come first.
    pub writes: u8,
    /// Results are read before they are written: `wgmma` accumulates.
    pub reads_results: bool,
    /// How it transfers control.
    pub terminator: Terminator,
    /// It has no side effects.
    pub pure: bool,
    /// The type of each operand where the mnemonic has it.
    pub types: Vec<Option<Type>>,
    /// Its result may be affine: integer arithmetic.
    pub whole: bool,
    /// Its memory access, if it is one.
    pub access: Option<AccessShape>,
}

impl Effect {
    /// Read from the instruction table.
    pub fn of(mnemonic: &Mnemonic<'_>) -> Effect {
        let modifiers = &mnemonic.modifiers;
        let forms = isa::forms_of(mnemonic.opcode, modifiers);
        let mut fitting = forms.filter_map(|form| Some((form, form.fit(modifiers).ok()?)));
        let mut writes = 0;
        let mut types = Vec::new();
        if let Some((form, fit)) = fitting.next() {
            let present = form.operands.iter().filter(|rule| match &rule.presence {
                Presence::With(words) => words.iter().any(|word| modifiers.has(*word)),
                _ => true,
            });
            for (place, rule) in present.enumerate() {
                if is_written(rule.kind) && place == usize::from(writes) {
                    writes += 1;
                }
                let ty = match rule.ty.base {
                    TypeBase::Any => None,
                    TypeBase::Fixed(ty) => Some(ty),
                    TypeBase::Named(number) => fit.types.get(number).copied().flatten(),
                };
                types.push(ty.filter(|_| rule.ty.scale == Scale::Same));
            }
        }
        Effect {
            writes,
            reads_results: mnemonic.opcode == Opcode::Wgmma,
            terminator: match mnemonic.opcode {
                Opcode::Bra => Terminator::Jump,
                Opcode::Brx => Terminator::IndirectJump,
                Opcode::Ret | Opcode::Exit => Terminator::Return,
                Opcode::Trap => Terminator::Trap,
                _ => Terminator::FallThrough,
            },
            pure: writes > 0 && is_pure(mnemonic),
            types,
            whole: is_whole(mnemonic),
            access: AccessShape::of(mnemonic),
        }
    }
}

fn is_whole(mnemonic: &Mnemonic<'_>) -> bool {
    let known = matches!(
        mnemonic.opcode,
        Opcode::Mov
            | Opcode::Cvta
            | Opcode::Cvt
            | Opcode::Add
            | Opcode::Sub
            | Opcode::Neg
            | Opcode::Mul
            | Opcode::Mul24
            | Opcode::Mad
            | Opcode::Mad24
            | Opcode::Shl
            | Opcode::Or
    );
    let param = mnemonic.opcode == Opcode::Ld && mnemonic.modifiers.has(Modifier::Param);
    (known || param) && mnemonic.modifiers.types().all(is_integer)
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

fn is_written(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Destination
            | Kind::DestinationOrVector
            | Kind::Unpacked
            | Kind::Loaded
            | Kind::SelectDestination(_)
            | Kind::PredicateDestination
            | Kind::PredicateOrSink
            | Kind::PredicatePair
            | Kind::DestinationAndPredicate
            | Kind::SinkAndPredicate
            | Kind::BothRegisterAndPredicate
            | Kind::BothPredicates
            | Kind::Sink
    )
}

fn is_pure(mnemonic: &Mnemonic<'_>) -> bool {
    let has = |word| mnemonic.modifiers.has(word);
    match mnemonic.opcode {
        Opcode::Ld => {
            !(has(Modifier::Volatile)
                || has(Modifier::Acquire)
                || has(Modifier::Relaxed)
                || has(Modifier::Mmio))
        }
        // The carry goes on to the next instruction.
        _ if has(Modifier::Cc) => false,
        Opcode::Abs
        | Opcode::Add
        | Opcode::Addc
        | Opcode::And
        | Opcode::Bfe
        | Opcode::Bfi
        | Opcode::Bfind
        | Opcode::Bmsk
        | Opcode::Brev
        | Opcode::Clz
        | Opcode::Cnot
        | Opcode::Copysign
        | Opcode::Cos
        | Opcode::Cvt
        | Opcode::Cvta
        | Opcode::Div
        | Opcode::Dp2a
        | Opcode::Dp4a
        | Opcode::Ex2
        | Opcode::Fma
        | Opcode::Fns
        | Opcode::Isspacep
        | Opcode::Lg2
        | Opcode::Lop3
        | Opcode::Mad
        | Opcode::Mad24
        | Opcode::Madc
        | Opcode::Max
        | Opcode::Min
        | Opcode::Mov
        | Opcode::Mul
        | Opcode::Mul24
        | Opcode::Neg
        | Opcode::Not
        | Opcode::Or
        | Opcode::Popc
        | Opcode::Prmt
        | Opcode::Rcp
        | Opcode::Rem
        | Opcode::Rsqrt
        | Opcode::Sad
        | Opcode::Selp
        | Opcode::Set
        | Opcode::Setp
        | Opcode::Shf
        | Opcode::Shl
        | Opcode::Shr
        | Opcode::Sin
        | Opcode::Slct
        | Opcode::Sqrt
        | Opcode::Sub
        | Opcode::Subc
        | Opcode::Szext
        | Opcode::Tanh
        | Opcode::Testp
        | Opcode::Xor => true,
        _ => false,
    }
}
