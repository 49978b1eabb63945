//! Sparse matrices A: of each chunk along `k`, half of the elements are stored, and metadata say
//! where they belong.
//!
//! A chunk has four elements, of 4 bits four pairs, of which two are stored; their places are two
//! bits each. Of 32 bits it has two elements, of which one is stored, as if it were two halves of
//! 16 bits. Lanes of each group hold the four bits of its chunks: of 16 and 32 bits a lane has
//! those of row `group` in its lower half, those of row `group + 8` in the upper; otherwise these
//! are in a lane of their own, the next.

use super::element::Element;
use super::registers::Words;

/// Rows, and the most places of a row.
const ROWS: usize = 16;
const PLACES: usize = 32;

/// Where the stored elements of A belong.
pub(super) struct Selection {
    /// By row, in the order of what is stored: the place along `k`, in units.
    places: [[u8; PLACES]; ROWS],
    /// How many of them a row has.
    count: usize,
    /// Elements that stay together.
    unit: usize,
}

impl Selection {
    /// That of 16 rows with `k` elements each, by the metadata of each lane.
    pub fn new(element: Element, k: usize, selector: usize, metadata: &Words) -> Selection {
        let bits = element.container();
        let (in_chunk, unit) = match bits {
            32 => (2, 1),
            4 => (8, 2),
            _ => (4, 1),
        };
        let chunks = k / in_chunk;
        let mut selection = Selection {
            places: [[0; PLACES]; ROWS],
            count: k / 2 / unit,
            unit,
        };
        for (row, places) in selection.places.iter_mut().enumerate() {
            let upper = row / 8;
            for chunk in 0..chunks {
                let at = 4 * chunk;
                let (lane, shift) = match bits {
                    16 | 32 => {
                        let lanes = 4 * chunks / 16;
                        (lanes * selector + at / 16, at % 16 + 16 * upper)
                    }
                    _ => {
                        let lanes = 2 * (4 * chunks / 32);
                        (lanes * selector + at / 32 * 2 + upper, at % 32)
                    }
                };
                let bits_of_chunk = metadata[row % 8 * 4 + lane % 4] >> shift;
                let place = |n: usize| (bits_of_chunk >> (2 * n) & 3) as u8;
                // At most 4 times 32 chunks.
                let first = (4 * chunk) as u8;
                match bits {
                    32 => places[chunk] = first / 2 + place(0) / 2,
                    _ => {
                        places[2 * chunk] = first + place(0);
                        places[2 * chunk + 1] = first + place(1);
                    }
                }
            }
        }
        selection
    }

    /// Lays the stored elements of a row out, between zeros that are there.
    pub fn expand<T: Copy>(&self, row: usize, stored: &[T], out: &mut [T]) {
        let places = self.places[row].iter().take(self.count);
        for (place, stored) in places.zip(stored.chunks(self.unit)) {
            let at = usize::from(*place) * self.unit;
            if let Some(out) = out.get_mut(at..at + stored.len()) {
                out.copy_from_slice(stored);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places of the first elements of a row whose metadata are these words of its group.
    fn places(element: Element, k: usize, selector: usize, row: usize, words: [u32; 4]) -> Vec<u8> {
        let mut metadata = [0; 32];
        metadata[row % 8 * 4..][..4].copy_from_slice(&words);
        let selection = Selection::new(element, k, selector, &metadata);
        selection.places[row][..selection.count].to_vec()
    }

    #[test]
    fn lanes_hold_the_metadata_of_their_group() {
        let halves = places(Element::F16, 16, 2, 9, [0, 0, 0x4E9D_0000, 0]);
        // 0xD: 1 and 3; 0x9: 1 and 2; 0xE: 2 and 3; 0x4: 0 and 1.
        assert_eq!(halves, [1, 3, 5, 6, 10, 11, 12, 13]);
        let wide = places(Element::F16, 32, 1, 0, [0, 0, 0x4444, 0xEEEE]);
        assert_eq!(wide[..4], [0, 1, 4, 5]);
        assert_eq!(wide[8..12], [18, 19, 22, 23]);
        let tf32 = places(Element::Tf32, 8, 0, 8, [0x4E4E_0000, 0, 0, 0]);
        assert_eq!(tf32, [1, 2, 5, 6]);
        let bytes = places(Element::S8, 64, 0, 12, [0, 0xEEEE_EEEE, 0, 0x4444_4444]);
        assert_eq!(bytes[..2], [2, 3]);
        assert_eq!(bytes[16..18], [32, 33]);
        let pairs = places(Element::S4, 64, 1, 3, [0, 0, 0xDDDD_DDDD, 0]);
        assert_eq!(pairs[..4], [1, 3, 5, 7]);
    }

    #[test]
    fn pairs_of_four_bits_stay_together() {
        let selection = Selection::new(Element::U4, 64, 0, &[0xEEEE_EEEE; 32]);
        let mut row = [0; 64];
        selection.expand(0, &[1, 2, 3, 4], &mut row);
        assert_eq!(row[..8], [0, 0, 0, 0, 1, 2, 3, 4]);
    }
}
