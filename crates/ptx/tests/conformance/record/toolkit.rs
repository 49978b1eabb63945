//! NVIDIA's compilers, installed from PyPI into a scratch folder.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::archive::Verdict;

/// What decides. A newer release is a change of this list and a new recording.
const PACKAGES: [&str; 8] = [
    "nvidia-cuda-nvcc==13.5.37",
    "nvidia-cuda-crt==13.5.37",
    "nvidia-cuda-runtime==13.5.37",
    "nvidia-cuda-nvrtc==13.5.37",
    "nvidia-cuda-cccl==13.3.5.0.6",
    "nvidia-cuda-cuobjdump==13.5.37",
    "nvidia-cuda-nvdisasm==13.5.37",
    "nvidia-nvvm==13.5.37",
];
const RELEASE: &str = "13.5.37";

pub struct Toolkit {
    /// Where programs, headers and libraries lie.
    home: PathBuf,
    pub python: PathBuf,
    /// For texts on their way to a program; one folder a process.
    scratch: PathBuf,
    used: AtomicUsize,
}

impl Toolkit {
    /// The toolkit of an earlier run, or a new one.
    pub fn install() -> io::Result<Toolkit> {
        let root = std::env::temp_dir().join("ptxkit-conformance");
        let environment = root.join(RELEASE);
        let python = environment.join("bin/python");
        let complete = environment.join("complete");
        if !complete.exists() {
            eprintln!("installing CUDA {RELEASE} in {}", environment.display());
            run(Command::new("python3")
                .args(["-m", "venv"])
                .arg(&environment))?;
            run(Command::new(&python)
                .args(["-m", "pip", "install", "--quiet"])
                .args(PACKAGES))?;
            std::fs::write(&complete, "")?;
        }
        let library = std::fs::read_dir(environment.join("lib"))?
            .filter_map(Result::ok)
            .map(|entry| entry.path().join("site-packages/nvidia/cu13"))
            .find(|path| path.exists())
            .ok_or_else(|| io::Error::other("the packages hold no nvidia/cu13"))?;
        let scratch = root.join(format!("work-{}", std::process::id()));
        std::fs::create_dir_all(&scratch)?;
        Ok(Toolkit {
            home: library,
            python,
            scratch,
            used: AtomicUsize::new(0),
        })
    }

    /// One of the programs, with the environment that it wants.
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.home.join("bin").join(name));
        command.env("CUDA_HOME", &self.home);
        command
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// A folder whose name is the same in every recording.
    pub fn folder(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.scratch.with_file_name(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// A path that no other thread has.
    pub fn fresh(&self, suffix: &str) -> PathBuf {
        let number = self.used.fetch_add(1, Ordering::Relaxed);
        self.scratch.join(format!("{number}.{suffix}"))
    }

    /// What ptxas says of a module, without generating code.
    pub fn judge(&self, text: &[u8]) -> io::Result<Verdict> {
        self.ask(text, &[format!("-arch={}", architecture(text))])
    }

    /// What ptxas says of a module when it makes code.
    pub fn make_code(&self, text: &[u8]) -> io::Result<Verdict> {
        let target = architecture(text).replace("compute_", "sm_");
        self.ask(text, &[format!("-arch={target}"), "-O0".to_owned()])
    }

    fn ask(&self, text: &[u8], options: &[String]) -> io::Result<Verdict> {
        let path = self.fresh("ptx");
        std::fs::write(&path, text)?;
        let output = self
            .program("ptxas")
            .args(options)
            .arg(&path)
            .args(["-o", "/dev/null"])
            .output();
        std::fs::remove_file(&path)?;
        let output = output?;
        if output.status.success() {
            return Ok(Verdict::Accepted);
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let messages = text(&output.stderr) + text(&output.stdout).as_str();
        Ok(Verdict::Rejected(first_line(&messages)))
    }
}

impl Drop for Toolkit {
    fn drop(&mut self) {
        // What stays behind is only scratch.
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

/// The line that the first error names: `ptxas FILE, line 7; error   : …`.
fn first_line(messages: &str) -> Option<u32> {
    messages.lines().find_map(|message| {
        let (place, what) = message.split_once("; ")?;
        if !what.starts_with("error") && !what.starts_with("fatal") {
            return None;
        }
        place.rsplit_once("line ")?.1.trim().parse().ok()
    })
}

/// What this ptxas compiles for, in the order of the numbers.
const ARCHITECTURES: [&str; 26] = [
    "75", "80", "86", "87", "88", "89", "90", "90a", "100", "100a", "100f", "103", "103a", "103f",
    "107", "107a", "107f", "110", "110a", "110f", "120", "120a", "120f", "121", "121a", "121f",
];

/// The architecture to judge a text for: its own target, or where there is none
/// of that name, the next that may stand in for it.
pub fn architecture(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let target = text
        .split_once(".target")
        .and_then(|(_, rest)| rest.split_once("sm_"));
    let rest = target.map_or("", |(_, rest)| rest);
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric());
    // sm_101 was renamed.
    let name = rest[..end.unwrap_or(rest.len())].replacen("101", "110", 1);
    let digits = name.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u32 = digits.parse().unwrap_or(0);
    let same = ARCHITECTURES.iter().find(|known| **known == name);
    let next = || {
        let at_least = |known: &&&str| known.parse().is_ok_and(|known: u32| known >= number);
        ARCHITECTURES.iter().find(at_least)
    };
    format!(
        "compute_{}",
        same.or_else(next).unwrap_or(&ARCHITECTURES[0])
    )
}

/// Runs a command to its end; an error if it fails.
pub fn run(command: &mut Command) -> io::Result<()> {
    let status = command.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("{command:?}: {status}")))
    }
}
