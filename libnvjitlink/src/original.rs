//! NVIDIA's nvJitLink.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::LazyLock;

use libloading::Library;
use libraries::Original;

use crate::session::{Input, Linked, Refusal};

const ORIGINAL: Original = Original {
    variable: "PTXKIT_NVJITLINK",
    names: &["libnvJitLink.so.13", "libnvJitLink.so.12"],
    packages: &["nvidia/cu13/lib", "nvidia/nvjitlink/lib"],
    mark: "ptxkitNvJitLink",
};

const INTERNAL: i32 = crate::INTERNAL;

type Handle = *mut c_void;
type GetSize = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;

struct Linker {
    version: unsafe extern "C" fn(*mut c_uint, *mut c_uint) -> c_int,
    create: unsafe extern "C" fn(*mut Handle, c_uint, *const *const c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Handle) -> c_int,
    add: unsafe extern "C" fn(Handle, c_uint, *const c_void, usize, *const c_char) -> c_int,
    complete: unsafe extern "C" fn(Handle) -> c_int,
    cubin: (GetSize, Get),
    ptx: (GetSize, Get),
    ltoir: Option<(GetSize, Get)>,
    errors: (GetSize, Get),
    info: (GetSize, Get),
}

impl Linker {
    fn of(library: &'static Library) -> Result<Linker, libloading::Error> {
        let pair = |name: &str| -> Result<(GetSize, Get), libloading::Error> {
            // SAFETY: the symbols have these types in CUDA's headers; the library stays open.
            unsafe { Ok((*library.get(format!("{name}Size"))?, *library.get(name)?)) }
        };
        // SAFETY: as above.
        unsafe {
            Ok(Linker {
                version: *library.get("nvJitLinkVersion")?,
                create: *library.get("nvJitLinkCreate")?,
                destroy: *library.get("nvJitLinkDestroy")?,
                add: *library.get("nvJitLinkAddData")?,
                complete: *library.get("nvJitLinkComplete")?,
                cubin: pair("nvJitLinkGetLinkedCubin")?,
                ptx: pair("nvJitLinkGetLinkedPtx")?,
                ltoir: pair("nvJitLinkGetLinkedLTOIR").ok(),
                errors: pair("nvJitLinkGetErrorLog")?,
                info: pair("nvJitLinkGetInfoLog")?,
            })
        }
    }
}

fn linker() -> Result<&'static Linker, &'static str> {
    static LINKER: LazyLock<Result<Linker, String>> =
        LazyLock::new(|| Linker::of(ORIGINAL.open()?).map_err(|error| error.to_string()));
    LINKER.as_ref().map_err(String::as_str)
}

/// Its version, where it is there.
pub(crate) fn version() -> Option<(c_uint, c_uint)> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the results go to variables of their types.
    let code = unsafe { (linker().ok()?.version)(&mut major, &mut minor) };
    (code == 0).then_some((major, minor))
}

/// What a session has, or nothing where it has none.
fn get(handle: Handle, (size, get): (GetSize, Get)) -> Option<Vec<u8>> {
    let mut length = 0;
    // SAFETY: the session is open, and the result goes to a variable of its type.
    if unsafe { size(handle, &mut length) } != 0 || length == 0 {
        return None;
    }
    let mut bytes = vec![0u8; length];
    // SAFETY: the buffer has the size that was asked for.
    (unsafe { get(handle, bytes.as_mut_ptr().cast()) } == 0).then_some(bytes)
}

/// Links inputs in a session with these options.
pub(crate) fn link<'a>(
    options: &[String],
    inputs: impl IntoIterator<Item = &'a Input>,
) -> Result<Linked, Refusal> {
    let linker = linker().map_err(|why| Refusal::new(INTERNAL, why))?;
    // Options came as C strings, so they have no NUL.
    let options: Vec<CString> = options
        .iter()
        .flat_map(|option| CString::new(&**option))
        .collect();
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let mut handle = null_mut();
    // SAFETY: an array of as many C strings; the result goes to a variable of its type.
    let code = unsafe { (linker.create)(&mut handle, pointers.len() as c_uint, pointers.as_ptr()) };
    if code != 0 {
        return Err(Refusal::new(
            code,
            format!("NVIDIA's nvJitLink refuses the options: {code}"),
        ));
    }
    // It looks for the end of a text whose kind it is to find out.
    let inputs: Vec<(&Input, Vec<u8>)> = inputs
        .into_iter()
        .map(|input| (input, [&input.bytes[..], b"\0"].concat()))
        .collect();
    let add = |(input, bytes): &(&Input, Vec<u8>)| {
        let name = CString::new(&*input.name).unwrap_or_default();
        let (data, size) = (bytes.as_ptr().cast(), input.bytes.len());
        // SAFETY: as many bytes, and a C string.
        unsafe { (linker.add)(handle, input.kind, data, size, name.as_ptr()) }
    };
    let code = match inputs.iter().map(add).find(|code| *code != 0) {
        Some(code) => code,
        // SAFETY: the session is open.
        None => unsafe { (linker.complete)(handle) },
    };
    let log = |pair| {
        let bytes = get(handle, pair).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        text.trim_end_matches('\0').to_owned()
    };
    let linked = match code {
        0 => Ok(Linked {
            cubin: get(handle, linker.cubin),
            ptx: get(handle, linker.ptx),
            ltoir: linker.ltoir.and_then(|pair| get(handle, pair)),
            info: log(linker.info),
        }),
        code => Err(Refusal::new(code, log(linker.errors))),
    };
    // SAFETY: the session is not used after this.
    unsafe { (linker.destroy)(&mut handle) };
    linked
}
