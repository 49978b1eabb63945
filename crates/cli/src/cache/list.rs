//! `ptxkit cache list` and `show`.

use std::collections::{HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use input::ShowName as _;
use serde_json::{Value, json};

use super::{CommandOutput, failed, text_of};
use crate::quantity::{show_age, show_size};
use crate::report::in_ms;
use ptxkit::cache::{Cache, Entry, Key, Tier};
use terminal::failure::Failure;
use terminal::output::{Escaped, Lines};

/// The maximum number of kernels on a line, and the maximum length of their names.
const MAX_KERNELS: usize = 3;
const MAX_NAME_LENGTH: usize = 60;
/// The maximum width of a column, which a whole key has. A longer cell shifts the following ones.
const MAX_COLUMN_WIDTH: usize = 64;

pub fn list(cache: &Cache, kernel: Option<&str>) -> Result<CommandOutput, Failure> {
    let mut entries = cache.entries().map_err(failed)?;
    if let Some(part) = kernel {
        entries.retain(|entry| {
            let mut kernels = entry.provenance.kernels.iter();
            kernels.any(|kernel| kernel.contains(part))
        });
    }
    let now = SystemTime::now();
    let mut rows =
        vec![["KEY", "SIZE", "USED", "HITS", "TARGET", "SOURCE", "KERNELS"].map(str::to_owned)];
    let sizes: HashMap<Key, u64> = entries.iter().map(|one| (one.key, one.size)).collect();
    // A module with its slices and its hot kernels is one row, unless a kernel is looked for.
    let slices: HashSet<Key> = match kernel {
        None => entries
            .iter()
            .flat_map(|one| &one.provenance.slices)
            .copied()
            .collect(),
        Some(_) => HashSet::new(),
    };
    let mut hot: HashMap<Key, Vec<u64>> = HashMap::new();
    if kernel.is_none() {
        for entry in &entries {
            let module = entry.provenance.module;
            if let Some(module) = module.filter(|module| sizes.contains_key(module)) {
                hot.entry(module).or_default().push(entry.size);
            }
        }
    }
    let is_in_another = |entry: &Entry| {
        let module = entry.provenance.module;
        slices.contains(&entry.key) || module.is_some_and(|module| hot.contains_key(&module))
    };
    let shown = entries.iter().filter(|entry| !is_in_another(entry));
    rows.extend(shown.map(|entry| {
        let own = entry.provenance.slices.iter();
        let found: Vec<&Key> = own.filter(|key| sizes.contains_key(*key)).collect();
        let code = found.iter().copied().chain([&entry.key]);
        let hot: Vec<u64> = code
            .filter_map(|key| hot.get(key))
            .flatten()
            .copied()
            .collect();
        let of_slices: u64 = found.iter().map(|key| sizes[*key]).sum();
        let hits = match entry.tier {
            Tier::Writable => entry.hits.to_string(),
            // Uses are not counted there.
            Tier::ReadOnly(_) => "-".to_owned(),
        };
        [
            entry.key.short(),
            show_size(entry.size + of_slices + hot.iter().sum::<u64>()),
            show_age(now.duration_since(entry.used).unwrap_or_default()),
            hits,
            entry.provenance.target.clone(),
            entry.provenance.source.clone(),
            kernels(entry)
                + &in_slices(entry, found.len())
                + &optimized(entry, hot.len())
                + remark(entry),
        ]
    }));
    let text = if entries.is_empty() {
        String::new()
    } else {
        table(&rows)
    };
    Ok(CommandOutput::new(text, entries.iter().map(json).collect()))
}

/// The first kernels of a blob.
pub fn kernels(entry: &Entry) -> String {
    let kernels = &entry.provenance.kernels;
    let names: Vec<String> = kernels
        .iter()
        .take(MAX_KERNELS)
        .map(|name| cut(name))
        .collect();
    let mut text = names.join(" ");
    if kernels.len() > MAX_KERNELS {
        text += &format!(" and {} more", kernels.len() - MAX_KERNELS);
    }
    text
}

/// How many slices a module has, and how many of them are there.
fn in_slices(entry: &Entry, found: usize) -> String {
    match entry.provenance.slices.len() {
        0 => String::new(),
        all if all == found => format!(" ({all} slices)"),
        all => format!(" ({found} of {all} slices)"),
    }
}

/// Whether it is a hot kernel, or how many of its own are there.
fn optimized(entry: &Entry, hot: usize) -> String {
    match (entry.provenance.module, hot) {
        (Some(_), _) => " (hot)".to_owned(),
        (None, 0) => String::new(),
        (None, hot) => format!(" ({hot} hot)"),
    }
}

/// The start of a name that is too long for a line; `show` prints all of it.
fn cut(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME_LENGTH) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

fn remark(entry: &Entry) -> &'static str {
    match (&entry.tier, entry.stale) {
        (Tier::ReadOnly(_), _) => " (read-only)",
        (Tier::Writable, true) => " (stale)",
        (Tier::Writable, false) => "",
    }
}

/// Formats columns with the width of their contents.
pub fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let escaped = |cell: &String| Escaped::new(cell).to_string();
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(escaped)).collect();
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0).min(MAX_COLUMN_WIDTH)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line += &format!("{cell:<width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

pub fn show(cache: &Cache, key: &str) -> Result<CommandOutput, Failure> {
    let entries = cache.find(key).map_err(failed)?;
    let entry = only(key, &entries)?;
    let mut lines = Lines::default();
    let used = SystemTime::now()
        .duration_since(entry.used)
        .unwrap_or_default();
    let provenance = &entry.provenance;
    lines.add("key", entry.key.to_string());
    lines.add("file", entry.path.shown().to_string());
    lines.add(
        "size",
        format!("{} ({} bytes)", show_size(entry.size), entry.size),
    );
    match entry.tier {
        Tier::Writable => {
            lines.add("used", format!("{} ago", show_age(used)));
            lines.add("hits", entry.hits.to_string());
        }
        Tier::ReadOnly(_) => lines.add("made", format!("{} ago", show_age(used))),
    }
    lines.add("source", &provenance.source);
    lines.add("target", &provenance.target);
    lines.add("compiler", &provenance.compiler);
    lines.add(
        "compile",
        format!("{:.3} ms", in_ms(provenance.compile_time)),
    );
    if !provenance.image.is_empty() {
        lines.add("image", &provenance.image);
    }
    if entry.stale {
        lines.add("stale", "made by an older driver: evicted first");
    }
    if let Some(module) = provenance.module {
        lines.add("hot", format!("a kernel of {}", module.short()));
    }
    for (index, kernel) in provenance.kernels.iter().enumerate() {
        lines.add(if index == 0 { "kernels" } else { "" }, kernel);
    }
    let slices = slices(cache, entry)?;
    for (index, slice) in slices.iter().enumerate() {
        lines.add(if index == 0 { "slices" } else { "" }, slice);
    }
    for other in entries.iter().skip(1) {
        lines.add("also", other.path.shown().to_string());
    }
    Ok(CommandOutput::new(lines.0, json(entry)))
}

/// The slices of a module: the key of each, and its kernels.
fn slices(cache: &Cache, entry: &Entry) -> Result<Vec<String>, Failure> {
    let slices = &entry.provenance.slices;
    if slices.is_empty() {
        return Ok(Vec::new());
    }
    let entries = cache.entries().map_err(failed)?;
    let by_key: HashMap<Key, &Entry> = entries.iter().map(|one| (one.key, one)).collect();
    let words = |key: &Key| match by_key.get(key) {
        Some(slice) => format!("{}  {}", key.short(), kernels(slice)),
        None => format!("{}  not there: compiled when it is needed", key.short()),
    };
    Ok(slices.iter().map(words).collect())
}

/// The only blob that matches `key`. The same blob in several folders counts once.
pub fn only<'a>(key: &str, entries: &'a [Entry]) -> Result<&'a Entry, Failure> {
    let Some(first) = entries.first() else {
        return Err(
            Failure::new(format!("no blob has a key that starts with {key}"))
                .help("`ptxkit cache list` shows the keys"),
        );
    };
    let mut keys: Vec<String> = entries.iter().map(|entry| entry.key.to_string()).collect();
    keys.sort_unstable();
    keys.dedup();
    match keys.len() {
        1 => Ok(first),
        count => Err(Failure::new(format!(
            "{key} matches {count} keys: {} …",
            keys[..2].join(", ")
        ))
        .help("give more of its digits")),
    }
}

fn json(entry: &Entry) -> Value {
    let used = entry.used.duration_since(UNIX_EPOCH).unwrap_or_default();
    let provenance = &entry.provenance;
    let read_only = match &entry.tier {
        Tier::Writable => None,
        Tier::ReadOnly(path) => Some(text_of(path)),
    };
    json!({
        "key": entry.key.to_string(),
        "path": text_of(&entry.path),
        "bytes": entry.size,
        "used": used.as_secs(),
        "hits": entry.hits,
        "stale": entry.stale,
        "read_only": read_only,
        "source": provenance.source,
        "target": provenance.target,
        "compiler": provenance.compiler,
        "compile_ms": in_ms(provenance.compile_time),
        "image": provenance.image,
        "kernels": provenance.kernels,
        "module": provenance.module.as_ref().map(Key::to_string),
        "slices": provenance.slices.iter().map(Key::to_string).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_or_odd_name_takes_its_own_line_alone() {
        let row = |name: &str, kernels: &str| {
            let mut row = ["k"; 7].map(str::to_owned);
            row[5] = name.to_owned();
            row[6] = kernels.to_owned();
            row
        };
        let long = "s".repeat(1 << 16);
        let text = table(&[row("source", "a"), row(&long, "\x1b[2J\nb")]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].len() < 100, "{}", lines[0]);
        assert!(lines[1].ends_with("  \\u{1b}[2J\\nb"));
    }

    #[test]
    fn names_are_cut_between_characters() {
        assert_eq!(cut("vecadd"), "vecadd");
        assert_eq!(cut(&"é".repeat(70)), format!("{}…", "é".repeat(60)));
    }
}
