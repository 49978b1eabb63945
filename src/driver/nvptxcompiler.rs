//! NVIDIA's PTX compiler as a library: `ptxas` in this process, without a driver.
//!
//! NVIDIA ships it as a static library alone (`libnvptxcompiler_static.a`, in the CUDA toolkit and in PyPI's
//! `nvidia-nvptxcompiler`). `ptxkit nvptxcompiler build` links a shared library from it, into
//! [`folder`]. ptxkit's packages do not contain it: NVIDIA's licence applies to it.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::compiler_library::{self, Handle, reason, stamp};
use input::ShowName as _;
use libloading::Library;
use ptx::ast::Version;

type GetVersion = unsafe extern "C" fn(*mut c_uint, *mut c_uint) -> c_int;
type GetCount = unsafe extern "C" fn(*mut c_int) -> c_int;
type GetAll<T> = unsafe extern "C" fn(*mut T) -> c_int;
type Create = unsafe extern "C" fn(*mut Handle, usize, *const c_char) -> c_int;
type Compile = unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;

/// The variable with the library's file, or `off`.
const VARIABLE: &str = "PTXKIT_NVPTXCOMPILER";

/// The entries that each version has.
const ENTRIES: [&str; 9] = [
    "Create",
    "Compile",
    "Destroy",
    "GetCompiledProgram",
    "GetCompiledProgramSize",
    "GetErrorLog",
    "GetErrorLogSize",
    "GetInfoLog",
    "GetInfoLogSize",
];

/// `NVPTXCOMPILE_ERROR_COMPILATION_FAILURE`
pub(crate) const COMPILATION_FAILURE: c_int = 3;
/// `NVPTXCOMPILE_ERROR_OUT_OF_MEMORY`
pub(crate) const OUT_OF_MEMORY: c_int = 5;
/// `NVPTXCOMPILE_ERROR_UNSUPPORTED_PTX_VERSION`
pub(crate) const UNSUPPORTED_PTX_VERSION: c_int = 7;

/// The library, opened.
#[derive(Clone, Debug)]
pub struct NvPtxCompiler {
    library: Arc<Library>,
    version: (u32, u32),
    newest_ptx: Option<Version>,
    path: PathBuf,
    identity: String,
}

/// Why the library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NvPtxCompilerError {
    /// There is none.
    Missing {
        /// The folder without one.
        folder: PathBuf,
    },
    /// `PTXKIT_NVPTXCOMPILER` is `off`.
    Off,
    /// It does not open, or is another library.
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It has no such option.
    Option {
        /// The field of [`JitOptions`](crate::jit::JitOptions).
        name: &'static str,
    },
    /// The PTX or an option has a NUL.
    Nul {
        /// The byte's offset.
        at: usize,
    },
    /// The PTX does not compile.
    Failed {
        /// `nvPTXCompileResult`
        code: i32,
        /// The error log.
        log: String,
    },
}

impl fmt::Display for NvPtxCompilerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NvPtxCompilerError::Missing { folder } => write!(
                f,
                "there is no nvptxcompiler in {}: `ptxkit nvptxcompiler build` makes one",
                folder.shown()
            ),
            NvPtxCompilerError::Off => write!(f, "nvptxcompiler is not used: {VARIABLE} is off"),
            NvPtxCompilerError::Unusable { path, reason } => {
                write!(f, "{} cannot be used: {reason}", path.shown())
            }
            NvPtxCompilerError::Option { name } => write!(
                f,
                "nvptxcompiler does not support the option `{name}`: leave it out, or use the \
                 driver's compiler"
            ),
            NvPtxCompilerError::Nul { at } => write!(f, "the PTX has a NUL at byte {at}"),
            NvPtxCompilerError::Failed { code, log } => {
                write!(f, "nvptxcompiler returned error {code}\n{log}")
            }
        }
    }
}

impl std::error::Error for NvPtxCompilerError {}

/// Returns the folder of the libraries that `ptxkit nvptxcompiler build` makes:
/// `~/.local/share/ptxkit/nvptxcompiler`. `None` if the user has no home.
pub fn folder() -> Option<PathBuf> {
    Some(dirs::data_local_dir()?.join("ptxkit").join("nvptxcompiler"))
}

/// Returns the name of the library's file: `libnvptxcompiler-13.5-<digest>.so`, with a digest of the static
/// library that it was linked from.
pub fn file_name((major, minor): (u32, u32), digest: &str) -> String {
    format!("{PREFIX}{major}.{minor}-{digest}{SUFFIX}")
}

const PREFIX: &str = "libnvptxcompiler-";
const SUFFIX: &str = ".so";

/// The version and the digest in a file's name.
fn parse_name(path: &Path) -> Option<((u32, u32), &str)> {
    let name = path.file_name()?.to_str()?;
    let (version, digest) = name
        .strip_prefix(PREFIX)?
        .strip_suffix(SUFFIX)?
        .split_once('-')?;
    let (major, minor) = version.split_once('.')?;
    Some(((major.parse().ok()?, minor.parse().ok()?), digest))
}

/// Lists the libraries in a folder: the newest version first, and of one version the latest build.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| parse_name(path).is_some())
        .collect();
    found.sort_by_cached_key(|path| {
        let version = parse_name(path).map(|(version, _)| version);
        let built = std::fs::metadata(path).and_then(|metadata| metadata.modified());
        std::cmp::Reverse((version, built.ok()))
    });
    found
}

impl NvPtxCompiler {
    /// Opens the library that `PTXKIT_NVPTXCOMPILER` names, or the newest one in [`folder`]. The process
    /// keeps it open: later calls return the same.
    ///
    /// # Errors
    /// [`Missing`](NvPtxCompilerError::Missing) if there is none; [`Unusable`](NvPtxCompilerError::Unusable)
    /// if it does not open, or if the folder or the file can be written by other users.
    ///
    /// ```
    /// use ptxkit::driver::nvptxcompiler::NvPtxCompiler;
    ///
    /// match NvPtxCompiler::open() {
    ///     Ok(compiler) => println!("{}", compiler.identity()),
    ///     Err(error) => println!("{error}"),
    /// }
    /// ```
    pub fn open() -> Result<&'static NvPtxCompiler, NvPtxCompilerError> {
        static OPENED: OnceLock<Result<NvPtxCompiler, NvPtxCompilerError>> = OnceLock::new();
        OPENED
            .get_or_init(NvPtxCompiler::open_first)
            .as_ref()
            .map_err(Clone::clone)
    }

    fn open_first() -> Result<NvPtxCompiler, NvPtxCompilerError> {
        let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        let path = match variable {
            Some(word) if word == "off" => return Err(NvPtxCompilerError::Off),
            // A name alone would be searched in other folders.
            Some(path) => std::path::absolute(&path).unwrap_or_else(|_| path.into()),
            None => {
                let folder = folder().unwrap_or_default();
                let newest = list(&folder).into_iter().next();
                let newest = newest.ok_or_else(|| NvPtxCompilerError::Missing {
                    folder: folder.clone(),
                })?;
                // The folder of the user's data is above these.
                let above = folder.parent().unwrap_or(&folder).to_owned();
                for path in [&above, &folder, &newest] {
                    check_owner(path).map_err(|reason| NvPtxCompilerError::Unusable {
                        path: path.clone(),
                        reason,
                    })?;
                }
                newest
            }
        };
        // SAFETY: the user names the file, or no other user can have written it.
        unsafe { NvPtxCompiler::open_file(&path) }
    }

    /// Opens a library.
    ///
    /// # Safety
    /// Opening a library runs its code: the file must be one that was linked from NVIDIA's static library.
    ///
    /// # Errors
    /// [`Unusable`](NvPtxCompilerError::Unusable) if it does not open or lacks the entries.
    pub unsafe fn open_file(path: &Path) -> Result<NvPtxCompiler, NvPtxCompilerError> {
        let unusable = |reason: String| NvPtxCompilerError::Unusable {
            path: path.to_owned(),
            reason,
        };
        // SAFETY: the caller's.
        let library = unsafe { Library::new(path) }.map_err(|error| unusable(reason(&error)))?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the header declares this signature; it writes two integers.
        let code = unsafe {
            let version = library.get::<GetVersion>(b"nvPTXCompilerGetVersion\0");
            let version = version.map_err(|error| unusable(reason(&error)))?;
            version(&mut major, &mut minor)
        };
        if code != 0 {
            return Err(unusable(format!("nvPTXCompilerGetVersion returned {code}")));
        }
        for entry in ENTRIES {
            let name = format!("nvPTXCompiler{entry}\0");
            // SAFETY: only looks whether there is such a symbol.
            let found = unsafe { library.get::<*mut c_void>(name.as_bytes()) };
            found.map_err(|error| unusable(reason(&error)))?;
        }
        let build = match parse_name(path) {
            Some((_, digest)) => digest.to_owned(),
            // Of builds of one version, size and time tell one from the other.
            None => stamp(path),
        };
        let mut compiler = NvPtxCompiler {
            library: Arc::new(library),
            version: (major, minor),
            newest_ptx: None,
            path: path.to_owned(),
            identity: format!("nvptxcompiler {major}.{minor} {build}"),
        };
        let newest = compiler.ptx_versions().into_iter().max();
        compiler.newest_ptx = newest.or_else(|| image::newest_ptx(1000 * major + 10 * minor));
        Ok(compiler)
    }

    /// Returns the major and minor version of its toolkit.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Returns the newest PTX version that it reads (`nvPTXCompilerGetSupportedVersions`, or that of its toolkit);
    /// `None` if neither is known.
    pub fn newest_ptx(&self) -> Option<Version> {
        self.newest_ptx
    }

    /// Returns its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name, version and build, which are part of the cache's keys.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Compiles PTX with options as `ptxas` takes them: `-arch=sm_90`, `-O3`. Returns the cubin and the
    /// library's log. Calls from several threads run beside one another.
    ///
    /// # Errors
    /// [`Failed`](NvPtxCompilerError::Failed) with the log if the PTX does not compile.
    pub fn compile(
        &self,
        ptx: &str,
        options: &[String],
    ) -> Result<(Vec<u8>, String), NvPtxCompilerError> {
        let text = |text: &str| {
            let at = text.find('\0').unwrap_or_default();
            CString::new(text).map_err(|_| NvPtxCompilerError::Nul { at })
        };
        let ptx = text(ptx.trim_end_matches('\0'))?;
        let options: Vec<CString> = options.iter().map(|o| text(o)).collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut session = Session {
            handle: std::ptr::null_mut(),
            destroy: self.entry("Destroy")?,
        };
        let create: Create = self.entry("Create")?;
        // SAFETY: the text has the length given, lives as long as the session, and ends in a NUL.
        let code = unsafe { create(&mut session.handle, ptx.as_bytes().len(), ptx.as_ptr()) };
        self.check(&session, code)?;
        let compile: Compile = self.entry("Compile")?;
        // SAFETY: the session is live, and the array has the length given.
        let code = unsafe { compile(session.handle, pointers.len() as c_int, pointers.as_ptr()) };
        self.check(&session, code)?;
        let cubin = self.read(&session, "GetCompiledProgramSize", "GetCompiledProgram")?;
        let log = self.log(&session, "Info");
        Ok((cubin, log))
    }

    /// Returns the numbers of the architectures that it compiles for, such as 90
    /// (`nvPTXCompilerGetSupportedArchs`); none for libraries that do not tell.
    pub fn architectures(&self) -> Vec<u32> {
        let numbers = self.supported::<c_int>("Archs").into_iter();
        let numbers = numbers.map(u32::try_from);
        numbers.filter_map(Result::ok).collect()
    }

    fn ptx_versions(&self) -> Vec<Version> {
        let versions = self.supported::<[c_int; 2]>("Versions").into_iter();
        let versions = versions.map(|pair| {
            let [major, minor] = pair.map(|number| u8::try_from(number).ok());
            Some(Version {
                major: major?,
                minor: minor?,
            })
        });
        versions.flatten().collect()
    }

    /// What the library supports: its architectures, as numbers, or its versions, as pairs.
    fn supported<T: Copy + Default>(&self, what: &str) -> Vec<T> {
        let count_of = self.entry::<GetCount>(&format!("GetNumSupported{what}"));
        let all = self.entry::<GetAll<T>>(&format!("GetSupported{what}"));
        let (Ok(count_of), Ok(all)) = (count_of, all) else {
            return Vec::new();
        };
        let mut count = 0;
        // SAFETY: writes a number.
        if unsafe { count_of(&mut count) } != 0 {
            return Vec::new();
        }
        let mut found = vec![T::default(); usize::try_from(count).unwrap_or_default()];
        // SAFETY: the array has the length that the library asked for.
        if unsafe { all(found.as_mut_ptr()) } != 0 {
            return Vec::new();
        }
        found
    }

    fn entry<T: Copy>(&self, name: &str) -> Result<T, NvPtxCompilerError> {
        let name = format!("nvPTXCompiler{name}\0");
        // SAFETY: each caller names the type that the header gives the entry.
        let entry = unsafe { self.library.get::<T>(name.as_bytes()) };
        entry
            .map(|symbol| *symbol)
            .map_err(|error| NvPtxCompilerError::Unusable {
                path: self.path.clone(),
                reason: reason(&error),
            })
    }

    fn check(&self, session: &Session, code: c_int) -> Result<(), NvPtxCompilerError> {
        if code == 0 {
            return Ok(());
        }
        let log = self.log(session, "Error");
        Err(NvPtxCompilerError::Failed { code, log })
    }

    fn log(&self, session: &Session, which: &str) -> String {
        let (size, text) = (format!("Get{which}LogSize"), format!("Get{which}Log"));
        let bytes = if session.handle.is_null() {
            Vec::new()
        } else {
            self.read(session, &size, &text).unwrap_or_default()
        };
        compiler_library::log_text(&bytes)
    }

    fn read(
        &self,
        session: &Session,
        size: &str,
        get: &str,
    ) -> Result<Vec<u8>, NvPtxCompilerError> {
        let (size, get) = (self.entry(size)?, self.entry(get)?);
        // SAFETY: the session is live, and the entries have these types in the header.
        let found = unsafe { compiler_library::read(session.handle, size, get) };
        found.map_err(|code| NvPtxCompilerError::Unusable {
            path: self.path.clone(),
            reason: format!("it returns no result, but error {code}"),
        })
    }
}

/// Whether only this user, or root, can have written a file or folder; otherwise the reason.
#[cfg(unix)]
fn check_owner(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    let user = rustix::process::geteuid().as_raw();
    if ![0, user].contains(&metadata.uid()) {
        return Err("it belongs to another user".to_owned());
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(
            "other users can write to it: remove the permission with chmod go-w".to_owned(),
        );
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_owner(_: &Path) -> Result<(), String> {
    Ok(())
}

/// A compilation, ended when dropped.
struct Session {
    handle: Handle,
    destroy: Destroy,
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: created once, destroyed once. What it returns changes nothing.
            unsafe { (self.destroy)(&mut self.handle) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_library_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            file_name((12, 9), "aa"),
            file_name((13, 10), "bb"),
            file_name((13, 5), "cc"),
            "libnvptxcompiler-13.so".to_owned(),
            "notes.txt".to_owned(),
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let names: Vec<_> = list(folder.path())
            .iter()
            .map(|path| parse_name(path).unwrap().0)
            .collect();
        assert_eq!(names, [(13, 10), (13, 5), (12, 9)]);
    }

    #[test]
    fn another_file_is_unusable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file_name((13, 5), "aa"));
        std::fs::write(&path, "text").unwrap();
        // SAFETY: the file has no code.
        let error = unsafe { NvPtxCompiler::open_file(&path) }.unwrap_err();
        assert!(matches!(error, NvPtxCompilerError::Unusable { .. }));
    }

    #[cfg(unix)]
    #[test]
    fn files_that_others_can_write_are_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "").unwrap();
        for (mode, is_refused) in [(0o644, false), (0o755, false), (0o664, true), (0o646, true)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(check_owner(&path).is_err(), is_refused, "{mode:o}");
        }
    }
}
