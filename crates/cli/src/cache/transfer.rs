//! `ptxkit cache export` and `import`: transfers a cache between machines.

use std::collections::HashSet;
use std::path::Path;

use input::ShowName as _;
use serde_json::json;

use super::{CommandOutput, blobs, failed, list, text_of};
use crate::progress::Progress;
use crate::quantity::show_size;
use ptxkit::cache::{Cache, CacheError, Key, Moved};
use terminal::failure::{Failure, MISMATCHES};
use terminal::output::Escaped;

pub const AFTER_HELP: &str = "\
An exported folder can be used directly: with PTXKIT_CACHE_READONLY=FOLDER
programs search it after their own cache, for example in a container image. The
folder must belong to the user of the process, or to root. Imported blobs are
code that will run: only import what you trust.";

/// The extensions of compressed archives, which are not supported.
const PACKED: &[&str] = &[
    ".tar.gz", ".tgz", ".tar.xz", ".tar.zst", ".tar.bz2", ".zip", ".gz",
];

pub fn export(cache: &Cache, to: &Path, keys: &[String]) -> Result<CommandOutput, Failure> {
    // The user does not mean a folder with such a name.
    if let Some(packed) = packed(to) {
        return Err(
            Failure::new(format!("cannot write {packed} archives")).help("use a .tar or a folder")
        );
    }
    let chosen = chosen(cache, keys)?;
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
        &moved,
        "were there already or did not fit",
    ))
}

/// The blobs that `keys` or prefixes of them name.
pub fn chosen(cache: &Cache, keys: &[String]) -> Result<HashSet<Key>, Failure> {
    let mut chosen = HashSet::new();
    for key in keys {
        let entries = cache.find(key).map_err(failed)?;
        let entry = list::only(key, &entries)?;
        chosen.insert(entry.key);
        // A module that is cut comes with its slices.
        chosen.extend(&entry.provenance.slices);
    }
    if !chosen.is_empty() {
        // So do hot kernels.
        let mut entries = cache.entries().map_err(failed)?;
        entries.retain(|entry| {
            let module = entry.provenance.module;
            module.is_some_and(|module| chosen.contains(&module))
        });
        chosen.extend(entries.iter().map(|entry| entry.key));
    }
    Ok(chosen)
}

#[allow(unsafe_code, reason = "the user names the archive")]
pub fn import(cache: &Cache, from: &Path) -> Result<CommandOutput, Failure> {
    if !cache.policy().enabled() {
        return Err(
            Failure::new("the cache is disabled: CUDA_CACHE_DISABLE is 1")
                .help("unset it, so that there is a cache to import into"),
        );
    }
    if let Some(packed) = packed(from) {
        return Err(Failure::new(format!("cannot read {packed} archives"))
            .help("unpack it first, and pass the .tar or the folder"));
    }
    let mut progress = Progress::of_bytes("import");
    // SAFETY: the user vouches for the archive; the help explains the consequences.
    let imported = unsafe { cache.import(from, |now| progress.show(now.done, now.of, "")) };
    drop(progress);
    let moved = match imported {
        Ok(moved) => moved,
        Err(error) => {
            let of_source = matches!(&error, CacheError::Folder { path, .. } if path == from);
            if of_source && is_archive(from) {
                return Ok(damaged_archive(from, &error));
            }
            return Err(if of_source {
                Failure::new(&error).help(EXPORTED)
            } else {
                failed(error)
            });
        }
    };
    let is_empty = moved == Moved::default();
    let skipped = "were there already or did not fit";
    let mut answer = answer("imported from", from, &moved, skipped);
    if is_empty {
        answer.text = format!("{} holds no blob: {EXPORTED}\n", from.shown());
    }
    if is_empty {
        answer.status = MISMATCHES;
    }
    Ok(answer)
}

const EXPORTED: &str = "give what `ptxkit cache export` wrote: a folder or a .tar";

/// The output for a truncated archive, or one with damaged headers. The blobs before the damage are
/// imported.
fn damaged_archive(from: &Path, error: &CacheError) -> CommandOutput {
    let text = format!(
        "{}; the blobs before that were imported\n",
        Escaped::new(error)
    );
    let json = json!({ "path": text_of(from), "error": error.to_string() });
    CommandOutput {
        status: MISMATCHES,
        ..CommandOutput::new(text, json)
    }
}

/// Whether a file begins like an archive.
fn is_archive(path: &Path) -> bool {
    let header = input::read_start(path, 512).unwrap_or_default();
    header
        .get(257..)
        .is_some_and(|rest| rest.starts_with(b"ustar"))
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

/// What was moved from or to `path`; `skipped` says why some were not.
pub fn answer(what: &str, path: &Path, moved: &Moved, skipped: &str) -> CommandOutput {
    let mut text = format!(
        "{} {what} {}, {}",
        blobs(moved.blobs),
        path.shown(),
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
        text += &format!("{}: {}\n", file.path.shown(), Escaped::new(&file.why));
    }
    let json = json!({
        "path": text_of(path),
        "blobs": moved.blobs,
        "bytes": moved.bytes,
        "skipped": moved.skipped,
        "damaged": moved.damaged.len(),
    });
    let mut answer = CommandOutput::new(text, json);
    if !moved.damaged.is_empty() {
        answer.status = MISMATCHES;
    }
    answer
}
