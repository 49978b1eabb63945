//! The factors of a product of floats, from the registers of a warp.

use super::element::Floats;
use super::registers::Words;
use super::scale::Scales;
use super::sparse::Selection;

/// Columns of the product of a `mma`.
pub(super) const COLUMNS: usize = 8;
/// The most rows.
pub(super) const ROWS: usize = 16;

/// A matrix of sums, by row.
pub(super) type Sums<T> = [[T; COLUMNS]; ROWS];

/// The first registers of A, B, C and D of a product, and its rows.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub a: usize,
    pub b: usize,
    pub c: usize,
    pub d: usize,
    pub rows: usize,
}

/// A and B in their registers.
pub(super) struct Factors<'a> {
    pub rows: usize,
    pub k: usize,
    pub a: [&'a Words; 4],
    pub b: [&'a Words; 4],
    pub selection: Option<Selection>,
    pub scales: Option<Scales>,
}

impl Factors<'_> {
    /// The elements of A and of B by row; a register of either has `width` of them in a row.
    #[inline(always)]
    pub(super) fn rows<const DEPTH: usize>(
        &self,
        width: usize,
        read_a: impl Fn(&Words, &mut Floats),
        read_b: impl Fn(&Words, &mut Floats),
    ) -> ([[f32; DEPTH]; ROWS], [[f32; COLUMNS]; DEPTH]) {
        let Factors { rows, k, .. } = *self;
        let mut left = [[0.0; DEPTH]; ROWS];
        let mut right = [[0.0; COLUMNS]; DEPTH];
        let mut block = [0.0; 256];
        let stored = if self.selection.is_some() { k / 2 } else { k };
        for (number, register) in self.a.iter().take(rows / 8 * stored / width).enumerate() {
            read_a(register, &mut block);
            let (first, at) = (number % (rows / 8) * 8, number / (rows / 8) * width);
            for (row, line) in left[first..]
                .iter_mut()
                .zip(block.chunks_exact(width).take(8))
            {
                row[at..at + width].copy_from_slice(line);
            }
        }
        if let Some(selection) = &self.selection {
            for (row, line) in left.iter_mut().enumerate() {
                let stored = std::mem::replace(line, [0.0; DEPTH]);
                selection.expand(row, &stored, line);
            }
        }
        if let Some(scales) = &self.scales {
            for (row, line) in left.iter_mut().enumerate().take(rows) {
                scales.scale_row(row, &mut line[..k]);
            }
        }
        for (number, register) in self.b.iter().take(k / width).enumerate() {
            read_b(register, &mut block);
            for (column, line) in block.chunks_exact_mut(width).take(8).enumerate() {
                if let Some(scales) = &self.scales {
                    scales.scale_column(column, number * width, k, line);
                }
                for (row, value) in right[number * width..].iter_mut().zip(&*line) {
                    row[column] = *value;
                }
            }
        }
        (left, right)
    }
}
