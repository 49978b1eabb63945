//! A small fatbin whose images unpack to much.

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";

/// A fatbin of so many images for sm_80: PTX with a kernel `k` and blanks up to `size` bytes, each
/// packed with Zstandard.
pub fn bomb(images: usize, size: usize) -> Vec<u8> {
    let packed = zstd(size);
    let padded = packed.len().next_multiple_of(8);
    let mut entry = Vec::new();
    entry.extend(1u16.to_le_bytes());
    entry.extend(0x101u16.to_le_bytes());
    entry.extend(64u32.to_le_bytes());
    entry.extend((padded as u64).to_le_bytes());
    entry.extend((packed.len() as u32).to_le_bytes());
    entry.extend(0u32.to_le_bytes());
    entry.extend(0u16.to_le_bytes());
    entry.extend(8u16.to_le_bytes());
    entry.extend(80u32.to_le_bytes());
    entry.extend([0; 8]);
    entry.extend(0x8011u64.to_le_bytes());
    entry.extend([0; 8]);
    entry.extend((size as u64).to_le_bytes());
    entry.extend(packed);
    entry.resize(64 + padded, 0);
    let mut fatbin = Vec::new();
    fatbin.extend(0xba55_ed50_u32.to_le_bytes());
    fatbin.extend(1u16.to_le_bytes());
    fatbin.extend(16u16.to_le_bytes());
    fatbin.extend(((entry.len() * images) as u64).to_le_bytes());
    fatbin.extend(entry.repeat(images));
    fatbin
}

/// A frame of one segment: the head as it is, then blocks of one repeated byte.
fn zstd(size: usize) -> Vec<u8> {
    const BLOCK: usize = 128 << 10;
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    frame.extend((size as u32).to_le_bytes());
    frame.extend(&((HEAD.len() as u32) << 3).to_le_bytes()[..3]);
    frame.extend(HEAD.as_bytes());
    let mut left = size - HEAD.len();
    while left > 0 {
        let length = left.min(BLOCK);
        left -= length;
        let header = (length as u32) << 3 | 1 << 1 | u32::from(left == 0);
        frame.extend(&header.to_le_bytes()[..3]);
        frame.push(b' ');
    }
    frame
}
