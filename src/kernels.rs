//! Kernels whose PTX is read and checked while the program is compiled: [`kernels!`](crate::kernels!).

use std::fmt;
use std::sync::OnceLock;

use crate::driver::layout_check::{Part, fail};
use crate::driver::{self, DeviceSlice, DeviceSliceMut, Parameter, Parameters, TypedKernel};
use crate::loader::{LoadError, SlicedModule};

#[cfg(feature = "macros")]
#[doc(hidden)]
pub use macros::declare_kernels;

/// Declares kernels of a PTX file. It is read and checked while the program is compiled, and
/// each declaration with it.
///
/// ```
/// use ptxkit::cache::Cache;
/// use ptxkit::driver::{Context, Count, DeviceBuffer, DeviceSlice, LaunchConfig, Stream};
/// use ptxkit::driver::{Selection, select};
/// use ptxkit::loader::Loader;
///
/// ptxkit::kernels! {
///     /// PTX as text; `pub mod scaling in "scaling.ptx";` is that of a file.
///     pub mod scaling = "
///         .version 8.0 .target sm_80 .address_size 64
///         .visible .entry scale(.param .u64 values, .param .u32 n, .param .f32 factor) {
///             .reg .b32 %r<5>; .reg .b64 %rd<4>; .reg .f32 %f<3>; .reg .pred %p;
///             mov.u32 %r1, %tid.x;
///             ld.param.u32 %r2, [n];
///             setp.ge.u32 %p, %r1, %r2;
///             @%p ret;
///             ld.param.u64 %rd1, [values];
///             mul.wide.u32 %rd2, %r1, 4;
///             add.u64 %rd3, %rd1, %rd2;
///             ld.param.f32 %f1, [factor];
///             ld.global.f32 %f2, [%rd3];
///             mul.f32 %f2, %f2, %f1;
///             st.global.f32 [%rd3], %f2;
///             ret;
///         }";
///
///     unsafe extern {
///         /// Multiplies the first `n` values with `factor`.
///         // SAFETY: it accesses `n` values.
///         pub safe fn scale(values: &mut DeviceSlice<f32>, n: Count<u32>, factor: f32);
///     }
/// }
///
/// # #[cfg(not(feature = "cpu"))] fn main() {}
/// # #[cfg(feature = "cpu")]
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let context = Context::primary(&select(Selection::Cpu)?.device)?;
///     let stream = Stream::new(&context)?;
///     let mut values = DeviceBuffer::from_slice(&context, &[1.0_f32, 2.0, 3.0])?;
///
///     let kernels = scaling::load(&Loader::new(context, Cache::from_environment()))?;
///     kernels.scale(LaunchConfig::for_elements(3, 32), &stream, &mut values, 3, 2.0)?;
///     assert_eq!(values.to_vec()?, [2.0, 4.0, 6.0]);
///     Ok(())
/// }
/// ```
///
/// # The PTX
///
/// It stands behind the name of the module:
///
/// - `in "vector.ptx"`: a file, relative to the one that this is written in;
/// - `= "…"`, `= r#"…"#`: the text;
/// - `source = "vector.cu"`: a file of CUDA C++, which `build.rs` compiles by
///   `ptxkit_nvcc::compile("vector.cu")`.
///
/// An error in it is an error of the compiler, with the line of the PTX. A file that has
/// changed is read again by the next build.
///
/// # The declarations
///
/// They are Rust's for functions of other languages. `safe fn` vouches for a kernel as
/// [`Kernel::typed`](driver::Kernel::typed) does, of which the section "Safety" holds here; a
/// method without `unsafe` launches it. `fn` does not, and its method is `unsafe`. Where
/// `unsafe_code` is forbidden, so is `unsafe extern`: declare kernels in another crate, or in
/// a module that allows it where it is denied.
///
/// A parameter is what a [`TypedKernel`] has, and `&DeviceSlice<T>` and
/// `&mut DeviceSlice<T>` are `*const T` and `*mut T`. Its method takes buffers and parts of
/// them: what is written is passed as `&mut`, so that nothing else of the call can be the same
/// memory. Number, sizes and alignment are compared with the `.entry`, and a parameter with
/// `.ptr` is an address in `.global`; a launch refuses one that is not a multiple of `.ptr
/// .align`. A plain number can be any number: a number of values is
/// a [`Count`](driver::Count). [`&TensorMap`](driver::TensorMap) is a `.align 64 .b8 map[128]`
/// that the kernel reads through, `&mut TensorMap` one that it writes through.
///
/// - `#[link_name = "_Z5scalePfjf"]` is the name in the PTX, where it is another.
/// - `#[block(16, 16)]` is the only block that the kernel is launched with. It is compared with
///   `.reqntid` and `.maxntid`, and every launch with it.
/// - `#[cooperative]`: blocks of the kernel wait for one another.
///
/// # The module
///
/// - `Kernels` has a method for each kernel, a public field ([`DeclaredKernel`]) for each that
///   is `safe`, `module()`, which is the [`SlicedModule`], and `prepare()`, which compiles
///   what is declared.
/// - `load(&loader)` and `load_with(&loader, &options)` return it. A kernel is compiled, or
///   found in the cache, when it is first launched.
/// - `SOURCE` is the PTX with its digest, which was computed by the compiler.
#[cfg(feature = "macros")]
#[macro_export]
macro_rules! kernels {
    ($($declarations:tt)*) => {
        $crate::kernels::declare_kernels! { $crate $($declarations)* }
    };
}

/// A kernel that [`kernels!`](crate::kernels!) declares `safe`. Clones share it.
pub struct DeclaredKernel<P> {
    module: SlicedModule,
    name: &'static str,
    block: Option<[u32; 3]>,
    /// `.ptr .align` of each parameter; none where all are 1.
    pointer_aligns: &'static [u32],
    kernel: OnceLock<TypedKernel<P>>,
}

impl<P: Parameters> DeclaredKernel<P> {
    /// # Safety
    /// As for [`Kernel::typed`](driver::Kernel::typed), with blocks of this size if there is
    /// one.
    #[doc(hidden)]
    pub unsafe fn new(
        module: &SlicedModule,
        name: &'static str,
        block: Option<[u32; 3]>,
        pointer_aligns: &'static [u32],
    ) -> Self {
        DeclaredKernel {
            module: module.clone(),
            name,
            block,
            pointer_aligns,
            kernel: OnceLock::new(),
        }
    }

    /// The kernel. The first call compiles it, or finds it in the cache, and loads it.
    #[inline]
    pub fn get(&self) -> Result<&TypedKernel<P>, LoadError> {
        match self.kernel.get() {
            Some(kernel) => Ok(kernel),
            None => self.load(),
        }
    }

    #[cold]
    fn load(&self) -> Result<&TypedKernel<P>, LoadError> {
        let kernel = self.module.kernel(self.name)?;
        let kernel = match (self.block, self.pointer_aligns) {
            (None, []) => kernel,
            (block, aligns) => kernel.with_declaration(block, aligns),
        };
        // SAFETY: the caller of `new` promised it.
        let typed = unsafe { kernel.typed() }?;
        Ok(self.kernel.get_or_init(|| typed))
    }
}

impl<P> Clone for DeclaredKernel<P> {
    fn clone(&self) -> DeclaredKernel<P> {
        DeclaredKernel {
            module: self.module.clone(),
            kernel: self.kernel.clone(),
            ..*self
        }
    }
}

impl<P> fmt::Debug for DeclaredKernel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("DeclaredKernel");
        debug
            .field("name", &self.name)
            .field("kernel", &self.kernel);
        debug.finish_non_exhaustive()
    }
}

/// Compares a declared parameter with those of the PTX: sizes, alignments and declarations.
#[doc(hidden)]
pub const fn check_parameter<P: Parameter>(declared: &str, entry: &[(usize, usize, &str)]) {
    let types = driver::types_of::<P>();
    if types.len() != entry.len() {
        fail(&[
            Part::Text("`"),
            Part::Text(declared),
            Part::Text("` is two parameters of a kernel: write it as `&[T]` or `&mut [T]`"),
        ]);
    }
    let mut index = 0;
    while index < entry.len() {
        let (size, align, param) = entry[index];
        let given = &types[index];
        if given.size() != size {
            differs(param, " has ", size, declared, given.size());
        }
        if given.align() > align {
            differs(param, " is aligned to ", align, declared, given.align());
        }
        index += 1;
    }
}

const fn differs(param: &str, what: &str, expected: usize, declared: &str, given: usize) -> ! {
    fail(&[
        Part::Text(param),
        Part::Text(what),
        Part::Number(expected),
        Part::Text(" bytes, `"),
        Part::Text(declared),
        Part::Text("` "),
        Part::Text(what.trim_ascii_start()),
        Part::Number(given),
    ])
}

mod sealed {
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a slice of device memory",
        note = "import `ptxkit::driver::DeviceSlice`"
    )]
    pub trait SliceReference {}
}

impl<T> sealed::SliceReference for &DeviceSlice<'_, T> {}
impl<T> sealed::SliceReference for &mut DeviceSlice<'_, T> {}
impl<T> sealed::SliceReference for &mut DeviceSliceMut<'_, T> {}

/// Takes what a declaration writes as a slice of device memory.
#[doc(hidden)]
pub const fn check_slice<S: sealed::SliceReference>() {}
