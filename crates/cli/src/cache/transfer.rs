//! `ptxkit cache export` and `import`: a cache to go.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::json;

use super::{Answer, blobs, failed, list, text_of};
use crate::progress::Progress;
use crate::quantity::show_size;
use ptxkit::cache::{Cache, CacheError, Moved};
use terminal::failure::{Failure, MISMATCHES};
use terminal::output::Escaped;

pub const AFTER_HELP: &str = "\
A folder that was exported to serves as it is: PTXKIT_CACHE_READONLY=FOLDER has
programs look there after their own cache. A container image ships one so; it
must belong to the user that runs there, or to root. What is imported is code
that runs later: import what you trust.";

/// How archives end that are neither written nor read.
const PACKED: &[&str] = &[
    ".tar.gz", ".tgz", ".tar.xz", ".tar.zst", ".tar.bz2", ".zip", ".gz",
];

pub fn export(cache: &Cache, to: &Path, keys: &[String]) -> Result<Answer, Failure> {
    // A folder of such a name is not what was meant.
    if let Some(packed) = packed(to) {
        return Err(Failure::new(format!("nothing is written as {packed} here"))
            .help("name a .tar, or a folder"));
    }
    let mut chosen = HashSet::new();
    for key in keys {
        let entries = cache.find(key).map_err(failed)?;
        chosen.insert(list::only(key, &entries)?.key);
    }
    let mut progress = Progress::of_bytes("export");
    let moved = cache
        .export(
            to,
            |entry| keys.is_empty() || chosen.contains(&entry.key),
            |now| progress.show(now.done, now.of, ""),
        )
        .map_err(|error| written(error, to))?;
    drop(progress);
    Ok(answer(
        "exported to",
        to,
        moved,
        "were there already or did not fit",
    ))
}

#[allow(unsafe_code, reason = "the user names the archive")]
pub fn import(cache: &Cache, from: &Path) -> Result<Answer, Failure> {
    if !cache.policy().enabled() {
        return Err(Failure::new("the cache is off: CUDA_CACHE_DISABLE is 1")
            .help("unset it, so that there is a cache to import into"));
    }
    if let Some(packed) = packed(from) {
        return Err(Failure::new(format!("nothing is read from {packed} here"))
            .help("unpack it first, and give the .tar or the folder"));
    }
    let mut progress = Progress::of_bytes("import");
    // SAFETY: an archive is imported at its user's word; the help says what that means.
    let imported = unsafe { cache.import(from, |now| progress.show(now.done, now.of, "")) };
    drop(progress);
    let moved = match imported {
        Ok(moved) => moved,
        Err(error) => {
            let of_source = matches!(&error, CacheError::Folder { path, .. } if path == from);
            if of_source && is_archive(from) {
                return Ok(damaged_archive(from, &error));
            }
            return Err(match of_source {
                true => Failure::new(&error).help(EXPORTED),
                false => failed(error),
            });
        }
    };
    let is_empty = moved == Moved::default();
    let skipped = "were there already or did not fit";
    let mut answer = answer("imported from", from, moved, skipped);
    if is_empty {
        answer.text = format!(
            "{} holds no blob: {EXPORTED}\n",
            Escaped::new(from.display())
        );
    }
    if is_empty {
        answer.status = MISMATCHES;
    }
    Ok(answer)
}

const EXPORTED: &str = "give what `ptxkit cache export` wrote: a folder or a .tar";

/// An archive that ends too early, or whose headers are damaged. What stands before the damage
/// was imported.
fn damaged_archive(from: &Path, error: &CacheError) -> Answer {
    let text = format!(
        "{}; the blobs before that were imported\n",
        Escaped::new(error)
    );
    let json = json!({ "path": text_of(from), "error": error.to_string() });
    Answer {
        status: MISMATCHES,
        ..Answer::new(text, json)
    }
}

/// Whether a file begins as an archive does.
fn is_archive(path: &Path) -> bool {
    let mut header = [0; 512];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    read.is_ok() && header[257..].starts_with(b"ustar")
}

fn packed(path: &Path) -> Option<&'static str> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let end = PACKED.iter().find(|end| name.ends_with(**end));
    end.copied().filter(|_| !path.is_dir())
}

fn written(error: CacheError, to: &Path) -> Failure {
    match &error {
        CacheError::Folder { path, .. } if path == to => {
            Failure::new(&error).help("give a folder, or the name of a .tar, that can be written")
        }
        _ => failed(error),
    }
}

fn answer(what: &str, path: &Path, moved: Moved, skipped: &str) -> Answer {
    let mut text = format!(
        "{} {what} {}, {}",
        blobs(moved.blobs),
        Escaped::new(path.display()),
        show_size(moved.bytes)
    );
    if moved.skipped > 0 {
        text += &format!("; {} {skipped}", moved.skipped);
    }
    if !moved.damaged.is_empty() {
        text += &format!("; damaged: {}", moved.damaged.len());
    }
    text.push('\n');
    for file in &moved.damaged {
        text += &format!(
            "{}: {}\n",
            Escaped::new(file.path.display()),
            Escaped::new(&file.why)
        );
    }
    let json = json!({
        "path": text_of(path),
        "blobs": moved.blobs,
        "bytes": moved.bytes,
        "skipped": moved.skipped,
        "damaged": moved.damaged.len(),
    });
    let mut answer = Answer::new(text, json);
    if !moved.damaged.is_empty() {
        answer.status = MISMATCHES;
    }
    answer
}
