//! The file of a report, which many processes append to.

use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;

use serde_json::Value;

/// The start of a page. Its script reads the records that stand behind it.
const PAGE: &str = include_str!("page.html");

/// Appends a record: to a page as an element, to other files as a line of JSON.
pub(super) fn append(path: &Path, record: &Value) -> Result<()> {
    let is_page = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("html"));
    let mut file = File::options().append(true).create(true).open(path)?;
    // One writes the start of the page; the lock ends with the file. A file system without locks
    // has records that may be mixed up, which is better than none.
    let _ = file.lock();
    let mut text = String::new();
    if is_page {
        if file.metadata()?.len() == 0 {
            text += PAGE;
        }
        // A name must not end the element.
        let record = record.to_string().replace('<', "\\u003c");
        text += &format!("<script type=\"application/json\">{record}</script>\n");
    } else {
        text += &format!("{record}\n");
    }
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_one_start_and_no_name_ends_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.HTML");
        let record = serde_json::json!({ "name": "</script><b>" });
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| append(&path, &record).unwrap());
            }
        });
        let text = std::fs::read_to_string(&path).unwrap();
        let rest = text.strip_prefix(PAGE).unwrap();
        assert_eq!(rest.lines().count(), 8);
        for line in rest.lines() {
            let json = line
                .strip_prefix("<script type=\"application/json\">")
                .and_then(|line| line.strip_suffix("</script>"))
                .unwrap();
            assert_eq!(serde_json::from_str::<Value>(json).unwrap(), record);
        }
    }
}
