//! `ptxkit exec`: runs a program with the CPU device in the place of NVIDIA's driver, or with the interposer in
//! front of it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use input::ShowName as _;
use report::{ARGUMENTS, TRACE, VARIABLE};
use terminal::failure::Failure;
use terminal::output::eprint;

/// The name under which programs open the driver.
const LIBRARY: &str = "libcuda.so.1";
/// The libraries as cargo builds them, and the names under which programs open them.
const BUILT: &[(&str, &str)] = &[
    ("libcuda.so", LIBRARY),
    ("libcudart.so", "libcudart.so.13"),
    ("libnvJitLink.so", "libnvJitLink.so.13"),
    ("libnvrtc.so", "libnvrtc.so.13"),
];
/// The folder with the libraries, beside the program.
const FOLDER: &str = "cpu-driver";
/// The library in front of NVIDIA's driver, and its folder.
const INTERPOSER: &[(&str, &str)] = &[("libptxkit_interposer.so", LIBRARY)];
const INTERPOSER_FOLDER: &str = "interposer";
/// Where the interposer writes what it did.
const INTERPOSER_REPORT: &str = "PTXKIT_REPORT";
/// The store that machines share.
const REMOTE: &str = "PTXKIT_REMOTE";
/// Where programs look for libraries first.
const SEARCH_PATH: &str = "LD_LIBRARY_PATH";

/// What is loaded before all else.
const PRELOAD: &str = "LD_PRELOAD";

/// The exit status for a command that is not there, and for one that cannot be run: those of
/// shells and env(1).
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

/// The arguments of `ptxkit exec`.
#[derive(Debug, clap::Args)]
pub struct ExecArgs {
    /// Write loads, launches, and refused calls with their remedies to this file: a page NAME.html, or lines of JSON.
    /// An old file is replaced; PTXKIT_EXEC_REPORT names a file that is continued. With --device nvidia, the loads
    /// alone; a name without .html, .json or .jsonl gets a line of text for each
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write a Chrome trace of loads, compilations, copies and launches on the CPU device to this file, for
    /// ui.perfetto.dev. An old file is replaced; PTXKIT_EXEC_TRACE names a file that is continued
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write the arguments of the programs to the report too: they may have passwords
    #[arg(long, requires = "report")]
    report_arguments: bool,
    /// Where the program runs: NVIDIA's driver if this machine has one, otherwise the CPU device; NVIDIA's driver, with
    /// PTX compiled through ptxkit's cache; or the CPU device. One line on standard error names it, except for cpu
    #[arg(long, value_enum, default_value_t, overrides_with = "device")]
    device: ExecDevice,
    /// The store that machines share, such as redis://cache:6379/0, as in PTXKIT_REMOTE; with --device nvidia
    #[arg(long, value_name = "URL")]
    remote: Option<OsString>,
    /// Write the PTX that the program loads, and its options, to this file, for `ptxkit cache warm --from`; with
    /// --device nvidia
    #[arg(long, value_name = "FILE")]
    save_compiles: Option<PathBuf>,
    /// The folder with the libcuda.so.1 of the CPU device or of the interposer, instead of the one beside ptxkit
    #[arg(long, value_name = "FOLDER")]
    driver: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum ExecDevice {
    #[default]
    Auto,
    Nvidia,
    Cpu,
}

/// Becomes the program. Returns only if that fails: the program has this process, so signals
/// reach it, and its exit status is its own.
pub fn run(args: &ExecArgs) -> Result<u8, Failure> {
    let is_nvidia = match args.device {
        ExecDevice::Auto => has_nvidia(),
        device => device == ExecDevice::Nvidia,
    };
    let (name, libraries) = if is_nvidia {
        (INTERPOSER_FOLDER, INTERPOSER)
    } else {
        (FOLDER, BUILT)
    };
    let folder = match &args.driver {
        Some(folder) => named(folder)?,
        None => {
            let program = std::env::current_exe().map_err(Failure::new)?;
            beside(&program, name, libraries)?
        }
    };
    if args.device != ExecDevice::Cpu {
        eprint(if is_nvidia {
            "ptxkit: NVIDIA's driver, with ptxkit's compute cache\n"
        } else {
            "ptxkit: the CPU device\n"
        });
    }
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::new("there is no command to run"));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    command.env(
        SEARCH_PATH,
        before(SEARCH_PATH, std::slice::from_ref(&folder))?,
    );
    let companions = companions(&folder, libraries);
    if !companions.is_empty() {
        command.env(PRELOAD, before(PRELOAD, &companions)?);
    }
    if let Some(report) = &args.report {
        let variable = if is_nvidia {
            INTERPOSER_REPORT
        } else {
            VARIABLE
        };
        command.env(variable, begin(report)?);
        command.env(ARGUMENTS, if args.report_arguments { "1" } else { "0" });
    }
    if let Some(trace) = &args.trace {
        if is_nvidia {
            return Err(Failure::new("--trace is written for the CPU device alone")
                .help("trace NVIDIA's driver with `nsys profile`, or add --device cpu"));
        }
        command.env(TRACE, begin(trace)?);
    }
    if !is_nvidia && (args.remote.is_some() || args.save_compiles.is_some()) {
        return Err(
            Failure::new("the CPU device under a program does not use the compute cache")
                .help("--remote and --save-compiles need --device nvidia"),
        );
    }
    if let Some(remote) = &args.remote {
        command.env(REMOTE, remote);
    }
    if let Some(file) = &args.save_compiles {
        command.env(compiles::VARIABLE, begin(file)?);
    }
    let error = command.exec();
    let status = match error.kind() {
        ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_RUN,
    };
    Failure::new(format!("{}: {error}", Path::new(program).shown())).print();
    Ok(status)
}

/// Whether the machine has NVIDIA's driver. One that fails is an error of the program, and no reason to choose the CPU.
fn has_nvidia() -> bool {
    ["/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"]
        .iter()
        .any(|path| Path::new(path).exists())
}

/// The folder with the library that the user names.
fn named(folder: &Path) -> Result<PathBuf, Failure> {
    if folder.join(LIBRARY).exists() {
        std::path::absolute(folder).map_err(Failure::new)
    } else {
        Err(missing(&folder.join(LIBRARY)))
    }
}

/// The folder with the libraries beside the program; where cargo built them, it has links to them.
fn beside(program: &Path, name: &str, libraries: &[(&str, &str)]) -> Result<PathBuf, Failure> {
    let bin = program.parent().unwrap_or(Path::new("."));
    let folder = bin.join(name);
    for (built, name) in libraries {
        let link = folder.join(name);
        if link.exists() || !bin.join(built).exists() {
            continue;
        }
        let linked = std::fs::create_dir_all(&folder)
            .and_then(|()| std::os::unix::fs::symlink(Path::new("..").join(built), &link));
        if let Err(error) = linked
            // Another process has made it.
            && error.kind() != ErrorKind::AlreadyExists
        {
            return Err(Failure::new(format!("{}: {error}", link.shown()))
                .help("name a folder that has it with --driver"));
        }
    }
    let library = folder.join(LIBRARY);
    if library.exists() {
        Ok(folder)
    } else {
        Err(missing(&library))
    }
}

fn missing(library: &Path) -> Failure {
    let library = library.shown();
    Failure::new(format!(
        "the library for the program is not there: there is no {library}"
    ))
    .help(
        "`pip install ptxkit-cpu` has it, and this command as `ptxkit-cpu exec`; or build it with \
         `cargo build --release -p libcuda` (-p interposer for --device nvidia), and name its folder with --driver",
    )
}

/// The libraries beside the driver. Python packages bring NVIDIA's, and open them by their paths:
/// what is loaded already has precedence.
fn companions(folder: &Path, libraries: &[(&str, &str)]) -> Vec<PathBuf> {
    let names = libraries.iter().map(|(_, name)| *name);
    names
        .filter(|name| *name != LIBRARY)
        .map(|name| folder.join(name))
        .filter(|path| path.exists())
        .collect()
}

/// A variable with a list of paths: these before what is there.
fn before(variable: &str, paths: &[PathBuf]) -> Result<OsString, Failure> {
    let old = std::env::var_os(variable).unwrap_or_default();
    let old = std::env::split_paths(&old)
        .filter(|path| !paths.contains(path) && !path.as_os_str().is_empty());
    std::env::join_paths(paths.iter().cloned().chain(old))
        .map_err(|error| Failure::new(format!("{variable}: {error}")))
}

/// Removes what an earlier run reported; returns the whole path, as programs change their folder.
fn begin(report: &Path) -> Result<PathBuf, Failure> {
    let failure = |error| Failure::new(format!("{}: {error}", report.shown()));
    match std::fs::remove_file(report) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failure(error)),
        _ => std::path::absolute(report).map_err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_built_is_linked_under_the_name_of_the_driver() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("ptxkit");
        assert!(beside(&program, FOLDER, BUILT).is_err());
        std::fs::write(folder.path().join("libcuda.so"), "built").unwrap();
        for _ in 0..2 {
            let driver = beside(&program, FOLDER, BUILT).unwrap();
            let library = std::fs::read_to_string(driver.join("libcuda.so.1")).unwrap();
            assert_eq!(library, "built");
            assert!(companions(&driver, BUILT).is_empty());
        }
        let interposer = || beside(&program, INTERPOSER_FOLDER, INTERPOSER);
        assert!(interposer().is_err());
        std::fs::write(folder.path().join("libptxkit_interposer.so"), "front").unwrap();
        let front = interposer().unwrap().join("libcuda.so.1");
        assert_eq!(std::fs::read_to_string(front).unwrap(), "front");
        std::fs::write(folder.path().join("libnvrtc.so"), "built").unwrap();
        let driver = beside(&program, FOLDER, BUILT).unwrap();
        assert_eq!(companions(&driver, BUILT), [driver.join("libnvrtc.so.13")]);
    }
}
