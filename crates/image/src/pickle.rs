//! Python's pickles: the PTX among their strings, as numba's cache keeps it.
//!
//! Nothing is built of a pickle, so nothing in it runs.

use super::bytes::Bytes;
use super::contents::Piece;
use super::{Image, ImageError, text};

/// `PROTO` and a version that has frames, then `FRAME`.
pub(super) fn is_pickle(bytes: &[u8]) -> bool {
    matches!(bytes, [0x80, 4 | 5, 0x95, ..])
}

/// The PTX in a pickle, or in several one behind the other, in the order of the file.
pub(super) fn read<'a>(file: Bytes<'a>, pieces: &mut Vec<Piece<'a>>) -> Result<(), ImageError> {
    let mut at = 0;
    while at < file.size() {
        let opcode = file.u8(at)?;
        at += 1;
        let (string, length) = match argument(opcode) {
            Some(Argument::Bytes(length)) => (false, length),
            Some(Argument::Counted { size, string }) => {
                let length = match size {
                    1 => file.u8(at)?.into(),
                    4 => file.u32(at)?.into(),
                    _ => file.u64(at)?,
                };
                at += size;
                (string, length)
            }
            Some(Argument::Lines(count)) => {
                let rest = file.slice(at, file.size() - at)?;
                let ends = rest.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
                let last = ends.map(|(end, _)| end as u64).nth(count - 1);
                (false, last.map_or(file.size() - at, |last| last + 1))
            }
            None => return Err(file.invalid_field("opcode", at - 1, opcode.into())),
        };
        let data = file.slice(at, length)?;
        if string && let Some(ptx) = text::open(data) {
            pieces.push(Piece {
                member: None,
                relocatable: false,
                offset: file.base + at,
                image: Image::Ptx(ptx),
            });
        }
        at += length;
    }
    Ok(())
}

/// What follows an opcode.
enum Argument {
    /// So many bytes.
    Bytes(u64),
    /// A length of `size` bytes, and so many bytes.
    Counted { size: u64, string: bool },
    /// So many lines of text.
    Lines(usize),
}

/// By the list in Python's `pickletools`; `None` for what is no opcode.
fn argument(opcode: u8) -> Option<Argument> {
    let counted = |size, string| Argument::Counted { size, string };
    Some(match opcode {
        // BINUNICODE of each size; numbers and bytes are no text.
        0x8c => counted(1, true),
        b'X' => counted(4, true),
        0x8d => counted(8, true),
        b'C' | b'U' | 0x8a => counted(1, false),
        b'B' | b'T' | 0x8b => counted(4, false),
        0x8e | 0x96 => counted(8, false),
        b'F' | b'I' | b'L' | b'P' | b'S' | b'V' | b'g' | b'p' => Argument::Lines(1),
        b'c' | b'i' => Argument::Lines(2),
        b'K' | b'h' | b'q' | 0x80 | 0x82 => Argument::Bytes(1),
        b'M' | 0x83 => Argument::Bytes(2),
        b'J' | b'j' | b'r' | 0x84 => Argument::Bytes(4),
        b'G' | 0x95 => Argument::Bytes(8),
        // The other opcodes take what they need from the stack. A frame is read as what is in it.
        b'('
        | b')'
        | b'.'
        | b'0'
        | b'1'
        | b'2'
        | b'N'
        | b'Q'
        | b'R'
        | b'\\'
        | b']'
        | b'a'
        | b'b'
        | b'd'
        | b'e'
        | b'l'
        | b'o'
        | b's'
        | b't'
        | b'u'
        | b'}'
        | 0x81
        | 0x85..=0x89
        | 0x8f..=0x94
        | 0x97
        | 0x98 => Argument::Bytes(0),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::{ImageError, contents, ptx_texts};

    /// A dictionary as Python pickles it: `{"k": PTX}` in a frame.
    fn pickle(ptx: &str) -> Vec<u8> {
        let mut body = vec![b'}', 0x94, 0x8c, 1, b'k', 0x94, b'X'];
        body.extend((ptx.len() as u32).to_le_bytes());
        body.extend(ptx.as_bytes());
        body.extend([0x94, b's', b'.']);
        let mut bytes = vec![0x80, 4, 0x95];
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    const PTX: &str = "//\n// NVVM\n.version 8.0\n.target sm_90\n.entry k() { ret; }";

    #[test]
    fn ptx_is_found_among_the_strings() {
        let bytes = [pickle("no PTX"), pickle(PTX)].concat();
        let found: Vec<_> = ptx_texts(&bytes).unwrap().map(Result::unwrap).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(
            (&*found[0].text, &*found[0].origin),
            (PTX, "image 0, PTX for sm_90")
        );
        let offset = contents(&bytes).unwrap().pieces[0].offset as usize;
        assert!(bytes[offset..].starts_with(PTX.as_bytes()));
    }

    #[test]
    fn a_pickle_without_ptx_is_an_error_and_a_damaged_one_too() {
        let error = contents(&pickle("none")).unwrap_err().to_string();
        assert_eq!(error, "it is a Python pickle without PTX");
        let whole = pickle(PTX);
        for end in 3..whole.len() {
            // Cut between two opcodes, it may hold all there is.
            let _ = contents(&whole[..end]);
        }
        let mut wrong = whole.clone();
        wrong[11] = 0xff;
        assert!(matches!(contents(&wrong), Err(ImageError::Field { .. })));
        let mut long = whole;
        long[18..22].fill(0xff);
        assert!(matches!(contents(&long), Err(ImageError::Truncated { .. })));
    }
}
