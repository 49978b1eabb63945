//! `ptxkit cache …`: inspects, maintains, fills and transfers the compute cache.

mod list;
mod remote;
#[cfg(not(feature = "remote"))]
mod remote_absent;
#[cfg(feature = "remote")]
mod remote_store;
mod transfer;
mod upkeep;
mod warm;
mod warm_from;

use std::path::{Path, PathBuf};

use input::ShowName as _;
use serde_json::{Value, json};

pub use list::{kernels, table};

use super::quantity::show_size;
use ptxkit::cache::{Cache, CacheError, Entry, Stats};
use terminal::failure::{Failure, VERIFIED};
use terminal::output::{Format, Lines, json_line, print};

pub const AFTER_HELP: &str = "\
The environment selects the cache, for all programs that use it:
  CUDA_CACHE_PATH        the folder, by default ~/.nv/ComputeCache; blobs are in its subfolder ptxkit-v1
  CUDA_CACHE_MAXSIZE     the maximum size of all blobs in bytes, by default 1 GiB, at most 4 GiB
  CUDA_CACHE_DISABLE     1: disables the cache
  PTXKIT_CACHE_READONLY  further folders to search, separated by `:`, never written to
  PTXKIT_ON_COMPILE      whether loads compile PTX: allow, warn, error
  PTXKIT_SLICED          whether large modules are compiled in slices: auto, always, never
  PTXKIT_REMOTE          a store that machines share; `ptxkit cache remote --help` has the others";

#[derive(Clone, Debug, clap::Subcommand)]
pub enum CacheCommand {
    /// Print the folder of the blobs
    Path,
    /// Print the size of the cache and of the read-only folders
    Stats,
    /// List the blobs, most recently used first
    List {
        /// Only blobs with a kernel whose name contains this
        #[arg(long, value_name = "NAME")]
        kernel: Option<String>,
        /// Those in the store that machines share, which must be one that can list: S3 can,
        /// Redis and memcached cannot
        #[arg(long, conflicts_with = "kernel")]
        remote: bool,
    },
    /// Show the details of a blob
    Show {
        /// The key, or an unambiguous prefix of it
        key: String,
    },
    /// Check all blobs, and set damaged ones aside
    #[command(after_help = "Exit status: 0 all are intact, 1 some are damaged, 2 an error.")]
    Verify,
    /// Remove blobs of older drivers and those set aside, and others by size or age
    Prune {
        /// Also the least recently used, until this size is reached: bytes, or as 64M, 2G
        #[arg(long, value_name = "SIZE", value_parser = super::quantity::size)]
        max_size: Option<u64>,
        /// Also those not used for this time: 12h, 7d, 4w
        #[arg(long, value_name = "AGE", value_parser = super::quantity::age)]
        older_than: Option<std::time::Duration>,
    },
    /// Remove all blobs
    Clear,
    /// Rebuild the catalogue from the blobs
    Rebuild,
    /// Compile files in advance, so that programs find them in the cache
    #[command(after_help = warm::AFTER_HELP)]
    Warm(warm::WarmArgs),
    /// Copy blobs to a folder or a .tar, for other machines
    #[command(after_help = transfer::AFTER_HELP)]
    Export {
        /// A folder, or an archive whose name ends in .tar
        to: PathBuf,
        /// Only these blobs: keys or prefixes of them; the default is all
        #[arg(value_name = "KEY")]
        keys: Vec<String>,
    },
    /// Import blobs from the output of `export`, after a check of each
    #[command(after_help = "Exit status: 0 done, 1 damaged blobs or no blobs, 2 an error.")]
    Import {
        /// The folder or the .tar
        from: PathBuf,
    },
    /// Use the store that machines share: one compiles, the others load
    #[command(after_help = remote::AFTER_HELP)]
    Remote {
        #[command(subcommand)]
        command: remote::RemoteCommand,
    },
}

/// The output of a command, as text and JSON.
struct CommandOutput {
    text: String,
    json: Value,
    status: u8,
}

impl CommandOutput {
    fn new(text: impl Into<String>, json: Value) -> CommandOutput {
        CommandOutput {
            text: text.into(),
            json,
            status: VERIFIED,
        }
    }
}

/// Runs the command; returns the exit status.
pub fn run(command: &CacheCommand, format: Format) -> Result<u8, Failure> {
    let cache = Cache::from_environment();
    let answer = match command {
        CacheCommand::Path => path(&cache).map_err(failed),
        CacheCommand::Stats => cache
            .stats()
            .map(|found| stats(&cache, found))
            .map_err(failed),
        CacheCommand::List { remote: true, .. } => remote::list(&cache),
        CacheCommand::List { kernel, .. } => list::list(&cache, kernel.as_deref()),
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
        CacheCommand::Remote { command } => remote::run(&cache, command),
    }?;
    match format {
        Format::Text => print(&answer.text),
        Format::Json => print(&json_line(&answer.json)),
    }
    Ok(answer.status)
}

/// The message for an error of the cache, with help.
pub fn failed(error: CacheError) -> Failure {
    let failure = Failure::new(&error);
    match error {
        CacheError::NotAKey(_) => failure.help("`ptxkit cache list` shows the keys"),
        _ => failure.help("CUDA_CACHE_PATH names the folder to use"),
    }
}

fn path(cache: &Cache) -> Result<CommandOutput, CacheError> {
    let folder = cache.folder().ok_or(CacheError::NoFolder)?;
    Ok(CommandOutput::new(
        format!("{}\n", folder.shown()),
        json!({ "path": text_of(&folder) }),
    ))
}

fn stats(cache: &Cache, stats: Stats) -> CommandOutput {
    let enabled = cache.policy().enabled();
    let mut lines = Lines::default();
    if !enabled {
        lines.add("state", "off: CUDA_CACHE_DISABLE is 1");
    }
    lines.add("path", stats.path.shown().to_string());
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
                tier.path.shown(),
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
    CommandOutput::new(lines.0, json)
}

/// The blob whose key starts with these digits.
pub fn blob(cache: &Cache, key: &str) -> Result<Entry, Failure> {
    let entries = cache.find(key).map_err(failed)?;
    list::only(key, &entries).cloned()
}

/// A path as text for JSON, with any bytes.
fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// `1 blob`, `2 blobs`
fn blobs(count: u64) -> String {
    match count {
        1 => "1 blob".to_owned(),
        _ => format!("{count} blobs"),
    }
}
