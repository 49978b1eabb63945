//! Kernels with a declared signature, which are launched without `unsafe`.

use std::fmt;
use std::marker::PhantomData;

use crate::driver::error::Error;
use crate::driver::launch::argument::{Arg, Argument, Arguments, list};
use crate::driver::launch::config::LaunchConfig;
use crate::driver::launch::options::LaunchOptions;
use crate::driver::memory::buffer::DeviceBuffer;
use crate::driver::memory::growable::GrowableBuffer;
use crate::driver::memory::ipc::IpcBuffer;
use crate::driver::memory::managed::ManagedBuffer;
use crate::driver::memory::order::Effect;
use crate::driver::memory::pinned::PinnedBuffer;
use crate::driver::memory::slice::{DeviceSlice, DeviceSliceMut};
use crate::driver::memory::tensor_map::map::TensorMap;
use crate::driver::module::kernel::Kernel;
use crate::driver::pod::Pod;
use crate::driver::stream::Stream;
use crate::driver::texture::Texture;
use crate::driver::texture::surface::Surface;

/// A kernel whose parameters have Rust types. Whoever declares them vouches for
/// the kernel, by [`Kernel::typed`]; launches are safe. Clones share the kernel.
///
/// `P` is a tuple of [`Parameter`]s, in the order of the PTX:
///
/// | Rust | PTX | passed |
/// |---|---|---|
/// | a number, or a structure of [`device_param!`](crate::device_param) | the same | itself |
/// | `&[T]`, `&mut [T]` | `.u64` address, `.u64` length in values | `&buffer` or [`DeviceSlice`], `&mut buffer` or [`DeviceSliceMut`] |
/// | `*const T`, `*mut T` | `.u64` address | as above |
/// | [`Count<N>`](Count) | `.u32` or `.u64` | a number, at most the length of each `*const T` and `*mut T` |
/// | [`Texture`], [`Surface`] | `.u64` | a reference |
/// | `&TensorMap`, `&mut TensorMap` | `.align 64 .b8 [128]` | a reference to a [`TensorMap`] |
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, Count, DeviceBuffer, Driver, LaunchConfig, Module, Stream};
///
/// # let ptx = b".version 8.0 .target sm_80 .address_size 64
/// # .visible .entry scale(.param .u64 values, .param .u32 n, .param .f32 factor) {
/// #     .reg .b32 %r<5>; .reg .b64 %rd<4>; .reg .f32 %f<3>; .reg .pred %p;
/// #     mov.u32 %r1, %tid.x; ld.param.u32 %r2, [n]; setp.ge.u32 %p, %r1, %r2; @%p ret;
/// #     ld.param.u64 %rd1, [values]; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
/// #     ld.param.f32 %f1, [factor]; ld.global.f32 %f2, [%rd3]; mul.f32 %f2, %f2, %f1;
/// #     st.global.f32 [%rd3], %f2; ret; }";
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let kernel = Module::load(&context, ptx)?.kernel("scale")?;
/// // SAFETY: `scale(float *values, unsigned n, float factor)` accesses `n` values.
/// let scale = unsafe { kernel.typed::<(*mut f32, Count<u32>, f32)>() }?;
///
/// let stream = Stream::new(&context)?;
/// let mut values = DeviceBuffer::from_slice(&context, &[1.0_f32, 2.0, 3.0])?;
/// scale.launch(LaunchConfig::for_elements(3, 32), &stream, (&mut values, 3, 2.0))?;
/// assert_eq!(values.to_vec()?, [2.0, 4.0, 6.0]);
/// // More values than there are:
/// assert!(scale.launch(LaunchConfig::default(), &stream, (&mut values, 4, 2.0)).is_err());
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
pub struct TypedKernel<P> {
    kernel: Kernel,
    parameters: PhantomData<fn(P)>,
}

/// How many values of each `*const T` and `*mut T` among the parameters a
/// kernel may access: `u32`, `i32`, `u64` or `i64`. A launch refuses a number
/// that is negative, or greater than the length of one of them
/// ([`Error::Length`]).
#[derive(Clone, Copy, Debug)]
pub struct Count<N>(PhantomData<fn(N)>);

/// What a parameter of a [`TypedKernel`] is declared as.
#[diagnostic::on_unimplemented(
    message = "no parameter of a kernel can be declared as `{Self}`",
    note = "declare numbers and structures by value, `*const T`, `*mut T`, `&[T]`, `&mut [T]`, \
            `Count<u32>`, `Texture`, `Surface`, `&TensorMap` or `&mut TensorMap`"
)]
pub trait Parameter: sealed::Parameter {}

/// The PTX parameters that a declared one stands for, without values.
#[cfg(feature = "cache")]
pub(crate) const fn types_of<P: Parameter>() -> &'static [Arg<'static>] {
    P::TYPES
}

/// The parameters of a [`TypedKernel`]: a tuple of up to 32 [`Parameter`]s.
pub trait Parameters: sealed::Parameters {}

/// What can be passed for a parameter that is declared as `P`.
pub trait ArgumentFor<P: Parameter>: sealed::ArgumentFor<P> {}

/// All arguments of a launch, as a tuple: for each parameter of the tuple `P`
/// one.
pub trait ArgumentsFor<P: Parameters>: sealed::ArgumentsFor<P> {}

/// A parameter that is passed by value, as any bits that it may have: a number,
/// or a structure of [`device_param!`](crate::device_param).
pub trait ByValue: Argument + Copy + 'static {}

impl<T: Pod> ByValue for T {}
impl ByValue for bool {}

/// Implemented here alone: an address that is passed must be one of tracked
/// memory, and a length be that memory's.
mod sealed {
    use crate::driver::error::Error;
    use crate::driver::launch::argument::Arg;

    pub trait Parameter {
        /// Size and alignment of the PTX parameters that it stands for.
        const TYPES: &'static [Arg<'static>];

        /// Whether an argument for it shares memory with values that the program has. Others
        /// borrow theirs.
        const SHARES_MEMORY: bool = false;
    }

    pub trait Parameters {
        const TYPES: &'static [&'static [Arg<'static>]];

        /// Whether an argument for one of them [does](Parameter::SHARES_MEMORY).
        const SHARES_MEMORY: bool;
    }

    pub trait ArgumentFor<P> {
        /// Values in the memory that is passed.
        #[inline(always)]
        fn length(&self) -> u64 {
            0
        }

        /// The same of memory that is passed without its length.
        #[inline(always)]
        fn limit(&self) -> Option<u64> {
            None
        }

        /// The number that it is as a [`Count`](super::Count).
        #[inline(always)]
        fn count(&self) -> u64 {
            0
        }

        /// Hands over the PTX arguments that it stands for.
        fn pass<'a>(&'a self, length: &'a u64, take: &mut impl FnMut(Arg<'a>));
    }

    pub trait ArgumentsFor<P> {
        /// The [length](ArgumentFor::length) of each.
        type Lengths;

        /// The lengths, if no count is greater than the memory.
        fn lengths(&self) -> Result<Self::Lengths, Error>;

        fn each<'a>(&'a self, lengths: &'a Self::Lengths, take: impl FnMut(Arg<'a>));
    }

    /// Whether kernels access at most what there is: the least of some lengths.
    #[inline(always)]
    pub fn check_count(count: u64, limits: &[Option<u64>]) -> Result<(), Error> {
        let mut shortest = None;
        for &limit in limits {
            shortest = match (shortest, limit) {
                (Some(least), Some(limit)) => Some(limit.min(least)),
                (least, limit) => least.or(limit),
            };
        }
        // Without such memory there is nothing to access.
        match shortest.unwrap_or(0) {
            shortest if count > shortest => Err(too_many(count, shortest)),
            _ => Ok(()),
        }
    }

    #[cold]
    fn too_many(count: u64, shortest: u64) -> Error {
        let number = |length| usize::try_from(length).unwrap_or(usize::MAX);
        Error::Length {
            what: "values that a kernel may access",
            given: number(count),
            capacity: number(shortest),
        }
    }
}

/// Arguments of a typed kernel, which were checked, as those of any launch.
struct Checked<'a, P: Parameters, A: ArgumentsFor<P>> {
    arguments: &'a A,
    lengths: A::Lengths,
}

impl<'a, P: Parameters, A: ArgumentsFor<P>> Checked<'a, P, A> {
    #[inline(always)]
    fn new(arguments: &'a A) -> Result<Checked<'a, P, A>, Error> {
        let lengths = arguments.lengths()?;
        let checked = Checked { arguments, lengths };
        if const { P::SHARES_MEMORY } {
            check_exclusive(&list(&checked))?;
        }
        Ok(checked)
    }
}

impl<P: Parameters, A: ArgumentsFor<P>> Arguments for Checked<'_, P, A> {
    #[inline(always)]
    fn count(&self) -> usize {
        const {
            let (mut count, mut at) = (0, 0);
            while at < P::TYPES.len() {
                count += P::TYPES[at].len();
                at += 1;
            }
            count
        }
    }

    #[inline(always)]
    fn each<'a>(&'a self, take: impl FnMut(Arg<'a>)) {
        sealed::ArgumentsFor::<P>::each(self.arguments, &self.lengths, take);
    }
}

/// Refuses memory that one argument lets the kernel write, if another is the same memory.
#[inline(never)]
fn check_exclusive(arguments: &[Arg<'_>]) -> Result<(), Error> {
    for (index, argument) in arguments.iter().enumerate() {
        let used = argument.used();
        let Some(written) = used.filter(|used| used.effect == Effect::Write) else {
            continue;
        };
        let mut others = arguments.iter().enumerate();
        let alias = others.find_map(|(other, argument)| {
            let used = argument.used().map(|used| used.part);
            let part = used.or_else(|| argument.object()?.memory())?;
            (other != index && part.overlaps(&written.part)).then_some(other)
        });
        if let Some(other) = alias {
            let written = index;
            return Err(Error::Aliases { written, other });
        }
    }
    Ok(())
}

impl Kernel {
    /// Declares the types of its parameters. Number, sizes and alignment are
    /// checked here, once; a driver before CUDA 12.4 tells them of PTX alone, and
    /// else this is [`Error::EntryMissing`].
    ///
    /// # Safety
    /// The declaration vouches for the kernel, as a `safe fn` in an `unsafe extern`
    /// block does for a function of another language. For all arguments of these
    /// types, whatever the buffers and the module's variables hold and other work
    /// does to them meanwhile, with any grid, block and dynamic shared memory, it
    /// must access nothing but
    /// - the values of a `&[T]` or `&mut [T]` below its length,
    /// - the values of a `*const T` or `*mut T` below each [`Count`],
    /// - textures, surfaces and tensors of tensor maps that it is passed, variables of its
    ///   module,
    /// - shared and local memory, and what it allocates by itself.
    ///
    /// Memory that it is passed as `&mut [T]`, `*mut T` or `&mut TensorMap` is that of no other
    /// argument. It must write `&mut [T]`, `*mut T`, `&mut TensorMap` and surfaces alone of what it is
    /// passed, and must not leave an address of it where a later launch finds it.
    pub unsafe fn typed<P: Parameters>(self) -> Result<TypedKernel<P>, Error> {
        if self.layout().is_none() {
            return Err(self
                .context()
                .api()
                .missing("cuFuncGetParamInfo", 12_040)
                .into());
        }
        self.check_args(&P::TYPES.concat())?;
        Ok(TypedKernel {
            kernel: self,
            parameters: PhantomData,
        })
    }
}

impl<P: Parameters> TypedKernel<P> {
    /// Launches it ([`Kernel::launch`]). What is passed stays allocated until the
    /// kernel is done.
    ///
    /// A tensor map and a texture share their memory with the buffer that they were made of. A
    /// launch refuses one whose memory overlaps an argument that is passed as `&mut`, and a
    /// `&mut` tensor map whose memory overlaps any argument ([`Error::Aliases`]).
    ///
    /// An argument that is passed as `&mut` is written after the call has returned, and
    /// after work of other streams that uses it. Where [that order is turned
    /// off](crate::driver::Context::disable_event_tracking), other work finds old values or
    /// new ones.
    #[inline]
    pub fn launch(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        arguments: impl ArgumentsFor<P>,
    ) -> Result<(), Error> {
        // SAFETY: the arguments have the declared types, for which `typed` was promised this.
        unsafe {
            self.kernel
                .launch(config, stream, Checked::<P, _>::new(&arguments)?)
        }
    }

    /// The same for kernels whose blocks wait for one another
    /// ([`Kernel::launch_cooperative`]).
    pub fn launch_cooperative(
        &self,
        config: LaunchConfig,
        stream: &Stream,
        arguments: impl ArgumentsFor<P>,
    ) -> Result<(), Error> {
        // SAFETY: as for `launch`.
        unsafe {
            self.kernel
                .launch_cooperative(config, stream, Checked::<P, _>::new(&arguments)?)
        }
    }

    /// The same with [options](LaunchOptions) ([`Kernel::launch_with`]).
    pub fn launch_with(
        &self,
        config: LaunchConfig,
        options: &LaunchOptions<'_>,
        stream: &Stream,
        arguments: impl ArgumentsFor<P>,
    ) -> Result<(), Error> {
        // SAFETY: as for `launch`.
        unsafe {
            self.kernel
                .launch_with(config, options, stream, Checked::<P, _>::new(&arguments)?)
        }
    }
}

impl<P> TypedKernel<P> {
    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }
}

impl<P> Clone for TypedKernel<P> {
    fn clone(&self) -> TypedKernel<P> {
        TypedKernel {
            kernel: self.kernel.clone(),
            parameters: PhantomData,
        }
    }
}

impl<P> fmt::Debug for TypedKernel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedKernel").field(&self.kernel).finish()
    }
}

impl<P: sealed::Parameter> Parameter for P {}
impl<P: sealed::Parameters> Parameters for P {}
impl<P: Parameter, A: sealed::ArgumentFor<P>> ArgumentFor<P> for A {}
impl<P: Parameters, A: sealed::ArgumentsFor<P>> ArgumentsFor<P> for A {}

impl<T: ByValue> sealed::Parameter for T {
    const TYPES: &'static [Arg<'static>] = &[Arg::of_type::<T>()];
}

impl<T: ByValue> sealed::ArgumentFor<T> for T {
    #[inline]
    fn pass<'a>(&'a self, _: &'a u64, take: &mut impl FnMut(Arg<'a>)) {
        take(self.arg());
    }
}

impl<T: Pod> sealed::Parameter for &[T] {
    const TYPES: &'static [Arg<'static>] = &[Arg::of_type::<u64>(), Arg::of_type::<u64>()];
}

impl<T: Pod> sealed::Parameter for &mut [T] {
    const TYPES: &'static [Arg<'static>] = <&[T]>::TYPES;
}

impl<T: Pod> sealed::Parameter for *const T {
    const TYPES: &'static [Arg<'static>] = &[Arg::of_type::<u64>()];
}

impl<T: Pod> sealed::Parameter for *mut T {
    const TYPES: &'static [Arg<'static>] = <*const T>::TYPES;
}

macro_rules! memory {
    ($($argument:ty => $slice:ty, $pointer:ty $(, $read_only:ident)?;)*) => { $(
        impl<T: Pod> sealed::ArgumentFor<$slice> for $argument {
            #[inline]
            fn length(&self) -> u64 {
                self.len() as u64
            }

            #[inline]
            fn pass<'a>(&'a self, length: &'a u64, take: &mut impl FnMut(Arg<'a>)) {
                take((**self).arg()$(.$read_only())?);
                take(Arg::value(length));
            }
        }

        impl<T: Pod> sealed::ArgumentFor<$pointer> for $argument {
            #[inline]
            fn limit(&self) -> Option<u64> {
                Some(self.len() as u64)
            }

            #[inline]
            fn pass<'a>(&'a self, _: &'a u64, take: &mut impl FnMut(Arg<'a>)) {
                take((**self).arg()$(.$read_only())?);
            }
        }
    )* };
}

memory! {
    &DeviceBuffer<T> => &[T], *const T, read_only;
    &mut DeviceBuffer<T> => &mut [T], *mut T;
    &DeviceSlice<'_, T> => &[T], *const T, read_only;
    &mut DeviceSliceMut<'_, T> => &mut [T], *mut T;
    &GrowableBuffer<T> => &[T], *const T, read_only;
    &mut GrowableBuffer<T> => &mut [T], *mut T;
    &ManagedBuffer<T> => &[T], *const T, read_only;
    &mut ManagedBuffer<T> => &mut [T], *mut T;
    &PinnedBuffer<T> => &[T], *const T, read_only;
    &mut PinnedBuffer<T> => &mut [T], *mut T;
    &IpcBuffer<T> => &[T], *const T, read_only;
    &mut IpcBuffer<T> => &mut [T], *mut T;
}

macro_rules! counts {
    ($($number:ty)*) => { $(
        impl sealed::Parameter for Count<$number> {
            const TYPES: &'static [Arg<'static>] = &[Arg::of_type::<$number>()];
        }

        impl sealed::ArgumentFor<Count<$number>> for $number {
            #[inline]
            fn count(&self) -> u64 {
                // A kernel may take a negative number for a large one.
                u64::try_from(*self).unwrap_or(u64::MAX)
            }

            #[inline]
            fn pass<'a>(&'a self, _: &'a u64, take: &mut impl FnMut(Arg<'a>)) {
                take(Arg::value(self));
            }
        }
    )* };
}

counts!(u32 i32 u64 i64);

macro_rules! handles {
    ($($object:ty)*) => { $(
        impl sealed::Parameter for $object {
            const TYPES: &'static [Arg<'static>] = &[Arg::of_type::<u64>()];
            const SHARES_MEMORY: bool = true;
        }

        impl sealed::ArgumentFor<$object> for &$object {
            #[inline]
            fn pass<'a>(&'a self, _: &'a u64, take: &mut impl FnMut(Arg<'a>)) {
                take((**self).arg());
            }
        }
    )* };
}

handles!(Texture Surface);

impl sealed::Parameter for &TensorMap {
    const TYPES: &'static [Arg<'static>] = &[Arg::of_type::<api::TensorMap>()];
    const SHARES_MEMORY: bool = true;
}

impl sealed::Parameter for &mut TensorMap {
    const TYPES: &'static [Arg<'static>] = <&TensorMap>::TYPES;
    const SHARES_MEMORY: bool = true;
}

impl sealed::ArgumentFor<&TensorMap> for &TensorMap {
    #[inline]
    fn pass<'a>(&'a self, _: &'a u64, take: &mut impl FnMut(Arg<'a>)) {
        take((**self).arg().read_only());
    }
}

impl sealed::ArgumentFor<&mut TensorMap> for &mut TensorMap {
    #[inline]
    fn pass<'a>(&'a self, _: &'a u64, take: &mut impl FnMut(Arg<'a>)) {
        take((**self).arg());
    }
}

macro_rules! tuples {
    ($($parameter:ident $argument:ident $length:ident),*) => {
        impl<$($parameter: Parameter),*> sealed::Parameters for ($($parameter,)*) {
            const TYPES: &'static [&'static [Arg<'static>]] = &[$($parameter::TYPES),*];
            const SHARES_MEMORY: bool = false $(|| $parameter::SHARES_MEMORY)*;
        }

        impl<$($parameter: Parameter, $argument: ArgumentFor<$parameter>),*>
            sealed::ArgumentsFor<($($parameter,)*)> for ($($argument,)*)
        {
            type Lengths = ($(tuples!(@length $length),)*);

            #[allow(non_snake_case, reason = "the types' names")]
            #[inline(always)]
            fn lengths(&self) -> Result<Self::Lengths, Error> {
                let ($($argument,)*) = self;
                let count = 0_u64$(.max($argument.count()))*;
                sealed::check_count(count, &[$($argument.limit()),*])?;
                Ok(($($argument.length(),)*))
            }

            #[allow(non_snake_case, unused_mut, unused_variables, reason = "the types' names, and a tuple of none")]
            #[inline(always)]
            fn each<'a>(&'a self, lengths: &'a Self::Lengths, mut take: impl FnMut(Arg<'a>)) {
                let ($($argument,)*) = self;
                let ($($length,)*) = lengths;
                $($argument.pass($length, &mut take);)*
            }
        }
    };
    (@length $length:ident) => { u64 };
}

macro_rules! tuples_up_to {
    ($($parameter:ident $argument:ident $length:ident),*; $($next:ident $next_argument:ident $next_length:ident),*) => {
        tuples!($($parameter $argument $length),*);
        tuples_up_to!(@next [$($parameter $argument $length),*] $($next $next_argument $next_length),*);
    };
    (@next [$($done:tt)*]) => {};
    (@next [] $next:ident $a:ident $l:ident $(, $($rest:tt)*)?) => {
        tuples_up_to!($next $a $l; $($($rest)*)?);
    };
    (@next [$($done:tt)+] $next:ident $a:ident $l:ident $(, $($rest:tt)*)?) => {
        tuples_up_to!($($done)+, $next $a $l; $($($rest)*)?);
    };
}

tuples_up_to!(;
    A A1 a, B B1 b, C C1 c, D D1 d, E E1 e, F F1 f, G G1 g, H H1 h,
    I I1 i, J J1 j, K K1 k, L L1 l, M M1 m, N N1 n, O O1 o, P P1 p,
    Q Q1 q, R R1 r, S S1 s, T T1 t, U U1 u, V V1 v, W W1 w, X X1 x,
    Y Y1 y, Z Z1 z, A2 A3 a2, B2 B3 b2, C2 C3 c2, D2 D3 d2, E2 E3 e2, F2 F3 f2);
