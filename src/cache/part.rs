//! One part of a blob, without the rest.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::blob::Head;
use super::folder;
use super::provenance::Provenance;

/// An open blob of which parts are read one by one: what a lazy loader needs
/// of a blob that holds hundreds of kernels. It stays good though the blob is
/// evicted meanwhile.
#[derive(Debug)]
pub struct PartFile {
    file: File,
    head: Head,
    provenance: Provenance,
}

impl PartFile {
    pub(super) fn new(file: File, head: Head, provenance: Provenance) -> PartFile {
        PartFile {
            file,
            head,
            provenance,
        }
    }

    /// The names of the parts, in the order in which they were put.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.head.parts.iter().map(|part| part.name.as_str())
    }

    /// Where the blob comes from.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// Reads one part and checks it; `None` where there is none of this name.
    pub fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(part) = self.head.parts.iter().find(|part| part.name == name) else {
            return Ok(None);
        };
        self.file.seek(SeekFrom::Start(part.bytes.start as u64))?;
        // The range was checked against the length of the file.
        let mut bytes = Vec::with_capacity(part.bytes.len());
        (&mut self.file)
            .take(part.bytes.len() as u64)
            .read_to_end(&mut bytes)?;
        if !part.is_whole(&bytes) {
            return Err(folder::untrusted("its checksum does not match".into()));
        }
        Ok(Some(bytes))
    }
}
