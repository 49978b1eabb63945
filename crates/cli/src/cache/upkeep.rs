//! `ptxkit cache verify`, `prune` and `clear`.

use std::time::Duration;

use serde_json::json;

use super::{CommandOutput, blobs, failed};
use crate::progress::Progress;
use crate::quantity::show_size;
use ptxkit::cache::{Cache, Prune, Removed};
use terminal::failure::{Failure, MISMATCHES, VERIFIED};

pub fn verify(cache: &Cache) -> Result<CommandOutput, Failure> {
    let mut progress = Progress::new("verify");
    let found = cache
        .verify(|checked| {
            progress.show(checked.done as u64, checked.of as u64, &checked.key.short())
        })
        .map_err(failed)?;
    drop(progress);
    let mut text = String::new();
    for (key, why) in &found.bad {
        text += &format!("{}: {why}\n", key.short());
    }
    text += &format!("{} whole, {} damaged", blobs(found.good), found.bad.len());
    if found.other_schema > 0 {
        text += &format!(", {} of other versions", found.other_schema);
    }
    text += &format!(", {} read\n", show_size(found.bytes));
    let bad: Vec<_> = found
        .bad
        .iter()
        .map(|(key, why)| json!({ "key": key.to_string(), "why": why }))
        .collect();
    let json = json!({
        "good": found.good,
        "bad": bad,
        "other_schema": found.other_schema,
        "bytes": found.bytes,
    });
    Ok(CommandOutput {
        text,
        json,
        status: if found.bad.is_empty() {
            VERIFIED
        } else {
            MISMATCHES
        },
    })
}

pub fn prune(
    cache: &Cache,
    max_size: Option<u64>,
    older_than: Option<Duration>,
) -> Result<CommandOutput, Failure> {
    let what = Prune {
        max_size,
        older_than,
    };
    cache.prune(&what).map(removed).map_err(failed)
}

pub fn clear(cache: &Cache) -> Result<CommandOutput, Failure> {
    cache.clear().map(removed).map_err(failed)
}

fn removed(removed: Removed) -> CommandOutput {
    CommandOutput::new(
        format!(
            "{} removed, {}\n",
            blobs(removed.blobs),
            show_size(removed.bytes)
        ),
        json!({ "blobs": removed.blobs, "bytes": removed.bytes }),
    )
}
