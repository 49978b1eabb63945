//! Folders and files that hold executable code: ownership and permissions.
//!
//! A folder is created with mode 0700. An existing one is used only if it is a
//! real folder, belongs to this user, and nobody else can write to it. Each file is
//! checked in the same way on the opened descriptor, so that swapping the folder in
//! between gains nothing. A read-only folder, which a container image may bring,
//! may belong to root as well.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// Whose files are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    User,
    /// Root can do as this user anyway.
    UserOrRoot,
    /// The user named the file: it is read, whoever wrote it.
    Anyone,
}

/// Makes `path` if it is missing, and its parents.
pub(super) fn create(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Whether `path` is a folder whose contents only this user can have written.
pub(super) fn check(path: &Path, owner: Owner) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_symlink() {
        return Err(untrusted("it is a symbolic link".into()));
    }
    if !metadata.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    trust(&metadata, owner)
}

/// Opens a regular file of the owner's for reading, not through a link.
pub(super) fn open(path: &Path, owner: Owner) -> io::Result<(File, Metadata)> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        // NONBLOCK: a planted pipe must not hang the load.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits() as i32);
    }
    let file = options.open(path).map_err(name_link)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(untrusted("it is not a regular file".into()));
    }
    trust(&metadata, owner)?;
    Ok((file, metadata))
}

/// Makes a new file that only this user can read.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Whether the error is that a file must not be used, not one of the system.
pub(super) fn is_untrusted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

pub(super) fn untrusted(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(unix)]
fn name_link(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
        untrusted("it is a symbolic link".into())
    } else {
        error
    }
}

#[cfg(not(unix))]
fn name_link(error: io::Error) -> io::Error {
    error
}

#[cfg(unix)]
fn trust(metadata: &Metadata, owner: Owner) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    if owner == Owner::Anyone {
        return Ok(());
    }
    let user = rustix::process::geteuid().as_raw();
    let of_root = owner == Owner::UserOrRoot && metadata.uid() == 0;
    if metadata.uid() != user && !of_root {
        return Err(untrusted(format!(
            "it belongs to user {}, not to {user}",
            metadata.uid()
        )));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(untrusted(format!(
            "others can write to it (mode {:o}): chmod go-w",
            metadata.mode() & 0o7777
        )));
    }
    Ok(())
}

/// Elsewhere the folder lies in the user's profile, which the system guards.
#[cfg(not(unix))]
fn trust(_: &Metadata, _: Owner) -> io::Result<()> {
    Ok(())
}
