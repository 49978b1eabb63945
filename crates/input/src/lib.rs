//! Input files: how they are opened, how much of them is read, and how messages show their names.

#![forbid(unsafe_code)]

mod name;

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

pub use name::{Name, ShowName, controls_terminal};

/// The largest regular file that is read, in bytes.
pub const LARGEST_FILE: u64 = 4 << 30;

/// The most bytes that are read from a pipe, from standard input, or from a file whose size the
/// system does not know.
pub const LARGEST_STREAM: u64 = 1 << 30;

/// The largest file of settings, in bytes.
pub const LARGEST_SETTINGS: u64 = 1 << 20;

/// An input that was opened, and the most bytes that are read from it.
#[derive(Debug)]
pub struct Input {
    file: File,
    /// The size of a regular file; 0 for a pipe.
    length: u64,
    limit: u64,
}

impl Input {
    /// Opens a regular file or a pipe. Waits for a pipe to be opened for writing.
    ///
    /// # Errors
    /// The file cannot be opened, it is a device, or it is larger than [`LARGEST_FILE`].
    pub fn open(path: &Path) -> io::Result<Input> {
        let input = Input::open_any_size(path)?;
        if input.length > input.limit {
            Err(too_large(input.limit))
        } else {
            Ok(input)
        }
    }

    /// The same for a file of any size, such as an archive that is read piece by piece.
    ///
    /// # Errors
    /// The file cannot be opened, or it is a device.
    pub fn open_any_size(path: &Path) -> io::Result<Input> {
        // Opening a device may have effects of its own.
        let is_pipe = is_pipe(&std::fs::metadata(path)?)?;
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        if !is_pipe {
            // Files of /proc may have no end: a read fails where it would wait.
            let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
        }
        let file = options.open(path)?;
        let metadata = file.metadata()?;
        if self::is_pipe(&metadata)? != is_pipe {
            return Err(io::Error::other("it was replaced while it was opened"));
        }
        let length = if is_pipe { 0 } else { metadata.len() };
        let limit = match length {
            0 => LARGEST_STREAM,
            _ => LARGEST_FILE,
        };
        Ok(Input {
            file,
            length,
            limit,
        })
    }

    /// The size of a regular file; 0 if it is not known.
    pub fn length(&self) -> u64 {
        self.length
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Lowers the limit.
    #[must_use]
    pub fn with_limit(self, bytes: u64) -> Input {
        Input {
            limit: self.limit.min(bytes),
            ..self
        }
    }

    /// Appends what is left of the file to `bytes`.
    ///
    /// # Errors
    /// The file cannot be read, or `bytes` would be longer than the limit.
    pub fn read_to_end(self, bytes: &mut Vec<u8>) -> io::Result<()> {
        read_to_end(self.file, bytes, self.limit)
    }
}

/// Whether it is a pipe and no regular file or folder.
///
/// # Errors
/// It is something else.
#[cfg(unix)]
fn is_pipe(metadata: &Metadata) -> io::Result<bool> {
    use std::os::unix::fs::FileTypeExt;
    let kind = metadata.file_type();
    match () {
        () if kind.is_fifo() => Ok(true),
        () if kind.is_char_device() => Err(not_a_file("a character device")),
        () if kind.is_block_device() => Err(not_a_file("a block device")),
        () if kind.is_socket() => Err(not_a_file("a socket")),
        () => Ok(false),
    }
}

#[cfg(not(unix))]
fn is_pipe(_: &Metadata) -> io::Result<bool> {
    Ok(false)
}

#[cfg(unix)]
fn not_a_file(kind: &str) -> io::Error {
    let message = format!("it is {kind}, not a file");
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn too_large(limit: u64) -> io::Error {
    let size = match limit >> 30 {
        0 => format!("{} MiB", limit >> 20),
        gigabytes => format!("{gigabytes} GiB"),
    };
    let message = format!("it is larger than the limit of {size}");
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

/// The bytes of a file.
///
/// # Errors
/// Those of [`Input::open`], or the file cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let input = Input::open(path)?;
    let mut bytes = Vec::with_capacity(usize::try_from(input.length).unwrap_or(0));
    input.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The first `most` bytes of a file, or all if there are fewer.
///
/// # Errors
/// Those of [`Input::open`], or the file cannot be read.
pub fn read_start(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    Input::open(path)?.file.take(most).read_to_end(&mut start)?;
    Ok(start)
}

/// The text of a file of up to `limit` bytes.
///
/// # Errors
/// Those of [`read`], or the bytes are not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    let input = Input::open(path)?.with_limit(limit);
    input.read_to_end(&mut bytes)?;
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    String::from_utf8(bytes).map_err(invalid)
}

/// The bytes of standard input.
///
/// # Errors
/// It cannot be read, or is longer than [`LARGEST_STREAM`].
pub fn standard_input() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_to_end(io::stdin().lock(), &mut bytes, LARGEST_STREAM)?;
    Ok(bytes)
}

fn read_to_end(reader: impl Read, bytes: &mut Vec<u8>, limit: u64) -> io::Result<()> {
    let left = limit.saturating_sub(bytes.len() as u64);
    match reader.take(left.saturating_add(1)).read_to_end(bytes) {
        Ok(_) if bytes.len() as u64 <= limit => Ok(()),
        Ok(_) => Err(too_large(limit)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let message = "its end cannot be read without waiting: it is not a plain file";
            Err(io::Error::new(io::ErrorKind::InvalidInput, message))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path).unwrap(), b"12345");
        assert_eq!(read_start(&path, 2).unwrap(), b"12");
        assert_eq!(read_start(&path, 9).unwrap(), b"12345");
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        let error = read_text(&path, 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let mut bytes = Vec::new();
        let error = read_to_end(io::repeat(0), &mut bytes, 3 << 20).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than the limit of 3 MiB");
        assert_eq!(bytes.len(), (3 << 20) + 1);
    }

    /// A file of holes takes no space.
    #[test]
    fn the_size_is_checked_before_anything_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(LARGEST_FILE + 1).unwrap();
        let error = Input::open(file.path()).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than the limit of 4 GiB");
        file.as_file().set_len(LARGEST_FILE).unwrap();
        assert_eq!(Input::open(file.path()).unwrap().length(), LARGEST_FILE);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_are_no_files() {
        for path in ["/dev/zero", "/dev/null", "/dev/urandom"] {
            let error = read(Path::new(path)).unwrap_err();
            let expected = "it is a character device, not a file";
            assert_eq!(error.to_string(), expected, "{path}");
        }
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let error = read(&socket).unwrap_err();
        assert_eq!(error.to_string(), "it is a socket, not a file");
        assert!(read(folder.path()).is_err());
    }

    /// Files of /proc have the size 0. Only root can open /proc/kmsg, whose end never comes.
    #[cfg(target_os = "linux")]
    #[test]
    fn files_of_unknown_size_are_read() {
        assert!(read(Path::new("/proc/self/maps")).unwrap().len() > 100);
        if let Ok(input) = Input::open(Path::new("/proc/kmsg")) {
            assert!(input.read_to_end(&mut Vec::new()).is_err());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn pipes_are_read_to_their_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| std::fs::write(&path, vec![7; 1 << 18]).unwrap());
            assert_eq!(read(&path).unwrap(), vec![7; 1 << 18]);
        });
    }
}
