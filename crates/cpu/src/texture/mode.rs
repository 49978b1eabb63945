//! The modifiers of a texture or surface instruction, and their encoding as an integer.

/// The geometry of a texture or surface.
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

    /// The number of coordinates, without the layer.
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
    Reduce,
    /// `sured.p`
    ReduceTexel,
    /// `txq`
    QueryTexture,
    /// `suq`
    QuerySurface,
    /// `istypep.texref`
    IsTexture,
    /// `istypep.surfref`
    IsSurface,
}

/// How an instruction chooses the mipmap level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Lod {
    Base,
    Level,
    Gradient,
}

/// What a surface instruction does out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum BoundaryMode {
    Trap,
    Clamp,
    Zero,
}

/// The operation of `sured`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Reduction {
    Add,
    Min,
    Max,
    And,
    Or,
}

/// The attribute that `txq` or `suq` queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Query {
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

/// The modifiers of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    pub operation: Operation,
    pub geometry: Geometry,
    pub lod: Lod,
    /// The coordinates are `.s32`.
    pub integers: bool,
    /// The results are `.f16` or `.f16x2`.
    pub halves: bool,
    pub signed: bool,
    /// The channel that `tld4` gathers.
    pub channel: u8,
    /// Size in bytes, and number, of the elements of a surface access.
    pub bytes: u8,
    pub count: u8,
    pub boundary: BoundaryMode,
    pub reduction: Reduction,
    pub query: Query,
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
            boundary: BoundaryMode::Trap,
            reduction: Reduction::Add,
            query: Query::Width,
        }
    }

    /// The encoding as an integer.
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
            self.boundary as u8 | (self.reduction as u8) << 4,
            self.query as u8,
        ])
    }

    /// Decodes [`Mode::number`]. An invalid field decodes to its first value.
    pub fn from_number(number: u64) -> Mode {
        use Operation::*;
        use Query::*;
        let [
            operation,
            geometry,
            lod,
            channel,
            bytes,
            count,
            boundary,
            query,
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
                    Operation::Reduce,
                    ReduceTexel,
                    QueryTexture,
                    QuerySurface,
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
            boundary: match boundary & 15 {
                1 => BoundaryMode::Clamp,
                2 => BoundaryMode::Zero,
                _ => BoundaryMode::Trap,
            },
            reduction: match boundary >> 4 {
                1 => self::Reduction::Min,
                2 => self::Reduction::Max,
                3 => self::Reduction::And,
                4 => self::Reduction::Or,
                _ => self::Reduction::Add,
            },
            query: *[
                Width, Height, Depth, Levels, Layers, Samples, Normalized, Filter, Address0,
                Address1, Address2,
            ]
            .get(pick(query))
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
            boundary: BoundaryMode::Zero,
            reduction: Reduction::Or,
            query: Query::Address2,
            ..Mode::new(Operation::QuerySurface)
        };
        for mode in [first, second] {
            assert_eq!(Mode::from_number(mode.number()), mode);
        }
    }
}
