//! `ptxkit pack`: writes PTX and cubins into one fatbin.

mod embed;

use std::collections::HashMap;
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use input::ShowName as _;
use serde::Serialize;

use super::mapped::FileBytes;
use super::progress::Progress;
use super::written;
use embed::Embed;
use ptxkit::image::{self, Compression, Entry, Image, ImageError, PackError, Packer};
use terminal::failure::{Failure, MISMATCHES, VERIFIED};
use terminal::output::{Escaped, Format, eprint, json_line, print, print_bytes};

/// The magic number of a fatbin.
const FATBIN: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();

/// The help below the options.
pub const AFTER_HELP: &str = "\
Examples:
  ptxkit pack k.sm_80.cubin k.sm_90a.cubin k.ptx -o k.fatbin
  ptxkit pack k.fatbin k.sm_120.cubin -o k.fatbin           add an image to a fatbin
  ptxkit pack k.ptx k.cubin --embed object -o k.o           link k and k_size into a program
  ptxkit pack k.ptx k.cubin --embed rust -o k.rs            pub static K: &[u8]

Exit status: 0 the fatbin is written, 1 an image is damaged, 2 another error. Nothing is written
unless all images are packed.";

/// The arguments of `ptxkit pack`.
#[derive(Debug, clap::Args)]
pub struct PackArgs {
    /// PTX, cubins and fatbins, and programs, object files and archives with one fatbin; `-` is
    /// standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The file to write; `-` is standard output
    #[arg(short, long)]
    output: PathBuf,
    /// How to compress the images; CUDA before 12.4 does not read zstd
    #[arg(long, value_enum, default_value_t)]
    compress: Compress,
    /// Write a source file or an object file with the fatbin in it, instead of the fatbin
    #[arg(long, value_enum)]
    embed: Option<Embed>,
    /// The name of the variable with the fatbin; the default is the name of the output file without its
    /// extension, in upper case for Rust
    #[arg(long, requires = "embed")]
    symbol: Option<String>,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Compress {
    None,
    #[default]
    Lz4,
    Zstd,
}

/// What is written.
#[derive(Serialize)]
struct Packed {
    output: String,
    /// The size of the output file.
    bytes: usize,
    /// The size of the fatbin in it.
    fatbin_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    symbol: Option<String>,
    images: Vec<PackedImage>,
}

#[derive(Serialize)]
struct PackedImage {
    index: usize,
    /// The input file.
    file: String,
    kind: &'static str,
    arch: String,
    size: u64,
    compression: &'static str,
    packed_size: usize,
}

/// Writes the fatbin; returns the exit status: 1 if an image is damaged.
pub fn run(args: &PackArgs) -> Result<u8, Failure> {
    let symbol = match args.embed {
        Some(embed) => Some(embed.symbol(args.symbol.as_deref(), &args.output)?),
        None => None,
    };
    if is_standard(&args.output) && std::io::stdout().is_terminal() {
        return Err(
            Failure::new("the fatbin is binary, and standard output is a terminal")
                .help("name a file with --output, or redirect standard output"),
        );
    }
    let Some(Fatbin {
        bytes: fatbin,
        sources,
    }) = pack(args)?
    else {
        return Ok(MISMATCHES);
    };
    let Ok(Image::Fatbin(read)) = image::open(&fatbin) else {
        return Err(Failure::new("the fatbin that was written cannot be read"));
    };
    let entries = read.entries;
    warn_of_duplicates(&entries, &sources);
    let content = match (args.embed, &symbol) {
        (Some(embed), Some(symbol)) => embed.file(symbol, &fatbin, &entries)?,
        _ => fatbin.clone(),
    };
    if is_standard(&args.output) {
        print_bytes(&content);
    } else {
        written::replace(&args.output, &content)
            .map_err(|error| Failure::new(format!("{}: {error}", args.output.shown())))?;
    }
    let packed = Packed {
        output: if is_standard(&args.output) {
            "<stdout>".to_owned()
        } else {
            args.output.shown().to_string()
        },
        bytes: content.len(),
        fatbin_bytes: fatbin.len(),
        symbol,
        images: entries
            .iter()
            .zip(&sources)
            .enumerate()
            .map(|(index, (entry, source))| PackedImage {
                index,
                file: source.clone(),
                kind: entry.kind.word(),
                arch: entry.target.to_string(),
                size: entry.size,
                compression: entry.compression.word(),
                packed_size: entry.payload.len(),
            })
            .collect(),
    };
    let report = match args.format {
        Format::Json => json_line(&packed),
        Format::Text => packed.text(),
    };
    if is_standard(&args.output) {
        eprint(&report);
    } else {
        print(&report);
    }
    Ok(VERIFIED)
}

/// A fatbin, and the file that each image comes from.
struct Fatbin {
    bytes: Vec<u8>,
    sources: Vec<String>,
}

/// Packs the files; `None` if an image is damaged.
fn pack(args: &PackArgs) -> Result<Option<Fatbin>, Failure> {
    let mut packer = Packer::new(match args.compress {
        Compress::None => Compression::None,
        Compress::Lz4 => Compression::Lz4,
        Compress::Zstd => Compression::Zstd,
    });
    let mut sources = Vec::new();
    let mut damaged = false;
    let mut progress = Progress::new("pack");
    let of = args.files.len() as u64;
    for (done, file) in (0..).zip(&args.files) {
        let (name, bytes) = if is_standard(file) {
            ("<stdin>".to_owned(), FileBytes::standard_input()?)
        } else {
            (file.shown().to_string(), FileBytes::open(file)?)
        };
        progress.show(done, of, &name);
        let failure = |error: &dyn std::fmt::Display| Failure::new(format!("{name}: {error}"));
        let contents = image::contents(&bytes).map_err(|error| failure(&error))?;
        let mut pieces = contents.linked().pieces.into_iter();
        let (Some(piece), 0) = (pieces.next(), pieces.len()) else {
            return Err(failure(&format!(
                "it has {} fatbins, and one fatbin holds the images of one module",
                pieces.len() + 1
            ))
            .help("`ptxkit extract` writes the images to files; pack those of one module"));
        };
        // A fatbin may get further images.
        let is_bare = matches!(piece.image, Image::Fatbin(_)) && bytes.starts_with(&FATBIN);
        if written::is_same(file, &args.output) && (args.embed.is_some() || !is_bare) {
            return Err(failure(&"the output would replace this file")
                .help("name another file with --output"));
        }
        match packer.add(&piece.image) {
            Ok(()) => sources.extend(piece.entries().iter().map(|_| name.clone())),
            Err(PackError::Image(
                error @ (ImageError::Damaged { .. } | ImageError::UnpackLimit { .. }),
            )) => {
                failure(&error).print();
                damaged = true;
            }
            Err(error) => return Err(failure(&error)),
        }
    }
    Ok((!damaged).then(|| Fatbin {
        bytes: packer.finish(),
        sources,
    }))
}

fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Warns of images that no device loads because of another one.
fn warn_of_duplicates(entries: &[Entry<'_>], sources: &[String]) {
    let mut seen = HashMap::new();
    for (entry, source) in entries.iter().zip(sources) {
        let (kind, target) = (entry.kind.word(), entry.target);
        if let Some(first) = seen.insert((kind, target), source) {
            let warning = format!(
                "warning: {source}: {first} also has {kind} for {target}, and a device loads only \
                 one of them: `ptxkit explain` shows which"
            );
            eprint(&format!("{}\n", Escaped::new(warning)));
        }
    }
}

impl Packed {
    fn text(&self) -> String {
        let mut text = String::new();
        for image in &self.images {
            let packed = match image.compression {
                "none" => String::new(),
                by => format!("{by}, {} bytes", image.packed_size),
            };
            let _ = writeln!(
                text,
                "{:>5}  {:<8} {:<8} {:>10} bytes  {packed:<18}  {}",
                image.index,
                image.kind,
                image.arch,
                image.size,
                Escaped::new(&image.file)
            );
        }
        let _ = write!(text, "{}  {} bytes", Escaped::new(&self.output), self.bytes);
        if let Some(symbol) = &self.symbol {
            let _ = write!(
                text,
                ", a fatbin of {} bytes as {symbol}",
                self.fatbin_bytes
            );
        }
        text.push('\n');
        text
    }
}
