//! The hit log: how often blobs were used, as lines `KEY COUNT` that processes
//! append to one file. The catalogue reads them in when it is opened.
//!
//! A lost line is a hit that is not counted, so nothing here is synced or locked.
//! Eviction goes by the time of the last use, which is the modification time of
//! the blob itself.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::folder::{self, Owner};
use super::key::Key;

/// The file's name in the store.
const NAME: &str = "hits";
/// A log of this size that nobody read in is compacted.
const MAX_SIZE: u64 = 16 << 20;

/// Appends `hits` to the log of the store in `root`, with one call.
pub(super) fn append(root: &Path, hits: &[(Key, u64)]) -> io::Result<()> {
    if hits.is_empty() {
        return Ok(());
    }
    let path = root.join(NAME);
    if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.len() > MAX_SIZE) {
        compact(root, &path)?;
    }
    write_lines(&path, hits)
}

/// Removes the log and returns its sums.
pub(super) fn take(root: &Path) -> io::Result<HashMap<Key, u64>> {
    let aside = root.join("hits.reading");
    match fs::rename(root.join(NAME), &aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        renamed => renamed?,
    }
    let (mut file, metadata) = match folder::open(&aside, Owner::User) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    if metadata.len() <= 2 * MAX_SIZE {
        io::Read::read_to_end(&mut file, &mut bytes)?;
    }
    let _ = fs::remove_file(&aside);
    Ok(sums(&bytes))
}

/// The log's sums; it stays as it is.
pub(super) fn peek(root: &Path) -> HashMap<Key, u64> {
    let mut bytes = Vec::new();
    if let Ok((mut file, metadata)) = folder::open(&root.join(NAME), Owner::User)
        && metadata.len() <= 2 * MAX_SIZE
        && io::Read::read_to_end(&mut file, &mut bytes).is_err()
    {
        bytes.clear();
    }
    sums(&bytes)
}

/// Replaces the lines by their sums.
fn compact(root: &Path, path: &Path) -> io::Result<()> {
    let mut hits: Vec<(Key, u64)> = take(root)?.into_iter().collect();
    // The smallest counts are dropped where there are too many.
    hits.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    hits.truncate(MAX_SIZE as usize / 2 / 80);
    write_lines(path, &hits)
}

fn write_lines(path: &Path, hits: &[(Key, u64)]) -> io::Result<()> {
    let mut text = String::with_capacity(hits.len() * 68);
    for (key, count) in hits {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{key} {count}");
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits() as i32);
    }
    options.open(path)?.write_all(text.as_bytes())
}

/// Skips lines that a killed process cut short.
fn sums(bytes: &[u8]) -> HashMap<Key, u64> {
    let mut sums: HashMap<Key, u64> = HashMap::new();
    for line in String::from_utf8_lossy(bytes).lines() {
        if let Some((key, count)) = line.split_once(' ')
            && let (Some(key), Ok(count)) = (Key::parse(key), count.parse::<u64>())
        {
            let sum = sums.entry(key).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> Key {
        Key::from_bytes([n; 32])
    }

    #[test]
    fn hits_are_summed_and_taken_once() {
        let root = tempfile::tempdir().unwrap();
        append(root.path(), &[(key(1), 2), (key(2), 1)]).unwrap();
        append(root.path(), &[(key(1), 3)]).unwrap();
        let sums = HashMap::from([(key(1), 5), (key(2), 1)]);
        assert_eq!(peek(root.path()), sums);
        assert_eq!(take(root.path()).unwrap(), sums);
        assert_eq!(take(root.path()).unwrap(), HashMap::new());
    }

    #[test]
    fn a_line_cut_short_is_skipped() {
        let whole = format!("{} 7\n", key(1));
        for length in 0..whole.len() - 2 {
            let text = format!("{}\n{whole}", &whole[..length]);
            assert_eq!(sums(text.as_bytes()), HashMap::from([(key(1), 7)]));
        }
    }

    #[test]
    fn the_file_stays_small() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(NAME);
        let line = format!("{} 1\n", key(1));
        fs::write(&path, line.repeat(MAX_SIZE as usize / line.len() + 1)).unwrap();
        append(root.path(), &[(key(2), 1)]).unwrap();
        assert!(fs::metadata(&path).unwrap().len() < 1000);
        assert_eq!(peek(root.path())[&key(1)], MAX_SIZE / line.len() as u64 + 1);
    }
}
