//! Whole libraries beside cuobjdump, where they are: `PTXKIT_CUOBJDUMP` names the program,
//! `PTXKIT_IMAGE_LIBRARIES` the files, separated by colons.
//!
//!     cargo test --release --test images -- --ignored --nocapture

use std::process::Command;

use super::cuobjdump::{self, Said};

#[test]
#[ignore = "needs cuobjdump and libraries with images"]
fn libraries_are_read_as_cuobjdump_reads_them() {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is unset"));
    let program = variable("PTXKIT_CUOBJDUMP");
    let mut differ = Vec::new();
    for path in variable("PTXKIT_IMAGE_LIBRARIES").split(':') {
        let path = std::fs::canonicalize(path).expect(path);
        let folder = tempfile::tempdir().expect("a folder for PTX");
        let say = |arguments: &[&str]| {
            let output = Command::new(&program)
                .args(arguments)
                .arg(&path)
                .current_dir(folder.path())
                .output()
                .expect("cuobjdump runs");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let names = say(&["-xptx", "all"]);
        let names = names.lines().filter_map(|line| {
            let (_, rest) = line.split_once(": ")?;
            rest.split_whitespace().next()
        });
        let theirs = Said {
            list: cuobjdump::list(&say(&["-lelf", "-lptx"])),
            resources: cuobjdump::resources(&say(&["-res-usage"])),
            ptx: names
                .map(|name| std::fs::read_to_string(folder.path().join(name)).expect(name))
                .collect(),
        };
        let bytes = std::fs::read(&path).expect("the library is there");
        let ours = super::read(&bytes).expect("the library is read");
        let name = path.display();
        println!(
            "{name}: {} images, {} cubins, {} PTX texts",
            theirs.list.len(),
            theirs.resources.len(),
            theirs.ptx.len()
        );
        for (what, same) in [
            ("lists", ours.list == theirs.list),
            ("resources", ours.resources == theirs.resources),
            ("PTX texts", ours.ptx == theirs.ptx),
        ] {
            if !same {
                differ.push(format!("{name}: the {what} differ"));
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
