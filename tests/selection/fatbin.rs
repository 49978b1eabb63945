//! Makes fatbins of images that tell which they are.

use crate::cases::{Case, Image, Packing};

const PTX: &str = include_str!("marker.ptx");
/// The marker in `marker.ptx`, which each image has changed to its number.
const MARKER: u32 = 1_592_654_542;

/// Each with its cubin, compiled from `marker.ptx`.
const CUBINS: &[(&str, &[u8])] = &[
    ("sm_50", include_bytes!("cubins/sm_50.cubin")),
    ("sm_60", include_bytes!("cubins/sm_60.cubin")),
    ("sm_70", include_bytes!("cubins/sm_70.cubin")),
    ("sm_75", include_bytes!("cubins/sm_75.cubin")),
    ("sm_80", include_bytes!("cubins/sm_80.cubin")),
    ("sm_86", include_bytes!("cubins/sm_86.cubin")),
    ("sm_89", include_bytes!("cubins/sm_89.cubin")),
    ("sm_90", include_bytes!("cubins/sm_90.cubin")),
    ("sm_90a", include_bytes!("cubins/sm_90a.cubin")),
    ("sm_100", include_bytes!("cubins/sm_100.cubin")),
    ("sm_100a", include_bytes!("cubins/sm_100a.cubin")),
    ("sm_100f", include_bytes!("cubins/sm_100f.cubin")),
    ("sm_120", include_bytes!("cubins/sm_120.cubin")),
    ("sm_120a", include_bytes!("cubins/sm_120a.cubin")),
    ("sm_120f", include_bytes!("cubins/sm_120f.cubin")),
];

/// The fatbin of a case: image 0 answers 0, image 1 answers 1 …
pub fn fatbin(case: &Case) -> Vec<u8> {
    let mut entries = Vec::new();
    for (index, image) in case.0.iter().enumerate() {
        entries.extend(entry(image, index as u32));
    }
    let mut fatbin = Vec::new();
    fatbin.extend(0xba55_ed50_u32.to_le_bytes());
    fatbin.extend(1u16.to_le_bytes());
    fatbin.extend(16u16.to_le_bytes());
    fatbin.extend((entries.len() as u64).to_le_bytes());
    fatbin.extend(entries);
    fatbin
}

fn entry(image: &Image, marker: u32) -> Vec<u8> {
    let (kind, version, content) = match image.ptx {
        Some(version) => (1u16, version, ptx(image.target, version, marker)),
        None => (2, (7, 1), cubin(image.target, marker)),
    };
    let digits = image.target.trim_start_matches("sm_");
    let number: u32 = digits.trim_end_matches(['a', 'f']).parse().unwrap();
    let mut flags = 0x11u64 | image.flags;
    flags |= match digits.as_bytes()[digits.len() - 1] {
        b'a' => 1 << 20,
        b'f' => 1 << 21,
        _ => 0,
    };
    let (packed, size) = match image.packing {
        Packing::None => (content, 0),
        Packing::Lz4 => {
            flags |= 0x2000;
            (lz4(&content), content.len())
        }
        Packing::Zstd => {
            flags |= 0x8000;
            (zstd(&content), content.len())
        }
    };
    let padded = packed.len().next_multiple_of(8);
    let compressed = if size == 0 { 0 } else { packed.len() };
    // The driver reads the options of PTX without looking whether there are any: here are none, at
    // offset 72, which is said at 64.
    let options: &[u8] = match image.ptx {
        Some(_) => &[72, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        None => &[],
    };
    let header = 64 + options.len();
    let mut entry = Vec::new();
    entry.extend(kind.to_le_bytes());
    entry.extend(0x101u16.to_le_bytes());
    entry.extend((header as u32).to_le_bytes());
    entry.extend((padded as u64).to_le_bytes());
    entry.extend((compressed as u32).to_le_bytes());
    entry.extend(if options.is_empty() { 0u32 } else { 64 }.to_le_bytes());
    entry.extend((version.1 as u16).to_le_bytes());
    entry.extend((version.0 as u16).to_le_bytes());
    entry.extend(number.to_le_bytes());
    entry.extend([0; 8]);
    entry.extend(flags.to_le_bytes());
    entry.extend([0; 8]);
    entry.extend((size as u64).to_le_bytes());
    entry.extend(options);
    entry.extend(packed);
    entry.resize(header + padded, 0);
    entry
}

pub fn ptx(target: &str, (major, minor): (u8, u8), marker: u32) -> Vec<u8> {
    let text = PTX
        .replace("sm_50", target)
        .replace(".version 6.0", &format!(".version {major}.{minor}"))
        .replace(&MARKER.to_string(), &marker.to_string());
    [text.as_bytes(), b"\0"].concat()
}

pub fn cubin(target: &str, marker: u32) -> Vec<u8> {
    let (_, cubin) = CUBINS.iter().find(|(name, _)| *name == target).unwrap();
    let mut cubin = cubin.to_vec();
    let at = cubin
        .windows(4)
        .position(|bytes| bytes == MARKER.to_le_bytes())
        .expect("the marker is in the cubin");
    cubin[at..at + 4].copy_from_slice(&marker.to_le_bytes());
    cubin
}

/// An LZ4 block that repeats nothing: the bytes as they are, behind their count.
fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut block = vec![0xf0];
    let mut rest = bytes.len() - 15;
    while rest >= 255 {
        block.push(255);
        rest -= 255;
    }
    block.push(rest as u8);
    block.extend(bytes);
    block
}

/// A Zstandard frame with one block of the bytes as they are.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd];
    // One segment, whose size has two bytes and lacks 256.
    frame.push(0x60);
    frame.extend(((bytes.len() - 256) as u16).to_le_bytes());
    let header = (bytes.len() as u32) << 3 | 1;
    frame.extend(&header.to_le_bytes()[..3]);
    frame.extend(bytes);
    frame
}
