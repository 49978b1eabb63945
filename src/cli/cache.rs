//! `ptxkit cache …`: look at the compute cache and empty it.

use serde_json::json;

use super::failure::Failure;
use super::output::{Format, Lines, json_line, say};
use crate::cache::{Cache, CacheError};

#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub enum CacheCommand {
    /// Print the folder that the blobs lie in.
    Path,
    /// Print how full it is.
    Stats,
    /// Remove every blob.
    Clear,
}

pub fn run(command: CacheCommand, format: Format) -> Result<(), Failure> {
    let cache = Cache::from_environment();
    let answer = match command {
        CacheCommand::Path => path(&cache),
        CacheCommand::Stats => stats(&cache),
        CacheCommand::Clear => clear(&cache),
    };
    let (text, json) = answer
        .map_err(|error| Failure::new(&error).help("CUDA_CACHE_PATH names the folder to use"))?;
    match format {
        Format::Text => say(&text),
        Format::Json => say(&json_line(&json)),
    }
    Ok(())
}

type Answer = Result<(String, serde_json::Value), CacheError>;

fn path(cache: &Cache) -> Answer {
    let folder = cache.folder().ok_or(CacheError::NoFolder)?;
    Ok((format!("{}\n", folder.display()), json!({ "path": folder })))
}

fn stats(cache: &Cache) -> Answer {
    let stats = cache.stats()?;
    let mut lines = Lines::default();
    lines.add("path", stats.path.display().to_string());
    lines.add("blobs", stats.blobs.to_string());
    lines.add("kernels", stats.kernels.to_string());
    lines.add("bytes", format!("{} of {}", stats.bytes, stats.max_size));
    let json = json!({
        "path": stats.path,
        "blobs": stats.blobs,
        "kernels": stats.kernels,
        "bytes": stats.bytes,
        "max_size": stats.max_size,
    });
    Ok((lines.0, json))
}

fn clear(cache: &Cache) -> Answer {
    let removed = cache.clear()?;
    let (blobs, bytes) = (removed.blobs, removed.bytes);
    Ok((
        format!("{blobs} blobs removed, {bytes} bytes\n"),
        json!({ "blobs": blobs, "bytes": bytes }),
    ))
}
