//! How often blobs were used, as lines that processes append to one file:
//! `KEY COUNT`. The catalogue takes them in when it is opened.
//!
//! A lost line is a hit that is not counted and nothing worse, so nothing here
//! is synced or locked. What orders eviction is the time of the last use, which
//! is the modification time of the blob itself.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::folder::{self, Owner};
use super::key::Key;

/// A file that nobody took in is summed up where it lies before it is larger.
const LARGEST: u64 = 16 << 20;

/// Appends `uses` to the file of the store in `root`, with one call.
pub(super) fn append(root: &Path, uses: &[(Key, u64)]) -> io::Result<()> {
    if uses.is_empty() {
        return Ok(());
    }
    let path = root.join("uses");
    if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.len() > LARGEST) {
        sum_up(root, &path)?;
    }
    write_lines(&path, uses)
}

/// Takes the file away and gives what it said.
pub(super) fn take(root: &Path) -> io::Result<HashMap<Key, u64>> {
    let aside = root.join("uses.taken");
    match fs::rename(root.join("uses"), &aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        renamed => renamed?,
    }
    let (mut file, metadata) = match folder::open(&aside, Owner::User) {
        // Two came at once, and the other took it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    if metadata.len() <= 2 * LARGEST {
        io::Read::read_to_end(&mut file, &mut bytes)?;
    }
    let _ = fs::remove_file(&aside);
    Ok(sums(&bytes))
}

/// What the file says, leaving it as it is.
pub(super) fn peek(root: &Path) -> HashMap<Key, u64> {
    let mut bytes = Vec::new();
    if let Ok((mut file, metadata)) = folder::open(&root.join("uses"), Owner::User)
        && metadata.len() <= 2 * LARGEST
        && io::Read::read_to_end(&mut file, &mut bytes).is_err()
    {
        bytes.clear();
    }
    sums(&bytes)
}

fn sum_up(root: &Path, path: &Path) -> io::Result<()> {
    let mut uses: Vec<(Key, u64)> = take(root)?.into_iter().collect();
    // Those used least make room: of many blobs used once each, none matters.
    uses.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    uses.truncate(LARGEST as usize / 2 / 80);
    write_lines(path, &uses)
}

fn write_lines(path: &Path, uses: &[(Key, u64)]) -> io::Result<()> {
    let mut text = String::with_capacity(uses.len() * 68);
    for (key, count) in uses {
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

/// Lines that a killed process cut short are passed over.
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
    fn uses_are_summed_and_taken_once() {
        let root = tempfile::tempdir().unwrap();
        append(root.path(), &[(key(1), 2), (key(2), 1)]).unwrap();
        append(root.path(), &[(key(1), 3)]).unwrap();
        let sums = HashMap::from([(key(1), 5), (key(2), 1)]);
        assert_eq!(peek(root.path()), sums);
        assert_eq!(take(root.path()).unwrap(), sums);
        assert_eq!(take(root.path()).unwrap(), HashMap::new());
    }

    #[test]
    fn a_line_cut_short_is_passed_over() {
        let whole = format!("{} 7\n", key(1));
        for length in 0..whole.len() - 2 {
            let text = format!("{}\n{whole}", &whole[..length]);
            assert_eq!(sums(text.as_bytes()), HashMap::from([(key(1), 7)]));
        }
    }

    #[test]
    fn the_file_stays_small() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("uses");
        let line = format!("{} 1\n", key(1));
        fs::write(&path, line.repeat(LARGEST as usize / line.len() + 1)).unwrap();
        append(root.path(), &[(key(2), 1)]).unwrap();
        assert!(fs::metadata(&path).unwrap().len() < 1000);
        assert_eq!(peek(root.path())[&key(1)], LARGEST / line.len() as u64 + 1);
    }
}
