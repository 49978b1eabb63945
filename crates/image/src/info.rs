//! The records of a cubin's `.nv.info` sections.

use super::ImageError;
use super::bytes::Bytes;
use super::cubin::CubinParam;

// Attributes of a function, with its symbol, in the section of the module.
pub(super) const REGISTERS: u8 = 0x2f;
pub(super) const MIN_STACK: u8 = 0x12;
// Attributes of a kernel, in its own section.
pub(super) const MAX_THREADS: u8 = 0x05;
pub(super) const REQUIRED_THREADS: u8 = 0x10;
pub(super) const PARAM_BYTES: u8 = 0x19;
pub(super) const BARRIERS: u8 = 0x4c;
pub(super) const TOOLKIT: u8 = 0x37;
pub(super) const ANNOTATIONS: u8 = 0x55;
const PARAM: u8 = 0x17;
const LARGE_PARAM: u8 = 0x45;

/// In an annotation, which is a kind and an offset in the code: the instruction spills or refills a
/// register.
const SPILL: u32 = 1;
const ANNOTATION: u64 = 8;

/// The record format with a length and a payload; the others have a 16-bit value.
const SIZED: u8 = 4;

pub(super) struct Record<'a> {
    pub attribute: u8,
    /// The length of the payload, or the value of a record without one.
    pub value: u16,
    payload: Bytes<'a>,
}

/// The records of a section. Ends after the first truncated one.
pub(super) fn records(data: Bytes<'_>) -> impl Iterator<Item = Result<Record<'_>, ImageError>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= data.size() {
            return None;
        }
        let record = record(data, at);
        at = match &record {
            Ok(record) => at + 4 + record.payload.size(),
            Err(_) => data.size(),
        };
        Some(record)
    })
}

fn record(data: Bytes<'_>, at: u64) -> Result<Record<'_>, ImageError> {
    let format = data.u8(at)?;
    let attribute = data.u8(at + 1)?;
    let value = data.u16(at + 2)?;
    let length = if format == SIZED { value.into() } else { 0 };
    Ok(Record {
        attribute,
        value,
        payload: data.part(at + 4, length, "record of .nv.info")?,
    })
}

impl Record<'_> {
    /// The payload as a symbol and its value.
    pub fn symbol_value(&self) -> Option<(u32, u32)> {
        Some((self.payload.u32(0).ok()?, self.payload.u32(4).ok()?))
    }

    /// The payload as dimensions of a block.
    pub fn shape(&self) -> Option<[u32; 3]> {
        let size = |index: u64| self.payload.u32(4 * index).ok();
        Some([size(0)?, size(1)?, size(2)?])
    }

    /// The payload as a number, such as 126 for the toolkit CUDA 12.6.
    pub fn number(&self) -> Option<u32> {
        self.payload.u32(0).ok()
    }

    /// How many instructions the annotations of the payload mark as spills or refills.
    pub fn spills(&self) -> u32 {
        let marked = (0..self.payload.size() / ANNOTATION)
            .filter(|index| self.payload.u32(index * ANNOTATION) == Ok(SPILL));
        u32::try_from(marked.count()).unwrap_or(u32::MAX)
    }

    /// The payload as a parameter of the kernel.
    pub fn param(&self) -> Option<CubinParam> {
        let last = self.payload.u32(8).ok()?;
        let size = match self.attribute {
            PARAM => last >> 18,
            // The upper bits distinguish pointers from other parameters.
            LARGE_PARAM => last & 0xffff,
            _ => return None,
        };
        Some(CubinParam {
            ordinal: self.payload.u16(4).ok()?,
            offset: self.payload.u16(6).ok()?.into(),
            size,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_every_format_are_walked() {
        let bytes = [
            3, 0x19, 0x10, 0, // 16 bytes of parameters
            1, 0x35, 0, 0, // nothing known
            4, 0x17, 12, 0, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0xf0, 0x21, 0, // the second, 8 bytes
            4, 0x05, 12, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0,
        ];
        let found: Vec<_> = records(Bytes::new(&bytes, "section"))
            .map(Result::unwrap)
            .collect();
        assert_eq!(found.len(), 4);
        assert_eq!((found[0].attribute, found[0].value), (PARAM_BYTES, 16));
        let param = found[2].param().unwrap();
        assert_eq!((param.ordinal, param.offset, param.size), (1, 8, 8));
        assert_eq!(found[3].shape(), Some([256, 1, 1]));
    }

    #[test]
    fn annotations_of_spills_are_counted() {
        let mut bytes = vec![4, ANNOTATIONS, 24, 0];
        for number in [1u32, 0x10, 2, 0x20, 1, 0x30] {
            bytes.extend(number.to_le_bytes());
        }
        let found = records(Bytes::new(&bytes, "section")).next().unwrap();
        assert_eq!(found.unwrap().spills(), 2);
    }

    #[test]
    fn a_truncated_record_is_the_last() {
        let bytes = [3, 0x19, 0x10, 0, 4, 0x17, 12, 0, 1, 1];
        let found: Vec<_> = records(Bytes::new(&bytes, "section")).collect();
        assert_eq!(found.len(), 2);
        assert!(matches!(
            found[1],
            Err(ImageError::Truncated { offset: 8, .. })
        ));
    }
}
