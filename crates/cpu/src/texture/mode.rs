//! What a texture or surface instruction does, as one number in compiled code.

/// How many coordinates there are, and what they mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Geometry {
    D1,
    D2,
    D3,
    /// `.a1d`: the layer comes first.
    A1,
    A2,
    Cube,
    ACube,
}

impl Geometry {
    const ALL: [Geometry; 7] = [
        Geometry::D1,
        Geometry::D2,
        Geometry::D3,
        Geometry::A1,
        Geometry::A2,
        Geometry::Cube,
        Geometry::ACube,
    ];

    pub fn is_layered(self) -> bool {
        matches!(self, Geometry::A1 | Geometry::A2 | Geometry::ACube)
    }

    /// Coordinates beside the layer.
    pub fn dimensions(self) -> usize {
        match self {
            Geometry::D1 | Geometry::A1 => 1,
            Geometry::D2 | Geometry::A2 => 2,
            Geometry::D3 | Geometry::Cube | Geometry::ACube => 3,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operation {
    /// `tex`
    Fetch,
    /// `tld4`
    Gather,
    /// `suld.b`
    Load,
    /// `sust.b`
    Store,
    /// `sust.p`
    StoreTexel,
    /// `sured.b`
    Change,
    /// `sured.p`
    ChangeTexel,
    /// `txq`
    AskTexture,
    /// `suq`
    AskSurface,
    /// `istypep.texref`
    IsTexture,
    /// `istypep.surfref`
    IsSurface,
}

/// Which level of a mipmapped texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Lod {
    Base,
    Level,
    Gradient,
}

/// What a surface instruction does outside of the surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Beyond {
    Trap,
    Clamp,
    Zero,
}

/// What `sured` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Change {
    Add,
    Min,
    Max,
    And,
    Or,
}

/// What `txq` and `suq` ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Question {
    Width,
    Height,
    Depth,
    Levels,
    Layers,
    Samples,
    Normalized,
    Filter,
    Address0,
    Address1,
    Address2,
}

/// An instruction's modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    pub operation: Operation,
    pub geometry: Geometry,
    pub lod: Lod,
    /// Coordinates are `.s32`.
    pub integers: bool,
    /// Results are half-precision numbers.
    pub halves: bool,
    pub signed: bool,
    /// The channel that `tld4` gathers.
    pub channel: u8,
    /// Bytes of an element of a surface access, and how many there are.
    pub bytes: u8,
    pub count: u8,
    pub beyond: Beyond,
    pub change: Change,
    pub question: Question,
}

impl Mode {
    pub fn new(operation: Operation) -> Mode {
        Mode {
            operation,
            geometry: Geometry::D1,
            lod: Lod::Base,
            integers: false,
            halves: false,
            signed: false,
            channel: 0,
            bytes: 4,
            count: 4,
            beyond: Beyond::Trap,
            change: Change::Add,
            question: Question::Width,
        }
    }

    pub fn number(self) -> u64 {
        let flags =
            u8::from(self.integers) | u8::from(self.halves) << 1 | u8::from(self.signed) << 2;
        u64::from_le_bytes([
            self.operation as u8,
            self.geometry as u8,
            self.lod as u8 | flags << 4,
            self.channel,
            self.bytes,
            self.count,
            self.beyond as u8 | (self.change as u8) << 4,
            self.question as u8,
        ])
    }

    /// The mode of a number that [`Mode::number`] gave; anything in another is
    /// the first of its kind.
    pub fn from_number(number: u64) -> Mode {
        use Operation::*;
        use Question::*;
        let [
            operation,
            geometry,
            lod,
            channel,
            bytes,
            count,
            beyond,
            question,
        ] = number.to_le_bytes();
        let pick = |at: u8| at as usize;
        let of = |at, from: &[Operation]| from.get(pick(at)).copied().unwrap_or(Fetch);
        let flag = |bit: u8| lod >> 4 & 1 << bit != 0;
        Mode {
            operation: of(
                operation,
                &[
                    Fetch,
                    Gather,
                    Load,
                    Store,
                    StoreTexel,
                    Operation::Change,
                    ChangeTexel,
                    AskTexture,
                    AskSurface,
                    IsTexture,
                    IsSurface,
                ],
            ),
            geometry: *Geometry::ALL.get(pick(geometry)).unwrap_or(&Geometry::D1),
            lod: match lod & 15 {
                1 => Lod::Level,
                2 => Lod::Gradient,
                _ => Lod::Base,
            },
            integers: flag(0),
            halves: flag(1),
            signed: flag(2),
            channel: channel & 3,
            bytes,
            count,
            beyond: match beyond & 15 {
                1 => Beyond::Clamp,
                2 => Beyond::Zero,
                _ => Beyond::Trap,
            },
            change: match beyond >> 4 {
                1 => self::Change::Min,
                2 => self::Change::Max,
                3 => self::Change::And,
                4 => self::Change::Or,
                _ => self::Change::Add,
            },
            question: *[
                Width, Height, Depth, Levels, Layers, Samples, Normalized, Filter, Address0,
                Address1, Address2,
            ]
            .get(pick(question))
            .unwrap_or(&Width),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_survives_as_a_number() {
        let first = Mode {
            geometry: Geometry::ACube,
            lod: Lod::Gradient,
            halves: true,
            channel: 3,
            ..Mode::new(Operation::Gather)
        };
        let second = Mode {
            integers: true,
            signed: true,
            bytes: 8,
            count: 2,
            beyond: Beyond::Zero,
            change: Change::Or,
            question: Question::Address2,
            ..Mode::new(Operation::AskSurface)
        };
        for mode in [first, second] {
            assert_eq!(Mode::from_number(mode.number()), mode);
        }
    }
}
