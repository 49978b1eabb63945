//! The number of elements of a list in braces.

use crate::ast::Modifiers;
use crate::names::Modifier;

/// The number of elements of a list in braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// `{2|4}`: one of these numbers.
    Of(Vec<u8>),
    /// `{2+2}`: the sum of these numbers. ptxas splits the list into pieces, and checks
    /// each like the whole list.
    Pieces(Vec<u8>),
    /// `{d}`, `{d-1}`: the number of dimensions of the tensor minus this number.
    Dimensions(u8),
    /// `{n/2}`: the columns of the shape, 64 for `.m64n64k16`, divided by this number.
    Columns(u8),
    /// `{x}`, `{2x}`: the repetitions, 16 for `.x16`, times this number.
    Repeats(u8),
    /// `{c}`: the coordinates of the texture geometry, or more.
    Coordinates,
    /// `{o}`: the coordinates without the array layer and the sample.
    Offsets,
    /// `{g}`: the derivatives that select the mipmap level.
    Derivatives,
}

impl Count {
    /// The allowed numbers in an instruction with these modifiers.
    pub fn numbers(&self, modifiers: &Modifiers) -> Vec<u8> {
        let mut words = modifiers.as_slice().iter();
        match self {
            Count::Of(numbers) => numbers.clone(),
            Count::Pieces(pieces) => vec![pieces.iter().sum()],
            Count::Dimensions(fewer) => DIMENSIONS
                .iter()
                .position(|word| modifiers.has(*word))
                .and_then(|index| (index as u8 + 1).checked_sub(*fewer))
                .into_iter()
                .collect(),
            Count::Columns(divisor) => words
                .find_map(|word| columns(*word))
                .and_then(|columns| columns.checked_div(u16::from(*divisor)))
                .and_then(|count| count.try_into().ok())
                .into_iter()
                .collect(),
            Count::Repeats(factor) => words
                .find_map(|word| word.text().strip_prefix('x')?.parse::<u8>().ok())
                .and_then(|repeats| repeats.checked_mul(*factor))
                .into_iter()
                .collect(),
            Count::Coordinates => geometry(modifiers).0.to_vec(),
            Count::Offsets => geometry(modifiers).1.to_vec(),
            Count::Derivatives => geometry(modifiers).2.to_vec(),
        }
    }

    /// The text for documentation; empty if there is no list.
    pub fn describe(&self) -> String {
        match self {
            Count::Of(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(u8::to_string).collect();
                format!("{} elements:", numbers.join(" or "))
            }
            Count::Pieces(pieces) => {
                let all: u8 = pieces.iter().sum();
                format!("{all} elements:")
            }
            Count::Dimensions(0) => "one element for each dimension:".to_owned(),
            Count::Dimensions(fewer) => format!("{fewer} elements fewer than dimensions:"),
            Count::Columns(divisor) => format!("one element for each {divisor} columns:"),
            Count::Repeats(factor) => format!("{factor} elements for each repetition:"),
            Count::Coordinates => "the coordinates of the geometry:".to_owned(),
            Count::Offsets => "the offsets of the geometry:".to_owned(),
            Count::Derivatives => "the derivatives of the geometry:".to_owned(),
        }
    }
}

/// The modifiers for one, two … dimensions.
const DIMENSIONS: [Modifier; 5] = [
    Modifier::N1d,
    Modifier::N2d,
    Modifier::N3d,
    Modifier::N4d,
    Modifier::N5d,
];

/// The 64 of `.m128n64k16`.
fn columns(shape: Modifier) -> Option<u16> {
    let (_, columns) = shape.text().strip_prefix('m')?.split_once('n')?;
    columns.split_once('k')?.0.parse().ok()
}

/// The numbers of coordinates, offsets and derivatives for the texture geometry of the
/// modifiers. Vectors have 1, 2 or 4 elements, and extra elements are ignored.
fn geometry(modifiers: &Modifiers) -> (&'static [u8], &'static [u8], &'static [u8]) {
    use Modifier as M;
    let words = [M::N1d, M::A1d, M::N2d, M::A2d, M::N2dms, M::A2dms, M::N3d];
    match modifiers.first_of(&words) {
        Some(M::N1d) => (&[1, 2, 4], &[1, 2, 4], &[1]),
        Some(M::A1d) => (&[2, 4], &[1, 2, 4], &[1]),
        Some(M::N2d) => (&[2, 4], &[2, 4], &[2]),
        Some(M::A2d | M::N2dms | M::A2dms) => (&[4], &[2, 4], &[2]),
        Some(_) => (&[4], &[4], &[4]),
        // Cubes.
        None => (&[4], &[], &[1, 2, 4]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: Count, words: &str) -> Vec<u8> {
        let mut modifiers = Modifiers::default();
        for word in words.split('.') {
            assert!(modifiers.push(Modifier::from_text(word).unwrap()));
        }
        count.numbers(&modifiers)
    }

    #[test]
    fn shapes_determine_the_number_of_registers() {
        assert_eq!(numbers(Count::Columns(2), "sync.m64n256k16.f32"), [128]);
        assert_eq!(numbers(Count::Columns(4), "m64n8k32"), [2]);
        assert_eq!(numbers(Count::Repeats(4), "16x256b.x32.b32"), [128]);
        assert!(numbers(Count::Repeats(4), "16x256b.x128").is_empty());
        assert!(numbers(Count::Repeats(1), "16x256b.b32").is_empty());
    }

    #[test]
    fn geometries_determine_the_number_of_coordinates() {
        assert_eq!(numbers(Count::Coordinates, "2d.v4"), [2, 4]);
        assert_eq!(numbers(Count::Offsets, "a2d"), [2, 4]);
        assert_eq!(numbers(Count::Derivatives, "3d"), [4]);
        assert_eq!(numbers(Count::Coordinates, "acube"), [4]);
    }
}
