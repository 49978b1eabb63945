//! The CPU device beside C: the samples' kernels against the same algorithms
//! in `peers.c`, built by `cc -O3 -march=native`, both on two threads.
//!
//! `PTXKIT_PEERS` names a built library of `peers.c`, for a machine without `cc`.

mod paired;

use std::path::{Path, PathBuf};
use std::process::Command;

use libloading::Library;
use ptxkit::driver::{Context, DeviceBuffer, Driver, LaunchConfig, Module, Stream};

type Peer = unsafe extern "C" fn(*const f32, *const f32, *mut f32, usize);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The peers run two threads; more of ours would compare machines.
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("PTXKIT_CPU_THREADS", "2") };
    let scratch = tempfile::tempdir()?;
    // SAFETY: the library is built from peers.c and has no initialisers.
    let peers = unsafe { Library::new(build_peers(scratch.path())?)? };
    let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    matmul(&context, &peers, 512)?;
    vecadd(&context, &peers, 1 << 24)?;
    Ok(())
}

fn build_peers(folder: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    if let Some(library) = std::env::var_os("PTXKIT_PEERS") {
        return Ok(library.into());
    }
    let (source, library) = (folder.join("peers.c"), folder.join("libpeers.so"));
    std::fs::write(&source, include_str!("peers.c"))?;
    let status = Command::new("cc")
        .args(["-O3", "-march=native", "-shared", "-fPIC", "-pthread", "-o"])
        .args([&library, &source])
        .status()?;
    if !status.success() {
        return Err("cc could not build peers.c".into());
    }
    Ok(library)
}

fn matmul(context: &Context, peers: &Library, n: usize) -> Result<(), Box<dyn std::error::Error>> {
    // SAFETY: peers.c declares it so.
    let peer = unsafe { peers.get::<Peer>(b"matmul_shared\0")? };
    let kernel = Module::load(context, include_bytes!("../ptx-samples/matmul_shared.ptx"))?
        .kernel("matmul_shared")?;
    let a: Vec<f32> = (0..n * n).map(|i| (i % 7) as f32 - 3.0).collect();
    let b: Vec<f32> = (0..n * n).map(|i| (i % 5) as f32 * 0.25).collect();
    let mut c = vec![0.0_f32; n * n];
    let (da, db) = (
        DeviceBuffer::from_slice(context, &a)?,
        DeviceBuffer::from_slice(context, &b)?,
    );
    let dc = DeviceBuffer::<f32>::zeroed(context, n * n)?;
    let stream = Stream::new(context)?;
    let tiles = u32::try_from(n / 16)?;
    let config = LaunchConfig::new([tiles, tiles, 1], [16, 16, 1]);
    paired::paired(
        &format!("matmul_shared n = {n}, C"),
        31,
        8.0,
        || {
            kernel
                .launch(config, &stream, (&da, &db, &dc, n as u32))
                .expect("the launch");
            stream.synchronize().expect("the kernel");
        },
        // SAFETY: three arrays of n * n floats, n a multiple of the tile.
        || unsafe { peer(a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), n) },
    );
    // Both sum exactly here: small integers times quarters.
    assert_eq!(dc.to_vec()?, c, "both sides compute the same product");
    Ok(())
}

fn vecadd(context: &Context, peers: &Library, n: usize) -> Result<(), Box<dyn std::error::Error>> {
    // SAFETY: peers.c declares it so.
    let peer = unsafe { peers.get::<Peer>(b"vecadd\0")? };
    let kernel =
        Module::load(context, include_bytes!("../ptx-samples/vecadd.ptx"))?.kernel("vecadd")?;
    let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..n).map(|i| (i % 1000) as f32 * 0.5).collect();
    let mut c = vec![0.0_f32; n];
    let (da, db) = (
        DeviceBuffer::from_slice(context, &a)?,
        DeviceBuffer::from_slice(context, &b)?,
    );
    let dc = DeviceBuffer::<f32>::zeroed(context, n)?;
    let stream = Stream::new(context)?;
    let config = LaunchConfig::new([u32::try_from(n.div_ceil(256))?, 1, 1], [256, 1, 1]);
    paired::paired(
        &format!("vecadd of {n} floats, C"),
        31,
        2.0,
        || {
            kernel
                .launch(config, &stream, (&da, &db, &dc, n as u32))
                .expect("the launch");
            stream.synchronize().expect("the kernel");
        },
        // SAFETY: three arrays of n floats.
        || unsafe { peer(a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), n) },
    );
    assert_eq!(dc.to_vec()?, c, "both sides compute the same sums");
    Ok(())
}
