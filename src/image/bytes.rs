//! Fields of untrusted bytes, read with their bounds checked.

use super::ImageError;

/// Bytes of a file, and what they are, for the error.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a> {
    pub bytes: &'a [u8],
    pub what: &'static str,
}

impl<'a> Bytes<'a> {
    pub fn slice(&self, offset: u64, length: u64) -> Result<&'a [u8], ImageError> {
        let end = offset.checked_add(length);
        end.and_then(|end| {
            self.bytes
                .get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
        })
        .ok_or(ImageError::Truncated {
            what: self.what,
            offset,
            length,
            size: self.bytes.len() as u64,
        })
    }

    fn array<const N: usize>(&self, offset: u64) -> Result<[u8; N], ImageError> {
        let mut array = [0; N];
        array.copy_from_slice(self.slice(offset, N as u64)?);
        Ok(array)
    }

    pub fn u16(&self, offset: u64) -> Result<u16, ImageError> {
        self.array(offset).map(u16::from_le_bytes)
    }

    pub fn u32(&self, offset: u64) -> Result<u32, ImageError> {
        self.array(offset).map(u32::from_le_bytes)
    }

    pub fn u64(&self, offset: u64) -> Result<u64, ImageError> {
        self.array(offset).map(u64::from_le_bytes)
    }

    /// The text at `offset` up to its NUL.
    pub fn text(&self, offset: u64) -> Result<String, ImageError> {
        let rest = self.slice(
            offset,
            (self.bytes.len() as u64).saturating_sub(offset).max(1),
        )?;
        let end = rest.iter().position(|&b| b == 0).unwrap_or(rest.len());
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    }
}
