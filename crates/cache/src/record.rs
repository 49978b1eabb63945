//! Records: entries that describe a file, not code that a compiler made of PTX.
//!
//! | record | its key holds | content | written by |
//! |---|---|---|---|
//! | [`Record::Source`] | BLAKE3 of a binary | the PTX text that the binary was compiled from | `ptxkit-ptxas-cache` |
//! | [`Record::Compiler`] | BLAKE3 of device, inode, size and times of a compiler's file | the compiler's identity | `ptxkit-ptxas-cache` |
//!
//! A record is a blob whose key has the compiler `ptxkit-source 1` or `ptxkit-compiler 1`, no
//! target and no options. No key of code has such a compiler, so no load finds a record. Records
//! count towards the size limit and are evicted as code is. They are not written to the store
//! that machines share, and not looked up there.

use super::blob::Blob;
use super::key::{Key, KeyParts};
use super::provenance::Provenance;
use super::{Cache, Digest};

/// A kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Record {
    /// The PTX text of a binary, by the binary's digest. If several texts compile to the same
    /// binary, it is the first of them.
    Source,
    /// The identity of a compiler, by the digest of its file's device, inode, size and times: a
    /// process that finds it does not read the file.
    Compiler,
}

impl Record {
    /// As in [`KeyParts::compiler`]. The first words differ, so that eviction takes neither kind
    /// for an older version of the other.
    const fn compiler(self) -> &'static str {
        match self {
            Record::Source => "ptxkit-source 1",
            Record::Compiler => "ptxkit-compiler 1",
        }
    }

    /// The key of the record about the file with this digest.
    pub fn key(self, subject: Digest) -> Key {
        Key::new(&KeyParts {
            source: subject,
            target: "",
            driver_version: 0,
            compiler: self.compiler(),
            options: b"",
        })
    }
}

impl Cache {
    /// Returns a record, if a folder on this machine has it.
    pub fn recorded(&self, record: Record, subject: Digest) -> Option<Blob> {
        self.stored(&record.key(subject))
    }

    /// Stores a record in the folder, unless there is one. `name` is the name of the file that it
    /// describes, for tools. A failure to store is a warning.
    ///
    /// # Safety
    /// `content` must be what [`Record`] says of the subject: with the identity of another
    /// compiler, code would be found that this one has not made.
    #[allow(unsafe_code, reason = "what the cache contains is trusted")]
    pub unsafe fn record(&self, record: Record, subject: Digest, name: &str, content: &[u8]) {
        let key = record.key(subject);
        if self.contains(&key) {
            return;
        }
        let provenance = Provenance {
            source: name.to_owned(),
            compiler: record.compiler().to_owned(),
            ..Provenance::default()
        };
        let blob = Blob::new(&key, &provenance, content);
        self.local().put(&[(key, &blob)]);
    }

    /// Returns the PTX text that a binary was compiled from, if a folder on this machine has it.
    ///
    /// ```
    /// # use ptxkit_cache::{Cache, Digest, Environment, Policy, Record};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let policy = Policy::from_environment(&Environment::of([("CUDA_CACHE_PATH", folder.path())]));
    /// # let cache = Cache::new(policy);
    /// let (cubin, ptx) = (b"\x7fELF", b".version 9.0");
    /// assert!(cache.source_of(cubin).is_none());
    /// // SAFETY: the cubin was compiled from this text.
    /// unsafe { cache.record(Record::Source, Digest::of(cubin), "kernel.ptx", ptx) };
    /// assert_eq!(*cache.source_of(cubin).unwrap(), *ptx);
    /// ```
    pub fn source_of(&self, binary: &[u8]) -> Option<Blob> {
        self.recorded(Record::Source, Digest::of(binary))
    }
}

#[cfg(test)]
#[allow(unsafe_code, reason = "what is put into these caches is never used")]
mod tests {
    use crate::policy::Policy;

    use super::*;

    #[test]
    fn a_record_is_found_by_its_kind_and_subject() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(
            Policy::disabled()
                .with_enabled(true)
                .with_path(folder.path()),
        );
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        // SAFETY: nobody uses them.
        unsafe {
            cache.record(Record::Source, one, "k.ptx", b"text");
            // The first stays.
            cache.record(Record::Source, one, "l.ptx", b"another text");
        }
        let found = cache.recorded(Record::Source, one).unwrap();
        assert_eq!(*found, *b"text");
        assert_eq!(found.provenance().source, "k.ptx");
        assert!(cache.recorded(Record::Source, other).is_none());
        assert!(cache.recorded(Record::Compiler, one).is_none());
    }

    #[test]
    fn records_obey_the_size_limit() {
        let folder = tempfile::tempdir().unwrap();
        let policy = Policy::disabled()
            .with_enabled(true)
            .with_path(folder.path());
        let cache = Cache::new(policy.with_max_size(4096));
        for n in 0..20_u8 {
            // SAFETY: nobody uses them.
            unsafe { cache.record(Record::Source, Digest::of(&[n]), "k.ptx", &[n; 1000]) };
        }
        let stats = cache.stats().unwrap();
        assert!(stats.bytes <= 4096, "{stats:?}");
        assert!(cache.recorded(Record::Source, Digest::of(&[19])).is_some());
        assert!(cache.recorded(Record::Source, Digest::of(&[0])).is_none());
    }
}
