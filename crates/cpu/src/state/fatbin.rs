//! The PTX in a fatbin, the container that nvcc's compilers put images for several devices
//! into.

use std::borrow::Cow;
use std::ffi::c_void;

use ::image::{
    EntryKind, FileKind, Image, ImageError, JitPolicy, Suffix, Target, contents, open, select,
};

use super::context;
use super::device::compute_capability;
use super::status::{Failure, Result, Status};
use super::user_pointer::UserPointer;
use crate::merge::merge;

/// The first bytes of a fatbin, and of the wrapper that nvcc's host code has around one.
pub(crate) const MAGIC: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
pub(crate) const WRAPPER: [u8; 4] = 0x4662_43b1_u32.to_le_bytes();

/// What to do about code for GPUs alone.
pub(crate) const ADVICE: &str =
    "build with -gencode arch=compute_80,code=compute_80, which adds PTX";

/// Bytes of a fatbin's header, and the limit for the whole.
const HEADER: usize = 16;
const MAX_BYTES: u64 = 1 << 32;

/// The version of a wrapper that names the fatbins of separately compiled files, and the limit
/// for their number.
const LINKED: u32 = 2;
const MAX_FILES: usize = 1 << 16;

/// What a wrapper has: the fatbin that it points to, or the PTX of several files, linked.
pub(crate) fn wrapped<'a>(wrapper: UserPointer<c_void>) -> Result<Cow<'a, [u8]>> {
    let version = wrapper.cast::<u32>().get_at(1)?;
    let pointers = wrapper.cast::<*mut c_void>();
    let whole = bytes(fatbin(pointers.follow(1)?)?)?;
    let files = pointers.follow(2)?.cast::<*mut c_void>();
    // nvlink has put nothing into it if the files hold PTX alone.
    if version != LINKED || files.is_null() || whole.len() > HEADER {
        return Ok(whole.into());
    }
    let mut texts = Vec::new();
    for index in 0..MAX_FILES {
        let file = files.follow(index)?;
        if file.is_null() {
            break;
        }
        // nvlink adds NVIDIA's device runtime, of which there may be no PTX.
        match ptx(bytes(fatbin(file)?)?) {
            Err(failure) if failure.status == Status::NO_BINARY_FOR_GPU => {}
            text => texts.push(text?),
        }
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let linked = merge(&texts).map_err(|problem| Status::INVALID_PTX.because(problem))?;
    Ok(linked.into_bytes().into())
}

fn fatbin(start: UserPointer<c_void>) -> Result<UserPointer<c_void>> {
    if start.bytes(MAGIC.len())? == MAGIC {
        Ok(start)
    } else {
        Err(Status::INVALID_IMAGE.because("nvcc's wrapper holds no fatbin"))
    }
}

/// A fatbin up to the length in its header.
pub(crate) fn bytes<'a>(fatbin: UserPointer<c_void>) -> Result<&'a [u8]> {
    let header = fatbin.bytes(HEADER)?;
    let number = |at: usize, count: usize| {
        let bytes = header[at..at + count].iter().rev();
        bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let (own, images) = (number(6, 2), number(8, 8));
    if own < HEADER as u64 || images > MAX_BYTES {
        return Err(Status::INVALID_IMAGE.because("the header of the fatbin is damaged"));
    }
    fatbin.bytes((own + images) as usize)
}

/// Whether it is an archive, or an object file or program of the host.
pub(crate) fn is_of_host(bytes: &[u8]) -> bool {
    contents(bytes)
        .is_ok_and(|found| matches!(found.file_kind, FileKind::Archive | FileKind::Program))
}

/// The PTX of each fatbin in a file of the host: what a driver would compile for the device. Of
/// code that was compiled separately, that is linked.
pub(crate) fn ptx_of_host(bytes: &[u8]) -> Result<Vec<String>> {
    let mut pieces = contents(bytes).map_err(|error| damaged(&error))?.pieces;
    if pieces.iter().any(|piece| piece.relocatable) {
        pieces.retain(|piece| piece.relocatable);
    }
    pieces
        .into_iter()
        .map(|piece| ptx_of(piece.image))
        .collect()
}

/// The PTX of a fatbin that a driver would compile for the device.
pub(crate) fn ptx(bytes: &[u8]) -> Result<String> {
    ptx_of(open(bytes).map_err(|error| damaged(&error))?)
}

fn ptx_of(image: Image<'_>) -> Result<String> {
    let (major, minor) = compute_capability(context::current_device());
    let device = Target::new((major * 10 + minor).unsigned_abs(), Suffix::None);
    // Its cubins are for GPUs.
    let policy = JitPolicy {
        force_ptx: true,
        disable_ptx: false,
    };
    let images = [image];
    let selected = select(&images, device, policy);
    let [Image::Fatbin(fatbin)] = &images else {
        return Err(Status::INVALID_IMAGE.because("the image is no fatbin"));
    };
    let entry = selected
        .ok()
        .and_then(|selection| fatbin.entries.get(selection.place.entry?));
    match entry {
        Some(entry) => Ok(entry.ptx().map_err(|error| damaged(&error))?.into_owned()),
        None => Err(without_ptx(fatbin, device)),
    }
}

fn without_ptx(fatbin: &::image::Fatbin<'_>, device: Target) -> Failure {
    let mut held: Vec<_> = fatbin
        .entries
        .iter()
        .filter(|entry| entry.kind != EntryKind::Index)
        .map(|entry| format!("{} for {}", entry.kind.word(), entry.target))
        .collect();
    held.dedup();
    let held = if held.is_empty() {
        "nothing".to_owned()
    } else {
        held.join(", ")
    };
    let detail = format!(
        "the fatbin has no PTX for {device} or an earlier device: it holds {held}; {ADVICE}"
    );
    Status::NO_BINARY_FOR_GPU.because(detail)
}

fn damaged(error: &ImageError) -> Failure {
    Status::INVALID_IMAGE.because(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fatbin with one uncompressed image.
    fn fatbin(kind: u16, target: u32, image: &[u8]) -> Vec<u8> {
        let mut entry = vec![0; 64];
        entry[..2].copy_from_slice(&kind.to_le_bytes());
        entry[4] = 64;
        entry[8..16].copy_from_slice(&(image.len() as u64).to_le_bytes());
        entry[28..32].copy_from_slice(&target.to_le_bytes());
        entry.extend(image);
        let mut bytes = MAGIC.to_vec();
        bytes.extend(1_u16.to_le_bytes());
        bytes.extend(16_u16.to_le_bytes());
        bytes.extend((entry.len() as u64).to_le_bytes());
        bytes.extend(entry);
        bytes
    }

    #[test]
    fn the_ptx_is_found_and_its_absence_explained() {
        let text = b".version 8.0\n.target sm_80\n.address_size 64\n\0\0\0";
        assert!(
            ptx(&fatbin(1, 80, text))
                .unwrap()
                .starts_with(".version 8.0")
        );
        for (kind, target, held) in [(2, 90, "cubin for sm_90"), (1, 100, "ptx for sm_100")] {
            let failure = ptx(&fatbin(kind, target, text)).unwrap_err();
            assert_eq!(failure.status, Status::NO_BINARY_FOR_GPU);
            let detail = failure.detail.unwrap();
            assert!(
                detail.contains(held) && detail.ends_with(ADVICE),
                "{detail}"
            );
        }
    }

    #[test]
    fn files_that_were_compiled_separately_are_linked() {
        let head = ".version 8.0\n.target sm_80\n.address_size 64\n";
        let mut uses = fatbin(
            1,
            80,
            format!("{head}.extern .func f();\n.visible .entry k() {{ call f; ret; }}\n")
                .as_bytes(),
        );
        let mut defines = fatbin(
            1,
            80,
            format!("{head}.visible .func f() {{ ret; }}\n").as_bytes(),
        );
        let mut runtime = fatbin(2, 80, b"\x7fELF");
        let mut empty = fatbin(1, 80, b"");
        empty.truncate(HEADER);
        empty[8..].fill(0);
        let pointer = |bytes: &mut Vec<u8>| bytes.as_mut_ptr().expose_provenance() as u64;
        let mut files = [&mut uses, &mut runtime, &mut defines]
            .map(pointer)
            .to_vec();
        files.push(0);
        let mut words = [
            u64::from(u32::from_le_bytes(WRAPPER)) | u64::from(LINKED) << 32,
            pointer(&mut empty),
            files.as_mut_ptr().expose_provenance() as u64,
        ];
        // SAFETY: all of them outlive the call.
        let wrapper = unsafe { UserPointer::new(words.as_mut_ptr().cast::<c_void>()) };
        let text = wrapped(wrapper).unwrap();
        let text = std::str::from_utf8(&text).unwrap();
        assert!(
            text.contains(".entry k") && text.contains(".func f() {"),
            "{text}"
        );
    }

    #[test]
    fn a_wrapper_leads_to_its_fatbin_and_no_further() {
        let mut image = fatbin(1, 80, b".version 8.0\n\0\0\0");
        let mut words = [
            u64::from(u32::from_le_bytes(WRAPPER)) | 1 << 32,
            image.as_mut_ptr().expose_provenance() as u64,
            0,
        ];
        // SAFETY: the wrapper and the fatbin outlive the calls.
        let wrapper = unsafe { UserPointer::new(words.as_mut_ptr().cast::<c_void>()) };
        assert_eq!(wrapped(wrapper).unwrap().len(), 16 + 64 + 16);
        image[0] = 0;
        assert_eq!(
            wrapped(wrapper).err().unwrap().status,
            Status::INVALID_IMAGE
        );
        words[1] = 0;
        // SAFETY: as above.
        let wrapper = unsafe { UserPointer::new(words.as_mut_ptr().cast::<c_void>()) };
        assert_eq!(
            wrapped(wrapper).err().unwrap().status,
            Status::INVALID_VALUE
        );
    }
}
