//! Cubins: ELF files for a GPU. Enough of them is read to choose and to name.

use std::collections::HashSet;

use super::bytes::Bytes;
use super::{ImageError, Suffix, Target};

const MACHINE_CUDA: u16 = 0xbe;
const SECTION_HEADER: u64 = 64;
/// The kernel's code lies in a section of this name followed by the kernel's.
const TEXT: &str = ".text.";
const INFO: &str = ".nv.info.";

/// A binary for one architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cubin<'a> {
    /// The whole file.
    pub bytes: &'a [u8],
    /// Without the suffix, which a cubin's header does not tell.
    pub target: Target,
    /// The kernels' names, in the order of the file.
    pub kernels: Vec<String>,
    /// Bit 24 of the header's flags: of two equal binaries, the driver takes
    /// the one without it.
    pub(super) deferred: bool,
}

/// The machine that an ELF file is for; an error where it is no ELF file.
pub(super) fn machine(bytes: &[u8]) -> Result<u16, ImageError> {
    Bytes { bytes, what: "ELF" }.u16(18)
}

pub(super) fn is_cubin(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF") && machine(bytes) == Ok(MACHINE_CUDA)
}

pub(super) fn read(bytes: &[u8]) -> Result<Cubin<'_>, ImageError> {
    let elf = Bytes {
        bytes,
        what: "cubin",
    };
    let wrong = |field, offset, value| ImageError::Field {
        what: "cubin",
        field,
        offset,
        value,
    };
    let class = elf.slice(4, 1)?[0];
    if class != 2 {
        return Err(wrong("ELF class", 4, class.into()));
    }
    let flags = elf.u32(48)?;
    let number = match elf.slice(7, 1)?[0] {
        51 => flags & 0xff,
        65 => (flags >> 8) & 0xff,
        osabi => return Err(wrong("ELF OSABI", 7, osabi.into())),
    };
    let sections = elf.u64(40)?;
    let entry_size = u64::from(elf.u16(58)?);
    let count = u64::from(elf.u16(60)?);
    let names_index = u64::from(elf.u16(62)?);
    if count != 0 && entry_size < SECTION_HEADER {
        return Err(wrong("section header size", 58, entry_size));
    }
    // Checks every header at once: what follows cannot overflow.
    elf.slice(sections, entry_size * count)?;
    let names = if names_index < count {
        let header = sections + names_index * entry_size;
        Bytes {
            bytes: elf.slice(elf.u64(header + 24)?, elf.u64(header + 32)?)?,
            what: "cubin's section names",
        }
    } else {
        return Err(wrong("section of section names", 62, names_index));
    };
    // Names may share their ends, but a file whose names together are many times as long as
    // the bytes they stand in was made to fill the memory.
    let mut room = names.bytes.len().saturating_mul(8);
    let mut code = Vec::new();
    let mut described = HashSet::new();
    for index in 0..count {
        let name_at = u64::from(elf.u32(sections + index * entry_size)?);
        let name = names.text(name_at)?;
        room = room
            .checked_sub(name.len())
            .ok_or_else(|| wrong("section name", sections + index * entry_size, name_at))?;
        if let Some(kernel) = name.strip_prefix(TEXT) {
            code.push(kernel.to_owned());
        } else if let Some(kernel) = name.strip_prefix(INFO) {
            described.insert(kernel.to_owned());
        }
    }
    // Device functions have code too; only what has both is a kernel.
    code.retain(|kernel| described.contains(kernel.as_str()));
    Ok(Cubin {
        bytes,
        target: Target::new(number, Suffix::None),
        kernels: code,
        deferred: flags & (1 << 24) != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cubin that has sections of these names and nothing in them.
    fn cubin(osabi: u8, flags: u32, sections: &[&str]) -> Vec<u8> {
        let mut names = vec![0];
        let mut offsets = vec![0];
        for name in sections {
            offsets.push(names.len() as u32);
            names.extend(name.as_bytes());
            names.push(0);
        }
        let table = 64 + names.len() as u64;
        let mut file = vec![0; 64];
        file[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, osabi]);
        file[18..20].copy_from_slice(&MACHINE_CUDA.to_le_bytes());
        file[40..48].copy_from_slice(&table.to_le_bytes());
        file[48..52].copy_from_slice(&flags.to_le_bytes());
        file[58..60].copy_from_slice(&64u16.to_le_bytes());
        file[60..62].copy_from_slice(&(offsets.len() as u16).to_le_bytes());
        file.extend(&names);
        for offset in offsets {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&offset.to_le_bytes());
            if offset == 0 {
                // The first section holds the names.
                header[24..32].copy_from_slice(&64u64.to_le_bytes());
                header[32..40].copy_from_slice(&(names.len() as u64).to_le_bytes());
            }
            file.extend(header);
        }
        file
    }

    #[test]
    fn architecture_and_kernels_are_read() {
        let sections = [".text.one", ".text.inner", ".nv.info.one", ".nv.info"];
        let new = cubin(65, 0x0600_5a04, &sections);
        let found = read(&new).unwrap();
        assert_eq!(found.target.to_string(), "sm_90");
        assert_eq!(found.kernels, ["one"]);
        assert!(!found.deferred);
        let old = cubin(51, 0x0156_0556, &sections);
        let found = read(&old).unwrap();
        assert_eq!(found.target.to_string(), "sm_86");
        assert!(found.deferred);
    }

    #[test]
    fn names_that_fill_the_memory_are_refused() {
        let long = format!(".text.{}", "k".repeat(1 << 20));
        let mut sections = vec!["x"; 1000];
        sections[0] = &long;
        let mut file = cubin(65, 0x5a00, &sections);
        let table = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
        for section in 1..=1000 {
            // All have the first one's name.
            file[table + section * 64..][..4].copy_from_slice(&1u32.to_le_bytes());
        }
        assert!(matches!(read(&file), Err(ImageError::Field { .. })));
    }

    #[test]
    fn a_cut_or_changed_cubin_is_an_error_or_read_within_its_bytes() {
        let good = cubin(65, 0x5a00, &[".text.one", ".nv.info.one"]);
        for length in 20..good.len() {
            assert!(read(&good[..length]).is_err(), "{length}");
        }
        for at in 4..good.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                let _ = read(&bad);
            }
        }
    }
}
