//! The PTX in a fatbin, the container that nvcc's compilers put images for several devices
//! into.

use std::ffi::c_void;

use ::image::{EntryKind, Image, ImageError, JitPolicy, Suffix, Target, open, select};

use super::device::COMPUTE_CAPABILITY;
use super::status::{Failure, Result, Status};
use super::user_pointer::UserPointer;

/// The first bytes of a fatbin, and of the wrapper that nvcc's host code has around one.
pub(crate) const MAGIC: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
pub(crate) const WRAPPER: [u8; 4] = 0x4662_43b1_u32.to_le_bytes();

/// What to do about code for GPUs alone.
pub(crate) const ADVICE: &str = "build with -gencode arch=compute_80,code=compute_80, which adds PTX";

/// Bytes of a fatbin's header, and the limit for the whole.
const HEADER: usize = 16;
const MAX_BYTES: u64 = 1 << 32;

/// The fatbin that a wrapper points to, after its magic and its version.
pub(crate) fn wrapped(wrapper: UserPointer<c_void>) -> Result<UserPointer<c_void>> {
    let fatbin = wrapper.cast::<*mut c_void>().follow(1)?;
    match fatbin.bytes(MAGIC.len())? == MAGIC {
        true => Ok(fatbin),
        false => Err(Status::INVALID_IMAGE.because("nvcc's wrapper holds no fatbin")),
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

/// The PTX of a fatbin that a driver would compile for the device.
pub(crate) fn ptx(bytes: &[u8]) -> Result<String> {
    let image = open(bytes).map_err(|error| damaged(&error))?;
    let (major, minor) = COMPUTE_CAPABILITY;
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
    let held = match held.is_empty() {
        true => "nothing".to_owned(),
        false => held.join(", "),
    };
    let detail =
        format!("the fatbin has no PTX for {device} or an earlier device: it holds {held}; {ADVICE}");
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
        assert!(ptx(&fatbin(1, 80, text)).unwrap().starts_with(".version 8.0"));
        for (kind, target, held) in [(2, 90, "cubin for sm_90"), (1, 100, "ptx for sm_100")] {
            let failure = ptx(&fatbin(kind, target, text)).unwrap_err();
            assert_eq!(failure.status, Status::NO_BINARY_FOR_GPU);
            let detail = failure.detail.unwrap();
            assert!(detail.contains(held) && detail.ends_with(ADVICE), "{detail}");
        }
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
        let found = bytes(wrapped(wrapper).unwrap()).unwrap();
        assert_eq!(found.len(), 16 + 64 + 16);
        image[0] = 0;
        assert_eq!(wrapped(wrapper).err().unwrap().status, Status::INVALID_IMAGE);
        words[1] = 0;
        // SAFETY: as above.
        let wrapper = unsafe { UserPointer::new(words.as_mut_ptr().cast::<c_void>()) };
        assert_eq!(wrapped(wrapper).err().unwrap().status, Status::INVALID_VALUE);
    }
}
