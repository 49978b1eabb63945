//! The fatbins that selection is tried on, made for a device of compute capability 9.0: what fits
//! it stands among what does not, in every order.

use std::cmp::Reverse;
use std::fmt;

/// The images of a fatbin, in their order.
pub struct Case(pub &'static [Image]);

#[derive(Clone, Copy)]
pub struct Image {
    pub target: &'static str,
    /// The version of PTX; `None` for a cubin.
    pub ptx: Option<(u8, u8)>,
    pub packing: Packing,
    /// Further flags of the entry.
    pub flags: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    None,
    Lz4,
    Zstd,
}

const fn elf(target: &'static str) -> Image {
    Image {
        target,
        ptx: None,
        packing: Packing::None,
        flags: 0,
    }
}

/// PTX of the version that came with every target named here.
const fn ptx(target: &'static str) -> Image {
    Image {
        ptx: Some((8, 8)),
        ..elf(target)
    }
}

/// PTX of a version of its own.
const fn older(target: &'static str) -> Image {
    Image {
        ptx: Some((7, 0)),
        ..elf(target)
    }
}

const fn packed(image: Image, packing: Packing) -> Image {
    Image { packing, ..image }
}

/// With bit 24 of the flags.
const fn deferred(image: Image) -> Image {
    Image {
        flags: 1 << 24,
        ..image
    }
}

use Packing::{Lz4, Zstd};

pub const CASES: &[Case] = &[
    // One binary.
    Case(&[elf("sm_90")]),
    Case(&[elf("sm_90a")]),
    Case(&[elf("sm_80")]),
    Case(&[elf("sm_89")]),
    Case(&[elf("sm_100")]),
    Case(&[elf("sm_100f")]),
    Case(&[elf("sm_120a")]),
    // Binaries that tie, and nearly do.
    Case(&[elf("sm_90"), elf("sm_90")]),
    Case(&[elf("sm_90"), elf("sm_90a")]),
    Case(&[elf("sm_90a"), elf("sm_90")]),
    Case(&[elf("sm_90a"), elf("sm_90a"), elf("sm_90")]),
    Case(&[elf("sm_80"), elf("sm_90"), elf("sm_100")]),
    Case(&[
        elf("sm_50"),
        elf("sm_60"),
        elf("sm_70"),
        elf("sm_75"),
        elf("sm_80"),
        elf("sm_86"),
        elf("sm_89"),
        elf("sm_90"),
        elf("sm_100a"),
        elf("sm_120"),
    ]),
    Case(&[deferred(elf("sm_90")), elf("sm_90")]),
    Case(&[elf("sm_90"), deferred(elf("sm_90"))]),
    Case(&[deferred(elf("sm_90")), deferred(elf("sm_90"))]),
    Case(&[deferred(elf("sm_90a")), elf("sm_90")]),
    Case(&[deferred(elf("sm_90"))]),
    Case(&[deferred(elf("sm_90")), ptx("sm_90")]),
    // PTX alone.
    Case(&[ptx("sm_50")]),
    Case(&[ptx("sm_90")]),
    Case(&[ptx("sm_90a")]),
    Case(&[ptx("sm_50"), ptx("sm_80")]),
    Case(&[ptx("sm_80"), ptx("sm_50")]),
    Case(&[ptx("sm_80"), ptx("sm_80")]),
    Case(&[ptx("sm_90"), ptx("sm_90a")]),
    Case(&[ptx("sm_90a"), ptx("sm_90")]),
    Case(&[ptx("sm_90a"), ptx("sm_90"), ptx("sm_90a"), ptx("sm_90")]),
    Case(&[ptx("sm_75"), ptx("sm_90"), ptx("sm_100")]),
    Case(&[ptx("sm_100")]),
    Case(&[ptx("sm_100f"), ptx("sm_80")]),
    Case(&[ptx("sm_100a"), ptx("sm_89"), ptx("sm_120")]),
    Case(&[ptx("sm_86"), ptx("sm_89"), ptx("sm_87")]),
    Case(&[packed(ptx("sm_80"), Lz4)]),
    Case(&[packed(ptx("sm_80"), Zstd), packed(ptx("sm_75"), Lz4)]),
    // Equal PTX, by where they stand.
    Case(&[ptx("sm_80"), ptx("sm_80"), ptx("sm_80")]),
    Case(&[ptx("sm_75"), ptx("sm_80"), ptx("sm_80")]),
    Case(&[ptx("sm_75"), ptx("sm_80"), ptx("sm_80"), ptx("sm_80")]),
    Case(&[ptx("sm_90"), ptx("sm_80"), ptx("sm_90")]),
    Case(&[ptx("sm_80"), ptx("sm_75"), ptx("sm_80")]),
    Case(&[ptx("sm_100"), ptx("sm_80"), ptx("sm_80")]),
    Case(&[ptx("sm_75"), ptx("sm_75"), ptx("sm_80"), ptx("sm_80")]),
    Case(&[elf("sm_100"), ptx("sm_80"), ptx("sm_80")]),
    Case(&[elf("sm_100"), ptx("sm_80"), ptx("sm_80"), ptx("sm_80")]),
    Case(&[ptx("sm_80"), elf("sm_100"), ptx("sm_80")]),
    Case(&[ptx("sm_80"), ptx("sm_80"), elf("sm_100")]),
    Case(&[elf("sm_90"), ptx("sm_80"), ptx("sm_80")]),
    Case(&[ptx("sm_80"), elf("sm_90"), ptx("sm_80")]),
    Case(&[ptx("sm_80"), ptx("sm_80"), elf("sm_90")]),
    Case(&[elf("sm_90"), ptx("sm_75"), ptx("sm_80"), ptx("sm_80")]),
    Case(&[elf("sm_90"), ptx("sm_80"), ptx("sm_75"), ptx("sm_80")]),
    Case(&[elf("sm_90"), ptx("sm_90a"), ptx("sm_90"), ptx("sm_90a")]),
    Case(&[older("sm_80"), ptx("sm_80")]),
    Case(&[ptx("sm_80"), older("sm_80")]),
    Case(&[ptx("sm_75"), older("sm_80"), ptx("sm_80")]),
    Case(&[ptx("sm_75"), ptx("sm_80"), older("sm_80")]),
    Case(&[elf("sm_100"), ptx("sm_80"), older("sm_80")]),
    // Binaries and PTX.
    Case(&[ptx("sm_90"), elf("sm_90")]),
    Case(&[elf("sm_90"), ptx("sm_90")]),
    Case(&[ptx("sm_90a"), elf("sm_90")]),
    Case(&[elf("sm_80"), ptx("sm_80")]),
    Case(&[elf("sm_89"), ptx("sm_89"), elf("sm_100"), ptx("sm_100")]),
    Case(&[ptx("sm_50"), elf("sm_90a"), ptx("sm_90a")]),
    Case(&[ptx("sm_70"), elf("sm_70"), elf("sm_86"), ptx("sm_86")]),
    Case(&[elf("sm_120f"), ptx("sm_120f"), ptx("sm_75")]),
    Case(&[elf("sm_90"), elf("sm_90"), ptx("sm_90"), ptx("sm_90")]),
    // Packed binaries.
    Case(&[packed(elf("sm_90"), Lz4)]),
    Case(&[packed(elf("sm_90"), Zstd)]),
    Case(&[
        packed(elf("sm_90"), Zstd),
        elf("sm_90"),
        packed(elf("sm_90"), Lz4),
    ]),
    Case(&[elf("sm_90"), packed(elf("sm_90"), Zstd)]),
    Case(&[packed(elf("sm_80"), Zstd), packed(ptx("sm_80"), Zstd)]),
    Case(&[
        packed(elf("sm_80"), Lz4),
        packed(ptx("sm_75"), Lz4),
        ptx("sm_70"),
    ]),
];

impl Case {
    /// The number of the PTX with the newest target, the first of equal ones.
    pub fn newest_ptx(&self) -> Option<usize> {
        let number = |image: &Image| -> (u32, bool) {
            let digits = image.target.trim_start_matches("sm_");
            let bare = digits.trim_end_matches(['a', 'f']);
            (bare.parse().unwrap(), bare != digits)
        };
        let ptx = self
            .0
            .iter()
            .enumerate()
            .filter(|(_, image)| image.ptx.is_some());
        ptx.max_by_key(|(index, image)| (number(image), Reverse(*index)))
            .map(|(index, _)| index)
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, image) in self.0.iter().enumerate() {
            let kind = if image.ptx.is_some() { "ptx" } else { "elf" };
            let packing = match image.packing {
                Packing::None => "",
                Packing::Lz4 => " lz4",
                Packing::Zstd => " zstd",
            };
            let deferred = if image.flags == 0 { "" } else { " bit24" };
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{kind} {}{packing}{deferred}", image.target)?;
        }
        Ok(())
    }
}
