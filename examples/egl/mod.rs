//! An OpenGL context without a window or display: EGL makes one on a GPU, where
//! there are its library and a driver behind it.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

use libloading::Library;

type Handle = *mut c_void;

/// An OpenGL context, current on this thread.
pub struct OpenGl {
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
    let vendor = if vendor.is_null() {
        "nobody".into()
    } else {
        // SAFETY: a C string that stays.
        unsafe { CStr::from_ptr(vendor) }
            .to_string_lossy()
            .into_owned()
    };
    Ok(OpenGl { find, vendor })
}

impl OpenGl {
    /// A context of a vendor's driver, or why there is none.
    pub fn of(vendor: &str) -> Result<OpenGl, String> {
        // SAFETY: EGL's own library, which stays.
        let library = unsafe { Library::new("libEGL.so.1") }.map_err(|error| error.to_string())?;
        let library = Box::leak(Box::new(library));
        // SAFETY: the function of that name has this type.
        let find =
            unsafe { library.get(b"eglGetProcAddress\0") }.map_err(|error| error.to_string())?;
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
                Ok(opengl) if opengl.vendor.contains(vendor) => return Ok(opengl),
                Ok(opengl) => reasons.push(format!("one is of {}", opengl.vendor)),
                Err(why) => reasons.push(why),
            }
        }
        Err(reasons.join(", "))
    }
}

const ARRAY_BUFFER: c_uint = 0x8892;

/// Where a texture's texels lie.
#[derive(Clone, Copy)]
pub enum Target {
    /// `GL_TEXTURE_2D`
    Plane = 0x0de1,
    /// `GL_TEXTURE_2D_ARRAY`
    Layers = 0x8c1a,
}

/// What a texel is: for OpenGL to keep, and on the host.
#[derive(Clone, Copy)]
pub struct Format {
    pub kept: c_int,
    pub channels: c_uint,
    pub of: c_uint,
}

/// `GL_R32F`, `GL_RED`, `GL_FLOAT`
pub const R32F: Format = Format {
    kept: 0x822e,
    channels: 0x1903,
    of: 0x1406,
};
/// `GL_RGBA8UI`, `GL_RGBA_INTEGER`, `GL_UNSIGNED_BYTE`
pub const RGBA8UI: Format = Format {
    kept: 0x8d7c,
    channels: 0x8d99,
    of: 0x1401,
};

impl OpenGl {
    /// A buffer object with these numbers.
    pub fn buffer<T: Copy>(&self, numbers: &[T]) -> c_uint {
        let mut name = 0;
        call!(self.find, c"glGenBuffers": fn(c_int, *mut c_uint), 1, &mut name);
        call!(self.find, c"glBindBuffer": fn(c_uint, c_uint), ARRAY_BUFFER, name);
        call!(
            self.find, c"glBufferData": fn(c_uint, isize, *const c_void, c_uint),
            ARRAY_BUFFER, size_of_val(numbers) as isize, numbers.as_ptr().cast(), 0x88e8 // GL_DYNAMIC_DRAW
        );
        name
    }

    /// What a buffer object holds.
    pub fn numbers<T: Copy + Default>(&self, name: c_uint, len: usize) -> Vec<T> {
        let mut numbers = vec![T::default(); len];
        call!(self.find, c"glBindBuffer": fn(c_uint, c_uint), ARRAY_BUFFER, name);
        call!(
            self.find, c"glGetBufferSubData": fn(c_uint, isize, isize, *mut c_void),
            ARRAY_BUFFER, 0, size_of_val(&numbers[..]) as isize, numbers.as_mut_ptr().cast()
        );
        numbers
    }

    /// A texture of so many columns, rows and layers, whose levels hold these texels.
    pub fn texture<T: Copy>(
        &self,
        target: Target,
        format: Format,
        [mut width, mut height, layers]: [c_int; 3],
        levels: &[&[T]],
    ) -> c_uint {
        let (mut name, at) = (0, target as c_uint);
        let last = c_int::try_from(levels.len()).unwrap() - 1;
        call!(self.find, c"glGenTextures": fn(c_int, *mut c_uint), 1, &mut name);
        call!(self.find, c"glBindTexture": fn(c_uint, c_uint), at, name);
        // GL_TEXTURE_MIN_FILTER is GL_NEAREST, and GL_TEXTURE_MAX_LEVEL the last.
        for (parameter, value) in [(0x2801, 0x2600), (0x813d, last)] {
            call!(
                self.find, c"glTexParameteri": fn(c_uint, c_uint, c_int),
                at, parameter, value
            );
        }
        let Format { kept, channels, of } = format;
        for (level, texels) in (0..).zip(levels) {
            let texels = texels.as_ptr().cast();
            match target {
                Target::Plane => call!(
                    self.find,
                    c"glTexImage2D": fn(
                        c_uint, c_int, c_int, c_int, c_int, c_int, c_uint, c_uint, *const c_void
                    ),
                    at, level, kept, width, height, 0, channels, of, texels
                ),
                Target::Layers => call!(
                    self.find,
                    c"glTexImage3D": fn(
                        c_uint, c_int, c_int, c_int, c_int, c_int, c_int, c_uint, c_uint,
                        *const c_void
                    ),
                    at, level, kept, width, height, layers, 0, channels, of, texels
                ),
            }
            (width, height) = ((width / 2).max(1), (height / 2).max(1));
        }
        name
    }

    /// What a level of a texture holds.
    pub fn texels<T: Copy + Default>(
        &self,
        (target, name): (Target, c_uint),
        format: Format,
        level: c_int,
        len: usize,
    ) -> Vec<T> {
        let mut texels = vec![T::default(); len];
        let at = target as c_uint;
        call!(self.find, c"glBindTexture": fn(c_uint, c_uint), at, name);
        call!(
            self.find, c"glGetTexImage": fn(c_uint, c_int, c_uint, c_uint, *mut c_void),
            at, level, format.channels, format.of, texels.as_mut_ptr().cast()
        );
        texels
    }
}
