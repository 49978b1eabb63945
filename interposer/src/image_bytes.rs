//! The bytes of an image, of which a program passes the address alone.

use std::borrow::Cow;
use std::ffi::{CStr, c_void};

/// A structure around a fatbin, in which nvcc registers it: magic number, version, address of the fatbin.
const WRAPPER: u32 = 0x4662_43b1;
/// The version without fatbins that are yet to be linked.
const WRAPPER_VERSION: u32 = 1;
const FATBIN: u32 = 0xba55_ed50;
const ELF: u32 = u32::from_ne_bytes(*b"\x7fELF");

/// Returns the bytes of PTX or a fatbin; `None` for cubins, which the driver loads as they are, and for what is
/// unknown.
///
/// # Safety
/// The address must be one that the driver's load entries take, and the image must stay as it is meanwhile.
pub unsafe fn of_image<'a>(image: *const c_void) -> Option<Cow<'a, [u8]>> {
    if image.is_null() {
        return None;
    }
    // SAFETY: the driver reads the magic number too. It need not be aligned.
    match unsafe { image.cast::<u32>().read_unaligned() } {
        WRAPPER => {
            // SAFETY: the structure that the magic number announces.
            let (version, fatbin) = unsafe {
                let version = image.cast::<u32>().add(1).read_unaligned();
                let fatbin = image.cast::<*const c_void>().add(1).read_unaligned();
                (version, fatbin)
            };
            if version != WRAPPER_VERSION || fatbin.is_null() {
                return None;
            }
            // SAFETY: the structure has the address of a fatbin.
            let magic = unsafe { fatbin.cast::<u32>().read_unaligned() };
            // SAFETY: as above.
            (magic == FATBIN).then(|| unsafe { fatbin_at(fatbin) })?
        }
        // SAFETY: the magic number announces a fatbin.
        FATBIN => unsafe { fatbin_at(image) },
        ELF => None,
        first => {
            let [byte, ..] = first.to_ne_bytes();
            // PTX begins with a directive, a comment or a space; a byte order mark is no PTX for drivers.
            if !matches!(byte, b'.' | b'/' | b' ' | b'\t' | b'\r' | b'\n') {
                return None;
            }
            // SAFETY: the driver reads other images as text up to a NUL.
            let text = unsafe { CStr::from_ptr(image.cast()) };
            Some(Cow::Borrowed(text.to_bytes()))
        }
    }
}

/// # Safety
/// A fatbin must be at the address.
unsafe fn fatbin_at<'a>(fatbin: *const c_void) -> Option<Cow<'a, [u8]>> {
    // SAFETY: the fields of its header: the size of the header, and of what follows.
    let (header, rest) = unsafe {
        let header = fatbin.cast::<u16>().add(3).read_unaligned();
        let rest = fatbin.cast::<u64>().add(1).read_unaligned();
        (u64::from(header), rest)
    };
    let length = usize::try_from(header.checked_add(rest)?).ok()?;
    if header < 16 || length > isize::MAX as usize {
        return None;
    }
    // SAFETY: the driver reads as many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(fatbin.cast::<u8>(), length) };
    Some(Cow::Borrowed(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(image: &[u8]) -> Option<Vec<u8>> {
        // SAFETY: the tests' images end in a NUL or have their size in their header.
        unsafe { of_image(image.as_ptr().cast()) }.map(Cow::into_owned)
    }

    #[test]
    fn text_ends_at_its_nul_and_a_fatbin_where_its_header_says() {
        assert_eq!(
            bytes(b".version 8.0\n\0rest"),
            Some(b".version 8.0\n".to_vec())
        );
        assert_eq!(bytes(b"\x7fELF\x02\x01\0\0"), None);
        assert_eq!(bytes(b"PTXKCPU1\0\0"), None);
        let mut fatbin = FATBIN.to_ne_bytes().to_vec();
        fatbin.extend([1, 0, 16, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
        fatbin.extend(b"bodyrest");
        assert_eq!(bytes(&fatbin).as_deref(), Some(&fatbin[..20]));
        let mut wrapper = WRAPPER.to_ne_bytes().to_vec();
        wrapper.extend(WRAPPER_VERSION.to_ne_bytes());
        wrapper.extend((fatbin.as_ptr() as usize).to_ne_bytes());
        wrapper.extend([0; 8]);
        assert_eq!(bytes(&wrapper).as_deref(), Some(&fatbin[..20]));
        wrapper[4] = 2;
        assert_eq!(bytes(&wrapper), None);
    }
}
