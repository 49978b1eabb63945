//! `ptxkit inspect`: the images in a file, and what they take of a device.

use std::fmt::Write;
use std::path::PathBuf;

use rayon::prelude::*;
use serde::Serialize;

use super::mapped::FileBytes;
use ptxkit::image::{self, Compression, Entry, EntryKind, Image, ImageError, Unpacker};
use ptxkit::ptx;
use ptxkit::ptx::signature::signatures;
use terminal::failure::Failure;
use terminal::output::{Format, json_line, print};

/// Packed images are unpacked for their kernels where all of them together have no more bytes.
const UNPACKED: u64 = 64 << 20;

/// What `ptxkit inspect` takes.
#[derive(Debug, clap::Args)]
pub struct InspectArgs {
    /// PTX, a cubin or a fatbin, or a program, shared object, object file or archive that has some
    file: PathBuf,
    /// Unpack every image for its kernels, however large they are together
    #[arg(long, conflicts_with = "no_kernels")]
    kernels: bool,
    /// List the images alone
    #[arg(long)]
    no_kernels: bool,
    /// Also what is there only to be linked, where the linked code is there
    #[arg(long)]
    all: bool,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct Listed<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
    kind: &'static str,
    arch: String,
    ptx_version: Option<String>,
    /// Unpacked.
    size: u64,
    compression: &'static str,
    /// As it lies in the file.
    packed_size: usize,
    offset: u64,
    name: &'a str,
    /// `null` where the image was not unpacked, or has none that can be read.
    kernels: Option<Vec<Kernel>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A kernel; sizes are in bytes. `null` is what PTX leaves to its compiler.
#[derive(Serialize)]
struct Kernel {
    name: String,
    registers: Option<u32>,
    stack: Option<u32>,
    shared: u64,
    local: Option<u64>,
    /// Banks of constant memory: number and size.
    constant: Option<Vec<(u8, u64)>>,
    max_threads: Option<[u32; 3]>,
    required_threads: Option<[u32; 3]>,
    params: Vec<Param>,
}

#[derive(Serialize)]
struct Param {
    offset: u32,
    size: u32,
}

pub fn run(args: &InspectArgs) -> Result<(), Failure> {
    let bytes = FileBytes::open(&args.file)?;
    let failure = |error: ImageError| Failure::new(format!("{}: {error}", args.file.display()));
    let mut contents = image::contents(&bytes).map_err(failure)?;
    if !args.all {
        contents = contents.linked();
    }
    let packed: u64 = contents
        .entries()
        .filter(|entry| entry.compression != Compression::None && has_kernels(entry))
        .fold(0, |sum, entry| sum.saturating_add(entry.size));
    let (kernels, unpack) = (!args.no_kernels, args.kernels || packed <= UNPACKED);
    let entries: Vec<(Option<&str>, Entry<'_>)> = contents
        .pieces
        .iter()
        .flat_map(|piece| {
            let entries = piece.entries().into_iter();
            entries.map(|entry| (piece.member.as_deref(), entry))
        })
        .collect();
    // What lies in one block is unpacked at once, so one thread reads all of it.
    let blocks: Vec<_> = entries
        .chunk_by(|(_, one), (_, next)| std::ptr::eq(one.payload, next.payload))
        .collect();
    let found: Vec<Vec<_>> = blocks
        .par_iter()
        .map_init(Unpacker::default, |unpacker, block| {
            let read = block.iter().map(|(_, entry)| {
                let read = kernels
                    && has_kernels(entry)
                    && (unpack || entry.compression == Compression::None);
                read.then(|| kernels_of(entry, unpacker)).transpose()
            });
            read.collect()
        })
        .collect();
    let listed: Vec<Listed<'_>> = entries
        .iter()
        .zip(found.into_iter().flatten())
        .enumerate()
        .map(|(index, ((member, entry), found))| {
            let (kernels, error) = match found {
                Ok(kernels) => (kernels, None),
                Err(error) => (None, Some(error.to_string())),
            };
            Listed {
                index,
                member: *member,
                kind: entry.kind.word(),
                arch: entry.target.to_string(),
                ptx_version: entry.kind.is_ptx().then(|| entry.ptx_version.to_string()),
                size: entry.size,
                compression: entry.compression.word(),
                packed_size: entry.payload.len(),
                offset: entry.offset,
                name: entry.name,
                kernels,
                error,
            }
        })
        .collect();
    match args.format {
        Format::Json => print(&json_line(&listed)),
        Format::Text => {
            let mut text = table(&listed);
            if kernels && !unpack {
                text += "\nthe kernels of packed images are left out: --kernels unpacks them all\n";
            }
            print(&text);
        }
    }
    Ok(())
}

fn has_kernels(entry: &Entry<'_>) -> bool {
    entry.kind == EntryKind::Elf || entry.kind.is_ptx()
}

fn kernels_of<'a>(
    entry: &Entry<'a>,
    unpacker: &mut Unpacker<'a>,
) -> Result<Vec<Kernel>, ImageError> {
    let bytes = unpacker.unpack(entry)?;
    if entry.kind.is_ptx() {
        let text = entry.text_of(bytes)?;
        return Ok(kernels_of_ptx(&text));
    }
    let Image::Cubin(cubin) = image::open(bytes)? else {
        return Ok(Vec::new());
    };
    let kernels = cubin.contents()?.kernels.into_iter();
    Ok(kernels
        .map(|kernel| Kernel {
            name: kernel.name,
            registers: Some(kernel.registers),
            stack: Some(kernel.stack),
            shared: kernel.shared,
            local: Some(kernel.local),
            constant: Some(kernel.constant),
            max_threads: kernel.max_threads,
            required_threads: kernel.required_threads,
            params: kernel
                .params
                .iter()
                .map(|param| Param {
                    offset: param.offset,
                    size: param.size,
                })
                .collect(),
        })
        .collect())
}

fn kernels_of_ptx(text: &str) -> Vec<Kernel> {
    let module = ptx::read(text).module;
    signatures(&module, text)
        .into_iter()
        .map(|kernel| Kernel {
            name: kernel.name,
            registers: None,
            stack: None,
            shared: kernel.static_shared.into(),
            local: None,
            constant: None,
            max_threads: kernel.max_threads,
            required_threads: kernel.required_threads,
            params: kernel
                .params
                .iter()
                .map(|param| Param {
                    offset: param.offset,
                    size: param.size,
                })
                .collect(),
        })
        .collect()
}

fn table(listed: &[Listed<'_>]) -> String {
    let mut text = String::new();
    let mut member = None;
    for image in listed {
        if image.member != member {
            member = image.member;
            let _ = writeln!(text, "{}", member.unwrap_or_default());
        }
        let version = match &image.ptx_version {
            Some(version) => format!("PTX {version}"),
            None => String::new(),
        };
        let packed = match image.compression {
            "none" => String::new(),
            by => format!("  {by}, {} bytes", image.packed_size),
        };
        let line = format!(
            "{:>5}  {:<8} {:<8} {version:<8} {:>10} bytes{packed}  {}",
            image.index, image.kind, image.arch, image.size, image.name
        );
        let _ = writeln!(text, "{}", line.trim_end());
        for kernel in image.kernels.iter().flatten() {
            let _ = writeln!(text, "       {}", describe(kernel));
        }
        if let Some(error) = &image.error {
            let _ = writeln!(text, "       {error}");
        }
    }
    text
}

/// `vecadd: 12 registers, 256 bytes shared, parameters 0+8 8+8 16+4`
fn describe(kernel: &Kernel) -> String {
    let mut facts = Vec::new();
    facts.extend(kernel.registers.map(|count| format!("{count} registers")));
    let local = kernel.local.unwrap_or(0);
    for (bytes, what) in [
        (u64::from(kernel.stack.unwrap_or(0)), "stack"),
        (kernel.shared, "shared"),
        (local, "local"),
    ] {
        if bytes != 0 {
            facts.push(format!("{bytes} bytes {what}"));
        }
    }
    for (shape, what) in [
        (kernel.max_threads, "at most"),
        (kernel.required_threads, "exactly"),
    ] {
        if let Some([x, y, z]) = shape {
            facts.push(format!("{what} {x}x{y}x{z} threads"));
        }
    }
    if !kernel.params.is_empty() {
        let params = kernel
            .params
            .iter()
            .map(|param| format!(" {}+{}", param.offset, param.size));
        facts.push(format!("parameters{}", params.collect::<String>()));
    }
    match facts.as_slice() {
        [] => kernel.name.clone(),
        _ => format!("{}: {}", kernel.name, facts.join(", ")),
    }
}
