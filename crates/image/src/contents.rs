//! All images in a file of any kind: PTX, cubin, fatbin, program or archive.

use std::borrow::Cow;

use super::bytes::Bytes;
use super::entry::{Entry, EntryKind};
use super::{
    Image, ImageError, Suffix, Target, UnpackLimit, Unpacker, archive, cubin, elf, open, pickle,
    program, text,
};

/// The images in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents<'a> {
    /// The kind of file.
    pub file_kind: FileKind,
    /// In file order.
    pub pieces: Vec<Piece<'a>>,
}

/// The kind of a file that contains images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// An image: PTX, a cubin or a fatbin.
    Image,
    /// A program, a shared object or an object file.
    Program,
    /// A static archive.
    Archive,
    /// What Python's `pickle` wrote: numba caches its kernels so.
    Pickle,
}

/// PTX, a cubin or a fatbin, with its location in the file. A driver selects among the entries of one
/// piece.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Piece<'a> {
    /// The member of the archive.
    pub member: Option<String>,
    /// Whether it is an input of the linker, and not what the program loads.
    pub relocatable: bool,
    /// The offset in the file.
    pub offset: u64,
    /// The image.
    pub image: Image<'a>,
}

/// PTX text found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PtxFound<'a> {
    /// Its location, for messages: `image 3, PTX for sm_90`; empty if the file is PTX itself.
    pub origin: String,
    /// The text, without the NUL at its end.
    pub text: Cow<'a, str>,
}

/// Finds the images in a file: PTX, a cubin, a fatbin, or a program, shared object, object file,
/// static archive or Python pickle that contains these.
///
/// Sizes and offsets are checked against the bytes; nothing is unpacked.
///
/// ```
/// use ptxkit_image as image;
///
/// let contents = image::contents(b".version 8.0\n.target sm_80\n.address_size 64\n").unwrap();
/// let entries: Vec<_> = contents.entries().collect();
/// assert_eq!(entries[0].target.to_string(), "sm_80");
/// assert_eq!(entries[0].kind.word(), "ptx");
/// ```
///
/// # Errors
///
/// The file is damaged, of another kind, or does not contain images.
pub fn contents(bytes: &[u8]) -> Result<Contents<'_>, ImageError> {
    let mut pieces = Vec::new();
    let file_kind = if archive::is_archive(bytes) {
        for member in archive::members(Bytes::new(bytes, "archive"))? {
            piece(member.data, Some(&member.name), &mut pieces).map_err(|error| {
                ImageError::Member {
                    member: member.name.clone(),
                    source: Box::new(error),
                }
            })?;
        }
        FileKind::Archive
    } else if is_program(bytes) {
        program::read(Bytes::new(bytes, "ELF file"), None, &mut pieces)?;
        FileKind::Program
    } else if pickle::is_pickle(bytes) {
        pickle::read(Bytes::new(bytes, "pickle"), &mut pieces)?;
        FileKind::Pickle
    } else {
        pieces.push(Piece {
            member: None,
            relocatable: false,
            offset: 0,
            image: open(bytes)?,
        });
        FileKind::Image
    };
    if pieces.is_empty() {
        return Err(ImageError::Unknown(match file_kind {
            FileKind::Archive => "it is a static archive without images for a GPU".into(),
            FileKind::Pickle => "it is a Python pickle without PTX".into(),
            _ => "it is an ELF file for the host, without images for a GPU: it has no section .nv_fatbin".into(),
        }));
    }
    Ok(Contents { file_kind, pieces })
}

/// Adds the images of an archive member, if any.
fn piece<'a>(
    data: Bytes<'a>,
    member: Option<&str>,
    pieces: &mut Vec<Piece<'a>>,
) -> Result<(), ImageError> {
    if is_program(data.bytes) {
        return program::read(data, member, pieces);
    }
    let image = match open(data.bytes) {
        Err(ImageError::Unknown(_)) => return Ok(()),
        Ok(Image::Fatbin(_)) => Image::Fatbin(super::fatbin::read(data)?),
        image => image?,
    };
    pieces.push(Piece {
        member: member.map(str::to_owned),
        relocatable: false,
        offset: data.base,
        image,
    });
    Ok(())
}

fn is_program(bytes: &[u8]) -> bool {
    elf::is_elf(bytes) && !cubin::is_cubin(bytes)
}

impl<'a> Contents<'a> {
    /// All images, in file order.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> {
        self.pieces.iter().flat_map(Piece::entries)
    }

    /// Removes relocatable images from each file or member that also contains linked ones.
    #[must_use]
    pub fn linked(mut self) -> Contents<'a> {
        let linked: Vec<_> = self
            .pieces
            .iter()
            .filter(|piece| !piece.relocatable)
            .map(|piece| piece.member.clone())
            .collect();
        self.pieces
            .retain(|piece| !piece.relocatable || linked.binary_search(&piece.member).is_err());
        self
    }
}

impl<'a> Piece<'a> {
    /// The entries: those of a fatbin, otherwise the image itself.
    pub fn entries(&self) -> Vec<Entry<'a>> {
        let whole = |kind, target, bytes| Entry::whole(kind, target, bytes, self.offset);
        let none = Target::new(0, Suffix::None);
        match &self.image {
            Image::Fatbin(fatbin) => fatbin.entries.clone(),
            Image::Cubin(cubin) => vec![whole(EntryKind::Elf, cubin.target, cubin.bytes)],
            Image::Cpu(bytes) => vec![whole(EntryKind::Cpu, none, bytes)],
            Image::Ptx(ptx) => vec![Entry {
                ptx_version: ptx.version.unwrap_or_default(),
                ..whole(EntryKind::Ptx, ptx.target.unwrap_or(none), ptx.original)
            }],
        }
    }
}

/// Iterates over all PTX in a file, unpacked one after the other, in file order.
///
/// Supports the same files as [`contents`]. A damaged text, or one that exceeds the
/// [`UnpackLimit`] of the file, is an error item, and the iteration continues.
///
/// ```
/// use ptxkit_image as image;
///
/// let file = b".version 8.0\n.target sm_80\n.address_size 64\n";
/// for found in image::ptx_texts(file).unwrap() {
///     assert_eq!(found.unwrap().text.lines().count(), 3);
/// }
/// ```
pub fn ptx_texts<'a>(
    bytes: &'a [u8],
) -> Result<impl Iterator<Item = Result<PtxFound<'a>, ImageError>>, ImageError> {
    let mut contents = contents(bytes)?.linked();
    let is_text = contents.file_kind == FileKind::Image;
    let text = contents
        .pieces
        .pop_if(|piece| is_text && matches!(piece.image, Image::Ptx(_)));
    let text = text.and_then(|piece| match piece.image {
        Image::Ptx(ptx) => Some(Ok(PtxFound {
            origin: String::new(),
            text: text::whole(ptx.source, ptx.version.unwrap_or_default()),
        })),
        _ => None,
    });
    let mut unpacker = Unpacker::default();
    let mut limit = UnpackLimit::of_file(bytes.len());
    let pieces = contents.pieces.into_iter();
    let entries = pieces.flat_map(|piece| {
        piece
            .entries()
            .into_iter()
            .map(move |entry| (piece.member.clone(), entry))
    });
    let entries = entries
        .enumerate()
        .filter(|(_, (_, entry))| entry.kind.is_ptx())
        .map(move |(index, (member, entry))| {
            let origin = match member {
                Some(member) => format!("{member}, image {index}, PTX for {}", entry.target),
                None => format!("image {index}, PTX for {}", entry.target),
            };
            let text = match entry.borrowed() {
                Some(bytes) => entry.text_of(bytes)?,
                None => {
                    limit.take(&entry)?;
                    let text = entry.text_of(unpacker.unpack(&entry)?)?;
                    Cow::Owned(text.into_owned())
                }
            };
            Ok(PtxFound { origin, text })
        });
    Ok(text.into_iter().chain(entries))
}
