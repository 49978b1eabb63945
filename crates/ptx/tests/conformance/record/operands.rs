//! Operands for an instruction, by the rules of a form or at random.

use ptxkit_ptx::ast::Modifiers;
use ptxkit_ptx::isa::{Form, Kind, OperandRule, Presence, Range, Scale, TypeBase, TypeRule, Types};
use ptxkit_ptx::names::{Modifier, Type};

use crate::random::Random;

/// Whatever may stand where an operand stands.
const ANY: [&str; 40] = [
    "b16_1",
    "b32_1",
    "b32_2",
    "b64_1",
    "b64_2",
    "b128_1",
    "u32_1",
    "s32_1",
    "u64_1",
    "s16_1",
    "f16_1",
    "f16x2_1",
    "f32_1",
    "f32_2",
    "f64_1",
    "pred_1",
    "!pred_1",
    "pred_1|pred_2",
    "b32_1|pred_1",
    "_",
    "0",
    "1",
    "5",
    "-3",
    "32",
    "4294967296",
    "1.5",
    "0f3F800000",
    "0d3FF0000000000000",
    "-b32_1",
    "[b64_1]",
    "[b64_1+4]",
    "[global_1]",
    "[shared_1+8]",
    "[param_1]",
    "{b32_1, b32_2}",
    "{f32_1, f32_2, f32_3, f32_4}",
    "%tid.x",
    "global_1",
    "label_1",
];

/// Writes the operands of one instruction; registers are counted on.
pub struct Operands<'a> {
    random: &'a mut Random,
    modifiers: &'a Modifiers,
    used: usize,
}

impl<'a> Operands<'a> {
    pub fn new(random: &'a mut Random, modifiers: &'a Modifiers) -> Self {
        Operands {
            random,
            modifiers,
            used: 0,
        }
    }

    /// What a form asks for.
    pub fn of(mut self, form: &Form, types: &Types) -> Vec<String> {
        let mut operands = Vec::new();
        for rule in &form.operands {
            let stands = match &rule.presence {
                Presence::Required => true,
                Presence::Optional => self.random.once_in(2),
                Presence::With(words) => words.iter().any(|word| self.modifiers.has(*word)),
            };
            if stands {
                operands.push(self.operand(rule, types));
            }
        }
        if form.open_operands {
            for _ in 0..self.random.below(4) {
                operands.push(self.any());
            }
        }
        operands
    }

    pub fn any(&mut self) -> String {
        (*self.random.choose(&ANY)).to_owned()
    }

    fn operand(&mut self, rule: &OperandRule, types: &Types) -> String {
        if let Some(counts) = rule
            .count
            .as_ref()
            .map(|count| count.numbers(self.modifiers))
        {
            let count = if counts.is_empty() {
                1 + self.random.below(4)
            } else {
                usize::from(*self.random.choose(&counts))
            };
            return self.list(count, |it| it.single(rule, types));
        }
        match rule.kind {
            Kind::DestinationOrVector | Kind::SourceOrVector => match self.vector() {
                Some(count) => self.list(count, |it| it.single(rule, types)),
                None => self.single(rule, types),
            },
            _ => self.single(rule, types),
        }
    }

    fn list(&mut self, count: usize, mut one: impl FnMut(&mut Self) -> String) -> String {
        let elements: Vec<String> = (0..count).map(|_| one(self)).collect();
        format!("{{{}}}", elements.join(", "))
    }

    fn single(&mut self, rule: &OperandRule, types: &Types) -> String {
        let ty = type_of(rule.ty, types);
        match rule.kind {
            Kind::Source | Kind::SourceOrVector | Kind::RegisterOrFloat
                if self.random.once_in(5) =>
            {
                self.constant(ty, rule.range.as_ref())
            }
            Kind::Movable if self.random.once_in(3) => {
                let movable = [
                    "%tid.x",
                    "%clock64",
                    "global_1",
                    "shared_1",
                    "function_1",
                    "7",
                    "0f3F800000",
                ];
                (*self.random.choose(&movable)).to_owned()
            }
            Kind::Destination
            | Kind::DestinationOrVector
            | Kind::Source
            | Kind::SourceOrVector
            | Kind::Register
            | Kind::RegisterOrFloat
            | Kind::Movable => self.register(ty),
            Kind::PredicateDestination => self.predicate(),
            Kind::Predicate if self.random.once_in(4) => format!("!{}", self.predicate()),
            Kind::Predicate => self.predicate(),
            Kind::PredicatePair if self.random.once_in(2) => self.predicate(),
            Kind::PredicatePair => format!("{}|{}", self.predicate(), self.predicate()),
            Kind::DestinationAndPredicate | Kind::SinkAndPredicate if self.random.once_in(2) => {
                self.register(ty)
            }
            Kind::DestinationAndPredicate
            | Kind::SinkAndPredicate
            | Kind::BothRegisterAndPredicate => {
                format!("{}|{}", self.register(ty), self.predicate())
            }
            Kind::BothPredicates => format!("{}|{}", self.predicate(), self.predicate()),
            Kind::Sink => "_".to_owned(),
            Kind::Address => format!("[{}]", self.address()),
            Kind::Coordinates => {
                let mut inside = vec![self.address()];
                for element in &rule.elements {
                    inside.push(self.operand(element, types));
                }
                if rule.elements.is_empty() {
                    let count = self.dimensions();
                    inside.push(self.list(count, |it| it.register(Some(Type::B32))));
                }
                format!("[{}]", inside.join(", "))
            }
            Kind::Constant => self.constant(ty, rule.range.as_ref()),
            Kind::Label => "label_1".to_owned(),
            Kind::Function => "function_1".to_owned(),
            _ => self.any(),
        }
    }

    fn number(&mut self) -> usize {
        self.used += 1;
        self.used
    }

    fn predicate(&mut self) -> String {
        format!("pred_{}", self.number())
    }

    fn register(&mut self, ty: Option<Type>) -> String {
        let number = self.number();
        let Some(ty) = ty else {
            let kind = *self.random.choose(&["b32", "b64", "b16", "f32"]);
            return format!("{kind}_{number}");
        };
        let untyped = match ty.bits() {
            1 if ty == Type::Pred => "pred",
            ..=8 => "b8",
            16 => "b16",
            32 => "b32",
            64 => "b64",
            _ => "b128",
        };
        let own = [
            "u16", "u32", "u64", "s16", "s32", "s64", "f16", "f32", "f64", "f16x2",
        ];
        let kind = match own.iter().find(|own| Type::from_text(own) == Some(ty)) {
            Some(own) if self.random.once_in(2) => own,
            _ => untyped,
        };
        format!("{kind}_{number}")
    }

    fn constant(&mut self, ty: Option<Type>, range: Option<&Range>) -> String {
        if let Some(range) = range {
            return self.within(range).to_string();
        }
        match ty {
            Some(Type::F32) => "0f3F800000".to_owned(),
            Some(Type::F64) => "0d3FF0000000000000".to_owned(),
            _ => (*self
                .random
                .choose(&["0", "1", "3", "17", "-1", "0x7F", "4U"]))
            .to_owned(),
        }
    }

    /// A value of a range, or now and then one beside it.
    fn within(&mut self, range: &Range) -> i64 {
        let (low, high) = if range.spans.is_empty() {
            (0, 8 * range.multiple)
        } else {
            *self.random.choose(&range.spans)
        };
        match self.random.below(8) {
            0 => high.saturating_add(1),
            1 => low.saturating_sub(1),
            2 => low,
            3 => high,
            _ => {
                let steps = high.saturating_sub(low) / range.multiple;
                let step = self
                    .random
                    .below(usize::try_from(steps).unwrap_or(0).saturating_add(1));
                low + step as i64 * range.multiple
            }
        }
    }

    fn address(&mut self) -> String {
        let space = ["global", "const", "local", "param"]
            .into_iter()
            .find(|space| Modifier::from_text(space).is_some_and(|word| self.modifiers.has(word)));
        let shared = self
            .modifiers
            .as_slice()
            .iter()
            .any(|word| word.text().starts_with("shared"));
        match (space, shared, self.random.below(4)) {
            (_, _, 0 | 1) | (None, false, _) => format!("b64_{}", self.number()),
            (_, true, 2) => format!("b32_{}+8", self.number()),
            (_, true, _) => "shared_1".to_owned(),
            (Some(space), _, _) => format!("{space}_1"),
        }
    }

    /// The length of vectors, if the modifiers give one.
    fn vector(&self) -> Option<usize> {
        [("v2", 2), ("v4", 4), ("v8", 8)]
            .into_iter()
            .find(|(word, _)| {
                Modifier::from_text(word).is_some_and(|word| self.modifiers.has(word))
            })
            .map(|(_, count)| count)
    }

    /// How many coordinates a tensor or texture of this shape has.
    fn dimensions(&mut self) -> usize {
        let shapes = [
            ("1d", 1),
            ("2d", 2),
            ("3d", 4),
            ("4d", 4),
            ("5d", 5),
            ("a1d", 2),
            ("a2d", 4),
            ("cube", 4),
            ("acube", 4),
            ("2dms", 4),
            ("a2dms", 4),
        ];
        let shape = shapes.into_iter().find(|(word, _)| {
            Modifier::from_text(word).is_some_and(|word| self.modifiers.has(word))
        });
        shape.map_or_else(|| 1 + self.random.below(5), |(_, count)| count)
    }
}

fn type_of(rule: TypeRule, types: &Types) -> Option<Type> {
    let base = match rule.base {
        TypeBase::Any => return None,
        TypeBase::Fixed(ty) => ty,
        TypeBase::Named(number) => types.get(number).copied().flatten()?,
    };
    let bits = match rule.scale {
        Scale::Same => return Some(base),
        Scale::Half => base.bits() / 2,
        Scale::Twice => base.bits() * 2,
    };
    Type::from_text(&format!("b{bits}"))
}
