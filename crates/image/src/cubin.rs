//! Cubins: ELF files for a GPU.

use std::collections::HashMap;

use super::bytes::Bytes;
use super::elf::{self, Elf, Section};
use super::info;
use super::{ImageError, Suffix, Target};

const MACHINE_CUDA: u16 = 0xbe;
/// The prefix of the section with a kernel's code; the kernel's name follows.
const TEXT: &[u8] = b".text.";
const CONSTANT: &[u8] = b".nv.constant";
const SYMBOL: u64 = 24;
/// Bytes of shared memory that the system takes in each block.
const RESERVED_SHARED: u64 = 1024;
/// In `st_other` of a symbol: a kernel entry.
const ENTRY: u8 = 0x10;
const FUNCTION: u8 = 2;
/// The first toolkit whose compilers mark spills.
const FIRST_WITH_SPILLS: u32 = 126;

/// A binary for one architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cubin<'a> {
    /// The whole file.
    pub bytes: &'a [u8],
    /// The architecture, without a suffix: a cubin's header does not contain it.
    pub target: Target,
}

/// The kernels of a cubin, and its resource usage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CubinContents {
    /// In file order.
    pub kernels: Vec<CubinKernel>,
    /// The size of the module's variables in global memory, in bytes.
    pub global: u64,
    /// The module's banks of constant memory: number and size in bytes.
    pub constant: Vec<(u8, u64)>,
}

/// A kernel of a cubin. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CubinKernel {
    /// The name for `cuModuleGetFunction`.
    pub name: String,
    /// Registers per thread.
    pub registers: u32,
    /// Stack size per thread.
    pub stack: u32,
    /// Static shared memory per block, including the part reserved by the architecture, if any.
    pub shared: u64,
    /// The part of `shared` that the architecture reserves.
    pub reserved_shared: u64,
    /// Instructions that write a register to local memory or read it back because there are too few
    /// registers. `None` for code of CUDA before 12.6, which does not mark them.
    pub spills: Option<u32>,
    /// Barriers of a block, as `bar.sync` names them.
    pub barriers: u32,
    /// Local memory per thread outside the stack.
    pub local: u64,
    /// The kernel's banks of constant memory: number and size. Bank 0 contains the parameters of
    /// the launch and the data before them.
    pub constant: Vec<(u8, u64)>,
    /// `.maxntid`: the product is the maximum number of threads of a block.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`: the required dimensions of a block.
    pub required_threads: Option<[u32; 3]>,
    /// In argument order.
    pub params: Vec<CubinParam>,
    /// The size of all parameters, including padding.
    pub param_bytes: u32,
}

/// The position of a kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct CubinParam {
    /// The argument index, from 0.
    pub ordinal: u16,
    /// The offset from the first parameter, in bytes.
    pub offset: u32,
    /// The size in bytes.
    pub size: u32,
}

pub(super) fn is_cubin(bytes: &[u8]) -> bool {
    elf::is_elf(bytes) && elf::machine(bytes) == Ok(MACHINE_CUDA)
}

/// Reads the header, and validates the bounds of the sections.
pub(super) fn read(bytes: &[u8]) -> Result<Cubin<'_>, ImageError> {
    let elf = Elf::read(Bytes::new(bytes, "cubin"))?;
    let number = match elf.osabi {
        51 => elf.flags & 0xff,
        65 => (elf.flags >> 8) & 0xff,
        osabi => return Err(elf.file.invalid_field("ELF OSABI", 7, osabi.into())),
    };
    Ok(Cubin {
        bytes,
        target: Target::new(number, Suffix::None),
    })
}

impl Cubin<'_> {
    /// Reads the kernels: names, parameters and resource usage.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use ptxkit_image::{self as image, Image};
    ///
    /// let bytes = std::fs::read("vecadd.cubin")?;
    /// if let Image::Cubin(cubin) = image::open(&bytes)? {
    ///     for kernel in cubin.contents()?.kernels {
    ///         println!("{}: {} registers", kernel.name, kernel.registers);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn contents(&self) -> Result<CubinContents, ImageError> {
        let elf = Elf::read(Bytes::new(self.bytes, "cubin"))?;
        let entries = Entries::read(&elf)?;
        let mut contents = CubinContents {
            kernels: entries.kernels(&elf),
            ..CubinContents::default()
        };
        if let Some(section) = elf.section(b".nv.info") {
            let data = elf.data(section, "section .nv.info")?;
            for record in info::records(data) {
                let record = record?;
                if let Some((symbol, value)) = record.symbol_value()
                    && let Some(index) = entries.by_symbol.get(&symbol)
                    && let Some(kernel) = contents.kernels.get_mut(*index)
                {
                    match record.attribute {
                        info::REGISTERS => kernel.registers = value,
                        info::MIN_STACK => kernel.stack = value,
                        _ => {}
                    }
                }
            }
        }
        for section in &elf.sections {
            let Some((what, name)) = per_kernel(section.name) else {
                contents.of_module(section);
                continue;
            };
            let kernel = entries
                .by_name
                .get(name)
                .and_then(|index| contents.kernels.get_mut(*index));
            let Some(kernel) = kernel else { continue };
            match what {
                KernelSection::Info => describe(&elf, section, kernel)?,
                KernelSection::Shared => {
                    kernel.shared = section.size;
                    // Older architectures reserve it outside of what the section says.
                    if self.target.number >= 90 {
                        kernel.reserved_shared = section.size.min(RESERVED_SHARED);
                    }
                }
                KernelSection::Local => kernel.local = section.size,
                KernelSection::Constant(bank) => kernel.constant.push((bank, section.size)),
            }
        }
        Ok(contents)
    }
}

impl CubinContents {
    /// Adds the size of a section that belongs to the module.
    fn of_module(&mut self, section: &Section<'_>) {
        match section.name {
            b".nv.global" | b".nv.global.init" => {
                self.global = self.global.saturating_add(section.size);
            }
            name => {
                let bank = name.strip_prefix(CONSTANT).and_then(bank);
                self.constant.extend(bank.map(|bank| (bank, section.size)));
            }
        }
    }
}

/// The kind of a section of one kernel, whose name ends in the kernel's.
#[derive(Clone, Copy)]
enum KernelSection {
    Info,
    Shared,
    Local,
    Constant(u8),
}

/// The number after `.nv.constant`.
fn bank(digits: &[u8]) -> Option<u8> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn per_kernel(section: &[u8]) -> Option<(KernelSection, &[u8])> {
    if let Some(rest) = section.strip_prefix(CONSTANT) {
        let dot = rest.iter().position(|byte| *byte == b'.')?;
        let (digits, name) = rest.split_at_checked(dot)?;
        return Some((KernelSection::Constant(bank(digits)?), name.get(1..)?));
    }
    [
        (KernelSection::Info, &b".nv.info."[..]),
        (KernelSection::Shared, b".nv.shared."),
        (KernelSection::Local, b".nv.local."),
    ]
    .into_iter()
    .find_map(|(what, prefix)| Some((what, section.strip_prefix(prefix)?)))
}

/// Reads a kernel's own records.
fn describe(
    elf: &Elf<'_>,
    section: &Section<'_>,
    kernel: &mut CubinKernel,
) -> Result<(), ImageError> {
    let data = elf.data(section, "section .nv.info of a kernel")?;
    let (mut spills, mut marks_spills) = (0u32, false);
    for record in info::records(data) {
        let record = record?;
        match record.attribute {
            info::PARAM_BYTES => kernel.param_bytes = record.value.into(),
            info::MAX_THREADS => kernel.max_threads = record.shape(),
            info::BARRIERS => kernel.barriers = u32::from(record.value & 0xff),
            info::TOOLKIT => marks_spills = record.number() >= Some(FIRST_WITH_SPILLS),
            info::ANNOTATIONS => spills = spills.saturating_add(record.spills()),
            info::REQUIRED_THREADS => kernel.required_threads = record.shape(),
            _ => kernel.params.extend(record.param()),
        }
    }
    kernel.spills = marks_spills.then_some(spills);
    kernel.params.sort();
    Ok(())
}

/// Maps symbols and sections to kernels.
struct Entries<'a> {
    /// The code sections, in file order.
    code: Vec<usize>,
    by_symbol: HashMap<u32, usize>,
    by_name: HashMap<&'a [u8], usize>,
}

impl<'a> Entries<'a> {
    fn read(elf: &Elf<'a>) -> Result<Entries<'a>, ImageError> {
        let mut symbols = Vec::new();
        if let Some(section) = elf.section(b".symtab") {
            let table = elf.data(section, "table of symbols")?;
            for index in 0..table.size() / SYMBOL {
                let at = index * SYMBOL;
                let is_kernel =
                    table.u8(at + 4)? & 0xf == FUNCTION && table.u8(at + 5)? & ENTRY != 0;
                if is_kernel && let Ok(symbol) = u32::try_from(index) {
                    symbols.push((symbol, usize::from(table.u16(at + 6)?)));
                }
            }
        }
        let mut code: Vec<usize> = symbols.iter().map(|(_, section)| *section).collect();
        code.retain(|section| name_of_code(elf, *section).is_some());
        code.sort_unstable();
        code.dedup();
        let index = |section: &usize| code.binary_search(section).ok();
        Ok(Entries {
            by_symbol: symbols
                .iter()
                .filter_map(|(symbol, section)| Some((*symbol, index(section)?)))
                .collect(),
            by_name: code
                .iter()
                .enumerate()
                .filter_map(|(index, section)| Some((name_of_code(elf, *section)?, index)))
                .collect(),
            code,
        })
    }

    fn kernels(&self, elf: &Elf<'_>) -> Vec<CubinKernel> {
        let described = self.code.iter().map(|section| {
            let name = name_of_code(elf, *section).unwrap_or_default();
            let section = elf.sections.get(*section);
            CubinKernel {
                name: String::from_utf8_lossy(name).into_owned(),
                // The defaults without a record. Before CUDA 13, barriers have none.
                registers: section.map_or(0, |section| section.info >> 24),
                barriers: section.map_or(0, |section| (section.flags >> 20) as u32 & 0x7f),
                ..CubinKernel::default()
            }
        });
        described.collect()
    }
}

/// The kernel with its code in this section.
fn name_of_code<'a>(elf: &Elf<'a>, section: usize) -> Option<&'a [u8]> {
    elf.sections.get(section)?.name.strip_prefix(TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cubin with empty sections of these names, and a symbol for the code.
    pub(super) fn cubin(osabi: u8, flags: u32, sections: &[&str]) -> Vec<u8> {
        let mut names = vec![0];
        let mut offsets = vec![0];
        for name in sections {
            offsets.push(names.len() as u32);
            names.extend(name.as_bytes());
            names.push(0);
        }
        let mut symbols = vec![0; 24];
        for (index, name) in (1u16..).zip(sections) {
            let mut symbol = [0; 24];
            if *name == ".text.one" {
                symbol[4..6].copy_from_slice(&[0x12, 0x10]);
            }
            symbol[6..8].copy_from_slice(&index.to_le_bytes());
            symbols.extend(symbol);
        }
        let symbols_at = 64 + names.len() as u64;
        let table = symbols_at + symbols.len() as u64;
        let mut file = vec![0; 64];
        file[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, osabi]);
        file[18..20].copy_from_slice(&MACHINE_CUDA.to_le_bytes());
        file[40..48].copy_from_slice(&table.to_le_bytes());
        file[48..52].copy_from_slice(&flags.to_le_bytes());
        file[58..60].copy_from_slice(&64u16.to_le_bytes());
        file[60..62].copy_from_slice(&(offsets.len() as u16).to_le_bytes());
        file.extend(&names);
        file.extend(&symbols);
        for (index, offset) in offsets.iter().enumerate() {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&offset.to_le_bytes());
            // The first section is the string table.
            let (at, size) = match index {
                0 => (64, names.len() as u64),
                _ if sections[index - 1] == ".symtab" => (symbols_at, symbols.len() as u64),
                _ => (0, 0),
            };
            header[24..32].copy_from_slice(&at.to_le_bytes());
            header[32..40].copy_from_slice(&size.to_le_bytes());
            file.extend(header);
        }
        file
    }

    #[test]
    fn architecture_and_kernels_are_read() {
        let sections = [".text.one", ".text.inner", ".nv.info.one", ".symtab"];
        let new = cubin(65, 0x0600_5a04, &sections);
        let found = read(&new).unwrap();
        assert_eq!(found.target.to_string(), "sm_90");
        let kernels = found.contents().unwrap().kernels;
        assert_eq!(kernels.len(), 1);
        assert_eq!(kernels[0].name, "one");
        let old = cubin(51, 0x0156_0556, &sections);
        assert_eq!(read(&old).unwrap().target.to_string(), "sm_86");
    }

    #[test]
    fn barriers_before_cuda_13_are_flags_of_the_code() {
        let mut file = cubin(65, 0x5a00, &[".text.one", ".symtab"]);
        let table = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
        // The flags of the second section.
        file[table + 64 + 8..][..8].copy_from_slice(&0x80_0006_u64.to_le_bytes());
        assert_eq!(
            read(&file).unwrap().contents().unwrap().kernels[0].barriers,
            8
        );
    }

    #[test]
    fn names_with_quadratic_total_length_are_rejected() {
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
        let good = cubin(65, 0x5a00, &[".text.one", ".nv.info.one", ".symtab"]);
        for length in 20..good.len() {
            assert!(read(&good[..length]).is_err(), "{length}");
        }
        for at in 4..good.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                let _ = read(&bad).and_then(|cubin| cubin.contents());
            }
        }
    }
}
