//! Everything that a file holds for a GPU, whatever the file is.

use std::borrow::Cow;

use super::bytes::Bytes;
use super::entry::{Entry, EntryKind};
use super::{
    Image, ImageError, Suffix, Target, UnpackLimit, Unpacker, archive, cubin, elf, open, pickle,
    program,
};

/// The images in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents<'a> {
    /// What kind of file it is.
    pub holder: Holder,
    /// In the order of the file.
    pub pieces: Vec<Piece<'a>>,
}

/// What a file is that holds images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// An image itself: PTX, a cubin or a fatbin.
    Image,
    /// A program, a shared object or an object file.
    Program,
    /// A static archive.
    Archive,
    /// What Python's `pickle` wrote: numba caches its kernels so.
    Pickle,
}

/// PTX, a cubin or a fatbin, and where it lies. A driver chooses among the entries of one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Piece<'a> {
    /// The member of the archive.
    pub member: Option<String>,
    /// It is there to be linked, and not what the program runs.
    pub relocatable: bool,
    /// Where it begins in the file.
    pub offset: u64,
    /// What it is.
    pub image: Image<'a>,
}

/// PTX that was found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PtxFound<'a> {
    /// Where it was, for messages: `image 3, PTX for sm_90`; empty where the file is the PTX.
    pub origin: String,
    /// The text, without the NUL at its end.
    pub text: Cow<'a, str>,
}

/// Reads what a file holds: PTX, a cubin, a fatbin, or a program, shared object, object file, static
/// archive or pickle of Python's with such in it.
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
/// Where the file is damaged, says what it is where it is none of these, and also where it is one
/// that holds no images.
pub fn contents(bytes: &[u8]) -> Result<Contents<'_>, ImageError> {
    let mut pieces = Vec::new();
    let holder = if archive::is_archive(bytes) {
        for member in archive::members(Bytes::new(bytes, "archive"))? {
            piece(member.data, Some(&member.name), &mut pieces).map_err(|error| {
                ImageError::Member {
                    member: member.name.clone(),
                    source: Box::new(error),
                }
            })?;
        }
        Holder::Archive
    } else if is_program(bytes) {
        program::read(Bytes::new(bytes, "ELF file"), None, &mut pieces)?;
        Holder::Program
    } else if pickle::is_pickle(bytes) {
        pickle::read(Bytes::new(bytes, "pickle"), &mut pieces)?;
        Holder::Pickle
    } else {
        pieces.push(Piece {
            member: None,
            relocatable: false,
            offset: 0,
            image: open(bytes)?,
        });
        Holder::Image
    };
    if pieces.is_empty() {
        return Err(ImageError::Unknown(match holder {
            Holder::Archive => "it is a static archive without images for a GPU".into(),
            Holder::Pickle => "it is a pickle of Python's without PTX in it".into(),
            _ => "it is an ELF file for the host, without images for a GPU: it has no section .nv_fatbin".into(),
        }));
    }
    Ok(Contents { holder, pieces })
}

/// Adds what a member of an archive holds; nothing, where it is not for a GPU.
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
    /// All images, in the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> {
        self.pieces.iter().flat_map(Piece::entries)
    }

    /// Without what is there to be linked, where the file or member holds what came of it too.
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
    /// Its images: those of a fatbin, else itself.
    pub fn entries(&self) -> Vec<Entry<'a>> {
        let whole = |kind, target, bytes| Entry::whole(kind, target, bytes, self.offset);
        let none = Target::new(0, Suffix::None);
        match &self.image {
            Image::Fatbin(fatbin) => fatbin.entries.clone(),
            Image::Cubin(cubin) => vec![whole(EntryKind::Elf, cubin.target, cubin.bytes)],
            Image::Cpu(bytes) => vec![whole(EntryKind::Cpu, none, bytes)],
            Image::Ptx(ptx) => vec![Entry {
                ptx_version: ptx.version.unwrap_or_default(),
                ..whole(EntryKind::Ptx, ptx.target.unwrap_or(none), ptx.given)
            }],
        }
    }
}

/// All PTX in a file, unpacked one after the other, in the order of the file.
///
/// Reads every kind of file that [`contents`] reads. One text that is damaged is an error in its
/// place, and the others follow; so is one that goes beyond the [`UnpackLimit`] of the file.
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
    let contents = contents(bytes)?.linked();
    let alone = contents.holder == Holder::Image
        && matches!(
            contents.pieces.first().map(|piece| &piece.image),
            Some(Image::Ptx(_))
        );
    let mut unpacker = Unpacker::default();
    let mut limit = UnpackLimit::of_file(bytes.len());
    let pieces = contents.pieces.into_iter();
    let entries = pieces.flat_map(|piece| {
        piece
            .entries()
            .into_iter()
            .map(move |entry| (piece.member.clone(), entry))
    });
    Ok(entries
        .enumerate()
        .filter(|(_, (_, entry))| entry.kind.is_ptx())
        .map(move |(index, (member, entry))| {
            let origin = match member {
                _ if alone => String::new(),
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
        }))
}
