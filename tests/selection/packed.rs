//! Which image of a fatbin that `Packer` writes is taken: what NVIDIA's driver does beside what
//! `image::select` says, and `ptxkit explain` with it.

use ptxkit::cache::{Cache, Policy};
use ptxkit::driver::{Context, DriverKind, Module};
use ptxkit::image::{self, Compression, JitPolicy, Packer, Target};
use ptxkit::jit::JitOptions;
use ptxkit::loader::{Loader, Source};

use crate::fatbin::{cubin, ptx};
use crate::{device, marker};

const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

/// The magic number and the machine in an ELF header. Driver 580 crashes if the offset of the section table leads
/// outside of the file.
const DAMAGES: [std::ops::Range<usize>; 2] = [0..4, 18..20];

/// A fatbin of these images, in their order.
fn packed(images: &[Vec<u8>], compression: Compression) -> Vec<u8> {
    let mut packer = Packer::new(compression);
    for image in images {
        let image = image::open(image).expect("a sound image");
        packer.add(&image).expect("it can be packed");
    }
    packer.finish()
}

/// The entry that `select` takes.
fn selected(fatbin: &[u8], target: Target) -> Option<usize> {
    let opened = image::open(fatbin).expect("the fatbin is sound");
    let selection = image::select(std::slice::from_ref(&opened), target, JitPolicy::default());
    selection.ok()?.place.entry
}

/// Image 0 answers 0, image 1 answers 1 …
#[test]
fn a_packed_fatbin_is_taken_as_select_says() {
    let device = device();
    let context = Context::primary(&device).expect("a context");
    // The CPU device has no cubins, and takes the PTX.
    let target: Option<Target> = device.target().expect("a target").parse().ok();
    let text = |marker| ptx("sm_80", (8, 8), marker);
    let mut differ = Vec::new();
    for (name, images) in [
        (
            "a cubin for another target, PTX",
            [cubin("sm_120", 0), text(1)],
        ),
        (
            "PTX, a cubin for another target",
            [text(0), cubin("sm_100f", 1)],
        ),
        ("a cubin that fits, PTX", [cubin("sm_90", 0), text(1)]),
        ("PTX, a cubin that fits", [text(0), cubin("sm_90", 1)]),
        ("a cubin for sm_90a, PTX", [cubin("sm_90a", 0), text(1)]),
        (
            "cubins for sm_90 and sm_90a",
            [cubin("sm_90", 0), cubin("sm_90a", 1)],
        ),
        (
            "PTX for sm_75 and sm_80",
            [ptx("sm_75", (7, 0), 0), text(1)],
        ),
    ] {
        for compression in COMPRESSIONS {
            let bytes = packed(&images, compression);
            let is_ptx = |entry: usize| image::open(&images[entry]).is_ok_and(is_text);
            let ours = match target {
                Some(target) => selected(&bytes, target),
                None => (0..2).rev().find(|entry| is_ptx(*entry)),
            };
            let theirs = taken(&context, &bytes);
            println!("{name}, {compression:?}: driver {theirs:?}, select {ours:?}");
            if theirs.as_ref().ok().copied() != ours {
                differ.push(format!(
                    "{name}, {compression:?}: the driver takes {theirs:?}, select {ours:?}"
                ));
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// What the image says that is loaded, or why none is.
fn taken(context: &Context, fatbin: &[u8]) -> Result<usize, String> {
    if context.device().driver().kind() == DriverKind::Cpu {
        let loader = Loader::new(context.clone(), Cache::new(Policy::disabled()));
        // SAFETY: the toolkit compiled the cubins.
        let source = unsafe { Source::image("packed", fatbin) };
        let loaded = loader.load(&source, &JitOptions::default());
        let loaded = loaded.map_err(|error| error.to_string())?;
        return Ok(marker(context, &loaded.module) as usize);
    }
    // SAFETY: the toolkit compiled the cubins.
    let loaded = unsafe { Module::load_image(context, fatbin) };
    let module = loaded.map_err(|error| error.to_string())?;
    Ok(marker(context, &module) as usize)
}

fn is_text(image: image::Image<'_>) -> bool {
    matches!(image, image::Image::Ptx(_))
}

/// `select` goes by the header of the entry. A driver does not fall back to the PTX either.
#[test]
fn a_damaged_cubin_is_taken_and_not_loaded() {
    let device = device();
    if device.driver().kind() == DriverKind::Cpu {
        return;
    }
    let context = Context::primary(&device).expect("a context");
    let target: Target = device.target().expect("a target").parse().expect("sm_…");
    let images = [cubin("sm_90", 0), ptx("sm_80", (8, 8), 1)];
    for damage in DAMAGES {
        let mut bytes = packed(&images, Compression::None);
        let at = bytes
            .windows(4)
            .position(|bytes| bytes == b"\x7fELF")
            .expect("the cubin is stored as it is");
        bytes[at..][damage.clone()].fill(0x7f);
        assert_eq!(selected(&bytes, target), Some(0));
        // SAFETY: it cannot be loaded.
        let loaded = unsafe { Module::load_image(&context, &bytes) };
        let theirs = loaded.map(|module| marker(&context, &module));
        println!("a cubin with damage at {damage:?}, PTX: driver {theirs:?}");
        assert!(theirs.is_err(), "{theirs:?}");
    }
}
