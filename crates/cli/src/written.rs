//! Writes files whole, and tells whether two paths are one file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Writes a file. If that fails, the file that was there stays.
///
/// # Errors
/// The file cannot be written.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let before = fs::metadata(path).ok();
    // A device or a pipe has no content to keep.
    if before.as_ref().is_some_and(|before| !before.is_file()) {
        return fs::write(path, bytes);
    }
    let file = place(path);
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return fs::write(path, bytes);
    };
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.tmp", std::process::id()));
    let temporary = folder.join(hidden);
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&temporary);
    let mut opened = match created {
        Ok(opened) => opened,
        // The file may be writable where its folder is not.
        Err(_) => return fs::write(path, bytes),
    };
    let written = opened.write_all(bytes).and_then(|()| {
        if let Some(before) = &before {
            opened.set_permissions(before.permissions())?;
        }
        fs::rename(&temporary, &file)
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// The file that a path leads to, without links. It need not exist.
pub fn place(path: &Path) -> PathBuf {
    if let Ok(real) = fs::canonicalize(path) {
        return real;
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match (fs::canonicalize(folder), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Whether two paths are one file, by links of any kind.
pub fn is_same(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let identity = |path: &Path| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.dev(), metadata.ino()))
        };
        if let (Some(one), Some(other)) = (identity(one), identity(other)) {
            return one == other;
        }
    }
    place(one) == place(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_through_a_link_and_keeps_its_permissions() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        replace(&link, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        replace(Path::new("/dev/null"), b"new").unwrap();
    }

    #[test]
    fn links_are_one_file_with_their_targets() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), "").unwrap();
        fs::hard_link(path("a"), path("b")).unwrap();
        fs::write(path("c"), "").unwrap();
        assert!(is_same(&path("a"), &path("b")));
        assert!(is_same(&path("a"), &path("./a")));
        assert!(!is_same(&path("a"), &path("c")));
        assert!(is_same(&path("new"), &path("./new")));
        assert!(!is_same(&path("new"), &path("a")));
    }
}
