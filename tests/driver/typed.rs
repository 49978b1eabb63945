//! Kernels whose parameters are declared, and what a safe launch refuses.

use std::sync::mpsc;

use ptxkit::driver::{
    Attach, Bool, Count, DeviceBuffer, Error, Kernel, LaunchConfig, Library, ManagedBuffer, Module,
    PinnedBuffer, PitchedBuffer, RegisterFlags, Stream, Texture, TextureDescriptor, TypedKernel,
};
use ptxkit::jit::{self, JitOptions};

use crate::kernels::VECADD;
use crate::support::{alone, context, kernel};

/// `lengths(from: &[u32], to: &mut [u64])`: writes both lengths to `to`, the sum
/// of `from` behind them.
const LENGTHS: &str = "
.version 6.0 .target sm_50 .address_size 64
.visible .entry lengths(.param .u64 from, .param .u64 from_length,
                        .param .u64 to, .param .u64 to_length)
{
    .reg .pred %p; .reg .b32 %r<2>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [from];
    ld.param.u64 %rd2, [from_length];
    ld.param.u64 %rd3, [to];
    ld.param.u64 %rd4, [to_length];
    setp.lt.u64 %p, %rd4, 3;
    @%p ret;
    st.global.u64 [%rd3], %rd2;
    st.global.u64 [%rd3+8], %rd4;
    mov.u64 %rd5, 0;
MORE:
    setp.eq.u64 %p, %rd2, 0;
    @%p bra DONE;
    ld.global.u32 %r1, [%rd1];
    cvt.u64.u32 %rd6, %r1;
    add.u64 %rd5, %rd5, %rd6;
    add.u64 %rd1, %rd1, 4;
    sub.u64 %rd2, %rd2, 1;
    bra MORE;
DONE:
    st.global.u64 [%rd3+16], %rd5;
    ret;
}
";

type Lengths = TypedKernel<(&'static [u32], &'static mut [u64])>;
type Add = TypedKernel<(*const f32, *const f32, *mut f32, Count<u32>)>;

fn lengths() -> (Stream, Lengths) {
    let (_, stream, kernel) = kernel(LENGTHS, "lengths");
    // SAFETY: the kernel stays below both lengths.
    (stream, unsafe { kernel.typed() }.unwrap())
}

fn add(kernel: Kernel) -> Add {
    // SAFETY: `vecadd(a, b, sum, n)` stays below `n`.
    unsafe { kernel.typed() }.unwrap()
}

#[test]
fn slices_carry_the_length_of_their_memory() {
    let (stream, lengths) = lengths();
    let context = context();
    let one = LaunchConfig::default();
    let device = DeviceBuffer::from_slice(&context, &[1_u32, 2, 3, 4, 5]).unwrap();
    let pinned = PinnedBuffer::from_slice(&context, &[6_u32, 7]).unwrap();
    let managed = ManagedBuffer::from_slice(&context, &[8_u32], Attach::Global).unwrap();
    let none = DeviceBuffer::<u32>::new(&context, 0).unwrap();
    let mut to = DeviceBuffer::<u64>::zeroed(&context, 4).unwrap();
    lengths.launch(one, &stream, (&device, &mut to)).unwrap();
    assert_eq!(to.to_vec().unwrap(), [5, 4, 15, 0]);
    lengths.launch(one, &stream, (&pinned, &mut to)).unwrap();
    assert_eq!(to.to_vec().unwrap(), [2, 4, 13, 0]);
    lengths.launch(one, &stream, (&managed, &mut to)).unwrap();
    assert_eq!(to.to_vec().unwrap(), [1, 4, 8, 0]);
    lengths.launch(one, &stream, (&none, &mut to)).unwrap();
    assert_eq!(to.to_vec().unwrap(), [0, 4, 0, 0]);

    let part = device.slice(1..4).unwrap();
    let mut end = to.slice_mut(1..).unwrap();
    lengths.launch(one, &stream, (&part, &mut end)).unwrap();
    assert_eq!(to.to_vec().unwrap(), [0, 3, 3, 9]);
}

#[test]
fn a_count_is_at_most_the_shortest_length() {
    let (context, stream, vecadd) = kernel(VECADD, "vecadd");
    let config = LaunchConfig::for_elements(4, 32);
    let typed = add(vecadd.clone());
    let a = DeviceBuffer::from_slice(&context, &[1.0_f32; 4]).unwrap();
    let b = DeviceBuffer::from_slice(&context, &[2.0_f32; 8]).unwrap();
    let mut sum = DeviceBuffer::<f32>::zeroed(&context, 6).unwrap();
    typed
        .launch(config, &stream, (&a, &b, &mut sum, 4))
        .unwrap();
    assert_eq!(sum.to_vec().unwrap(), [3.0, 3.0, 3.0, 3.0, 0.0, 0.0]);
    let error = typed.launch(config, &stream, (&a, &b, &mut sum, 5));
    assert!(
        matches!(
            error,
            Err(Error::Length {
                given: 5,
                capacity: 4,
                ..
            })
        ),
        "{error:?}"
    );

    // A count is not negative, which this kernel would take for a large one.
    // SAFETY: as for `add`.
    let signed = unsafe { vecadd.typed::<(*const f32, *const f32, *mut f32, Count<i32>)>() };
    let signed = signed.unwrap();
    let error = signed.launch(config, &stream, (&a, &b, &mut sum, i32::MAX));
    assert!(
        matches!(error, Err(Error::Length { capacity: 4, .. })),
        "{error:?}"
    );
    let error = signed.launch(config, &stream, (&a, &b, &mut sum, -1));
    assert!(
        matches!(error, Err(Error::Length { capacity: 4, .. })),
        "{error:?}"
    );
    signed
        .launch(config, &stream, (&a, &b, &mut sum, 0))
        .unwrap();
}

#[test]
fn declarations_are_checked_against_the_kernel() {
    let (_, _, vecadd) = kernel(VECADD, "vecadd");
    // SAFETY: none of these is launched.
    unsafe {
        let error = vecadd.clone().typed::<(*const f32, *const f32, *mut f32)>();
        assert!(matches!(
            error,
            Err(Error::ArgumentCount {
                expected: 4,
                given: 3,
                ..
            })
        ));
        let error = vecadd
            .clone()
            .typed::<(*const f32, *const f32, *mut f32, Count<u64>)>();
        assert!(matches!(
            error,
            Err(Error::ArgumentSize {
                index: 3,
                expected: 4,
                given: 8,
                ..
            })
        ));
        // A slice is an address and a length.
        let error = vecadd
            .clone()
            .typed::<(*const f32, &mut [f32], Count<u32>)>();
        error.unwrap();
        let error = vecadd.typed::<(&[f32], &mut [f32])>();
        assert!(matches!(
            error,
            Err(Error::ArgumentSize {
                index: 3,
                expected: 4,
                given: 8,
                ..
            })
        ));
    }
}

#[test]
fn borrowed_memory_goes_back_after_its_kernels() {
    alone();
    let (stream, lengths) = lengths();
    let context = context();
    let from = DeviceBuffer::from_slice(&context, &[1_u32, 2, 3]).unwrap();
    context.synchronize().unwrap();
    // Whole pages are pinned: some for this alone.
    let mut values = vec![0_u64; 1 << 17];
    let (go, wait) = mpsc::channel::<()>();
    PinnedBuffer::borrowed(&context, &mut values, RegisterFlags::default(), |pinned| {
        stream
            .call(move || wait.recv().unwrap_or_default())
            .unwrap();
        let launched = lengths.launch(LaunchConfig::default(), &stream, (&from, pinned));
        go.send(()).unwrap();
        launched
    })
    .unwrap()
    .unwrap();
    assert_eq!(values[..4], [3, 1 << 17, 6, 0]);
}

/// Textures and tensor maps share their memory with the buffer.
#[test]
fn a_launch_refuses_a_texture_of_memory_that_it_writes() {
    const NOTHING: &str = ".version 6.0 .target sm_50 .address_size 64
        .visible .entry nothing(.param .u64 texture, .param .u64 to, .param .u32 n) { ret; }";
    let (context, stream, nothing) = kernel(NOTHING, "nothing");
    // SAFETY: it accesses nothing.
    let nothing = unsafe { nothing.typed::<(Texture, *mut f32, Count<u32>)>() }.unwrap();
    let one = LaunchConfig::default();
    let plain = TextureDescriptor::default();
    let mut buffer = DeviceBuffer::<f32>::zeroed(&context, 64).unwrap();
    let mut other = DeviceBuffer::<f32>::zeroed(&context, 64).unwrap();
    let texture = Texture::new(&buffer, &plain).unwrap();
    let alias = nothing.launch(one, &stream, (&texture, &mut buffer, 64));
    assert!(
        matches!(
            alias,
            Err(Error::Aliases {
                written: 1,
                other: 0
            })
        ),
        "{alias:?}"
    );
    let mut end = buffer.slice_mut(63..).unwrap();
    let alias = nothing.launch(one, &stream, (&texture, &mut end, 1));
    assert!(matches!(alias, Err(Error::Aliases { .. })), "{alias:?}");
    nothing
        .launch(one, &stream, (&texture, &mut other, 64))
        .unwrap();
    let rows = PitchedBuffer::<f32>::new(&context, 8, 8).unwrap();
    let texture = Texture::new(&rows, &plain).unwrap();
    nothing
        .launch(one, &stream, (&texture, &mut buffer, 64))
        .unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn what_loads_ptx_refuses_binaries() {
    let context = context();
    let binary = jit::compile(&context, VECADD, &JitOptions::default())
        .unwrap()
        .binary;
    let error = Module::load(&context, &binary).unwrap_err();
    assert!(matches!(error, Error::Binary), "{error}");
    let error = Library::load(&context, &binary).unwrap_err();
    assert!(matches!(error, Error::Binary), "{error}");
    // SAFETY: the compiler made it a moment ago.
    let module = unsafe { Module::load_image(&context, &binary) }.unwrap();
    module.kernel("vecadd").unwrap();
}

/// `pick(values, pick, n)`: each byte becomes 2 if `pick` is not 0, else 1.
const PICK: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry pick(.param .u64 values, .param .u8 pick, .param .u32 n)
{
    .reg .pred %p; .reg .b16 %h<3>; .reg .b32 %r<3>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [values];
    ld.param.u8 %h1, [pick];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p, %r2, %r1;
    @%p ret;
    setp.ne.u16 %p, %h1, 0;
    selp.u16 %h2, 2, 1, %p;
    cvt.u64.u32 %rd2, %r2;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u8 [%rd3], %h2;
    ret;
}
";

#[test]
fn truth_values_are_passed_and_checked_when_they_are_read() {
    let (context, stream, pick) = kernel(PICK, "pick");
    let pick = unsafe { pick.typed::<(*mut Bool, bool, Count<u32>)>() }.unwrap();
    let mut flags = DeviceBuffer::from_slice(&context, Bool::slice_of(&[false; 3])).unwrap();
    let config = LaunchConfig::for_elements(3, 32);
    pick.launch(config, &stream, (&mut flags, false, 3))
        .unwrap();
    assert_eq!(flags.to_bools().unwrap(), [true; 3]);
    let mut two = flags.slice_mut(1..2).unwrap();
    pick.launch(config, &stream, (&mut two, true, 1)).unwrap();
    let error = flags.to_bools().unwrap_err();
    assert!(
        matches!(error, Error::Bool { index: 1, byte: 2 }),
        "{error}"
    );
    assert_eq!(flags.to_vec().unwrap(), [Bool(1), Bool(2), Bool(1)]);
}
