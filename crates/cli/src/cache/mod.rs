//! `ptxkit cache …`: look at the compute cache, keep it, fill it and ship it.

mod list;
mod transfer;
mod upkeep;
mod warm;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::quantity::show_size;
use ptxkit::cache::{Cache, CacheError, Stats};
use terminal::failure::{Failure, VERIFIED};
use terminal::output::{Format, Lines, json_line, print};

pub const AFTER_HELP: &str = "\
Which cache that is, the environment says, for every program that loads by it:
  CUDA_CACHE_PATH        the folder, by default ~/.nv/ComputeCache; blobs lie in ptxkit-v1 in it
  CUDA_CACHE_MAXSIZE     bytes that all blobs may take, by default 1 GiB, at most 4 GiB
  CUDA_CACHE_DISABLE     1: loads neither read nor write it
  PTXKIT_CACHE_READONLY  folders to look in after that one, divided by `:`, never written to";

#[derive(Clone, Debug, clap::Subcommand)]
pub enum CacheCommand {
    /// Print the folder that the blobs lie in
    Path,
    /// Print how full it is, and what the read-only folders hold
    Stats,
    /// List the blobs, the last used first
    List {
        /// Only those with a kernel whose name holds this
        #[arg(long, value_name = "NAME")]
        kernel: Option<String>,
    },
    /// Show what is known of one blob
    Show {
        /// The key, or as many of its first digits as tell it from others
        key: String,
    },
    /// Read every blob and set aside what is damaged
    #[command(
        after_help = "Exit status: 0 all are whole, 1 some were damaged, 2 it could not be done."
    )]
    Verify,
    /// Remove what an older driver made and what was set aside, and more if asked
    Prune {
        /// Then the longest unused, until so much is left: bytes, or as 64M, 2G
        #[arg(long, value_name = "SIZE", value_parser = super::quantity::size)]
        max_size: Option<u64>,
        /// And what was not used for so long: 12h, 7d, 4w
        #[arg(long, value_name = "AGE", value_parser = super::quantity::age)]
        older_than: Option<std::time::Duration>,
    },
    /// Remove every blob
    Clear,
    /// Make the catalogue anew from the blobs
    Rebuild,
    /// Compile files now, so that no program waits for it later
    #[command(after_help = warm::AFTER_HELP)]
    Warm(warm::WarmArgs),
    /// Copy blobs to a folder or a .tar, for other machines
    #[command(after_help = transfer::AFTER_HELP)]
    Export {
        /// A folder, or an archive whose name ends in .tar
        to: PathBuf,
        /// Only these blobs: keys or first digits of them; all if none are given
        #[arg(value_name = "KEY")]
        keys: Vec<String>,
    },
    /// Take in what `export` wrote, each blob checked first
    #[command(
        after_help = "Exit status: 0 done, 1 something was damaged or there was no blob, 2 it could not be done."
    )]
    Import {
        /// The folder or the .tar
        from: PathBuf,
    },
}

/// What a command answers, for people and for programs.
struct Answer {
    text: String,
    json: Value,
    status: u8,
}

impl Answer {
    fn new(text: impl Into<String>, json: Value) -> Answer {
        Answer {
            text: text.into(),
            json,
            status: VERIFIED,
        }
    }
}

/// Gives the exit status.
pub fn run(command: &CacheCommand, format: Format) -> Result<u8, Failure> {
    let cache = Cache::from_environment();
    let answer = match command {
        CacheCommand::Path => path(&cache).map_err(failed),
        CacheCommand::Stats => cache
            .stats()
            .map(|found| stats(&cache, found))
            .map_err(failed),
        CacheCommand::List { kernel } => list::list(&cache, kernel.as_deref()),
        CacheCommand::Show { key } => list::show(&cache, key),
        CacheCommand::Verify => upkeep::verify(&cache),
        CacheCommand::Prune {
            max_size,
            older_than,
        } => upkeep::prune(&cache, *max_size, *older_than),
        CacheCommand::Clear => upkeep::clear(&cache),
        CacheCommand::Rebuild => cache
            .rebuild()
            .map(|found| stats(&cache, found))
            .map_err(failed),
        CacheCommand::Warm(args) => warm::warm(&cache, args),
        CacheCommand::Export { to, keys } => transfer::export(&cache, to, keys),
        CacheCommand::Import { from } => transfer::import(&cache, from),
    }?;
    match format {
        Format::Text => print(&answer.text),
        Format::Json => print(&json_line(&answer.json)),
    }
    Ok(answer.status)
}

/// What the cache could not do, and what to do about it.
fn failed(error: CacheError) -> Failure {
    let failure = Failure::new(&error);
    match error {
        CacheError::NotAKey(_) => failure.help("`ptxkit cache list` shows the keys"),
        _ => failure.help("CUDA_CACHE_PATH names the folder to use"),
    }
}

fn path(cache: &Cache) -> Result<Answer, CacheError> {
    let folder = cache.folder().ok_or(CacheError::NoFolder)?;
    Ok(Answer::new(
        format!("{}\n", folder.display()),
        json!({ "path": text_of(&folder) }),
    ))
}

fn stats(cache: &Cache, stats: Stats) -> Answer {
    let enabled = cache.policy().enabled();
    let mut lines = Lines::default();
    if !enabled {
        lines.add("state", "off: CUDA_CACHE_DISABLE is 1");
    }
    lines.add("path", stats.path.display().to_string());
    lines.add("blobs", stats.blobs.to_string());
    lines.add("kernels", stats.kernels.to_string());
    lines.add(
        "size",
        format!(
            "{} of {}",
            show_size(stats.bytes),
            show_size(stats.max_size)
        ),
    );
    lines.add("hits", stats.hits.to_string());
    if stats.stale > 0 {
        lines.add("stale", format!("{} of an older driver", stats.stale));
    }
    if stats.bad > 0 {
        lines.add("bad", format!("{} set aside", stats.bad));
    }
    for tier in &stats.read_only {
        lines.add(
            "below",
            format!(
                "{}: {}, {}",
                tier.path.display(),
                blobs(tier.blobs),
                show_size(tier.bytes)
            ),
        );
    }
    let read_only: Vec<Value> = stats
        .read_only
        .iter()
        .map(
            |tier| json!({ "path": text_of(&tier.path), "blobs": tier.blobs, "bytes": tier.bytes }),
        )
        .collect();
    let json = json!({
        "enabled": enabled,
        "path": text_of(&stats.path),
        "blobs": stats.blobs,
        "kernels": stats.kernels,
        "bytes": stats.bytes,
        "max_size": stats.max_size,
        "hits": stats.hits,
        "stale": stats.stale,
        "bad": stats.bad,
        "read_only": read_only,
    });
    Answer::new(lines.0, json)
}

/// A path as JSON can hold it, whatever bytes it has.
fn text_of(path: &Path) -> String {
    path.display().to_string()
}

/// `1 blob`, `2 blobs`
fn blobs(count: u64) -> String {
    match count {
        1 => "1 blob".to_owned(),
        _ => format!("{count} blobs"),
    }
}
