//! Cuts modules, and checks each slice: `slices [--into FOLDER] [--always] [--addresses] FILE…`
//!
//! With `--always`, modules are cut too where that saves no time. With `--addresses`, variables are in one slice. Prints a line for each module: its name, kernels, slices, the kernels of the largest
//! slice, the length of all slices beside the module's, and why it is not cut. With
//! `--into`, the slices are written there, as `MODULE/NUMBER.ptx`, with a list of their
//! kernels, `MODULE/kernels`: `NUMBER KERNEL`. Exit status 1 if the front end finds an
//! error in a slice and not in its module.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ptxkit_ptx::ast::Module;
use ptxkit_ptx::diagnostic::render;
use ptxkit_ptx::slice::{HostAccess, Slices, cut_always_for, cut_for};
use ptxkit_ptx::{check, read, text_of};

fn main() -> ExitCode {
    let mut arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let mut into = None;
    if arguments
        .first()
        .is_some_and(|first| first == Path::new("--into"))
    {
        into = arguments.drain(..2.min(arguments.len())).nth(1);
    }
    let mut flag = |name: &str| {
        let found = arguments
            .first()
            .is_some_and(|first| first == Path::new(name));
        if found {
            arguments.remove(0);
        }
        found
    };
    let cut: Cut = if flag("--always") {
        cut_always_for
    } else {
        cut_for
    };
    let access = if flag("--addresses") {
        HostAccess::Addresses
    } else {
        HostAccess::Writes
    };
    let mut right = true;
    for file in &arguments {
        match one(file, into.as_deref(), |source, module| {
            cut(source, module, access)
        }) {
            Ok(accepted) => right &= accepted,
            Err(error) => {
                eprintln!("{}: {error}", file.display());
                right = false;
            }
        }
    }
    ExitCode::from(u8::from(!right))
}

type Cut = fn(&str, &Module<'_>, HostAccess) -> Slices;

fn one(
    file: &Path,
    into: Option<&Path>,
    cut: impl Fn(&str, &Module<'_>) -> Slices,
) -> std::io::Result<bool> {
    let bytes = std::fs::read(file)?;
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    let source = text_of(bytes);
    let reading = read(&source);
    let mut accepted = reading.diagnostics.is_empty();
    if !accepted {
        println!("{}: not read", file.display());
        return Ok(true);
    }
    let module_errors = check(&reading.module, &source).len();
    let slices = cut(&source, &reading.module);
    let folder = into.map(|into| into.join(file.file_stem().unwrap_or_default()));
    let mut kernels = String::new();
    let mut length = 0;
    for (number, slice) in slices.slices().iter().enumerate() {
        let text = slice.text(&source);
        length += text.len();
        if slices.whole().is_none() && module_errors == 0 {
            let reading = read(&text);
            let found = reading.diagnostics.into_iter();
            for found in found.chain(check(&reading.module, &text)) {
                accepted = false;
                let path = format!("{} slice {number}", file.display());
                print!("{}", render(&text, &path, &found));
            }
        }
        if let Some(folder) = &folder
            && slices.whole().is_none()
        {
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join(format!("{number}.ptx")), text.as_bytes())?;
            for kernel in slice.kernels() {
                // Writing to a String cannot fail.
                let _ = writeln!(kernels, "{number} {kernel}");
            }
        }
    }
    if let Some(folder) = folder.filter(|_| slices.whole().is_none()) {
        std::fs::write(folder.join("kernels"), kernels)?;
    }
    let largest = slices.slices().iter().map(|slice| slice.kernels().len());
    println!(
        "{}: {} kernels, {} slices, largest {}, {:.2} of the text, {}",
        file.display(),
        slices.kernel_names().count(),
        slices.slices().len(),
        largest.max().unwrap_or(0),
        length as f64 / source.len() as f64,
        slices
            .whole()
            .map_or("cut".to_owned(), |why| format!("whole: {why}")),
    );
    Ok(accepted)
}
