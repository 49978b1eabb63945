//! One run of the real ptxas, in a private folder.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Stdio;

use input::ShowName as _;

use super::invocation::Invocation;
use super::real::Real;
use super::stored::{Stored, Texts, contains};

/// Random characters of the folder's name: no text and no code contains it by chance.
const RANDOM: usize = 20;

pub struct Assembly<'a> {
    pub real: &'a Real,
    pub invocation: &'a Invocation,
}

pub enum Assembled {
    Made(Stored),
    Failed(Failed),
}

/// A run that ended with an exit status other than 0.
pub struct Failed {
    pub status: u8,
    texts: Texts,
}

impl Failed {
    pub fn print(&self, invocation: &Invocation) {
        self.texts.print(invocation);
    }
}

impl Assembly<'_> {
    /// Assembles `ptx`. The error is the reason to run the real ptxas on the files themselves.
    pub fn run(&self, ptx: &[u8]) -> Result<Assembled, String> {
        let private = |error: io::Error| {
            let folder = std::env::temp_dir();
            format!(
                "a private folder in {} cannot be used: {error}",
                folder.shown()
            )
        };
        let folder = tempfile::Builder::new()
            .prefix("ptxas-")
            .rand_bytes(RANDOM)
            .tempdir()
            .map_err(private)?;
        let unique = folder.path().file_name().unwrap_or_default();
        // Each name is unique by itself: ptxas may print the last component alone.
        let extension = self.invocation.input().extension();
        let mut name = unique.to_owned();
        if let Some(extension) = extension {
            name.push(".");
            name.push(extension);
        }
        let input = folder.path().join(&name);
        name.push(".cubin");
        let output = folder.path().join(name);
        fs::write(&input, ptx).map_err(private)?;
        let ran = self
            .real
            .command()
            .args(self.invocation.arguments(&input, &output))
            .stdin(Stdio::inherit())
            .output()
            .map_err(|error| format!("ptxas cannot be run: {error}"))?;
        let unique = unique.as_encoded_bytes();
        let texts = Texts::of(
            &ran.stdout,
            &ran.stderr,
            input.as_os_str().as_encoded_bytes(),
            unique,
        )
        .ok_or("the messages of ptxas depend on the names of files")?;
        match ran.status.code() {
            Some(0) => {}
            // The real ptxas gets the same signal.
            None => return Err(format!("ptxas ended by {}", ran.status)),
            Some(code) => {
                let status = u8::try_from(code).map_err(|_| format!("ptxas ended by {code}"))?;
                return Ok(Assembled::Failed(Failed { status, texts }));
            }
        }
        if !has_only(folder.path(), [&input, &output]).map_err(private)? {
            return Err("ptxas wrote other files than the output".into());
        }
        let cubin = input::read(&output).map_err(|_| "ptxas made no output file")?;
        if contains(&cubin, unique) {
            return Err("the cubin contains the names of files".into());
        }
        Ok(Assembled::Made(Stored { cubin, texts }))
    }
}

/// Whether a folder contains no other files than these.
fn has_only(folder: &Path, files: [&Path; 2]) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        if !files.contains(&&*entry?.path()) {
            return Ok(false);
        }
    }
    Ok(true)
}
