//! NVIDIA's linker as a library of the toolkit, nvJitLink: PTX becomes device
//! code without a driver and for any architecture.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use input::ShowName as _;
use libloading::Library;

use crate::driver::compiler_library::{self, Handle, reason, stamp};
use crate::driver::module::link::{LinkInput, LinkKind};

type Create = unsafe extern "C" fn(*mut Handle, u32, *const *const c_char) -> c_int;
type AddData = unsafe extern "C" fn(Handle, c_int, *const c_void, usize, *const c_char) -> c_int;
type Complete = unsafe extern "C" fn(Handle) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;
type GetVersion = unsafe extern "C" fn(*mut c_uint, *mut c_uint) -> c_int;

/// `NVJITLINK_INPUT_*`
fn input_type(kind: LinkKind) -> c_int {
    match kind {
        LinkKind::Cubin => 1,
        LinkKind::Ptx => PTX,
        LinkKind::Lto => 3,
        LinkKind::Fatbin => 4,
        LinkKind::Object => 5,
        LinkKind::Library => 6,
    }
}

const PTX: c_int = 2;
/// The toolkits whose library this reads, newest first.
const MAJORS: [u32; 2] = [13, 12];

/// The library, opened.
#[derive(Clone, Debug)]
pub struct NvJitLink {
    library: Arc<Library>,
    /// Every entry has the toolkit's version behind its name: `_13_5`.
    suffix: String,
    version: (u32, u32),
    path: PathBuf,
}

/// Why nvJitLink gave no code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NvJitLinkError {
    /// It is not there, or not what it should be.
    Missing(String),
    /// An input leads outside of its bytes, or is of another kind than was said.
    BadInput(String),
    /// It refused the PTX.
    Failed {
        /// `nvJitLinkResult`
        code: i32,
        /// What it had to say.
        log: String,
    },
}

impl fmt::Display for NvJitLinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NvJitLinkError::Missing(why) => write!(f, "nvJitLink cannot be used: {why}"),
            NvJitLinkError::BadInput(why) => f.write_str(why),
            NvJitLinkError::Failed { code, log } => write!(f, "nvJitLink gave error {code}\n{log}"),
        }
    }
}

impl std::error::Error for NvJitLinkError {}

impl NvJitLink {
    /// Opens `libnvJitLink.so.13` or `.12` where the system's loader finds it.
    pub fn open() -> Result<NvJitLink, NvJitLinkError> {
        // SAFETY: the system's folders are as trusted as those of the program's own libraries.
        unsafe { NvJitLink::open_first(&[]) }
    }

    /// The same, but first from the folder of a toolkit, `/usr/local/cuda`.
    ///
    /// # Safety
    /// Opening a library runs its code: what lies in the folder under the name must
    /// be NVIDIA's.
    pub unsafe fn open_in(toolkit: &Path) -> Result<NvJitLink, NvJitLinkError> {
        // SAFETY: the caller's.
        unsafe { NvJitLink::open_first(&[toolkit.join("lib64"), toolkit.join("lib")]) }
    }

    /// # Safety
    /// What lies in the folders under the library's name must be NVIDIA's.
    unsafe fn open_first(folders: &[PathBuf]) -> Result<NvJitLink, NvJitLinkError> {
        let mut tried = Vec::new();
        for major in MAJORS {
            let name = PathBuf::from(format!("libnvJitLink.so.{major}"));
            let in_folders = folders.iter().map(|folder| folder.join(&name));
            for path in in_folders.chain([name.clone()]) {
                // SAFETY: opening runs the library's initialisers, for which the caller answers.
                match unsafe { Library::new(&path) } {
                    Ok(library) => return NvJitLink::of(library, major, path),
                    Err(_) => tried.push(path.shown().to_string()),
                }
            }
        }
        Err(NvJitLinkError::Missing(format!(
            "none of {} opens",
            tried.join(", ")
        )))
    }

    fn of(library: Library, major: u32, path: PathBuf) -> Result<NvJitLink, NvJitLinkError> {
        let (mut found_major, mut minor) = (major, 0);
        // SAFETY: the signature is that of the header; it writes two integers.
        if let Ok(version) = unsafe { library.get::<GetVersion>(b"nvJitLinkVersion\0") } {
            // SAFETY: as above.
            unsafe { version(&mut found_major, &mut minor) };
        }
        // An older library has entries for its own version and all minor ones before it.
        let suffix = (0..=minor)
            .rev()
            .map(|minor| format!("_{major}_{minor}"))
            .find(|suffix| {
                // SAFETY: it is looked up and not called.
                unsafe { library.get::<Create>(format!("__nvJitLinkCreate{suffix}\0").as_bytes()) }
                    .is_ok()
            });
        let missing = || NvJitLinkError::Missing(format!("{} has no entries", path.shown()));
        Ok(NvJitLink {
            suffix: suffix.ok_or_else(missing)?,
            library: Arc::new(library),
            version: (found_major, minor),
            path,
        })
    }

    /// Major and minor version.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The file, or the name that the system's loader found it by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name, version and build, which are part of the cache's keys.
    pub fn identity(&self) -> String {
        let (major, minor) = self.version;
        let identity = format!("nvJitLink {major}.{minor} {}", stamp(&self.path));
        identity.trim_end().to_owned()
    }

    fn entry<T: Copy>(&self, name: &str) -> Result<T, NvJitLinkError> {
        let name = format!("__nvJitLink{name}{}\0", self.suffix);
        // SAFETY: each caller names the type that the header gives the entry.
        unsafe { self.library.get::<T>(name.as_bytes()) }
            .map(|symbol| *symbol)
            .map_err(|error| NvJitLinkError::Missing(reason(&error)))
    }

    /// Compiles PTX with options as nvJitLink takes them: `-arch=sm_90`, `-O3`. Gives the code, and
    /// what the library had to say.
    pub fn compile(
        &self,
        ptx: &str,
        options: &[String],
    ) -> Result<(Vec<u8>, String), NvJitLinkError> {
        let ptx = text(ptx.trim_end_matches('\0'))?;
        self.run(
            &[(PTX, ptx.as_bytes_with_nul(), c"ptx".to_owned())],
            options,
        )
    }

    /// Links several inputs: PTX, cubins, code for link-time optimisation (with
    /// the option `-lto`), objects, fatbins and archives.
    pub fn link(
        &self,
        inputs: &[LinkInput<'_>],
        options: &[String],
    ) -> Result<(Vec<u8>, String), NvJitLinkError> {
        let bad = |error: crate::driver::error::Error| NvJitLinkError::BadInput(error.to_string());
        let checked = inputs.iter().map(|input| {
            let name = CString::new(input.name()).unwrap_or_default(); // no name with a NUL
            Ok((
                input_type(input.kind()),
                input.checked().map_err(bad)?,
                name,
            ))
        });
        let checked = checked.collect::<Result<Vec<_>, _>>()?;
        let inputs: Vec<_> = checked
            .iter()
            .map(|(kind, bytes, name)| (*kind, &bytes[..], name.clone()))
            .collect();
        self.run(&inputs, options)
    }

    fn run(
        &self,
        inputs: &[(c_int, &[u8], CString)],
        options: &[String],
    ) -> Result<(Vec<u8>, String), NvJitLinkError> {
        let options: Vec<CString> = options
            .iter()
            .map(|option| text(option))
            .collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut session = Session {
            handle: std::ptr::null_mut(),
            destroy: self.entry("Destroy")?,
        };
        let create: Create = self.entry("Create")?;
        // SAFETY: the options live as long as the call, and there are as many as is said.
        let code = unsafe {
            create(
                &mut session.handle,
                pointers.len() as u32,
                pointers.as_ptr(),
            )
        };
        self.check(&session, code)?;
        let add: AddData = self.entry("AddData")?;
        for (kind, bytes, name) in inputs {
            // SAFETY: the bytes are as many as is said; PTX ends in the NUL that the library
            // reads to, and the headers of binaries stay within them.
            let code = unsafe {
                add(
                    session.handle,
                    *kind,
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    name.as_ptr(),
                )
            };
            self.check(&session, code)?;
        }
        let complete: Complete = self.entry("Complete")?;
        // SAFETY: the session is live.
        let code = unsafe { complete(session.handle) };
        self.check(&session, code)?;
        let cubin = self.read(&session, "GetLinkedCubinSize", "GetLinkedCubin")?;
        let log = self.log(&session, "Info");
        Ok((cubin, log))
    }

    fn check(&self, session: &Session, code: c_int) -> Result<(), NvJitLinkError> {
        match code {
            0 => Ok(()),
            code => Err(NvJitLinkError::Failed {
                code,
                log: self.log(session, "Error"),
            }),
        }
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

    fn read(&self, session: &Session, size: &str, get: &str) -> Result<Vec<u8>, NvJitLinkError> {
        let (size, get) = (self.entry(size)?, self.entry(get)?);
        // SAFETY: the session is live, and the entries have these types in the header.
        let found = unsafe { compiler_library::read(session.handle, size, get) };
        found.map_err(|code| NvJitLinkError::Failed {
            code,
            log: String::new(),
        })
    }
}

fn text(text: &str) -> Result<CString, NvJitLinkError> {
    CString::new(text).map_err(|_| NvJitLinkError::BadInput("there is a NUL in the text".into()))
}

/// A linking session, ended when dropped.
struct Session {
    handle: Handle,
    destroy: Destroy,
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: created once, destroyed once. What it answers changes nothing.
            unsafe { (self.destroy)(&mut self.handle) };
        }
    }
}
