//! Buffers of OpenGL in kernels, drawn by nobody: EGL makes an OpenGL context
//! without a display, where there are its library and a driver behind it.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

use libloading::Library;
use ptxkit::driver::opengl::{self, Access, Rendering};
use ptxkit::driver::{CudaError, LaunchConfig, Module, Stream};

use crate::kernels::PLACE;
use crate::support::{context, device, is_gpu};

type Handle = *mut c_void;

/// An OpenGL context, current on this thread.
struct OpenGl {
    find: unsafe extern "C" fn(*const c_char) -> *mut c_void,
    vendor: String,
}

/// Calls a function of EGL's or OpenGL's by its name and type.
macro_rules! call {
    ($find:expr, $name:literal: fn($($type:ty),*) $(-> $result:ty)?, $($argument:expr),*) => {{
        // SAFETY: `eglGetProcAddress` takes a C string.
        let address = unsafe { $find($name.as_ptr()) };
        assert!(!address.is_null(), "{:?}", $name);
        // SAFETY: the function of that name has this type; its arguments are the test's own.
        unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) $(-> $result)?>(
                address,
            )($($argument),*)
        }
    }};
}

/// An OpenGL context of the given EGL device, or why there is none.
fn current_on(
    find: unsafe extern "C" fn(*const c_char) -> *mut c_void,
    device: Handle,
) -> Result<OpenGl, String> {
    const PLATFORM_DEVICE: c_uint = 0x313f;
    const NONE: c_int = 0x3038;
    let display = call!(
        find, c"eglGetPlatformDisplayEXT": fn(c_uint, Handle, *const c_int) -> Handle,
        PLATFORM_DEVICE, device, null()
    );
    if display.is_null() {
        return Err("no display".into());
    }
    let begun = call!(
        find, c"eglInitialize": fn(Handle, *mut c_int, *mut c_int) -> c_uint,
        display, null_mut(), null_mut()
    );
    if begun == 0 {
        return Err("eglInitialize failed".into());
    }
    call!(find, c"eglBindAPI": fn(c_uint) -> c_uint, 0x30a2); // EGL_OPENGL_API
    // EGL_SURFACE_TYPE: pixel buffers; EGL_RENDERABLE_TYPE: OpenGL.
    let wanted = [0x3033, 1, 0x3040, 8, NONE];
    let (mut config, mut count) = (null_mut(), 0);
    call!(
        find,
        c"eglChooseConfig": fn(Handle, *const c_int, *mut Handle, c_int, *mut c_int) -> c_uint,
        display, wanted.as_ptr(), &mut config, 1, &mut count
    );
    if count == 0 {
        return Err("no configuration".into());
    }
    let context = call!(
        find, c"eglCreateContext": fn(Handle, Handle, Handle, *const c_int) -> Handle,
        display, config, null_mut(), [NONE].as_ptr()
    );
    let size = [0x3057, 1, 0x3056, 1, NONE];
    let surface = call!(
        find, c"eglCreatePbufferSurface": fn(Handle, Handle, *const c_int) -> Handle,
        display, config, size.as_ptr()
    );
    let made = call!(
        find, c"eglMakeCurrent": fn(Handle, Handle, Handle, Handle) -> c_uint,
        display, surface, surface, context
    );
    if made == 0 {
        return Err("eglMakeCurrent failed".into());
    }
    let vendor = call!(find, c"glGetString": fn(c_uint) -> *const c_char, 0x1f00);
    // SAFETY: null or a C string that stays.
    let vendor = match vendor.is_null() {
        true => "nobody".into(),
        false => unsafe { CStr::from_ptr(vendor) }
            .to_string_lossy()
            .into_owned(),
    };
    Ok(OpenGl { find, vendor })
}

/// An OpenGL context of the vendor wanted, or why there is none.
fn opengl_of(wanted: &str) -> Result<OpenGl, String> {
    // SAFETY: EGL's own library, which stays.
    let library = unsafe { Library::new("libEGL.so.1") }.map_err(|error| error.to_string())?;
    let library = Box::leak(Box::new(library));
    // SAFETY: the function of that name has this type.
    let find = unsafe { library.get(b"eglGetProcAddress\0") }.map_err(|error| error.to_string())?;
    let find: unsafe extern "C" fn(*const c_char) -> *mut c_void = *find;
    let (mut devices, mut count) = ([null_mut(); 16], 0);
    // SAFETY: `eglGetProcAddress` takes a C string.
    if unsafe { find(c"eglQueryDevicesEXT".as_ptr()) }.is_null() {
        return Err("EGL has no devices".into());
    }
    call!(
        find, c"eglQueryDevicesEXT": fn(c_int, *mut Handle, *mut c_int) -> c_uint,
        16, devices.as_mut_ptr(), &mut count
    );
    let mut reasons = vec![format!("{count} EGL devices")];
    for device in &devices[..usize::try_from(count).unwrap()] {
        match current_on(find, *device) {
            Ok(opengl) if opengl.vendor.contains(wanted) => return Ok(opengl),
            Ok(opengl) => reasons.push(format!("one is of {}", opengl.vendor)),
            Err(why) => reasons.push(why),
        }
    }
    Err(reasons.join(", "))
}

const ARRAY_BUFFER: c_uint = 0x8892;

impl OpenGl {
    /// A buffer object with these numbers.
    fn buffer(&self, numbers: &[u32]) -> c_uint {
        let mut name = 0;
        call!(self.find, c"glGenBuffers": fn(c_int, *mut c_uint), 1, &mut name);
        call!(self.find, c"glBindBuffer": fn(c_uint, c_uint), ARRAY_BUFFER, name);
        call!(
            self.find, c"glBufferData": fn(c_uint, isize, *const u32, c_uint),
            ARRAY_BUFFER, size_of_val(numbers) as isize, numbers.as_ptr(), 0x88e8 // GL_DYNAMIC_DRAW
        );
        name
    }

    fn numbers(&self, name: c_uint, len: usize) -> Vec<u32> {
        let mut numbers = vec![0_u32; len];
        call!(self.find, c"glBindBuffer": fn(c_uint, c_uint), ARRAY_BUFFER, name);
        call!(
            self.find, c"glGetBufferSubData": fn(c_uint, isize, isize, *mut u32),
            ARRAY_BUFFER, 0, size_of_val(&numbers[..]) as isize, numbers.as_mut_ptr()
        );
        numbers
    }
}

#[test]
fn a_kernel_writes_a_buffer_of_opengl() {
    let context = context();
    if !is_gpu() {
        // Whether there is an OpenGL context or not.
        let name = opengl_of("").map_or(1, |opengl| opengl.buffer(&[0; 8]));
        // SAFETY: the buffer lives as long as the process.
        let error = unsafe { opengl::Buffer::register(&context, name, Access::ReadWrite) };
        for error in [
            error.unwrap_err(),
            // SAFETY: as above.
            unsafe {
                let used = opengl::ImageUse::default();
                opengl::Image::register(&context, name, 0x0de1, Access::ReadOnly, used)
            }
            .unwrap_err(),
            opengl::devices(device().driver(), Rendering::All).unwrap_err(),
        ] {
            assert_eq!(error.code(), Some(CudaError::NOT_SUPPORTED), "{error}");
            assert!(error.to_string().contains("OpenGL"), "{error}");
        }
        return;
    }
    let opengl = match opengl_of("NVIDIA") {
        Ok(opengl) => opengl,
        Err(why) => {
            eprintln!("OpenGL is left out: {why}");
            // Without a context of OpenGL the driver refuses, and nothing crashes.
            // SAFETY: no object is registered.
            unsafe { opengl::Buffer::register(&context, 1, Access::ReadWrite) }.unwrap_err();
            return;
        }
    };
    assert!(
        !opengl::devices(device().driver(), Rendering::All)
            .unwrap()
            .is_empty()
    );
    let name = opengl.buffer(&[77; 8]);
    let stream = Stream::new(&context).unwrap();
    let place = Module::load(&context, PLACE.as_bytes())
        .unwrap()
        .kernel("place")
        .unwrap();
    // SAFETY: the OpenGL context is current, and the object lives as long as the process.
    let mut buffer =
        unsafe { opengl::Buffer::register(&context, name, Access::ReadWrite) }.unwrap();
    for _ in 0..2 {
        let mapped = buffer.map(&stream).unwrap();
        assert_eq!(mapped.bytes(), 32);
        place
            .launch(LaunchConfig::new([2, 1, 1], [4, 1, 1]), &stream, (&mapped,))
            .unwrap();
        mapped.unmap().unwrap();
    }
    assert_eq!(opengl.numbers(name, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
    buffer.set_access(Access::WriteDiscard).unwrap();
    drop(buffer);
    assert_eq!(opengl.numbers(name, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
}
