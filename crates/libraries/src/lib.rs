//! Shared libraries of the process: the folder in which one of ours lies, and NVIDIA's
//! library of a name that one of ours has taken.

mod driver;

use std::env;
use std::ffi::{OsString, c_void};
use std::path::{Path, PathBuf};

use libloading::Library;

pub use driver::{driver, is_of_cpu_device};

/// The folder of the library that has this address.
pub fn folder_of(address: *const c_void) -> Option<PathBuf> {
    let maps = maps();
    let mut found = mappings(&maps).filter(|(range, _)| range.contains(&address.addr()));
    Some(Path::new(found.next()?.1).parent()?.to_owned())
}

/// A library of NVIDIA's that one of ours stands in front of.
pub struct Original {
    /// What names the file in place of a search.
    pub variable: &'static str,
    /// Names of the file, the best first.
    pub names: &'static [&'static str],
    /// Where pip puts the file within `site-packages`.
    pub packages: &'static [&'static str],
    /// A symbol that ours has and NVIDIA's has not.
    pub mark: &'static str,
}

impl Original {
    /// Opens the library, which is never closed. The error says where it was looked for.
    ///
    /// A search by name alone would find ours again, so each folder is asked that the
    /// loader would search, and the packages of the Python that runs.
    pub fn open(&self) -> Result<&'static Library, String> {
        let named = env::var_os(self.variable).filter(|name| !name.is_empty());
        let files = match &named {
            Some(file) => vec![PathBuf::from(file)],
            None => self.candidates(),
        };
        for file in &files {
            // SAFETY: NVIDIA's library, or the file that the user named, runs its
            // initialisers.
            let Ok(library) = (unsafe { Library::new(file) }) else {
                continue;
            };
            // SAFETY: only asks whether there is such a symbol.
            if unsafe { library.get::<*mut c_void>(self.mark) }.is_err() {
                return Ok(Box::leak(Box::new(library)));
            }
        }
        let name = self.names.first().copied().unwrap_or_default();
        Err(match named {
            Some(file) => format!(
                "{} names {}, which cannot be opened as {name}",
                self.variable,
                file.display()
            ),
            None => format!(
                "NVIDIA's {name} is not found: install it from PyPI or with CUDA's toolkit, or name the file by {}",
                self.variable
            ),
        })
    }

    /// Files of these names that exist.
    fn candidates(&self) -> Vec<PathBuf> {
        let packages = site_packages(&maps()).into_iter();
        let within =
            packages.flat_map(|folder| self.packages.iter().map(move |place| folder.join(place)));
        let searched = folders(env::var_os("LD_LIBRARY_PATH"));
        searched
            .into_iter()
            .chain(within)
            .chain(toolkits())
            .chain(SYSTEM.iter().map(PathBuf::from))
            .flat_map(|folder| self.names.iter().map(move |name| folder.join(name)))
            .filter(|file| file.exists())
            .collect()
    }
}

/// Where distributions have libraries.
const SYSTEM: [&str; 5] = [
    #[cfg(target_arch = "x86_64")]
    "/usr/lib/x86_64-linux-gnu",
    #[cfg(not(target_arch = "x86_64"))]
    "/usr/lib/aarch64-linux-gnu",
    "/usr/local/lib",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
];

fn folders(list: Option<OsString>) -> Vec<PathBuf> {
    let list = list.unwrap_or_default();
    env::split_paths(&list)
        .filter(|folder| folder.is_absolute())
        .collect()
}

/// The folders with libraries of CUDA's toolkit.
fn toolkits() -> Vec<PathBuf> {
    let named = ["CUDA_PATH", "CUDA_HOME"].map(env::var_os);
    let usual = Some(OsString::from("/usr/local/cuda"));
    let roots = named.into_iter().chain([usual]).flatten();
    roots
        .map(PathBuf::from)
        .flat_map(|root| [root.join("lib64"), root.join("lib")])
        .collect()
}

fn maps() -> String {
    // Without it nothing is known to be mapped.
    std::fs::read_to_string("/proc/self/maps").unwrap_or_default()
}

/// The address ranges and files of a process, from the text of `/proc/self/maps`.
fn mappings(maps: &str) -> impl Iterator<Item = (std::ops::Range<usize>, &str)> {
    maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        let path = rest.find('/').map(|at| &rest[at..])?;
        Some((range, path))
    })
}

/// The folders of Python packages from which something is mapped: a program in Python that
/// calls a library of ours has its bindings there.
fn site_packages(maps: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (_, path) in mappings(maps) {
        let ancestors = Path::new(path).ancestors();
        let is_root =
            |folder: &&Path| folder.ends_with("site-packages") || folder.ends_with("dist-packages");
        if let Some(folder) = ancestors.into_iter().find(is_root).map(Path::to_owned)
            && !found.contains(&folder)
        {
            found.push(folder);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
7f00-7f10 r-xp 00000000 08:01 12   /opt/a/lib/python3.11/site-packages/cuda/bindings/driver.so
7f10-7f20 r--p 00000000 08:01 12   /opt/a/lib/python3.11/site-packages/numpy/core.so
7f20-7f30 r-xp 00000000 08:01 13   /usr/lib/libc.so.6
7f30-7f40 rw-p 00000000 00:00 0
7f40-7f50 rw-p 00000000 00:00 0    [heap]";

    #[test]
    fn packages_are_those_that_something_is_mapped_from() {
        assert_eq!(
            site_packages(MAPS),
            [Path::new("/opt/a/lib/python3.11/site-packages")]
        );
    }

    #[test]
    fn an_address_has_a_file_or_none() {
        let file = |address| mappings(MAPS).find(|(range, _)| range.contains(&address));
        assert_eq!(
            file(0x7f2f).map(|(_, path)| path),
            Some("/usr/lib/libc.so.6")
        );
        assert!(file(0x7f45).is_none());
        let own = folder_of(folder_of as *const c_void);
        assert_eq!(own.as_deref(), env::current_exe().unwrap().parent());
    }

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let none = Original {
            variable: "PTXKIT_NO_SUCH_VARIABLE",
            names: &["libptxkit-none.so.1"],
            packages: &["nvidia/none/lib"],
            mark: "ptxkitMark",
        };
        let error = none.open().map(|_| ()).unwrap_err();
        assert!(error.contains("libptxkit-none.so.1"), "{error}");
        assert!(error.contains("PTXKIT_NO_SUCH_VARIABLE"), "{error}");
    }
}
