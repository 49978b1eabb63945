//! `ptxkit inspect`: the images in a file, and their resource usage.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use input::ShowName as _;
use rayon::prelude::*;
use serde::Serialize;

use super::mapped::FileBytes;
use ptxkit::image::{
    self, Compression, Entry, EntryKind, Image, ImageError, UnpackLimit, Unpacker,
};
use ptxkit::ptx;
use ptxkit::ptx::signature::signatures;
use terminal::failure::{FAILED, Failure, MISMATCHES, VERIFIED};
use terminal::output::{Escaped, Format, json_line, print};
use terminal::walk;

/// Compressed images are unpacked for their kernels by default up to this total size.
const MAX_UNPACKED: u64 = 64 << 20;

/// The arguments of `ptxkit inspect`.
#[derive(Debug, clap::Args)]
pub struct InspectArgs {
    /// PTX, cubins, fatbins, programs, shared objects, object files and archives with images, and
    /// folders of such files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Unpack all images to list their kernels, regardless of the total size
    #[arg(long, conflicts_with = "no_kernels")]
    kernels: bool,
    /// Do not list kernels
    #[arg(long)]
    no_kernels: bool,
    /// Also list relocatable images of files with linked ones
    #[arg(long)]
    all: bool,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct Listed {
    /// The file, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    index: usize,
    /// The number of the fatbin in the file: a device loads one image of each. PTX and cubins outside
    /// of fatbins are counted too.
    fatbin: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<String>,
    kind: &'static str,
    arch: String,
    ptx_version: Option<String>,
    /// The unpacked size.
    size: u64,
    compression: &'static str,
    /// The size in the file.
    packed_size: usize,
    offset: u64,
    name: String,
    /// `null` if the image was not unpacked, or its kernels cannot be read.
    kernels: Option<Vec<Kernel>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A kernel; sizes are in bytes. PTX does not determine the values that are `null`.
#[derive(Serialize)]
struct Kernel {
    name: String,
    registers: Option<u32>,
    /// Instructions that spill or refill registers.
    spills: Option<u32>,
    barriers: Option<u32>,
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

/// Lists the images of each file; returns the exit status: 1 if an image cannot be read, 2 if a file
/// cannot be read.
///
/// # Errors
/// The only file cannot be read.
pub fn run(args: &InspectArgs) -> Result<u8, Failure> {
    if let [file] = args.files.as_slice()
        && !file.is_dir()
    {
        let found = inspect(file, args)?;
        match args.format {
            Format::Json => print(&json_line(&found.listed)),
            Format::Text => print(&found.text()),
        }
        return Ok(found.status());
    }
    let mut status = VERIFIED;
    let mut all = Vec::new();
    for path in &args.files {
        let (files, failures) = files_of(path);
        let mut images = 0;
        let mut failed = |failure: Failure| {
            failure.print();
            status = FAILED;
        };
        failures.into_iter().for_each(&mut failed);
        for file in files {
            match inspect(&file, args) {
                Ok(mut found) => {
                    images += found.listed.len();
                    status = status.max(found.status());
                    let name = file.to_string_lossy().into_owned();
                    if args.format == Format::Text {
                        print(&format!("{}:\n{}", Escaped::new(&name), found.text()));
                        continue;
                    }
                    for image in &mut found.listed {
                        image.file = Some(name.clone());
                    }
                    all.append(&mut found.listed);
                }
                // Other files of a folder need not contain images.
                Err(_) if file != *path => {}
                Err(failure) => {
                    failure.print();
                    status = FAILED;
                }
            }
        }
        if images == 0 && path.is_dir() {
            Failure::new(format!(
                "{}: no file in this folder holds an image",
                path.shown()
            ))
            .print();
            status = FAILED;
        }
    }
    if args.format == Format::Json {
        print(&json_line(&all));
    }
    Ok(status)
}

/// The file itself, or the files in the folder, and the errors of the walk.
fn files_of(path: &Path) -> (Vec<PathBuf>, Vec<Failure>) {
    if !path.is_dir() {
        return (vec![path.to_owned()], Vec::new());
    }
    let (mut files, mut failures) = (Vec::new(), Vec::new());
    for file in walk::files(path) {
        match file {
            Ok(file) => files.push(file),
            Err(failure) => failures.push(failure),
        }
    }
    (files, failures)
}

/// The images of a file.
struct Found {
    listed: Vec<Listed>,
    /// Whether the kernels of compressed images are omitted.
    left_out: bool,
}

impl Found {
    fn status(&self) -> u8 {
        if self.listed.iter().any(|image| image.error.is_some()) {
            MISMATCHES
        } else {
            VERIFIED
        }
    }

    fn text(&self) -> String {
        let mut text = table(&self.listed);
        if self.left_out {
            text += "\nthe kernels of packed images are left out: --kernels unpacks them all\n";
        }
        text
    }
}

fn inspect(file: &Path, args: &InspectArgs) -> Result<Found, Failure> {
    let bytes = FileBytes::open(file)?;
    let failure = |error: ImageError| Failure::new(format!("{}: {error}", file.shown()));
    let mut contents = image::contents(&bytes).map_err(failure)?;
    if !args.all {
        contents = contents.linked();
    }
    let packed: u64 = contents
        .entries()
        .filter(|entry| entry.compression != Compression::None && has_kernels(entry))
        .fold(0, |sum, entry| sum.saturating_add(entry.size));
    let (kernels, unpack) = (!args.no_kernels, args.kernels || packed <= MAX_UNPACKED);
    let mut limit = UnpackLimit::of_file(bytes.len());
    let entries: Vec<_> = contents
        .pieces
        .iter()
        .enumerate()
        .flat_map(|(fatbin, piece)| {
            let entries = piece.entries().into_iter();
            entries.map(move |entry| ((fatbin, piece.member.as_deref()), entry))
        })
        .map(|(place, entry)| {
            let included = kernels
                && has_kernels(&entry)
                && (unpack || entry.compression == Compression::None);
            // Whether to read the kernels, within the limit.
            let included = included.then(|| limit.take(&entry)).transpose();
            (place, included, entry)
        })
        .collect();
    // The images of a block are unpacked together, so one thread reads all of them.
    let blocks: Vec<_> = entries
        .chunk_by(|(.., one), (.., next)| std::ptr::eq(one.payload, next.payload))
        .collect();
    let found: Vec<Vec<_>> = blocks
        .par_iter()
        .map_init(Unpacker::default, |unpacker, block| {
            let read = block.iter().map(|(_, included, entry)| match included {
                Ok(None) => Ok(None),
                Ok(Some(())) => kernels_of(entry, unpacker).map(Some),
                Err(error) => Err(error.clone()),
            });
            read.collect()
        })
        .collect();
    let listed = entries
        .iter()
        .zip(found.into_iter().flatten())
        .enumerate()
        .map(|(index, (((fatbin, member), _, entry), found))| {
            let (kernels, error) = match found {
                Ok(kernels) => (kernels, None),
                Err(error) => (None, Some(error.to_string())),
            };
            Listed {
                file: None,
                index,
                fatbin: *fatbin,
                member: member.map(str::to_owned),
                kind: entry.kind.word(),
                arch: entry.target.to_string(),
                ptx_version: entry.kind.is_ptx().then(|| entry.ptx_version.to_string()),
                size: entry.size,
                compression: entry.compression.word(),
                packed_size: entry.payload.len(),
                offset: entry.offset,
                name: entry.name.to_owned(),
                kernels,
                error,
            }
        });
    Ok(Found {
        listed: listed.collect(),
        left_out: kernels && !unpack,
    })
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
            spills: kernel.spills,
            barriers: Some(kernel.barriers),
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
            spills: None,
            barriers: None,
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

fn table(listed: &[Listed]) -> String {
    let mut text = String::new();
    let mut member = None;
    for image in listed {
        if image.member.as_deref() != member {
            member = image.member.as_deref();
            let _ = writeln!(text, "{}", Escaped::new(member.unwrap_or_default()));
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
            image.index,
            image.kind,
            image.arch,
            image.size,
            Escaped::new(&image.name)
        );
        let _ = writeln!(text, "{}", line.trim_end());
        for kernel in image.kernels.iter().flatten() {
            let _ = writeln!(text, "       {}", Escaped::new(describe(kernel)));
        }
        if let Some(error) = &image.error {
            let _ = writeln!(text, "       {}", Escaped::new(error));
        }
    }
    text
}

/// `vecadd: 12 registers, 256 bytes shared, parameters 0+8 8+8 16+4`
fn describe(kernel: &Kernel) -> String {
    let mut facts = Vec::new();
    facts.extend(kernel.registers.map(|count| format!("{count} registers")));
    let spills = kernel.spills.filter(|count| *count > 0);
    facts.extend(spills.map(|count| format!("{count} spills")));
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
