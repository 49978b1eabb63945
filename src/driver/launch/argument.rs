//! What a kernel is launched with.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::driver::memory::allocation::Allocation;
use crate::driver::memory::order::{Effect, Part};
use crate::driver::memory::uses::Use;
use crate::driver::module::layout::{ParamSlot, low_bits};
use crate::driver::pod::Pod;
use crate::driver::pod::boolean::Bool;
use crate::driver::pod::param::{self, DeviceParam};
use crate::driver::stream::Stream;
use crate::driver::texture::object::Object;

/// One argument: where its bytes lie on the host, until the launch has copied them.
#[derive(Clone, Copy, Debug)]
pub struct Arg<'a> {
    value: *const c_void,
    size: usize,
    align: u32,
    effect: Effect,
    memory: Option<&'a Arc<Allocation>>,
    /// What the kernel uses of the memory: an address, and bytes from there on.
    start: u64,
    extent: usize,
    object: Option<&'a dyn Object>,
    /// Of a structure with padding: what writes its fields.
    structure: Option<&'a dyn DeviceParam>,
    lifetime: PhantomData<&'a ()>,
}

impl<'a> Arg<'a> {
    /// A scalar or a structure by value.
    #[inline]
    pub fn value<T: Pod>(value: &'a T) -> Arg<'a> {
        Arg {
            value: std::ptr::from_ref(value).cast(),
            size: size_of::<T>(),
            align: align_of::<T>() as u32,
            effect: Effect::Write,
            memory: None,
            start: 0,
            extent: 0,
            object: None,
            structure: None,
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
            align: align.clamp(1, 32 << 10) as u32,
            effect: Effect::Write,
            memory: None,
            start: 0,
            extent: 0,
            object: None,
            structure: None,
            lifetime: PhantomData,
        }
    }

    /// A structure with the layout of device code, which
    /// [`device_param!`](crate::device_param) defines.
    #[inline]
    pub fn structure<T: DeviceParam>(value: &'a T) -> Arg<'a> {
        Arg {
            value: std::ptr::from_ref(value).cast(),
            size: size_of::<T>(),
            align: align_of::<T>() as u32,
            effect: Effect::Write,
            memory: None,
            start: 0,
            extent: 0,
            object: None,
            structure: Some(value),
            lifetime: PhantomData,
        }
    }

    /// The address of `memory`.
    #[inline]
    pub(crate) fn of(memory: &'a Arc<Allocation>) -> Arg<'a> {
        Arg::address(memory.address(), memory.bytes(), memory)
    }

    /// The address of so many bytes in `memory`.
    #[inline]
    pub(crate) fn address(address: &'a u64, extent: usize, memory: &'a Arc<Allocation>) -> Arg<'a> {
        Arg::using(address, *address, extent, memory)
    }

    /// A value without padding, by which the kernel uses so many bytes of `memory` from `start`
    /// on.
    #[inline]
    pub(crate) fn using<T>(
        value: &'a T,
        start: u64,
        extent: usize,
        memory: &'a Arc<Allocation>,
    ) -> Arg<'a> {
        Arg {
            value: std::ptr::from_ref(value).cast(),
            memory: Some(memory),
            start,
            extent,
            ..Arg::of_type::<T>()
        }
    }

    /// The same for memory that the kernel reads and does not write: launches in other streams
    /// that read it too do not wait for this one.
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{Context, DeviceBuffer, Driver};
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let weights = DeviceBuffer::from_slice(&context, &[1.0_f32, 2.0])?;
    /// let argument = weights.arg().read_only(); // for `Kernel::launch`
    /// # let _ = argument;
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    #[inline]
    pub fn read_only(self) -> Arg<'a> {
        Arg {
            effect: Effect::Read,
            ..self
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
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Alignment of the value, in bytes.
    #[inline]
    pub const fn align(&self) -> usize {
        self.align as usize
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

    /// The same as what the kernel uses.
    pub(crate) fn used(&self) -> Option<Use<'a>> {
        self.memory.map(|memory| Use {
            memory,
            part: Part::new(self.start, self.extent),
            effect: self.effect,
        })
    }

    /// The texture or surface that it stands for.
    #[inline]
    pub(crate) fn object(&self) -> Option<&'a dyn Object> {
        self.object
    }

    /// 0 if it may be passed for a parameter.
    #[inline(always)]
    pub(crate) fn difference(&self, slot: &ParamSlot) -> u32 {
        slot.difference(self.size, self.align()) | slot.wrong_bits(self.start)
    }

    /// Whether its type may be that of a parameter at this offset.
    #[inline]
    pub(crate) fn may_stand_at(&self, offset: usize) -> bool {
        offset & low_bits(self.align()) == 0
    }

    /// Whether a launch in `stream`, which has this identity, has nothing to do for it but to pass
    /// it.
    #[inline(always)]
    pub(crate) fn needs_no_tracking(&self, stream: &Stream, identity: *mut ()) -> bool {
        let memory = self.memory;
        self.object.is_none()
            && self.structure.is_none()
            && memory.is_none_or(|memory| memory.needs_no_tracking(stream, identity, self.effect))
    }

    /// Whether its bytes may be read only by its fields.
    #[inline]
    pub(crate) fn is_structure(&self) -> bool {
        self.structure.is_some()
    }

    /// A copy of its value with zeros for padding, which lives as long as `copies`.
    pub(crate) fn copied_to(&self, copies: &mut Vec<Vec<u8>>) -> *mut c_void {
        let mut copy = Vec::with_capacity(self.size);
        self.append_to(&mut copy);
        let pointer = copy.as_mut_ptr().cast();
        copies.push(copy);
        pointer
    }

    /// Appends its bytes, with zeros for padding.
    pub(crate) fn append_to(&self, block: &mut Vec<u8>) {
        let Some(structure) = self.structure else {
            // SAFETY: made from a reference to `size` bytes that lives for `'a`, of a type without
            // padding.
            let bytes = unsafe { std::slice::from_raw_parts(self.value.cast::<u8>(), self.size) };
            return block.extend_from_slice(bytes);
        };
        let start = block.len();
        block.resize(start + self.size, 0);
        param::write(structure, &mut block[start..]);
    }

    /// What a parameter of such a size and alignment takes, without a value.
    pub(crate) const fn of_type<T>() -> Arg<'static> {
        Arg {
            value: std::ptr::null(),
            size: size_of::<T>(),
            align: align_of::<T>() as u32,
            effect: Effect::Write,
            memory: None,
            start: 0,
            extent: 0,
            object: None,
            structure: None,
            lifetime: PhantomData,
        }
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

/// A `.u8` parameter of a kernel, 0 or 1.
impl Argument for bool {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        match self {
            true => Arg::value(&Bool(1)),
            false => Arg::value(&Bool(0)),
        }
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
    /// How many [`each`](Arguments::each) hands over.
    fn count(&self) -> usize;

    /// Hands them to `take`, in order.
    // No list of them: of a tuple each then stays in registers.
    fn each<'a>(&'a self, take: impl FnMut(Arg<'a>));
}

/// The arguments as a list, with what they are when they are asked for once.
pub(crate) fn list(arguments: &(impl Arguments + ?Sized)) -> Vec<Arg<'_>> {
    let mut list = Vec::new();
    arguments.each(|arg| list.push(arg));
    list
}

impl Arguments for [Arg<'_>] {
    #[inline(always)]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn each<'a>(&'a self, take: impl FnMut(Arg<'a>)) {
        self.iter().copied().for_each(take);
    }
}

impl<const N: usize> Arguments for [Arg<'_>; N] {
    #[inline(always)]
    fn count(&self) -> usize {
        N
    }

    #[inline(always)]
    fn each<'a>(&'a self, take: impl FnMut(Arg<'a>)) {
        // A copy is nobody else's, so it stays in registers.
        (*self).into_iter().for_each(take);
    }
}

impl Arguments for Vec<Arg<'_>> {
    #[inline(always)]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn each<'a>(&'a self, take: impl FnMut(Arg<'a>)) {
        self[..].each(take);
    }
}

impl<A: Arguments + ?Sized> Arguments for &A {
    #[inline(always)]
    fn count(&self) -> usize {
        (**self).count()
    }

    #[inline(always)]
    fn each<'a>(&'a self, take: impl FnMut(Arg<'a>)) {
        (**self).each(take);
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Argument),*> Arguments for ($($name,)*) {
            #[inline(always)]
            fn count(&self) -> usize {
                const { 0 $(+ tuples!(@one $name))* }
            }

            #[allow(non_snake_case, unused_mut, unused_variables, reason = "the types' names, and a tuple of none")]
            #[inline(always)]
            fn each<'a>(&'a self, mut take: impl FnMut(Arg<'a>)) {
                let ($($name,)*) = self;
                $(take($name.arg());)*
            }
        }
    };
    (@one $name:ident) => { 1 };
    ($($name:ident)*; $next:ident $($rest:ident)*) => {
        tuples!($($name)*);
        tuples!($($name)* $next; $($rest)*);
    };
    ($($name:ident)*;) => { tuples!($($name)*); };
}

tuples!(; A B C D E F G H I J K L M N O P A2 B2 C2 D2 E2 F2 G2 H2 I2 J2 K2 L2 M2 N2 O2 P2);
