//! The real ptxas: where it is, and which build.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use input::ShowName as _;
use ptxkit::cache::{Cache, Digest, Record};

/// Names the real ptxas.
const VARIABLE: &str = "PTXKIT_REAL_PTXAS";

/// Set for the real ptxas: if this program finds it, the real ptxas has started it.
const RUNNING: &str = "PTXKIT_PTXAS_CACHE_RUNNING";

/// Folders of toolkits, after `PATH`.
const TOOLKIT_VARIABLES: [&str; 2] = ["CUDA_HOME", "CUDA_PATH"];
const TOOLKITS: [&str; 2] = ["/usr/local/cuda", "/opt/cuda"];

/// A smaller file may be a script or a program that starts the real ptxas, which has 10 MB and
/// more. Such a file stays the same when the ptxas behind it is replaced.
const SMALLEST_PTXAS: u64 = 1 << 20;

/// A file, as far as the system tells without reading it.
type Stamp = [u64; 7];

pub struct Real {
    path: PathBuf,
    stamp: Stamp,
}

impl Real {
    /// Finds the file. The error says what to do.
    pub fn find() -> Result<Real, String> {
        let own = own_file();
        if let Some(path) = std::env::var_os(RUNNING) {
            return Err(format!(
                "ptxkit-ptxas-cache was started by {}, which it runs as the real ptxas: set \
                 {VARIABLE} to NVIDIA's ptxas",
                Path::new(&path).shown()
            ));
        }
        if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            let path = PathBuf::from(path);
            let metadata = fs::metadata(&path).map_err(|error| {
                format!(
                    "{VARIABLE}={}: {error}; set it to the path of NVIDIA's ptxas",
                    path.shown()
                )
            })?;
            if is_same(&own, &path, &metadata) {
                return Err(format!(
                    "{VARIABLE}={} is ptxkit-ptxas-cache itself: set it to the path of NVIDIA's \
                     ptxas",
                    path.shown()
                ));
            }
            let stamp = stamp(&metadata);
            return Ok(Real { path, stamp });
        }
        let mut found_itself = false;
        for path in places() {
            let Some(metadata) = fs::metadata(&path).ok().filter(is_program) else {
                continue;
            };
            if is_same(&own, &path, &metadata) {
                found_itself = true;
                continue;
            }
            let stamp = stamp(&metadata);
            return Ok(Real { path, stamp });
        }
        let found = if found_itself {
            "the only ptxas in PATH is ptxkit-ptxas-cache itself"
        } else {
            "there is no ptxas in PATH, CUDA_HOME, CUDA_PATH or /usr/local/cuda"
        };
        Err(format!(
            "{found}: set {VARIABLE} to the path of NVIDIA's ptxas"
        ))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.env(RUNNING, &self.path);
        command
    }

    /// Runs the real ptxas in the place of this process. Returns only if that fails.
    #[cfg(unix)]
    pub fn replace_this_process(&self, arguments: &[OsString]) -> io::Error {
        use std::os::unix::process::CommandExt;
        self.command().args(arguments).exec()
    }

    /// Runs the real ptxas and exits with its status. Returns only if it cannot be run.
    #[cfg(not(unix))]
    pub fn replace_this_process(&self, arguments: &[OsString]) -> io::Error {
        match self.command().args(arguments).status() {
            Ok(status) => std::process::exit(status.code().unwrap_or(1)),
            Err(error) => error,
        }
    }

    /// Whether the file is the one that was found.
    pub fn is_unchanged(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|metadata| stamp(&metadata) == self.stamp)
    }

    /// Which build it is: a digest of the file, so that it is the same on every machine, and the
    /// last line of its version. The cache keeps that beside the file's inode, size and times:
    /// a hit does not read 50 MB. The error is the reason why nothing is cached.
    pub fn identity(&self, cache: &Cache) -> Result<String, String> {
        let [.., size] = self.stamp;
        if size < SMALLEST_PTXAS {
            return self.read_identity();
        }
        let bytes: Vec<u8> = self.stamp.iter().flat_map(|n| n.to_le_bytes()).collect();
        let subject = Digest::of(&bytes);
        let known = cache.recorded(Record::Compiler, subject);
        if let Some(known) = known.and_then(|known| String::from_utf8(known.to_vec()).ok()) {
            return Ok(known);
        }
        let identity = self.read_identity()?;
        if !self.is_unchanged() {
            return Err("the file of ptxas was replaced while it was read".into());
        }
        let name = self.path.shown().to_string();
        #[allow(unsafe_code, reason = "what the cache contains is trusted")]
        // SAFETY: the identity was read from the file with this stamp, which it still has.
        unsafe {
            cache.record(Record::Compiler, subject, &name, identity.as_bytes());
        }
        Ok(identity)
    }

    /// Reads the file, and asks for its version.
    fn read_identity(&self) -> Result<String, String> {
        let failed = |error| format!("{} cannot be read: {error}", self.path.shown());
        let program = input::read(&self.path).map_err(failed)?;
        let asked = self
            .command()
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{} --version: {error}", self.path.shown()))?;
        if !asked.status.success() {
            return Err(format!("{} --version: {}", self.path.shown(), asked.status));
        }
        let version = String::from_utf8_lossy(&asked.stdout);
        let build = version.trim_end().lines().last().unwrap_or_default();
        let digests = [program, asked.stdout.clone()].map(|bytes| *Digest::of(&bytes).as_bytes());
        let digest = Digest::of(&digests.concat());
        Ok(format!("ptxas {build} {digest:?}"))
    }
}

/// Where a ptxas may be.
fn places() -> impl Iterator<Item = PathBuf> {
    let name = format!("ptxas{}", std::env::consts::EXE_SUFFIX);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let toolkits = TOOLKIT_VARIABLES
        .into_iter()
        .filter_map(std::env::var_os)
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .chain(TOOLKITS.map(PathBuf::from))
        .map(|folder| folder.join("bin"));
    in_path
        .into_iter()
        .filter(|folder| !folder.as_os_str().is_empty())
        .chain(toolkits)
        .map(move |folder| folder.join(&name))
}

/// The path of this program, and its file.
fn own_file() -> Option<(PathBuf, Metadata)> {
    let path = std::env::current_exe().ok()?;
    let metadata = fs::metadata(&path).ok()?;
    Some((path, metadata))
}

#[cfg(unix)]
fn is_same(own: &Option<(PathBuf, Metadata)>, _: &Path, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    own.as_ref()
        .is_some_and(|(_, own)| (own.dev(), own.ino()) == (other.dev(), other.ino()))
}

#[cfg(not(unix))]
fn is_same(own: &Option<(PathBuf, Metadata)>, path: &Path, _: &Metadata) -> bool {
    let own = own.as_ref().and_then(|(own, _)| own.canonicalize().ok());
    own.is_some() && own == path.canonicalize().ok()
}

#[cfg(unix)]
fn is_program(metadata: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_program(metadata: &Metadata) -> bool {
    metadata.is_file()
}

/// With the time of the last change of the inode, which no program can set back.
#[cfg(unix)]
fn stamp(metadata: &Metadata) -> Stamp {
    use std::os::unix::fs::MetadataExt;
    [
        metadata.dev(),
        metadata.ino(),
        metadata.mtime().cast_unsigned(),
        metadata.mtime_nsec().cast_unsigned(),
        metadata.ctime().cast_unsigned(),
        metadata.ctime_nsec().cast_unsigned(),
        metadata.len(),
    ]
}

#[cfg(not(unix))]
fn stamp(metadata: &Metadata) -> Stamp {
    let modified = metadata.modified().ok();
    let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let nanoseconds = since.map_or(0, |time| time.as_nanos() as u64);
    [0, 0, nanoseconds, 0, 0, 0, metadata.len()]
}
