//! The encoding of a blob's fields.

use super::error::{BlobError, damaged};

/// Writes little-endian integers; lists and texts are preceded by their length.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(super) fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.u64(items.len() as u64);
        for item in items {
            each(self, item);
        }
    }

    pub(super) fn option<T>(&mut self, value: Option<T>, each: impl FnOnce(&mut Self, T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            each(self, value);
        }
    }
}

/// Reads what [`Writer`] writes. Every length is checked.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], BlobError> {
        let Some((head, rest)) = self.0.split_first_chunk::<N>() else {
            return damaged("it is truncated");
        };
        self.0 = rest;
        Ok(*head)
    }

    pub(super) fn u8(&mut self) -> Result<u8, BlobError> {
        self.take::<1>().map(|[b]| b)
    }

    pub(super) fn flag(&mut self) -> Result<bool, BlobError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => damaged("a flag is neither 0 nor 1"),
        }
    }

    pub(super) fn u32(&mut self) -> Result<u32, BlobError> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, BlobError> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], BlobError> {
        let length = self.u64()?;
        let split = usize::try_from(length)
            .ok()
            .and_then(|n| self.0.split_at_checked(n));
        let Some((head, rest)) = split else {
            return damaged("it is truncated");
        };
        self.0 = rest;
        Ok(head)
    }

    pub(super) fn text(&mut self) -> Result<String, BlobError> {
        match std::str::from_utf8(self.bytes()?) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => damaged("a name is not UTF-8"),
        }
    }

    pub(super) fn list<T>(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<T, BlobError>,
    ) -> Result<Vec<T>, BlobError> {
        let length = self.u64()?;
        // An item takes at least one byte, so that a longer list is damaged. The check
        // bounds the memory for it.
        if length > self.0.len() as u64 {
            return damaged("a list is longer than the file");
        }
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(each(self)?);
        }
        Ok(items)
    }

    pub(super) fn option<T>(
        &mut self,
        each: impl FnOnce(&mut Self) -> Result<T, BlobError>,
    ) -> Result<Option<T>, BlobError> {
        Ok(if self.flag()? {
            Some(each(self)?)
        } else {
            None
        })
    }
}
