//! `ptxkit extract`: writes the images of a file to separate files.

use std::path::{Path, PathBuf};

use super::mapped::FileBytes;
use input::ShowName as _;
use ptxkit::image::{self, Entry, EntryKind, Image, ImageError, Target, UnpackLimit, Unpacker};
use terminal::failure::{Failure, MISMATCHES, VERIFIED};
use terminal::output::print;

/// The arguments of `ptxkit extract`.
#[derive(Debug, clap::Args)]
pub struct ExtractArgs {
    /// A fatbin, or a program, shared object, object file or archive with images
    file: PathBuf,
    /// The folder to write to
    #[arg(short, long, default_value = ".")]
    output: PathBuf,
    /// Only the images with these numbers, as `ptxkit inspect` shows them
    #[arg(long, value_delimiter = ',')]
    index: Vec<usize>,
    /// Only the images for these architectures: sm_90, sm_100a
    #[arg(long, value_delimiter = ',')]
    arch: Vec<Target>,
    /// Only the images of these kinds
    #[arg(long, value_delimiter = ',', value_parser = KINDS.map(EntryKind::word))]
    kind: Vec<String>,
    /// Also write relocatable images of files with linked ones
    #[arg(long)]
    all: bool,
}

/// The kinds that `--kind` accepts.
const KINDS: [EntryKind; 6] = [
    EntryKind::Ptx,
    EntryKind::Elf,
    EntryKind::LtoIr,
    EntryKind::RelocatablePtx,
    EntryKind::TileIr,
    EntryKind::Index,
];

/// Writes each image to a separate file; returns the exit status: 1 if one cannot be unpacked.
pub fn run(args: &ExtractArgs) -> Result<u8, Failure> {
    let bytes = FileBytes::open(&args.file)?;
    let failure = |error: ImageError| Failure::new(format!("{}: {error}", args.file.shown()));
    let mut contents = image::contents(&bytes).map_err(failure)?;
    if !args.all {
        contents = contents.linked();
    }
    let selected: Vec<(usize, Entry<'_>)> = contents
        .entries()
        .enumerate()
        .filter(|(index, entry)| args.wants(*index, entry))
        .collect();
    if selected.is_empty() {
        return Err(
            Failure::new(format!("{} has no such image", args.file.shown()))
                .help("`ptxkit inspect` lists the images"),
        );
    }
    let writing =
        |path: &Path, error: std::io::Error| Failure::new(format!("{}: {error}", path.shown()));
    std::fs::create_dir_all(&args.output).map_err(|error| writing(&args.output, error))?;
    let stem = args.file.file_stem().unwrap_or_default().to_string_lossy();
    let mut unpacker = Unpacker::default();
    // The total limit does not apply to a single image.
    let mut limit = match selected.len() {
        1 => None,
        _ => Some(UnpackLimit::of_file(bytes.len())),
    };
    let mut status = VERIFIED;
    for (index, entry) in selected {
        let name = format!("{stem}.{index}.{}.{}", entry.target, extension(entry.kind));
        let path = args.output.join(name);
        let allowed = limit.as_mut().map_or(Ok(()), |limit| limit.take(&entry));
        match allowed.and_then(|()| content(&entry, &mut unpacker)) {
            Ok(content) => {
                std::fs::write(&path, &content).map_err(|error| writing(&path, error))?;
                let name = path.shown();
                print(&format!("{name}  {} bytes\n", content.len()));
            }
            // Other images may be valid.
            Err(error) => {
                Failure::new(format!("image {index}: {error}")).print();
                status = MISMATCHES;
            }
        }
    }
    Ok(status)
}

impl ExtractArgs {
    fn wants(&self, index: usize, entry: &Entry<'_>) -> bool {
        (self.index.is_empty() || self.index.contains(&index))
            && (self.arch.is_empty() || self.arch.contains(&entry.target))
            && (self.kind.is_empty() || self.kind.iter().any(|kind| kind == entry.kind.word()))
    }
}

/// The contents of the file: PTX as text, a cubin without the padding of its container.
fn content<'a>(entry: &Entry<'a>, unpacker: &mut Unpacker<'a>) -> Result<Vec<u8>, ImageError> {
    let bytes = unpacker.unpack(entry)?;
    if entry.kind.is_ptx() {
        return Ok(entry.text_of(bytes)?.into_owned().into_bytes());
    }
    match image::open(bytes) {
        Ok(Image::Cubin(cubin)) => Ok(cubin.bytes.to_vec()),
        _ => Ok(bytes.to_vec()),
    }
}

fn extension(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Ptx | EntryKind::RelocatablePtx => "ptx",
        EntryKind::Elf => "cubin",
        EntryKind::LtoIr => "ltoir",
        EntryKind::TileIr => "tileir",
        _ => "bin",
    }
}
