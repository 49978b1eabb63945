//! `ptxkit explain`: the image of a file that a device loads, and the reasons against the others.

use std::fmt::Write;
use std::path::PathBuf;

use input::ShowName as _;
use serde::Serialize;

use super::driver_version::DriverVersion;
use super::mapped::FileBytes;
use ptxkit::cache::{Environment, Policy};
use ptxkit::image::{self, Entry, EntryKind, ImageError, JitPolicy, Piece, Place, Target};
use terminal::failure::{Failure, MISMATCHES, VERIFIED};
use terminal::output::{Escaped, Format, json_line, print};

/// The arguments of `ptxkit explain`.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// PTX, a cubin or a fatbin, or a program, shared object, object file or archive with images
    file: PathBuf,
    /// The architecture of the device: sm_86, sm_90
    #[arg(long)]
    target: Target,
    /// The driver, by a version that nvidia-smi shows: the CUDA version, 12.4, or that of the driver,
    /// 580.65
    #[arg(long)]
    driver: Option<DriverVersion>,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The selection for one fatbin or single image.
#[derive(Serialize)]
struct Choice<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
    /// The number shown by `ptxkit inspect`; `null` if no image runs on the device.
    image: Option<usize>,
    reason: String,
    rejected: Vec<Rejected>,
    /// Why the selected image cannot be loaded: a driver does not try another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    damaged: Option<String>,
    /// Whether the driver supports the selected PTX.
    #[serde(skip_serializing_if = "Option::is_none")]
    ptx: Option<String>,
}

#[derive(Serialize)]
struct Rejected {
    image: usize,
    reason: String,
}

/// Prints the selections; returns the exit status: 1 if the device cannot load any image of a fatbin.
pub fn run(args: &ExplainArgs) -> Result<u8, Failure> {
    let bytes = FileBytes::open(&args.file)?;
    let failure = |error: ImageError| Failure::new(format!("{}: {error}", args.file.shown()));
    let contents = image::contents(&bytes).map_err(failure)?.linked();
    let policy = Policy::from_environment(&Environment::read()).jit();
    let mut first = 0;
    let mut status = VERIFIED;
    let mut choices = Vec::new();
    for piece in &contents.pieces {
        let entries = piece.entries();
        let (choice, good) = choose(args, piece, &entries, first, policy);
        if !good {
            status = MISMATCHES;
        }
        choices.push(choice);
        first += entries.len();
    }
    match args.format {
        Format::Json => print(&json_line(&choices)),
        Format::Text => print(&choices.iter().map(Choice::text).collect::<String>()),
    }
    Ok(status)
}

/// The selection among the entries of a piece, and whether the driver can load it. `first` is the
/// number of the first entry.
fn choose<'a>(
    args: &ExplainArgs,
    piece: &'a Piece<'_>,
    entries: &[Entry<'_>],
    first: usize,
    policy: JitPolicy,
) -> (Choice<'a>, bool) {
    let index = |place: Place| first + place.entry.unwrap_or(0);
    let rejected = |reasons: Vec<(Place, String)>| {
        let reasons = reasons.into_iter().map(|(place, reason)| Rejected {
            image: index(place),
            reason,
        });
        reasons.collect()
    };
    let member = piece.member.as_deref();
    match image::select(std::slice::from_ref(&piece.image), args.target, policy) {
        Ok(selection) => {
            let taken = entries.get(selection.place.entry.unwrap_or(0));
            let ptx = taken
                .zip(args.driver.as_ref())
                .and_then(|(entry, driver)| of_ptx(entry, driver));
            let damaged = taken.and_then(damage);
            let good = !matches!(ptx, Some(Err(_))) && damaged.is_none();
            let choice = Choice {
                member,
                image: Some(index(selection.place)),
                reason: selection.reason,
                rejected: rejected(selection.rejected),
                damaged,
                ptx: ptx.map(|message| message.unwrap_or_else(|error| error)),
            };
            (choice, good)
        }
        Err(nothing) => {
            let choice = Choice {
                member,
                image: None,
                reason: format!("no image runs on {}", args.target),
                rejected: rejected(nothing.rejected),
                damaged: None,
                ptx: None,
            };
            (choice, false)
        }
    }
}

/// Why an image cannot be read; `None` if it can.
fn damage(entry: &Entry<'_>) -> Option<String> {
    let bytes = match entry.unpack() {
        Ok(bytes) => bytes,
        Err(error) => return Some(error.to_string()),
    };
    if entry.kind != EntryKind::Elf {
        return None;
    }
    match image::open(&bytes) {
        Ok(image::Image::Cubin(cubin)) => cubin.contents().err().map(|error| error.to_string()),
        Ok(_) => Some("it is not a cubin".into()),
        Err(error) => Some(error.to_string()),
    }
}

/// Whether a driver supports a PTX entry; `None` for other entries.
fn of_ptx(entry: &Entry<'_>, driver: &DriverVersion) -> Option<Result<String, String>> {
    if !entry.kind.is_ptx() {
        return None;
    }
    let read = || {
        let text = entry.ptx().map_err(|error| error.to_string())?;
        let image::Image::Ptx(ptx) = image::open(text.as_bytes()).map_err(|e| e.to_string())?
        else {
            return Err("it is not PTX".into());
        };
        match (ptx.too_new_for(driver.cuda), ptx.for_driver(driver.cuda)) {
            (_, Err(error)) => Err(error.to_string()),
            (Some(newest), Ok(Some(_))) => Ok(format!(
                "its version {} is newer than the {newest} that {driver} reads: \
                 ptxkit lowers it, as nothing in it is newer",
                entry.ptx_version
            )),
            (Some(newest), Ok(None)) => Err(format!(
                "its version {} is newer than the {newest} that {driver} reads",
                entry.ptx_version
            )),
            (None, _) => Ok(format!("{driver} reads its version")),
        }
    };
    Some(read())
}

impl Choice<'_> {
    fn text(&self) -> String {
        let mut text = String::new();
        if let Some(member) = self.member {
            let _ = writeln!(text, "{}", Escaped::new(member));
        }
        let _ = match self.image {
            Some(image) => writeln!(text, "image {image}  {}", self.reason),
            None => writeln!(text, "none  {}", self.reason),
        };
        if let Some(damaged) = &self.damaged {
            let _ = writeln!(
                text,
                "  it is damaged, and a driver does not try another image: {}",
                Escaped::new(damaged)
            );
        }
        if let Some(ptx) = &self.ptx {
            let _ = writeln!(text, "  {ptx}");
        }
        for Rejected { image, reason } in &self.rejected {
            let _ = writeln!(text, "  not {image}: {reason}");
        }
        text
    }
}
