//! The part of OpenCL that runs a kernel on PoCL's CPU device.

use std::ffi::{CStr, CString, c_char, c_void};

use libloading::Library;

/// A platform, a device, a context and so on.
type Handle = *mut c_void;
type Failure = Box<dyn std::error::Error>;

const PLATFORM_NAME: u32 = 0x0902;
const CPU: u64 = 1 << 1;
const COPY: u64 = 1 << 5;
const READ_WRITE: u64 = 1;

/// PoCL's CPU device, a queue of it, and the kernels of a program.
pub struct OpenCl {
    library: Library,
    context: Handle,
    queue: Handle,
    program: Handle,
}

/// An argument of a kernel.
pub enum Argument {
    Buffer(Handle),
    Word([u8; 4]),
}

macro_rules! call {
    ($library:expr, $name:literal, ($($ty:ty),*) -> $result:ty, $($argument:expr),*) => {{
        // SAFETY: OpenCL declares the function so, and the arguments are what it asks for.
        unsafe {
            let function = $library.get::<unsafe extern "C" fn($($ty),*) -> $result>($name)?;
            function($($argument),*)
        }
    }};
}

fn check(what: &str, code: i32) -> Result<(), Failure> {
    match code {
        0 => Ok(()),
        _ => Err(format!("OpenCL: {what} fails with {code}").into()),
    }
}

impl OpenCl {
    /// Builds a program for PoCL's device; `None` where PoCL is not installed.
    pub fn new(source: &str) -> Result<Option<OpenCl>, Failure> {
        // SAFETY: the initialisers of the loader of OpenCL are trusted.
        let Ok(library) = (unsafe { Library::new("libOpenCL.so.1") }) else {
            return Ok(None);
        };
        let mut platforms: [Handle; 8] = [std::ptr::null_mut(); 8];
        let mut count = 0_u32;
        call!(library, b"clGetPlatformIDs", (u32, *mut Handle, *mut u32) -> i32, 8, platforms.as_mut_ptr(), &raw mut count);
        let mut pocl = None;
        for &platform in platforms.iter().take(count as usize) {
            let mut name = [0 as c_char; 256];
            let code = call!(library, b"clGetPlatformInfo", (Handle, u32, usize, *mut c_char, *mut usize) -> i32,
                platform, PLATFORM_NAME, name.len(), name.as_mut_ptr(), std::ptr::null_mut());
            check("the name of a platform", code)?;
            // SAFETY: it is terminated.
            let name = unsafe { CStr::from_ptr(name.as_ptr()) };
            if name.to_bytes() == b"Portable Computing Language" {
                pocl = Some(platform);
            }
        }
        let Some(platform) = pocl else {
            return Ok(None);
        };
        let null = std::ptr::null_mut::<c_void>;
        let (mut device, mut code) = (null(), 0_i32);
        let found = call!(library, b"clGetDeviceIDs", (Handle, u64, u32, *mut Handle, *mut u32) -> i32,
            platform, CPU, 1, &raw mut device, std::ptr::null_mut());
        check("a CPU device", found)?;
        let context = call!(library, b"clCreateContext",
            (Handle, u32, *const Handle, Handle, Handle, *mut i32) -> Handle,
            null(), 1, &raw const device, null(), null(), &raw mut code);
        check("a context", code)?;
        let queue = call!(library, b"clCreateCommandQueue", (Handle, Handle, u64, *mut i32) -> Handle,
            context, device, 0, &raw mut code);
        check("a queue", code)?;
        let text = CString::new(source)?;
        let texts = [text.as_ptr()];
        let program = call!(library, b"clCreateProgramWithSource",
            (Handle, u32, *const *const c_char, *const usize, *mut i32) -> Handle,
            context, 1, texts.as_ptr(), std::ptr::null(), &raw mut code);
        check("a program", code)?;
        let built = call!(library, b"clBuildProgram",
            (Handle, u32, *const Handle, *const c_char, Handle, Handle) -> i32,
            program, 1, &raw const device, c"-cl-std=CL1.2".as_ptr(), null(), null());
        check("the build of the program", built)?;
        Ok(Some(OpenCl {
            library,
            context,
            queue,
            program,
        }))
    }

    /// A buffer with these bytes.
    pub fn buffer(&self, bytes: &[u8]) -> Result<Handle, Failure> {
        let mut code = 0_i32;
        let buffer = call!(self.library, b"clCreateBuffer", (Handle, u64, usize, *const u8, *mut i32) -> Handle,
            self.context, READ_WRITE | COPY, bytes.len(), bytes.as_ptr(), &raw mut code);
        check("a buffer", code)?;
        Ok(buffer)
    }

    pub fn release(&self, buffer: Handle) -> Result<(), Failure> {
        let code = call!(self.library, b"clReleaseMemObject", (Handle) -> i32, buffer);
        check("the end of a buffer", code)
    }

    /// The bytes of a buffer.
    pub fn read(&self, buffer: Handle, bytes: &mut [u8]) -> Result<(), Failure> {
        let null = std::ptr::null_mut::<c_void>;
        let code = call!(self.library, b"clEnqueueReadBuffer",
            (Handle, Handle, u32, usize, usize, *mut u8, u32, Handle, Handle) -> i32,
            self.queue, buffer, 1, 0, bytes.len(), bytes.as_mut_ptr(), 0, null(), null());
        check("a copy", code)
    }

    /// A kernel with its arguments.
    pub fn kernel(&self, name: &str, arguments: &[Argument]) -> Result<Handle, Failure> {
        let (name, mut code) = (CString::new(name)?, 0_i32);
        let kernel = call!(self.library, b"clCreateKernel", (Handle, *const c_char, *mut i32) -> Handle,
            self.program, name.as_ptr(), &raw mut code);
        check("a kernel", code)?;
        for (number, argument) in (0..).zip(arguments) {
            let (size, value): (usize, *const c_void) = match argument {
                Argument::Buffer(buffer) => {
                    (size_of::<Handle>(), std::ptr::from_ref(buffer).cast())
                }
                Argument::Word(bytes) => (bytes.len(), bytes.as_ptr().cast()),
            };
            let code = call!(self.library, b"clSetKernelArg", (Handle, u32, usize, *const c_void) -> i32,
                kernel, number, size, value);
            check("an argument", code)?;
        }
        Ok(kernel)
    }

    /// Runs a kernel to its end.
    pub fn run(&self, kernel: Handle, grid: [u32; 3], block: [u32; 3]) -> Result<(), Failure> {
        let null = std::ptr::null_mut::<c_void>;
        let local = block.map(|n| n as usize);
        let global = [0, 1, 2].map(|axis| grid[axis] as usize * local[axis]);
        let code = call!(self.library, b"clEnqueueNDRangeKernel",
            (Handle, Handle, u32, *const usize, *const usize, *const usize, u32, Handle, Handle) -> i32,
            self.queue, kernel, 3, std::ptr::null(), global.as_ptr(), local.as_ptr(), 0, null(), null());
        check("a launch", code)?;
        let code = call!(self.library, b"clFinish", (Handle) -> i32, self.queue);
        check("the end of a kernel", code)
    }
}
