//! Images of device code: PTX, cubins and fatbins, the selection of one for a device, and fatbins
//! made of several ([`Packer`]).
//!
//! ```
//! use ptxkit_image::{self as image, Image};
//!
//! let bytes = b".version 8.0\n.target sm_80\n.address_size 64\n";
//! let Image::Ptx(ptx) = image::open(bytes).unwrap() else { panic!() };
//! assert_eq!(ptx.version.unwrap().to_string(), "8.0");
//! ```

#![forbid(unsafe_code)]

mod archive;
mod bytes;
mod compress;
mod contents;
mod cubin;
mod drivers;
mod elf;
mod entry;
mod fatbin;
mod info;
mod note;
mod pack;
mod pickle;
mod program;
mod select;
mod target;
mod text;
mod unpack;

pub use contents::{Contents, FileKind, Piece, PtxFound, contents, ptx_texts};
pub use cubin::{Cubin, CubinContents, CubinKernel, CubinParam};
pub use drivers::{DriverRelease, drivers, first_driver_for, newest_ptx};
pub use entry::{Compression, Entry, EntryKind};
pub use fatbin::Fatbin;
pub use pack::{PackError, Packer};
pub use select::{JitPolicy, NothingFits, Place, Selection, select};
pub use target::{NotATarget, Suffix, Target};
pub use text::{PtxText, PtxTooNew};
pub use unpack::{UnpackLimit, Unpacker};

use std::fmt;

use bytes::Bytes;

/// The magic number of modules compiled by the CPU device.
const CPU_MAGIC: &[u8] = b"PTXKCPU";

/// An image that can be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image<'a> {
    /// PTX text.
    Ptx(PtxText<'a>),
    /// A binary for one GPU architecture.
    Cubin(Cubin<'a>),
    /// Several images in one container.
    Fatbin(Fatbin<'a>),
    /// Compiled by the CPU device.
    Cpu(&'a [u8]),
}

/// Why bytes are not a valid image.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageError {
    Unknown(String),
    Truncated {
        what: &'static str,
        offset: u64,
        length: u64,
        end: u64,
    },
    Field {
        what: &'static str,
        field: &'static str,
        offset: u64,
        value: u64,
    },
    Damaged {
        kind: &'static str,
        target: Target,
        offset: u64,
        why: String,
    },
    UnpackLimit {
        offset: u64,
        size: u64,
        limit: u64,
    },
    Member {
        member: String,
        source: Box<ImageError>,
    },
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageError::Unknown(why) => f.write_str(why),
            ImageError::Truncated {
                what,
                offset,
                length,
                end,
            } => write!(
                f,
                "the {what} is truncated: {length} bytes are needed at offset {offset}, it ends at \
                 {end}"
            ),
            ImageError::Field {
                what,
                field,
                offset,
                value,
            } => write!(
                f,
                "the {what} has an invalid {field} at offset {offset}: {value}"
            ),
            ImageError::Damaged {
                kind,
                target,
                offset,
                why,
            } => write!(
                f,
                "the {kind} for {target} at offset {offset} cannot be unpacked: {why}"
            ),
            ImageError::UnpackLimit {
                offset,
                size,
                limit,
            } => write!(
                f,
                "the image at offset {offset} unpacks to {size} bytes, and the images of this file \
                 may unpack to {limit} bytes in total: `ptxkit extract --index` extracts a single \
                 one"
            ),
            ImageError::Member { member, source } => write!(f, "{member}: {source}"),
        }
    }
}

impl std::error::Error for ImageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ImageError::Member { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

/// Detects the kind of an image, and reads its header.
///
/// Sizes and offsets are validated; nothing is decompressed.
pub fn open(bytes: &[u8]) -> Result<Image<'_>, ImageError> {
    if fatbin::is_fatbin(bytes) {
        return fatbin::read(Bytes::new(bytes, "fatbin")).map(Image::Fatbin);
    }
    if cubin::is_cubin(bytes) {
        return cubin::read(bytes).map(Image::Cubin);
    }
    if bytes.starts_with(CPU_MAGIC) {
        return Ok(Image::Cpu(bytes));
    }
    text::open(bytes)
        .map(Image::Ptx)
        .ok_or_else(|| ImageError::Unknown(looks_like(bytes)))
}

/// Whether `bytes` begin like a binary image.
pub fn is_binary(bytes: &[u8]) -> bool {
    fatbin::is_fatbin(bytes) || elf::is_elf(bytes) || bytes.starts_with(CPU_MAGIC)
}

/// Describes bytes that cannot be loaded, with advice.
fn looks_like(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "it is empty".into();
    }
    if bytes.iter().all(|b| b.is_ascii_whitespace() || *b == 0) {
        let what = if bytes.contains(&0) {
            "zeros"
        } else {
            "white space"
        };
        return format!("it contains nothing but {what}, {} bytes", bytes.len());
    }
    if bytes.starts_with(b"\x7fELF") {
        let machine = elf::machine(bytes).map_or("an unknown machine", |machine| match machine {
            62 => "x86-64",
            183 => "AArch64",
            _ => "another machine than a GPU",
        });
        return format!(
            "it is an ELF file for {machine}: extract an image from it with `ptxkit extract`"
        );
    }
    for (magic, name, advice) in [
        (&b"MZ"[..], "a Windows program", ""),
        (b"!<arch>", "a static archive", ""),
        (
            b"BC\xc0\xde",
            "LLVM bitcode",
            ": compile it with llc -march=nvptx64",
        ),
        (b"PK\x03\x04", "a zip archive", ": unpack it first"),
        (b"\x1f\x8b", "gzip data", ": unpack it first"),
        (b"\x28\xb5\x2f\xfd", "zstd data", ": unpack it first"),
        (b"\xff\xfe", "UTF-16 text", ": save it as UTF-8"),
        (b"\xfe\xff", "UTF-16 text", ": save it as UTF-8"),
    ] {
        if bytes.starts_with(magic) {
            return format!("it is {name}, not PTX, a cubin or a fatbin{advice}");
        }
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        let start: Vec<String> = bytes.iter().take(4).map(|b| format!("{b:02x}")).collect();
        return format!(
            "it is neither PTX text nor a cubin or fatbin: it starts with the bytes {}",
            start.join(" ")
        );
    };
    if text.contains("__global__") {
        return "it is CUDA C++: compile it to PTX with nvcc -ptx".into();
    }
    if text.contains("target triple") {
        return "it is LLVM IR: compile it to PTX with llc -march=nvptx64".into();
    }
    let text = text.trim_end_matches('\0');
    let (comments, text) = text
        .split_at_checked(ptx::skip_comments(text))
        .unwrap_or(("", text));
    let Some(word) = text.split_whitespace().next() else {
        return "it is text, but not PTX: nothing but comments".into();
    };
    let word: String = word.chars().take(20).collect();
    let place = match comments.matches('\n').count() {
        0 => String::new(),
        above => format!(" in line {}", above + 1),
    };
    format!(
        "it is text, but not PTX: PTX starts with .version, this with `{}`{place}",
        word.escape_debug()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_described() {
        for (bytes, words) in [
            (&b""[..], "empty"),
            (b"  \n", "nothing but white space, 3 bytes"),
            (b"  \n\0", "nothing but zeros, 4 bytes"),
            (
                b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0",
                "x86-64",
            ),
            (b"MZ\x90", "Windows"),
            (b"__global__ void k() {}", "nvcc -ptx"),
            (
                b"kernel = \"k\"",
                "starts with .version, this with `kernel`",
            ),
            (
                b"// nvcc\n/* no\nhead */ .visible .entry k() {}\0",
                "this with `.visible` in line 3",
            ),
            (b"\n#include <cuda.h>", "this with `#include` in line 2"),
            (b"// .version 8.0\n\0", "nothing but comments"),
            (b"/* .version 8.0", "this with `/*`"),
            ("// é\né∞ k".as_bytes(), "this with `é∞` in line 2"),
            (b"\xff\xfd\x00\x01", "ff fd 00 01"),
            (b"\xff\xfe.\x00", "UTF-16 text, not PTX"),
            (b"\x1f\x8b", "a cubin or a fatbin: unpack it first"),
            (b"\x80\x04\x95", "80 04 95"),
        ] {
            let error = open(bytes).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    /// A fatbin with one entry of 8 bytes.
    fn fatbin(flags: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(0xba55_ed50u32.to_le_bytes());
        bytes.extend(1u16.to_le_bytes());
        bytes.extend(16u16.to_le_bytes());
        bytes.extend((72u64).to_le_bytes());
        let mut entry = [0u8; 72];
        entry[0] = 2;
        entry[4] = 64;
        entry[8] = 8;
        entry[16] = 5;
        entry[28] = 90;
        entry[40..48].copy_from_slice(&flags.to_le_bytes());
        bytes.extend(entry);
        bytes
    }

    #[test]
    fn fatbin_entries_are_listed() {
        let bytes = fatbin(0x8000 | 1 << 20);
        let Image::Fatbin(fatbin) = open(&bytes).unwrap() else {
            panic!("not read as a fatbin")
        };
        let entry = &fatbin.entries[0];
        assert_eq!(entry.kind, EntryKind::Elf);
        assert_eq!(entry.target.to_string(), "sm_90a");
        assert_eq!(entry.compression, Compression::Zstd);
        assert_eq!(entry.payload.len(), 5);
    }

    #[test]
    fn a_damaged_fatbin_is_an_error_wherever_it_is_cut_or_changed() {
        let good = fatbin(0x2000);
        for length in 4..good.len() {
            assert!(open(&good[..length]).is_err(), "{length}");
        }
        for at in 0..good.len() {
            for value in [0, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                let _ = open(&bad);
            }
        }
    }
}
