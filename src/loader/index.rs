//! The index of a module that was read, checked and cut: what a load needs of it, so
//! that it is not read again while its index is in the cache.
//!
//! | what | bytes |
//! |---|---|
//! | version of this layout | 4 |
//! | why the module is not cut; empty where it is | a text |
//! | slices | their number, and the key of each |
//! | kernels | their number; name and slice of each |
//! | variables | their number; name, space (0 `.global`, 1 `.const`), bytes, and slices of each |
//!
//! Integers are little-endian: 4 bytes, a variable's size 8. A text is its length and
//! its UTF-8.

use super::plan::CutRules;
use crate::cache::Key;
use ptx::Digest;
use ptx::ast::{Item, Module, Space};
use ptx::signature::layout;
use ptx::slice::{Placement, Slices};

const VERSION: u32 = 1;

/// The slices of a module, and what is in them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Index {
    /// Why the module is not cut; all else is empty then.
    pub whole: Option<String>,
    /// The keys of their code.
    pub slices: Vec<Key>,
    /// The names of kernels, sorted, and their slices.
    pub kernels: Vec<(String, usize)>,
    /// Sorted by name.
    pub variables: Vec<Variable>,
}

/// A variable that the host can access.
#[derive(Debug, PartialEq)]
pub(super) struct Variable {
    pub name: String,
    pub is_constant: bool,
    pub bytes: u64,
    /// Those that have a copy; one if it is not copied.
    pub slices: Vec<usize>,
}

impl Index {
    /// The index of a module that is not cut.
    pub(super) fn whole(why: String) -> Index {
        Index {
            whole: Some(why),
            ..Index::default()
        }
    }

    /// The index of `module`, which was cut into `slices` with these keys.
    pub(super) fn new(module: &Module<'_>, slices: &Slices, keys: Vec<Key>) -> Index {
        let kernels = slices.kernel_names();
        let mut kernels: Vec<_> = kernels
            .filter_map(|name| Some((name.to_owned(), slices.kernel(name)?)))
            .collect();
        kernels.sort_unstable();
        let mut variables: Vec<_> = module
            .items
            .iter()
            .filter_map(|item| {
                let Item::Variable(variable) = item else {
                    return None;
                };
                let name = variable.name.text;
                let slices = match slices.variable(name)? {
                    Placement::Single(slice) => vec![slice],
                    Placement::Copies(slices) => slices.to_vec(),
                    _ => return None,
                };
                Some(Variable {
                    name: name.to_owned(),
                    is_constant: variable.space == Space::Const,
                    bytes: layout(variable).0,
                    slices,
                })
            })
            .collect();
        // Declared before it is defined, a variable is there twice; `[]` has no size there.
        variables.sort_by(|a, b| a.name.cmp(&b.name).then(b.bytes.cmp(&a.bytes)));
        variables.dedup_by(|a, b| a.name == b.name);
        Index {
            whole: None,
            slices: keys,
            kernels,
            variables,
        }
    }

    pub(super) fn kernel_names(&self) -> Vec<String> {
        self.kernels.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The slice of a kernel.
    pub(super) fn kernel(&self, name: &str) -> Option<usize> {
        let found = self
            .kernels
            .binary_search_by(|kernel| (*kernel.0).cmp(name));
        Some(self.kernels[found.ok()?].1)
    }

    pub(super) fn variable(&self, name: &str) -> Option<&Variable> {
        let found = self
            .variables
            .binary_search_by(|variable| (*variable.name).cmp(name));
        Some(&self.variables[found.ok()?])
    }

    /// The kernels of each slice.
    pub(super) fn by_slice(&self) -> Vec<Vec<&str>> {
        let mut names = vec![Vec::new(); self.slices.len()];
        for (name, slice) in &self.kernels {
            names[*slice].push(name.as_str());
        }
        names
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        number(&mut bytes, VERSION as usize);
        text(&mut bytes, self.whole.as_deref().unwrap_or_default());
        number(&mut bytes, self.slices.len());
        for key in &self.slices {
            bytes.extend_from_slice(key.as_bytes());
        }
        number(&mut bytes, self.kernels.len());
        for (name, slice) in &self.kernels {
            text(&mut bytes, name);
            number(&mut bytes, *slice);
        }
        number(&mut bytes, self.variables.len());
        for variable in &self.variables {
            text(&mut bytes, &variable.name);
            number(&mut bytes, usize::from(variable.is_constant));
            bytes.extend_from_slice(&variable.bytes.to_le_bytes());
            number(&mut bytes, variable.slices.len());
            for slice in &variable.slices {
                number(&mut bytes, *slice);
            }
        }
        bytes
    }

    /// Reads what `to_bytes` wrote; `None` for anything else.
    pub(super) fn read(bytes: &[u8]) -> Option<Index> {
        let mut reader = Reader(bytes);
        if reader.number()? != VERSION as usize {
            return None;
        }
        let whole = reader.text()?;
        let count = reader.number()?;
        let slices: Vec<Key> = (0..count).map_while(|_| reader.key()).collect();
        let is_slice = |slice: usize| (slice < count).then_some(slice);
        let mut kernels = Vec::new();
        for _ in 0..reader.number()? {
            kernels.push((reader.text()?, is_slice(reader.number()?)?));
        }
        let mut variables = Vec::new();
        for _ in 0..reader.number()? {
            let name = reader.text()?;
            let is_constant = reader.number()? == 1;
            let bytes = u64::from_le_bytes(reader.take()?);
            let mut slices = Vec::new();
            for _ in 0..reader.number()? {
                slices.push(is_slice(reader.number()?)?);
            }
            variables.push(Variable {
                name,
                is_constant,
                bytes,
                slices,
            });
        }
        // Names are looked up by bisection.
        let is_sorted = kernels.is_sorted() && variables.is_sorted_by(|a, b| a.name < b.name);
        (reader.0.is_empty() && slices.len() == count && is_sorted).then_some(Index {
            whole: (!whole.is_empty()).then_some(whole),
            slices,
            kernels,
            variables,
        })
    }
}

/// Counts and lengths are those of one text of less than 4 GiB.
fn number(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    number(bytes, text.len());
    bytes.extend_from_slice(text.as_bytes());
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.take()?)).ok()
    }

    fn text(&mut self) -> Option<String> {
        let length = self.number()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(str::from_utf8(text).ok()?.to_owned())
    }

    fn key(&mut self) -> Option<Key> {
        Some(Key::from_bytes(self.take()?))
    }
}

/// What goes into an index's key beside the digest of the PTX: whatever can change how it
/// is cut.
pub(super) fn digest_for_index(source: Digest, rules: CutRules) -> Digest {
    let mut bytes = source.as_bytes().to_vec();
    let sources = ptx::SOURCES;
    let CutRules { slicing, access } = rules;
    let rules = format!("slices {VERSION} {sources} {} {access:?}", slicing.word());
    bytes.extend_from_slice(rules.as_bytes());
    Digest::of(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        Index {
            whole: None,
            slices: [1, 2].map(|n| Key::from_bytes([n; 32])).to_vec(),
            kernels: vec![("a".into(), 1), ("b".into(), 0), ("é".into(), 0)],
            variables: vec![Variable {
                name: "weights".into(),
                is_constant: true,
                bytes: 1 << 40,
                slices: vec![0, 1],
            }],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let whole = Index::whole("it is short".into());
        for index in [index(), whole, Index::default()] {
            assert_eq!(Index::read(&index.to_bytes()), Some(index));
        }
        assert_eq!(index().kernel("b"), Some(0));
        assert_eq!(index().kernel("c"), None);
        assert_eq!(index().by_slice(), [vec!["b", "é"], vec!["a"]]);
    }

    /// A blob has a checksum; this is for those that another program wrote.
    #[test]
    fn no_bytes_make_it_panic() {
        let good = index().to_bytes();
        for length in 0..good.len() {
            assert_eq!(Index::read(&good[..length]), None, "{length}");
        }
        assert_eq!(Index::read(&[&good[..], &[0]].concat()), None);
        for at in 0..good.len() {
            for byte in [0, 1, 2, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = byte;
                if let Some(index) = Index::read(&bad) {
                    let count = index.slices.len();
                    assert!(index.kernels.iter().all(|kernel| kernel.1 < count));
                }
            }
        }
    }
}
