//! Blobs: the CPU device's binaries. [`compile`](fn@super::compile) returns them, caches
//! store them, and module loads take them.
//!
//! The code is position-independent and has no relocations. Reading verifies a checksum of
//! the body, then every size and offset, so that a truncated or damaged file is an error.
//! A checksum does not protect against a forged file, so reading is `unsafe`: a blob is machine
//! code.

mod codec;
mod error;

use std::sync::Arc;

use super::abi::{SyncKind, SyncPoint};
use super::matrix::Operation;
use codec::{Reader, Writer};
pub use error::BlobError;
use error::{VERSION, damaged};
use ptx::line_table::{FileLine, LineTable, Row};

/// The first bytes of a blob.
pub const MAGIC: [u8; 8] = *b"PTXKCPU1";

/// A compiled module. Images are loaded only if this crate's compiler made them, or
/// [`read`](Image::read) returned them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Image {
    /// Architecture of the code, as in `std::env::consts::ARCH`.
    pub arch: String,
    /// Names of the processor features that the code uses (`avx2`, `fma` …).
    pub features: Vec<String>,
    /// Whether its kernels are compiled again when they are hot.
    pub tier_up: bool,
    /// The PTX of the module, for tier-up and for the linker. Empty without tier-up, and where
    /// a [`CodeStore`](super::CodeStore) has it.
    pub ptx: String,
    /// Machine code of all kernels.
    pub code: Vec<u8>,
    /// In the order of the text.
    pub kernels: Vec<KernelImage>,
    /// Where the lines of the PTX come from.
    pub line_table: LineTable,
    /// The variables of the module. Code and [`Relocation`]s refer to them by index.
    pub variables: Vec<VariableImage>,
}

/// One `.entry`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelImage {
    /// The name in the PTX.
    pub name: String,
    /// The number of the architecture that the PTX is for: 80 of `sm_80`. 0 without one.
    pub target: u32,
    /// 1-based line of the kernel in the PTX.
    pub line: u32,
    /// Offset in [`Image::code`] of the function that runs one thread at a time.
    pub scalar: u32,
    /// The vector function, if there is one.
    pub vector: Option<VectorFunction>,
    /// In the order of the arguments.
    pub params: Vec<ParamLayout>,
    /// Size of the parameters in bytes, including padding.
    pub param_bytes: u32,
    /// Bytes of static shared memory.
    pub shared_bytes: u32,
    /// Bytes of the local frame of one thread.
    pub local_bytes: u32,
    /// Number of slots for saved registers.
    pub slots: u32,
    /// The kernel has no resume points, and does not access `states`, `slots` and `requests`.
    pub stateless: bool,
    /// A thread in state `n` is suspended at sync point `n - 1`.
    pub sync_points: Vec<SyncPoint>,
    /// The operations on matrices, which sync points refer to by index.
    pub matrices: Vec<Operation>,
    /// `.reqntid`
    pub required_threads: Option<[u32; 3]>,
    /// The size of the blocks that may run the code, if it is for one size alone.
    pub block: Option<[u32; 3]>,
    /// `.reqnctapercluster`
    pub required_cluster: Option<[u32; 3]>,
    /// A launch must name a cluster (`.explicitcluster`).
    pub explicit_cluster: bool,
    /// `.maxntid`
    pub max_threads: Option<[u32; 3]>,
}

/// The function of a kernel that runs groups of `width` consecutive threads.
///
/// The range of threads must be a multiple of `width`, and all threads must be in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorFunction {
    /// Offset in [`Image::code`].
    pub offset: u32,
    /// A power of two.
    pub width: u32,
    /// The size of a group's packed registers in bytes.
    pub packed_bytes: u32,
}

/// The layout of a kernel parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParamLayout {
    /// Offset in the parameters.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Bytes, a power of two.
    pub align: u32,
}

/// A module variable.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VariableImage {
    /// The name, to which [`external`](Self::external) variables of other modules refer.
    pub name: String,
    /// `.const`
    pub constant: bool,
    /// `.extern`: defined in another module.
    pub external: bool,
    /// `.visible`, `.weak` or `.common`: other modules may refer to it.
    pub exported: bool,
    /// `.attribute(.managed)`: the host may access it, too.
    pub managed: bool,
    /// Whether it is a texture or surface reference.
    pub reference: Reference,
    /// Bytes.
    pub size: u64,
    /// Bytes, a power of two.
    pub align: u32,
    /// Initial bytes; the rest is zero.
    pub init: Vec<u8>,
    /// The addresses in its initial value.
    pub relocations: Vec<Relocation>,
}

/// The kind of texture or surface reference that a variable is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Reference {
    /// An ordinary variable.
    #[default]
    None = 0,
    /// `.texref`
    Texture = 1,
    /// `.surfref`
    Surface = 2,
}

/// Eight bytes at `offset` hold the address of another variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Bytes from the start of the variable that holds the address.
    pub offset: u64,
    /// Index into [`Image::variables`].
    pub variable: u32,
    /// Bytes added to that variable's address.
    pub addend: i64,
}

/// Size of the header: magic, version, reserved zeros, length and checksum of the body.
pub(crate) const HEADER: usize = 8 + 4 + 4 + 8 + 8;

/// The size of a blob according to its header, for callers that have only a pointer; `None`
/// if the bytes are not a header.
pub(crate) fn length(header: &[u8]) -> Option<usize> {
    let body = header.get(..HEADER)?.strip_prefix(&MAGIC)?[8..].first_chunk()?;
    usize::try_from(u64::from_le_bytes(*body))
        .ok()?
        .checked_add(HEADER)
}

/// The checksum. Each step is a bijection of the state, so that any one changed word is
/// detected.
fn hash(bytes: &[u8]) -> u64 {
    let mut state = 0xCBF2_9CE4_8422_2325_u64 ^ bytes.len() as u64;
    let (words, rest) = bytes.as_chunks::<8>();
    for &word in words {
        state = (state ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        state ^= state >> 29;
    }
    for &byte in rest {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    state ^ (state >> 32)
}

impl Image {
    /// Serializes the image.
    pub fn write(&self) -> Vec<u8> {
        let mut body = Writer::default();
        body.text(&self.arch);
        body.list(&self.features, |w, f| w.text(f));
        body.u8(u8::from(self.tier_up));
        body.text(&self.ptx);
        body.list(&self.kernels, |w, k| k.write(w));
        body.list(&self.variables, |w, v| v.write(w));
        body.list(&self.line_table.files, |w, file| w.text(file));
        body.list(&self.line_table.rows, |w, row| {
            w.u32(row.line);
            for place in [row.source, row.inlined_at] {
                w.option(place, |w, FileLine { file, line }| {
                    w.u32(file);
                    w.u32(line);
                });
            }
        });
        // The code goes last: everything before it is decoded first.
        body.bytes(&self.code);
        let body = body.0;

        let mut all = Vec::with_capacity(HEADER + body.len());
        all.extend_from_slice(&MAGIC);
        all.extend_from_slice(&VERSION.to_le_bytes());
        all.extend_from_slice(&0_u32.to_le_bytes());
        all.extend_from_slice(&(body.len() as u64).to_le_bytes());
        all.extend_from_slice(&hash(&body).to_le_bytes());
        all.extend_from_slice(&body);
        all
    }

    /// Reads and checks a blob. [`check_processor`](Self::check_processor) checks that this
    /// processor can run it.
    ///
    /// # Safety
    /// The bytes must come from [`write`](Self::write): the checksum finds damage, but anybody
    /// can compute it, and the machine code is run as it is. An image of other bytes may be
    /// inspected, but not loaded.
    pub unsafe fn read(bytes: &[u8]) -> Result<Image, BlobError> {
        let Some(rest) = bytes.strip_prefix(&MAGIC) else {
            return Err(BlobError::NotABlob);
        };
        let mut header = Reader(rest);
        let version = header.u32()?;
        if version != VERSION {
            return Err(BlobError::Version { found: version });
        }
        if header.u32()? != 0 {
            return damaged("reserved bytes are not zero");
        }
        let length = header.u64()?;
        let sum = header.u64()?;
        let body = header.0;
        if body.len() as u64 != length {
            return damaged("its length differs from the length in its header");
        }
        if hash(body) != sum {
            return damaged("its checksum is wrong");
        }

        let mut reader = Reader(body);
        let arch = reader.text()?;
        let features = reader.list(Reader::text)?;
        let tier_up = reader.flag()?;
        let ptx = reader.text()?;
        let kernels = reader.list(KernelImage::read)?;
        let variables = reader.list(VariableImage::read)?;
        let file_line = |r: &mut Reader<'_>| {
            let (file, line) = (r.u32()?, r.u32()?);
            Ok(FileLine { file, line })
        };
        let line_table = LineTable {
            files: reader.list(|r| r.text().map(Arc::from))?,
            rows: reader.list(|r| {
                Ok(Row {
                    line: r.u32()?,
                    source: r.option(file_line)?,
                    inlined_at: r.option(file_line)?,
                })
            })?,
        };
        let code = reader.bytes()?.to_vec();
        if !reader.0.is_empty() {
            return damaged("bytes after the end");
        }
        let image = Image {
            arch,
            features,
            tier_up,
            ptx,
            code,
            kernels,
            variables,
            line_table,
        };
        image.check()?;
        Ok(image)
    }

    /// Checks that this processor can run the code.
    pub fn check_processor(&self) -> Result<(), BlobError> {
        if self.arch != std::env::consts::ARCH {
            return Err(BlobError::Processor {
                needs: self.arch.clone(),
            });
        }
        let missing: Vec<&str> = self
            .features
            .iter()
            .map(String::as_str)
            .filter(|feature| !super::processor::has(feature))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(BlobError::Processor {
            needs: missing.join(", "),
        })
    }

    fn check(&self) -> Result<(), BlobError> {
        for kernel in &self.kernels {
            let inside = |offset: u32| (offset as usize) < self.code.len();
            if !inside(kernel.scalar)
                || kernel
                    .vector
                    .is_some_and(|l| !inside(l.offset) || !l.width.is_power_of_two())
            {
                return damaged("the offset of a kernel is outside the code");
            }
            for point in &kernel.sync_points {
                let is_matrix = point.kind == SyncKind::Matrix;
                let known = |n: u32, count: usize| (n as usize) < count;
                if is_matrix != point.matrix.is_some()
                    || !point.matrix.is_none_or(|n| known(n, kernel.matrices.len()))
                    || !point
                        .then
                        .is_none_or(|n| known(n, kernel.sync_points.len()))
                {
                    return damaged("a sync point refers to what does not exist");
                }
            }
            for p in &kernel.params {
                let end = u64::from(p.offset) + u64::from(p.size);
                if end > u64::from(kernel.param_bytes) || !p.align.is_power_of_two() {
                    return damaged("a parameter is outside the parameter space");
                }
            }
        }
        for variable in &self.variables {
            if variable.init.len() as u64 > variable.size || !variable.align.is_power_of_two() {
                return damaged("a variable is smaller than its initial value");
            }
            for r in &variable.relocations {
                let fits = r
                    .offset
                    .checked_add(8)
                    .is_some_and(|end| end <= variable.size);
                if !fits || r.variable as usize >= self.variables.len() {
                    return damaged("a relocation is outside its variable");
                }
            }
        }
        Ok(())
    }
}

impl KernelImage {
    fn write(&self, w: &mut Writer) {
        w.text(&self.name);
        w.u32(self.target);
        w.u32(self.line);
        w.u32(self.scalar);
        w.option(self.vector, |w, l| {
            w.u32(l.offset);
            w.u32(l.width);
            w.u32(l.packed_bytes);
        });
        w.list(&self.params, |w, p| {
            w.u32(p.offset);
            w.u32(p.size);
            w.u32(p.align);
        });
        w.u32(self.param_bytes);
        w.u32(self.shared_bytes);
        w.u32(self.local_bytes);
        w.u32(self.slots);
        w.u8(u8::from(self.stateless));
        w.list(&self.sync_points, |w, p| {
            w.u8(p.kind as u8);
            w.u32(p.line);
            w.option(p.barrier, |w, b| b.into_iter().for_each(|n| w.u32(n)));
            w.option(p.matrix, |w, n| w.u32(n));
            w.option(p.then, |w, n| w.u32(n));
        });
        w.list(&self.matrices, |w, m| {
            w.list(&m.words(), |w, word| w.u32(*word));
        });
        let threads = |w: &mut Writer, t: [u32; 3]| t.into_iter().for_each(|n| w.u32(n));
        w.option(self.required_threads, threads);
        w.option(self.block, threads);
        w.option(self.required_cluster, threads);
        w.u8(u8::from(self.explicit_cluster));
        w.option(self.max_threads, threads);
    }

    fn read(r: &mut Reader<'_>) -> Result<KernelImage, BlobError> {
        let threads = |r: &mut Reader<'_>| Ok([r.u32()?, r.u32()?, r.u32()?]);
        let slots;
        Ok(KernelImage {
            name: r.text()?,
            target: r.u32()?,
            line: r.u32()?,
            scalar: r.u32()?,
            vector: r.option(|r| {
                Ok(VectorFunction {
                    offset: r.u32()?,
                    width: r.u32()?,
                    packed_bytes: r.u32()?,
                })
            })?,
            params: r.list(|r| {
                Ok(ParamLayout {
                    offset: r.u32()?,
                    size: r.u32()?,
                    align: r.u32()?,
                })
            })?,
            param_bytes: r.u32()?,
            shared_bytes: r.u32()?,
            local_bytes: r.u32()?,
            slots: {
                slots = r.u32()?;
                slots
            },
            stateless: r.flag()?,
            sync_points: r.list(|r| {
                let Some(kind) = SyncKind::from_number(r.u8()?) else {
                    return damaged("unknown kind of sync point");
                };
                Ok(SyncPoint {
                    kind,
                    line: r.u32()?,
                    barrier: r.option(|r| Ok([r.u32()?, r.u32()?]))?,
                    matrix: r.option(Reader::u32)?,
                    then: r.option(Reader::u32)?,
                })
            })?,
            matrices: r.list(|r| {
                let words = r.list(Reader::u32)?;
                let Some(operation) = Operation::from_words(&words, slots) else {
                    return damaged("unknown operation on matrices");
                };
                Ok(operation)
            })?,
            required_threads: r.option(threads)?,
            block: r.option(threads)?,
            required_cluster: r.option(threads)?,
            explicit_cluster: r.flag()?,
            max_threads: r.option(threads)?,
        })
    }
}

impl VariableImage {
    fn write(&self, w: &mut Writer) {
        w.text(&self.name);
        w.u8(u8::from(self.constant));
        w.u8(u8::from(self.external));
        w.u8(u8::from(self.exported));
        w.u8(u8::from(self.managed));
        w.u8(self.reference as u8);
        w.u64(self.size);
        w.u32(self.align);
        w.bytes(&self.init);
        w.list(&self.relocations, |w, r| {
            w.u64(r.offset);
            w.u32(r.variable);
            w.u64(r.addend.cast_unsigned());
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<VariableImage, BlobError> {
        Ok(VariableImage {
            name: r.text()?,
            constant: r.flag()?,
            external: r.flag()?,
            exported: r.flag()?,
            managed: r.flag()?,
            reference: match r.u8()? {
                0 => Reference::None,
                1 => Reference::Texture,
                2 => Reference::Surface,
                _ => return damaged("unknown kind of reference"),
            },
            size: r.u64()?,
            align: r.u32()?,
            init: r.bytes()?.to_vec(),
            relocations: r.list(|r| {
                Ok(Relocation {
                    offset: r.u64()?,
                    variable: r.u32()?,
                    addend: r.u64()?.cast_signed(),
                })
            })?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Code, Element};

    fn read(bytes: &[u8]) -> Result<Image, BlobError> {
        // SAFETY: none of these images is loaded.
        unsafe { Image::read(bytes) }
    }

    fn sample() -> Image {
        Image {
            arch: "x86_64".into(),
            features: vec!["avx2".into()],
            tier_up: true,
            ptx: "// text".into(),
            code: vec![0xC3, 0x90, 0x90],
            kernels: vec![KernelImage {
                name: "vecadd".into(),
                target: 80,
                line: 7,
                scalar: 0,
                vector: Some(VectorFunction {
                    offset: 1,
                    width: 8,
                    packed_bytes: 64,
                }),
                params: vec![ParamLayout {
                    offset: 0,
                    size: 8,
                    align: 8,
                }],
                param_bytes: 8,
                slots: 4,
                sync_points: vec![
                    SyncPoint {
                        kind: SyncKind::ShflDown,
                        line: 12,
                        barrier: Some([1, 64]),
                        matrix: None,
                        then: Some(1),
                    },
                    SyncPoint {
                        kind: SyncKind::Matrix,
                        line: 13,
                        barrier: None,
                        matrix: Some(0),
                        then: None,
                    },
                ],
                matrices: vec![Operation {
                    code: Code::MoveMatrix,
                    shape: [8, 8, 1],
                    elements: [Element::B16; 4],
                    flags: Operation::TRANSPOSED,
                    slots: vec![3, 2],
                }],
                required_threads: Some([32, 1, 1]),
                ..KernelImage::default()
            }],
            line_table: LineTable {
                files: vec!["vecadd.cu".into()],
                rows: vec![
                    Row {
                        line: 9,
                        source: Some(FileLine { file: 0, line: 3 }),
                        inlined_at: Some(FileLine { file: 0, line: 5 }),
                    },
                    Row {
                        line: 20,
                        source: None,
                        inlined_at: None,
                    },
                ],
            },
            variables: vec![VariableImage {
                name: "table".into(),
                constant: true,
                exported: true,
                size: 16,
                align: 8,
                init: vec![1, 2, 3],
                relocations: vec![Relocation {
                    offset: 8,
                    variable: 0,
                    addend: -4,
                }],
                ..VariableImage::default()
            }],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let image = sample();
        assert_eq!(read(&image.write()), Ok(image));
    }

    #[test]
    fn every_cut_is_an_error() {
        let bytes = sample().write();
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn every_changed_bit_is_an_error() {
        let bytes = sample().write();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(read(&changed).is_err(), "byte {at}, bit {bit}");
            }
        }
    }

    /// With a corrected checksum, the structural checks alone must prevent a panic.
    #[test]
    fn damage_behind_a_right_checksum_never_panics() {
        let bytes = sample().write();
        for at in HEADER..bytes.len() {
            for value in [0, 1, 0x7F, 0x80, 0xFF] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let sum = hash(&changed[HEADER..]);
                changed[HEADER - 8..HEADER].copy_from_slice(&sum.to_le_bytes());
                if let Ok(image) = read(&changed) {
                    assert!(image.check().is_ok());
                }
            }
        }
    }

    #[test]
    fn a_kernel_outside_of_the_code_is_an_error() {
        let mut image = sample();
        image.kernels[0].scalar = 3;
        assert!(matches!(
            read(&image.write()),
            Err(BlobError::Damaged { .. })
        ));
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = sample().write();
        bytes[8] += 1;
        let found = VERSION + 1;
        assert_eq!(read(&bytes), Err(BlobError::Version { found }));
    }
}
