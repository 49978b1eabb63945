//! What the commands do with the store.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Value, json};

use super::remote::RemoteCommand;
use super::{CommandOutput, failed, list, transfer};
use crate::progress::Progress;
use crate::quantity::show_size;
use crate::report::in_ms;
use ptxkit::cache::remote::{PublicKey, SigningKey, Trust};
use ptxkit::cache::{Cache, Entry, Key, Moved, RemoteError, RemoteStatus};
use terminal::failure::{Failure, MISMATCHES};
use terminal::output::Lines;

pub fn run(cache: &Cache, command: &RemoteCommand) -> Result<CommandOutput, Failure> {
    match command {
        RemoteCommand::Status => status(cache),
        RemoteCommand::Push { keys, replace } => {
            let chosen = transfer::chosen(cache, keys)?;
            let all = keys.is_empty();
            let choose = |entry: &Entry| all || chosen.contains(&entry.key);
            push_chosen(cache, *replace, choose).map(|moved| pushed(cache, &moved))
        }
        RemoteCommand::Pull { keys } => pull(cache, keys),
        RemoteCommand::Keygen { file } => keygen(file),
    }
}

fn status(cache: &Cache) -> Result<CommandOutput, Failure> {
    let status = cache.remote_status().map_err(remote_failed)?;
    let mut lines = Lines::default();
    lines.add(
        "store",
        format!("{}, namespace {}", status.store, status.namespace),
    );
    lines.add(
        "answer",
        match &status.answer {
            Ok(time) => format!("in {:.1} ms", in_ms(*time)),
            Err(why) => format!("none: {why}"),
        },
    );
    match &status.trust {
        None => lines.add(
            "trust",
            "nobody: PTXKIT_REMOTE_TRUST is not set, nothing is loaded",
        ),
        Some(Trust::Network) => lines.add("trust", "the network: signatures are not asked for"),
        Some(Trust::Keys(keys)) => {
            for (index, key) in keys.iter().enumerate() {
                lines.add(if index == 0 { "trust" } else { "" }, key.to_string());
            }
        }
    }
    match &status.signer {
        Some(key) => lines.add("signs as", signer(&status, key)),
        None => lines.add(
            "signs as",
            "nobody: PTXKIT_REMOTE_SIGN is not set, nothing is written",
        ),
    }
    if let Some(time) = status.open_for {
        lines.add(
            "paused",
            format!("after failures, for {} s more", time.as_secs()),
        );
    }
    let trust = match &status.trust {
        None => Value::Null,
        Some(Trust::Network) => json!("none"),
        Some(Trust::Keys(keys)) => keys.iter().map(PublicKey::to_string).collect(),
    };
    let json = json!({
        "store": status.store,
        "namespace": status.namespace,
        "answer_ms": status.answer.as_ref().ok().map(|time| in_ms(*time)),
        "error": status.answer.as_ref().err(),
        "trust": trust,
        "signer": status.signer.map(|key| key.to_string()),
        "paused_s": status.open_for.map(|time| time.as_secs()),
    });
    let mut output = CommandOutput::new(lines.0, json);
    if status.answer.is_err() {
        output.status = MISMATCHES;
    }
    Ok(output)
}

/// The key, and a remark if this machine does not load what it signs.
fn signer(status: &RemoteStatus, key: &PublicKey) -> String {
    match &status.trust {
        Some(Trust::Keys(trusted)) if !trusted.contains(key) => {
            format!("{key}, which is not trusted here")
        }
        _ => key.to_string(),
    }
}

/// Checks that blobs can be written before time is spent on compiling them.
pub fn check_writable(cache: &Cache) -> Result<(), Failure> {
    let status = cache.remote_status().map_err(remote_failed)?;
    if status.signer.is_none() {
        let store = status.store;
        return Err(remote_failed(RemoteError::NoSigner { store }));
    }
    match status.answer {
        Ok(_) => Ok(()),
        Err(what) => Err(remote_failed(RemoteError::Store {
            store: status.store,
            what,
        })),
    }
}

/// Writes these blobs, and the slices of those that are cut. What is written behind their
/// compilation counts too.
pub fn push(cache: &Cache, keys: &HashSet<Key>) -> Result<CommandOutput, Failure> {
    let entries = cache.entries().map_err(failed)?;
    let own = entries.iter().filter(|entry| keys.contains(&entry.key));
    let slices: HashSet<Key> = own
        .flat_map(|entry| entry.provenance.slices.iter().copied())
        .collect();
    cache.flush();
    let mut moved = push_chosen(cache, false, |entry| {
        keys.contains(&entry.key) || slices.contains(&entry.key)
    })?;
    let behind = cache.counters().remote;
    moved.blobs += behind.puts;
    moved.bytes += behind.bytes_written;
    moved.skipped = moved.skipped.saturating_sub(behind.puts);
    Ok(pushed(cache, &moved))
}

fn push_chosen(
    cache: &Cache,
    replace: bool,
    choose: impl FnMut(&Entry) -> bool,
) -> Result<Moved, Failure> {
    let mut progress = Progress::of_bytes("push");
    let moved = cache.push(choose, replace, |now| progress.show(now.done, now.of, ""));
    moved.map_err(remote_failed)
}

fn pushed(cache: &Cache, moved: &Moved) -> CommandOutput {
    let skipped = "were there already or are too large for it";
    answer(cache, "pushed to", moved, skipped)
}

fn pull(cache: &Cache, keys: &[String]) -> Result<CommandOutput, Failure> {
    if !cache.policy().enabled() {
        return Err(
            Failure::new("the cache is disabled: CUDA_CACHE_DISABLE is 1")
                .help("unset it, so that there is a cache to pull into"),
        );
    }
    let keys = chosen(cache, keys)?;
    let mut progress = Progress::of_bytes("pull");
    let moved = cache
        .pull(keys.as_deref(), |now| progress.show(now.done, now.of, ""))
        .map_err(remote_failed)?;
    drop(progress);
    let mut output = answer(
        cache,
        "pulled from",
        &moved,
        "were here already, or are not there",
    );
    if moved == Moved::default() {
        output.status = MISMATCHES;
    }
    Ok(output)
}

/// The keys that begin so, of those in the store; `None` is all of them. Whole keys need no
/// list.
fn chosen(cache: &Cache, keys: &[String]) -> Result<Option<Vec<Key>>, Failure> {
    if keys.is_empty() {
        return Ok(None);
    }
    let mut chosen = Vec::new();
    let mut listed = None;
    for text in keys {
        if let Some(key) = Key::parse(text) {
            chosen.push(key);
            continue;
        }
        let entries = match &listed {
            Some(entries) => entries,
            None => listed.insert(cache.remote_entries().map_err(remote_failed)?),
        };
        let start = text.to_ascii_lowercase();
        let found = entries
            .iter()
            .filter(|entry| entry.key.to_string().starts_with(&start));
        match found.map(|entry| entry.key).collect::<Vec<_>>()[..] {
            [key] => chosen.push(key),
            [] => {
                return Err(Failure::new(format!(
                    "no blob in the store has a key that starts with {text}"
                ))
                .help("`ptxkit cache list --remote` shows the keys"));
            }
            _ => {
                return Err(
                    Failure::new(format!("several keys in the store start with {text}"))
                        .help("give more of its digits"),
                );
            }
        }
    }
    Ok(Some(chosen))
}

fn keygen(file: &Path) -> Result<CommandOutput, Failure> {
    let key = SigningKey::create(file).map_err(|error| {
        Failure::new(&error).help("give a new file: a key that is there is never replaced")
    })?;
    // The key alone, so that a script can take it.
    let public = key.public().to_string();
    let json = json!({ "file": file.to_string_lossy(), "public_key": public });
    Ok(CommandOutput::new(format!("{public}\n"), json))
}

pub fn list(cache: &Cache) -> Result<CommandOutput, Failure> {
    let found = cache.remote_entries().map_err(remote_failed)?;
    let mut rows = vec![["KEY", "SIZE", "HERE"].map(str::to_owned)];
    let is_here = |key: &Key| cache.contains(key);
    rows.extend(found.iter().map(|entry| {
        let here = if is_here(&entry.key) { "yes" } else { "no" };
        [
            entry.key.to_string(),
            show_size(entry.size),
            here.to_owned(),
        ]
    }));
    let text = if found.is_empty() {
        String::new()
    } else {
        list::table(&rows)
    };
    let json = found.iter().map(|entry| {
        json!({ "key": entry.key.to_string(), "bytes": entry.size, "here": is_here(&entry.key) })
    });
    Ok(CommandOutput::new(text, json.collect()))
}

fn answer(cache: &Cache, what: &str, moved: &Moved, skipped: &str) -> CommandOutput {
    let store = cache.policy().remote().map_or("", |remote| remote.store());
    transfer::answer(what, Path::new(store), moved, skipped)
}

/// The message for an error of the store, with help.
fn remote_failed(error: RemoteError) -> Failure {
    let failure = Failure::new(&error);
    match error {
        RemoteError::NotConfigured => failure.help("such as redis://host:6379/0 or s3://bucket"),
        RemoteError::NoTrust { .. } => {
            failure.help("`ptxkit cache remote keygen` prints a public key when it makes a key")
        }
        RemoteError::NoSigner { .. } => {
            failure.help("`ptxkit cache remote keygen FILE` makes a private key")
        }
        RemoteError::CannotList { .. } => failure.help(
            "`ptxkit cache list` has whole keys with --format json, on the machine that pushed",
        ),
        RemoteError::Store { .. } => failure.help("`ptxkit cache remote status` asks it again"),
        RemoteError::Cache(error) => failed(error),
        _ => failure,
    }
}
