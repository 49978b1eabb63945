//! Whether printing a module changes what it means: nothing is recorded.

use std::io;

use ptxkit_ptx::printer::print;

use crate::archive::{self, Entry, Verdict};
use crate::parallel::parallel;
use crate::toolkit::{Toolkit, run};

/// So many modules are compiled to machine code, as printed and as they were.
const COMPILED: usize = 50;

/// ptxas must accept every module of the corpus after printing, and make the
/// same machine code of a sample.
pub fn check(toolkit: &Toolkit) -> io::Result<()> {
    let entries = archive::entries(&archive::read("corpus"));
    let accepted = parallel(&entries, |entry| {
        let verdict = toolkit.judge(printed(entry).as_bytes());
        if !matches!(verdict, Ok(Verdict::Accepted)) {
            eprintln!("{}: after printing: {verdict:?}", entry.name);
        }
        matches!(verdict, Ok(Verdict::Accepted))
    });
    let accepted = accepted.iter().filter(|accepted| **accepted).count();
    println!("printed: {accepted} of {} modules accepted", entries.len());

    // Spread over all of them; the largest take too long.
    let small: Vec<&Entry> = entries.iter().filter(|e| e.text.len() < 200_000).collect();
    let step = (small.len() / COMPILED).max(1);
    let sample: Vec<&Entry> = small.into_iter().step_by(step).take(COMPILED).collect();
    let equal = parallel(&sample, |entry| -> io::Result<bool> {
        let equal = machine_code(toolkit, &entry.text)? == machine_code(toolkit, &printed(entry))?;
        if !equal {
            eprintln!("{}: other machine code after printing", entry.name);
        }
        Ok(equal)
    });
    let equal: Vec<bool> = equal.into_iter().collect::<io::Result<_>>()?;
    let same = equal.iter().filter(|equal| **equal).count();
    println!(
        "printed: the same machine code of {same} of {}",
        equal.len()
    );
    if accepted < entries.len() || same < equal.len() {
        return Err(io::Error::other("printing changed what modules mean"));
    }
    Ok(())
}

fn printed(entry: &Entry) -> String {
    print(&ptxkit_ptx::read(&entry.text).module)
}

/// What `cuobjdump -sass` shows.
fn machine_code(toolkit: &Toolkit, text: &str) -> io::Result<String> {
    let (source, object) = (toolkit.fresh("ptx"), toolkit.fresh("cubin"));
    std::fs::write(&source, text)?;
    let target = crate::toolkit::architecture(text.as_bytes()).replace("compute_", "sm_");
    let arch = format!("-arch={target}");
    // `-c`: other translation units may hold the rest.
    let mut ptxas = toolkit.program("ptxas");
    run(ptxas
        .args([&arch, "-c"])
        .arg(&source)
        .arg("-o")
        .arg(&object))?;
    let shown = toolkit
        .program("cuobjdump")
        .arg("-sass")
        .arg(&object)
        .output()?;
    std::fs::remove_file(&source)?;
    std::fs::remove_file(&object)?;
    if !shown.status.success() {
        return Err(io::Error::other(
            String::from_utf8_lossy(&shown.stderr).into_owned(),
        ));
    }
    Ok(String::from_utf8_lossy(&shown.stdout).into_owned())
}
