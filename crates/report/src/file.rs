//! Files that several processes append to.

use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;

use super::page;
use super::record::Record;

impl Record<'_> {
    /// Appends the record to a page, if the name ends in `.html`, or to lines of JSON.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&self, path: &Path) -> Result<()> {
        let json = serde_json::to_string(self)?;
        let is_page = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("html"));
        append(path, |is_empty| {
            if is_page {
                let start = if is_empty { page::START } else { "" };
                format!("{start}{}", page::element(&json))
            } else {
                format!("{json}\n")
            }
        })
    }
}

/// Appends a text, which is made when it is known whether the file is empty.
pub(crate) fn append(path: &Path, text: impl FnOnce(bool) -> String) -> Result<()> {
    let mut file = File::options().append(true).create(true).open(path)?;
    // One process writes the start of the file; the lock ends with the file. On a file system without locks records
    // may be mixed up, which is better than none.
    let _ = file.lock();
    let is_empty = file.metadata()?.len() == 0;
    file.write_all(text(is_empty).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Missing, Process};

    #[test]
    fn a_page_has_one_start_and_no_name_ends_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.HTML");
        let process = Process::current();
        let append = || {
            let mut record = Record::new(&process, 1.0);
            record.missing.push(Missing {
                entry: "</script><b>".into(),
                times: 1,
            });
            record.append(&path).unwrap();
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(append);
            }
        });
        let text = std::fs::read_to_string(&path).unwrap();
        let rest = text.strip_prefix(page::START).unwrap();
        assert_eq!(rest.lines().count(), 8);
        for line in rest.lines() {
            let json = line
                .strip_prefix("<script type=\"application/json\">")
                .and_then(|line| line.strip_suffix("</script>"))
                .unwrap();
            let record: serde_json::Value = serde_json::from_str(json).unwrap();
            assert_eq!(record["missing"][0]["entry"], "</script><b>");
        }
    }
}
