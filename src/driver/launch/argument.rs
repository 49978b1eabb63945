//! What a kernel is launched with.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use crate::driver::memory::allocation::Allocation;
use crate::driver::module::layout::ParamLayout;
use crate::driver::pod::Pod;
use crate::driver::pod::param::DeviceParam;
use crate::driver::stream::Stream;
use crate::driver::texture::object::Object;

/// One argument: where its bytes lie on the host, until the launch has copied them.
#[derive(Clone, Copy, Debug)]
pub struct Arg<'a> {
    value: *const c_void,
    size: usize,
    align: usize,
    memory: Option<&'a Arc<Allocation>>,
    object: Option<&'a dyn Object>,
    /// Bytes of the value that belong to none of its fields.
    padding: &'static [Range<usize>],
    lifetime: PhantomData<&'a ()>,
}

impl<'a> Arg<'a> {
    /// A scalar or a structure by value.
    #[inline]
    pub fn value<T: Pod>(value: &'a T) -> Arg<'a> {
        Arg {
            value: std::ptr::from_ref(value).cast(),
            size: size_of::<T>(),
            align: align_of::<T>(),
            memory: None,
            object: None,
            padding: &[],
            lifetime: PhantomData,
        }
    }

    /// A structure given by its bytes. Its alignment is not known: `align` is
    /// the one that the PTX declares, and counts for parameter buffers only. It
    /// is at most the size of a parameter space, 32 KiB.
    #[inline]
    pub fn bytes(bytes: &'a [u8], align: usize) -> Arg<'a> {
        Arg {
            value: bytes.as_ptr().cast(),
            size: bytes.len(),
            align: align.clamp(1, 32 << 10),
            memory: None,
            object: None,
            padding: &[],
            lifetime: PhantomData,
        }
    }

    /// A structure with the layout of device code, whose padding is nothing to
    /// read; [`device_param!`](crate::device_param) makes them.
    #[inline]
    pub fn structure<T: DeviceParam>(value: &'a T) -> Arg<'a> {
        Arg {
            value: std::ptr::from_ref(value).cast(),
            size: size_of::<T>(),
            align: align_of::<T>(),
            memory: None,
            object: None,
            padding: T::PADDING,
            lifetime: PhantomData,
        }
    }

    /// The address of `memory`.
    #[inline]
    pub(crate) fn of(memory: &'a Arc<Allocation>) -> Arg<'a> {
        Arg::address(memory.address(), memory)
    }

    /// An address in `memory`.
    #[inline]
    pub(crate) fn address(address: &'a u64, memory: &'a Arc<Allocation>) -> Arg<'a> {
        Arg {
            memory: Some(memory),
            ..Arg::value(address)
        }
    }

    /// The handle of a texture or surface.
    #[inline]
    pub(crate) fn handle(handle: &'a u64, object: &'a dyn Object) -> Arg<'a> {
        Arg {
            object: Some(object),
            ..Arg::value(handle)
        }
    }

    /// Bytes of the value.
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Alignment of the value, in bytes.
    #[inline]
    pub fn align(&self) -> usize {
        self.align
    }

    #[inline]
    pub(crate) fn pointer(&self) -> *mut c_void {
        self.value.cast_mut()
    }

    /// The memory that it points to.
    #[inline]
    pub(crate) fn memory(&self) -> Option<&'a Arc<Allocation>> {
        self.memory
    }

    /// The texture or surface that it stands for.
    #[inline]
    pub(crate) fn object(&self) -> Option<&'a dyn Object> {
        self.object
    }

    /// Whether it may be passed for a parameter.
    #[inline]
    pub(crate) fn matches(&self, param: &ParamLayout) -> bool {
        // Alignments are powers of two.
        self.size == param.size && param.offset & (self.align - 1) == 0
    }

    /// Whether a launch in `stream` has nothing to note for it.
    #[inline]
    pub(crate) fn needs_no_tracking(&self, stream: &Stream) -> bool {
        let memory = self.memory;
        self.object.is_none() && memory.is_none_or(|memory| memory.needs_no_tracking(stream))
    }

    #[inline]
    pub(crate) fn has_padding(&self) -> bool {
        !self.padding.is_empty()
    }

    /// Its value with zeros for padding, which lives as long as `copies`.
    pub(crate) fn without_padding(&self, copies: &mut Vec<Vec<u8>>) -> *mut c_void {
        let mut copy = Vec::with_capacity(self.size);
        self.append_to(&mut copy);
        let pointer = copy.as_mut_ptr().cast();
        copies.push(copy);
        pointer
    }

    /// Appends its bytes, with zeros for padding.
    pub(crate) fn append_to(&self, block: &mut Vec<u8>) {
        let mut at = 0;
        for gap in self.padding {
            block.extend_from_slice(self.field(at, gap.start));
            block.resize(block.len() + gap.len(), 0);
            at = gap.end;
        }
        block.extend_from_slice(self.field(at, self.size));
    }

    /// Bytes between two gaps.
    fn field(&self, start: usize, end: usize) -> &'a [u8] {
        // SAFETY: made from a reference to `size` bytes that lives for `'a`; those outside
        // of gaps are fields, and initialised.
        unsafe { std::slice::from_raw_parts(self.value.cast::<u8>().add(start), end - start) }
    }
}

/// What can stand for a kernel parameter: numbers and structures by value,
/// buffers by their address.
pub trait Argument {
    /// Its bytes.
    fn arg(&self) -> Arg<'_>;
}

impl<T: Pod> Argument for T {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        Arg::value(self)
    }
}

impl Argument for Arg<'_> {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        *self
    }
}

/// All arguments of a launch: a tuple of [`Argument`]s, an array of [`Arg`]s, or
/// a slice of them where their number is known at run time only.
pub trait Arguments {
    /// Hands the arguments to `use_them`.
    fn with<R>(&self, use_them: impl FnOnce(&[Arg<'_>]) -> R) -> R;
}

impl Arguments for [Arg<'_>] {
    #[inline]
    fn with<R>(&self, use_them: impl FnOnce(&[Arg<'_>]) -> R) -> R {
        use_them(self)
    }
}

impl<const N: usize> Arguments for [Arg<'_>; N] {
    #[inline]
    fn with<R>(&self, use_them: impl FnOnce(&[Arg<'_>]) -> R) -> R {
        // A copy is nobody else's, so it stays in registers.
        let arguments = *self;
        use_them(&arguments)
    }
}

impl Arguments for Vec<Arg<'_>> {
    #[inline]
    fn with<R>(&self, use_them: impl FnOnce(&[Arg<'_>]) -> R) -> R {
        use_them(self)
    }
}

impl<A: Arguments + ?Sized> Arguments for &A {
    #[inline]
    fn with<R>(&self, use_them: impl FnOnce(&[Arg<'_>]) -> R) -> R {
        (**self).with(use_them)
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Argument),*> Arguments for ($($name,)*) {
            #[allow(non_snake_case)]
            #[inline]
            fn with<R>(&self, use_them: impl FnOnce(&[Arg<'_>]) -> R) -> R {
                let ($($name,)*) = self;
                use_them(&[$($name.arg()),*])
            }
        }
    };
    ($($name:ident)*; $next:ident $($rest:ident)*) => {
        tuples!($($name)*);
        tuples!($($name)* $next; $($rest)*);
    };
    ($($name:ident)*;) => { tuples!($($name)*); };
}

tuples!(; A B C D E F G H I J K L M N O P);
