//! Writes fatbins.

use std::fmt;

use super::bytes::Bytes;
use super::compress::compress;
use super::cubin::Cubin;
use super::entry::{Compression, Entry, EntryKind};
use super::fatbin::{
    CONCATENATED, ENTRY_HEADER, FLAG_ARCHITECTURE, FLAG_DEFERRED, FLAG_FAMILY, FLAG_LZ4,
    FLAG_SCRAMBLED, FLAG_ZSTD, Fatbin, HEADER, MAGIC,
};
use super::text::PtxText;
use super::{Image, ImageError, Suffix, Target, UnpackLimit, Unpacker};

/// The versions of the container and of an entry's header.
const VERSION: u16 = 1;
const ENTRY_VERSION: u16 = 0x101;
/// Code for 64-bit addresses, made for Linux.
const FLAGS: u64 = 0x11;
/// The first architecture whose entries repeat the section `.nv.compat` of their cubin.
const FIRST_WITH_RECORDS: u32 = 100;
/// The major version of the cubin format; the minor one is the ABI version of the ELF header.
const CUBIN_MAJOR: u16 = 1;
const ABI_VERSION: u64 = 8;
/// The options of PTX that has none.
const NO_OPTIONS: &[u8] = &[0];
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Writes images into one fatbin.
///
/// The images must be of one module: a device loads a single one of them.
///
/// ```
/// use ptxkit_image::{self as image, Compression, Image, Packer};
///
/// let old = image::open(b".version 7.0\n.target sm_70\n").unwrap();
/// let new = image::open(b".version 8.0\n.target sm_90\n").unwrap();
/// let mut packer = Packer::new(Compression::Zstd);
/// packer.add(&old).unwrap();
/// packer.add(&new).unwrap();
/// let bytes = packer.finish();
/// let Image::Fatbin(fatbin) = image::open(&bytes).unwrap() else { panic!() };
/// assert_eq!(fatbin.entries[1].target.to_string(), "sm_90");
/// assert_eq!(fatbin.entries[1].ptx().unwrap(), ".version 8.0\n.target sm_90\n");
/// ```
#[derive(Clone, Debug)]
pub struct Packer {
    compression: Compression,
    /// The fatbin, with the size in its header still missing.
    bytes: Vec<u8>,
}

/// Why an image cannot be put into a fatbin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackError {
    /// The image is damaged.
    Image(ImageError),
    /// PTX without a directive that the fatbin's header repeats: `.version` or `.target`.
    Directive(&'static str),
    /// A module compiled by the CPU device.
    Cpu,
    /// An image of this size in bytes: the header has 32 bits for the size.
    TooLarge(u64),
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackError::Image(error) => error.fmt(f),
            PackError::Directive(name) => write!(
                f,
                "the PTX has no {name}, which a fatbin needs to describe it: add the directive"
            ),
            PackError::Cpu => f.write_str(
                "it is compiled for the CPU device, which a fatbin cannot contain: pack the PTX \
                 that it was compiled from",
            ),
            PackError::TooLarge(size) => write!(
                f,
                "the image has {size} bytes, and an entry of a fatbin at most {}",
                u32::MAX
            ),
        }
    }
}

impl std::error::Error for PackError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PackError::Image(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ImageError> for PackError {
    fn from(error: ImageError) -> PackError {
        PackError::Image(error)
    }
}

/// The fields of an entry's header that do not depend on how the image is stored.
struct Described<'a> {
    kind: u16,
    /// Minor, then major.
    version: [u16; 2],
    architecture: u32,
    flags: u64,
    /// The field at offset 48.
    check: u64,
    name: &'a [u8],
    /// Options of PTX with a NUL behind them, records of a cubin with a zero before them.
    options: Option<Vec<u8>>,
}

impl Packer {
    /// An empty fatbin. Images that compression does not make smaller are stored as they are.
    #[must_use]
    pub fn new(compression: Compression) -> Packer {
        let mut bytes = Vec::new();
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((HEADER as u16).to_le_bytes());
        bytes.extend(0u64.to_le_bytes());
        Packer { compression, bytes }
    }

    /// Adds an image; of a fatbin, all images.
    ///
    /// # Errors
    ///
    /// - [`PackError::Image`]: the image is damaged, or the images of the fatbin exceed the
    ///   [`UnpackLimit`].
    /// - [`PackError::Directive`]: PTX without `.version` or `.target`.
    /// - [`PackError::Cpu`] and [`PackError::TooLarge`].
    ///
    /// The images before it stay. Of a fatbin, those before the damaged one are added.
    pub fn add(&mut self, image: &Image<'_>) -> Result<(), PackError> {
        match image {
            Image::Fatbin(fatbin) => self.add_fatbin(fatbin),
            Image::Cubin(cubin) => self.add_cubin(cubin),
            Image::Ptx(ptx) => self.add_ptx(ptx),
            Image::Cpu(_) => Err(PackError::Cpu),
        }
    }

    /// Adds an image of another container, with its name and options. If it is already compressed in
    /// the same way, its bytes are copied.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn add_entry(&mut self, entry: &Entry<'_>) -> Result<(), PackError> {
        self.add_unpacked(entry, &mut Unpacker::default())
    }

    /// The fatbin.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        let size = (self.bytes.len() as u64 - HEADER).to_le_bytes();
        if let Some(field) = self.bytes.get_mut(8..16) {
            field.copy_from_slice(&size);
        }
        self.bytes
    }

    fn add_fatbin(&mut self, fatbin: &Fatbin<'_>) -> Result<(), PackError> {
        let mut unpacker = Unpacker::default();
        let mut limit = UnpackLimit::of_file(fatbin.bytes.len());
        for entry in &fatbin.entries {
            limit.take(entry)?;
            self.add_unpacked(entry, &mut unpacker)?;
        }
        Ok(())
    }

    fn add_cubin(&mut self, cubin: &Cubin<'_>) -> Result<(), PackError> {
        let target = cubin.target_with_suffix()?;
        let abi = Bytes::new(cubin.bytes, "cubin").u8(ABI_VERSION)?;
        let records = cubin.compat_records()?;
        let repeated = target.number >= FIRST_WITH_RECORDS && !records.is_empty();
        let described = Described {
            kind: 2,
            version: [abi.into(), CUBIN_MAJOR],
            flags: flags_of(target) | if repeated { FLAG_DEFERRED } else { 0 },
            options: repeated.then(|| [&[0], records].concat()),
            ..Described::of(target)
        };
        self.write(&described, cubin.bytes)
    }

    fn add_ptx(&mut self, ptx: &PtxText<'_>) -> Result<(), PackError> {
        let version = ptx.version.ok_or(PackError::Directive(".version"))?;
        let target = ptx.target.ok_or(PackError::Directive(".target"))?;
        let described = Described {
            kind: 1,
            version: [version.minor.into(), version.major.into()],
            options: Some(NO_OPTIONS.to_vec()),
            ..Described::of(target)
        };
        // No compiler accepts a byte order mark.
        let text = ptx.original.strip_prefix(BYTE_ORDER_MARK);
        self.write(&described, text.unwrap_or(ptx.original))
    }

    fn add_unpacked<'a>(
        &mut self,
        entry: &Entry<'a>,
        unpacker: &mut Unpacker<'a>,
    ) -> Result<(), PackError> {
        if entry.header.is_empty() {
            return self.add(&super::open(entry.payload)?);
        }
        if let EntryKind::Other(kind @ CONCATENATED) = entry.kind {
            // Only a damaged fatbin has a block in a block.
            let block = Bytes::new(entry.header, "entry of a block in a fatbin");
            return Err(block
                .invalid_field("kind", entry.offset, kind.into())
                .into());
        }
        let known = entry.kind.is_ptx() || matches!(entry.kind, EntryKind::Elf | EntryKind::TileIr);
        if entry.block.is_none() && (entry.scrambled || !known) {
            return self.copy(entry);
        }
        let described = Described::of_entry(entry)?;
        let packed = entry.compression != Compression::None && entry.block.is_none();
        if packed && entry.compression == self.compression {
            // Damage is found here, and not by a driver.
            unpacker.unpack(entry)?;
            return self.store(&described, entry.payload, Some(entry.size));
        }
        self.write(&described, unpacker.unpack(entry)?)
    }

    /// Copies an entry as it is stored.
    fn copy(&mut self, entry: &Entry<'_>) -> Result<(), PackError> {
        let mut header = entry.header.to_vec();
        let padded = (entry.payload.len() as u64).next_multiple_of(8);
        match header.get_mut(8..16) {
            Some(field) => field.copy_from_slice(&padded.to_le_bytes()),
            None => return Err(PackError::Cpu),
        }
        self.bytes.extend(header);
        self.payload(entry.payload);
        Ok(())
    }

    /// Compresses an image, and writes its header and its bytes.
    fn write(&mut self, described: &Described<'_>, image: &[u8]) -> Result<(), PackError> {
        let is_ptx = matches!(described.kind, 1 | 0x40);
        let text;
        let image = if is_ptx {
            // Compilers expect one NUL at the end.
            let length = image.iter().rposition(|byte| *byte != 0);
            let used = image.get(..length.map_or(0, |last| last + 1));
            text = [used.unwrap_or_default(), &[0]].concat();
            &*text
        } else {
            image
        };
        match compress(image, self.compression) {
            Some(packed) => self.store(described, &packed, Some(image.len() as u64)),
            None => self.store(described, image, None),
        }
    }

    /// Writes a header and bytes. `size` is the size before compression, if they are compressed.
    fn store(
        &mut self,
        described: &Described<'_>,
        bytes: &[u8],
        size: Option<u64>,
    ) -> Result<(), PackError> {
        let length = bytes.len() as u64;
        let packed = u32::try_from(length).map_err(|_| PackError::TooLarge(length))?;
        let padded = length.next_multiple_of(8);
        let header = match (size, self.compression) {
            (None, _) => described.header(0, padded, 0, 0),
            (Some(size), Compression::Zstd) => described.header(packed, padded, size, FLAG_ZSTD),
            (Some(size), _) => described.header(packed, padded, size, FLAG_LZ4),
        };
        self.bytes.extend(header);
        self.payload(bytes);
        Ok(())
    }

    fn payload(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let padding = bytes.len().next_multiple_of(8) - bytes.len();
        self.bytes.extend(std::iter::repeat_n(0, padding));
    }
}

fn flags_of(target: Target) -> u64 {
    FLAGS
        | match target.suffix {
            Suffix::None => 0,
            Suffix::Architecture => FLAG_ARCHITECTURE,
            Suffix::Family => FLAG_FAMILY,
        }
}

impl<'a> Described<'a> {
    fn of(target: Target) -> Described<'a> {
        Described {
            kind: 0,
            version: [0; 2],
            architecture: target.number,
            flags: flags_of(target),
            check: 0,
            name: &[],
            options: None,
        }
    }

    /// The description in an entry's own header.
    fn of_entry(entry: &Entry<'a>) -> Result<Described<'a>, ImageError> {
        let header = Bytes {
            base: entry.offset,
            ..Bytes::new(entry.header, "entry of a fatbin")
        };
        // Name and options are informational, so invalid ones are left out.
        let name = header
            .u32(32)
            .and_then(|at| header.slice(at.into(), header.u32(36)?.into()));
        let options = || -> Result<Vec<u8>, ImageError> {
            let at = u64::from(header.u32(20)?);
            let length = u64::from(header.u32(at + 4)?);
            let bytes = header.slice(header.u32(at)?.into(), length + 1)?;
            Ok(bytes.to_vec())
        };
        let options = match (header.u32(20)?, entry.kind.is_ptx()) {
            (0, false) => None,
            // Drivers read the options of PTX without looking whether there are any.
            (_, true) => Some(options().unwrap_or_else(|_| NO_OPTIONS.to_vec())),
            (_, false) => options().ok(),
        };
        Ok(Described {
            kind: entry.kind.number().unwrap_or_default(),
            version: [header.u16(24)?, header.u16(26)?],
            architecture: header.u32(28)?,
            flags: header.u64(40)? & !(FLAG_LZ4 | FLAG_ZSTD | FLAG_SCRAMBLED),
            check: header.u64(48)?,
            name: name.unwrap_or_default(),
            options,
        })
    }

    fn header(&self, packed_size: u32, padded: u64, size: u64, compression: u64) -> Vec<u8> {
        let name_end = ENTRY_HEADER as usize + self.name.len();
        let name_at = if self.name.is_empty() {
            0
        } else {
            ENTRY_HEADER as u32
        };
        let options_at = if self.name.is_empty() {
            name_end
        } else {
            (name_end + 1).next_multiple_of(8)
        };
        let mut bytes = Vec::new();
        bytes.extend(self.kind.to_le_bytes());
        bytes.extend(ENTRY_VERSION.to_le_bytes());
        // The size of the header, known at the end.
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(padded.to_le_bytes());
        bytes.extend(packed_size.to_le_bytes());
        let options_field = self.options.as_ref().map_or(0, |_| options_at as u32);
        bytes.extend(options_field.to_le_bytes());
        bytes.extend(self.version.iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend(self.architecture.to_le_bytes());
        bytes.extend(name_at.to_le_bytes());
        bytes.extend((self.name.len() as u32).to_le_bytes());
        bytes.extend((self.flags | compression).to_le_bytes());
        bytes.extend(self.check.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(self.name);
        bytes.resize(options_at, 0);
        if let Some(options) = &self.options {
            bytes.extend((options_at as u32 + 8).to_le_bytes());
            bytes.extend((options.len() as u32).saturating_sub(1).to_le_bytes());
            bytes.extend(options);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        let length = (bytes.len() as u32).to_le_bytes();
        if let Some(field) = bytes.get_mut(4..8) {
            field.copy_from_slice(&length);
        }
        bytes
    }
}
