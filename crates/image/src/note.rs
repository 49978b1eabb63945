//! What an assembler records in a cubin besides code: its command line and features.

use super::bytes::Bytes;
use super::cubin::Cubin;
use super::elf::Elf;
use super::{ImageError, Suffix, Target};

/// The note with the assembler's name, version and command line.
const TOOL_NOTE: &[u8] = b".note.nv.tkinfo";
const TOOL_NOTE_TYPE: u32 = 2000;
/// The strings of the note follow its six numbers.
const TOOL_STRINGS: u64 = 24;
/// Which of the numbers has the offset of the command line.
const COMMAND_LINE: u64 = 20;

const COMPAT: &[u8] = b".nv.compat";
/// The record of `.nv.compat` that says whether the code uses features of one architecture only.
const ACCELERATED: u8 = 9;

/// The OSABI of cubins before CUDA 13, and its flag for features of one architecture only.
const OLD_OSABI: u8 = 51;
const OLD_ACCELERATED: u32 = 0x800;
const NEW_ACCELERATED: u32 = 0x8;

impl Cubin<'_> {
    /// The target with its suffix: `sm_90a`. The ELF header has only the number, so the suffix comes
    /// from the assembler's notes, which are missing in cubins of other tools than NVIDIA's.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use ptxkit_image::{self as image, Image};
    ///
    /// let bytes = std::fs::read("gemm.sm_90a.cubin")?;
    /// if let Image::Cubin(cubin) = image::open(&bytes)? {
    ///     assert_eq!(cubin.target.to_string(), "sm_90");
    ///     assert_eq!(cubin.target_with_suffix()?.to_string(), "sm_90a");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The sections of the notes are outside of the file.
    pub fn target_with_suffix(&self) -> Result<Target, ImageError> {
        let elf = Elf::read(Bytes::new(self.bytes, "cubin"))?;
        if let Some(target) = command_line_target(&elf)?
            && target.number == self.target.number
        {
            return Ok(target);
        }
        let accelerated = if elf.osabi == OLD_OSABI {
            elf.flags & OLD_ACCELERATED != 0
        } else {
            elf.flags & NEW_ACCELERATED != 0 || is_accelerated(compat(&elf)?)
        };
        let suffix = if accelerated {
            Suffix::Architecture
        } else {
            Suffix::None
        };
        Ok(Target::new(self.target.number, suffix))
    }

    /// The section `.nv.compat`, which the entry of a fatbin repeats; empty without one.
    pub(super) fn compat_records(&self) -> Result<&[u8], ImageError> {
        let elf = Elf::read(Bytes::new(self.bytes, "cubin"))?;
        compat(&elf)
    }
}

fn compat<'a>(elf: &Elf<'a>) -> Result<&'a [u8], ImageError> {
    match elf.section(COMPAT) {
        Some(section) => Ok(elf.data(section, "section .nv.compat")?.bytes),
        None => Ok(&[]),
    }
}

/// Whether the records have that of an accelerated architecture. Each has a format, a number and a
/// value of 16 bits, which other formats than 1 to 3 use as the length of what follows.
fn is_accelerated(mut records: &[u8]) -> bool {
    while let [format, number, rest @ ..] = records {
        let size = match format {
            1..=3 => 2,
            _ => match rest {
                [low, high, ..] => 2 + usize::from(u16::from_le_bytes([*low, *high])),
                _ => return false,
            },
        };
        if *number == ACCELERATED {
            return rest.first().is_some_and(|value| *value != 0);
        }
        records = rest.get(size..).unwrap_or_default();
    }
    false
}

/// The target of `-arch` on the assembler's command line.
fn command_line_target(elf: &Elf<'_>) -> Result<Option<Target>, ImageError> {
    let Some(section) = elf.section(TOOL_NOTE) else {
        return Ok(None);
    };
    let note = elf.data(section, "section .note.nv.tkinfo")?;
    Ok(command_line(note).ok().and_then(|text| {
        let mut words = text.split_ascii_whitespace();
        while let Some(word) = words.next() {
            let value = match word.split_once('=') {
                Some(("-arch" | "--gpu-name", value)) => Some(value),
                None if word == "-arch" || word == "--gpu-name" => words.next(),
                _ => None,
            };
            if let Some(target) = value.and_then(|value| value.parse().ok()) {
                return Some(target);
            }
        }
        None
    }))
}

/// The command line in the note; an error if this is another note.
fn command_line(note: Bytes<'_>) -> Result<&str, ImageError> {
    let name_size = u64::from(note.u32(0)?);
    let size = u64::from(note.u32(4)?);
    let kind = note.u32(8)?;
    if kind != TOOL_NOTE_TYPE {
        return Err(note.invalid_field("note type", 8, kind.into()));
    }
    let content = note.part(12 + name_size.next_multiple_of(4), size, "note")?;
    let at = TOOL_STRINGS + u64::from(content.u32(COMMAND_LINE)?);
    Ok(std::str::from_utf8(content.text(at)?).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(command_line: &str) -> Vec<u8> {
        let strings = format!("\0tool\0{command_line}\0");
        let mut bytes = Vec::new();
        let size = 24 + strings.len() as u32;
        for number in [12, size, TOOL_NOTE_TYPE] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(b"NVIDIA Corp\0");
        for number in [2u32, 0, 1, 1, 1, 6] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(strings.as_bytes());
        bytes
    }

    #[test]
    fn the_command_line_is_read_and_a_cut_note_is_an_error() {
        let good = note("-arch sm_90a -m 64");
        let read = |bytes: &[u8]| command_line(Bytes::new(bytes, "note")).map(str::to_owned);
        assert_eq!(read(&good).unwrap(), "-arch sm_90a -m 64");
        for length in 0..good.len() {
            assert!(read(&good[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn records_of_every_format_are_walked() {
        let records = [4, 0xb, 1, 0, 9, 2, 0xc, 0, 0, 1, 3, 0, 0, 2, 9, 1, 0];
        assert!(is_accelerated(&records));
        assert!(!is_accelerated(&[2, 9, 0, 0]));
        assert!(!is_accelerated(&[4, 0xb, 0xff, 0xff, 2, 9, 1, 0]));
        assert!(!is_accelerated(&[2]));
    }
}
