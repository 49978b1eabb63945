//! Bounds-checked access to fields of untrusted bytes.

use super::ImageError;

/// Bytes of a file, with their description for errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a> {
    pub bytes: &'a [u8],
    pub what: &'static str,
    /// The offset in the user's file, for errors.
    pub base: u64,
}

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8], what: &'static str) -> Bytes<'a> {
        Bytes {
            bytes,
            what,
            base: 0,
        }
    }

    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub fn slice(&self, offset: u64, length: u64) -> Result<&'a [u8], ImageError> {
        let end = offset.checked_add(length);
        end.and_then(|end| {
            self.bytes
                .get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
        })
        .ok_or(ImageError::Truncated {
            what: self.what,
            offset: self.base.saturating_add(offset),
            length,
            end: self.base.saturating_add(self.size()),
        })
    }

    /// A subrange with its own description.
    pub fn part(&self, offset: u64, length: u64, what: &'static str) -> Result<Self, ImageError> {
        Ok(Bytes {
            bytes: self.slice(offset, length)?,
            what,
            base: self.base.saturating_add(offset),
        })
    }

    fn array<const N: usize>(&self, offset: u64) -> Result<[u8; N], ImageError> {
        let mut array = [0; N];
        array.copy_from_slice(self.slice(offset, N as u64)?);
        Ok(array)
    }

    pub fn u8(&self, offset: u64) -> Result<u8, ImageError> {
        self.array(offset).map(u8::from_le_bytes)
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

    /// The string at `offset`, up to its NUL.
    pub fn text(&self, offset: u64) -> Result<&'a [u8], ImageError> {
        let rest = self.slice(offset, self.size().saturating_sub(offset).max(1))?;
        let end = rest.iter().position(|&b| b == 0).unwrap_or(rest.len());
        Ok(rest.get(..end).unwrap_or_default())
    }

    /// The error for an invalid value of a field at `offset`.
    pub fn invalid_field(&self, field: &'static str, offset: u64, value: u64) -> ImageError {
        ImageError::Field {
            what: self.what,
            field,
            offset: self.base.saturating_add(offset),
            value,
        }
    }
}
