//! Where groups that wait for the block keep their registers.

/// The layout of a group's registers.
pub(super) struct PackedRegisters {
    /// By register: its offset, if it is live at a sync point.
    pub offsets: Vec<Option<i32>>,
    /// The size of all registers of a group: whole lines.
    pub bytes: u32,
}

impl PackedRegisters {
    /// The layout of registers of these sizes. Those of 64 bytes and more start at lines.
    pub fn new(sizes: &[Option<u32>]) -> PackedRegisters {
        let mut saved: Vec<(u32, usize)> = (0..)
            .zip(sizes)
            .filter_map(|(reg, size)| Some(((*size)?, reg)))
            .collect();
        saved.sort_unstable_by_key(|&(bytes, reg)| (bytes % 64, bytes, reg));
        let (mut offsets, mut end) = (vec![None; sizes.len()], 0_u32);
        for (bytes, reg) in saved {
            end = end.next_multiple_of(bytes.next_power_of_two().min(64));
            offsets[reg] = Some(end.cast_signed());
            end += bytes;
        }
        PackedRegisters {
            offsets,
            bytes: end.next_multiple_of(64),
        }
    }
}
