//! Reads `/etc/ld.so.cache`, the dynamic linker's list of libraries (glibc's format `glibc-ld.so.cache1.1`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER_BYTES: usize = 48;
const ENTRY_BYTES: usize = 24;

/// Returns the files of a library's name, in the linker's order.
pub fn files_of(cache: &[u8], library: &str) -> Vec<PathBuf> {
    // Older caches have a table of another format in front.
    let start = cache
        .windows(MAGIC.len())
        .position(|bytes| bytes == MAGIC)
        .unwrap_or(cache.len());
    let cache = &cache[start..];
    let number = |at: usize| -> Option<usize> {
        let bytes = cache.get(at..at + 4)?.first_chunk()?;
        usize::try_from(u32::from_ne_bytes(*bytes)).ok()
    };
    let text = |at: usize| -> Option<&[u8]> {
        let rest = cache.get(at..)?;
        rest.get(..rest.iter().position(|byte| *byte == 0)?)
    };
    let count = number(MAGIC.len()).unwrap_or(0);
    let entries = (0..count).map_while(|n| {
        let at = HEADER_BYTES + n * ENTRY_BYTES;
        Some((text(number(at + 4)?)?, text(number(at + 8)?)?))
    });
    entries
        .filter(|(name, _)| *name == library.as_bytes())
        .map(|(_, file)| PathBuf::from(OsStr::from_bytes(file)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((entries.len() as u32).to_ne_bytes());
        bytes.resize(HEADER_BYTES, 0);
        let mut strings = Vec::new();
        let start = HEADER_BYTES + entries.len() * ENTRY_BYTES;
        for (name, file) in entries {
            bytes.extend(3_u32.to_ne_bytes());
            for text in [name, file] {
                bytes.extend(((start + strings.len()) as u32).to_ne_bytes());
                strings.extend(text.bytes());
                strings.push(0);
            }
            bytes.extend([0; 12]);
        }
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn the_files_of_a_name_are_found() {
        let bytes = cache(&[
            ("libcuda.so.1", "/a/libcuda.so.1"),
            ("libc.so.6", "/lib/libc.so.6"),
            ("libcuda.so.1", "/b/libcuda.so.1"),
        ]);
        let expected = ["/a/libcuda.so.1", "/b/libcuda.so.1"].map(PathBuf::from);
        assert_eq!(files_of(&bytes, "libcuda.so.1"), expected);
        // The same behind a table of the old format.
        let old = [b"ld.so-1.7.0\0".as_slice(), &[0; 20], &bytes].concat();
        assert_eq!(files_of(&old, "libcuda.so.1"), expected);
        for length in 0..bytes.len() {
            files_of(&bytes[..length], "libcuda.so.1");
        }
    }
}
