//! Static archives (`ar`): the members, with their names.

use super::ImageError;
use super::bytes::Bytes;

const MAGIC: &[u8] = b"!<arch>\n";
const THIN: &[u8] = b"!<thin>\n";
const HEADER: u64 = 60;

pub(super) fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || bytes.starts_with(THIN)
}

pub(super) struct Member<'a> {
    pub name: String,
    pub data: Bytes<'a>,
}

/// The members in file order, without the symbol table and the table of long names.
pub(super) fn members(file: Bytes<'_>) -> Result<Vec<Member<'_>>, ImageError> {
    if file.bytes.starts_with(THIN) {
        return Err(ImageError::Unknown(
            "it is a thin archive, which does not contain its members: pass the members".into(),
        ));
    }
    let mut members = Vec::new();
    let mut long_names = Bytes::new(&[], "archive's table of names");
    let mut at = MAGIC.len() as u64;
    while at < file.size() {
        let header = file.slice(at, HEADER)?;
        let end = file.u16(at + 58)?;
        if end != u16::from_le_bytes(*b"`\n") {
            return Err(file.invalid_field("end of a member's header", at + 58, end.into()));
        }
        let digits = header.get(48..58).unwrap_or_default();
        let size = number(digits).ok_or_else(|| {
            file.invalid_field(
                "size of a member",
                at + 48,
                digits.first().copied().unwrap_or_default().into(),
            )
        })?;
        let mut data = file.part(at + HEADER, size, "member of an archive")?;
        let field = String::from_utf8_lossy(header.get(..16).unwrap_or_default());
        let field = field.trim_end();
        match field {
            "/" | "/SYM64/" | "__.SYMDEF" => {}
            "//" => long_names = data,
            _ => {
                let name = if let Some(length) = field.strip_prefix("#1/") {
                    // BSD: the name precedes the data.
                    let length = number(length.as_bytes()).ok_or_else(|| {
                        file.invalid_field("length of a member's name", at + 3, 0)
                    })?;
                    let name = data.part(0, length, "name of an archive's member")?;
                    data = data.part(length, data.size() - length, "member of an archive")?;
                    String::from_utf8_lossy(name.text(0).unwrap_or_default()).into_owned()
                } else if let Some(offset) = field.strip_prefix('/') {
                    // GNU: the name is in a table, and ends with a slash.
                    let offset = number(offset.as_bytes()).ok_or_else(|| {
                        file.invalid_field("offset of a member's name", at + 1, 0)
                    })?;
                    let rest =
                        long_names.slice(offset, long_names.size().saturating_sub(offset))?;
                    let name = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
                    String::from_utf8_lossy(name)
                        .trim_end_matches('/')
                        .to_owned()
                } else {
                    field.trim_end_matches('/').to_owned()
                };
                members.push(Member { name, data });
            }
        }
        // Members begin at even offsets.
        at = (at + HEADER + size).next_multiple_of(2);
    }
    Ok(members)
}

fn number(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?.trim_end();
    // `parse` accepts a sign, which is not a digit.
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(())?;
    text.parse().ok()
}
