//! What may go to other threads, and be used by several: shown by the compiler.

use ptxkit::driver::{
    AddressRange, Arg, Array, Context, Device, DeviceBuffer, DeviceMemory, Driver, Entered, Error,
    Event, Global, Graph, GraphExec, GraphNode, GrowableBuffer, IpcBuffer, Kernel, Library,
    LinkInput, ManagedBuffer, Mapping, MemoryPool, MipmappedArray, Module, ParamBuffer, PeerAccess,
    PhysicalMemory, PinnedBuffer, PitchedBuffer, Stream, Surface, SurfaceReference, Texture,
    TextureReference, WeakModule, opengl,
};

const fn sent<T: Send>() {}
const fn shared<T: Send + Sync>() {}

macro_rules! shared {
    ($($type:ty),* $(,)?) => { $( const _: () = shared::<$type>(); )* };
}

/// Does not compile for types that have the trait: two implementations fit them.
macro_rules! is_not {
    ($trait:ident: $($type:ty),*) => { $( const _: () = {
        trait Ambiguous<A> {
            const NONE: () = ();
        }
        impl<T: ?Sized> Ambiguous<()> for T {}
        impl<T: ?Sized + $trait> Ambiguous<u8> for T {}
        <$type as Ambiguous<_>>::NONE
    }; )* };
}

// CUDA's handles are names that its calls lock by themselves.
shared!(Driver, Device, Context, Stream, Event, Error);
shared!(Module, WeakModule, Library, Kernel, Global, LinkInput);
shared!(
    DeviceMemory,
    DeviceBuffer<f32>,
    PinnedBuffer<f32>,
    ManagedBuffer<f32>
);
shared!(
    PitchedBuffer<f32>,
    GrowableBuffer<f32>,
    IpcBuffer<f32>,
    MemoryPool
);
shared!(
    PhysicalMemory,
    AddressRange,
    Mapping,
    PeerAccess,
    ParamBuffer<'static>
);
shared!(
    Array<f32>,
    MipmappedArray<f32>,
    Texture,
    Surface,
    TextureReference,
    SurfaceReference
);
shared!(Graph, GraphNode);

// One thread at a time may use a graph that is ready.
const _: () = sent::<GraphExec>();
is_not!(Sync: GraphExec);

// The stack of contexts is a thread's, and so is OpenGL's current context.
is_not!(Send: Entered<'static>, opengl::Buffer, opengl::Image, opengl::MappedBuffer<'static>);
is_not!(Sync: Entered<'static>, opengl::Buffer, opengl::Image);

// Arguments point to values of the call.
is_not!(Send: Arg<'static>);
