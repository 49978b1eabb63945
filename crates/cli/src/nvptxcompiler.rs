//! `ptxkit nvptxcompiler`: links NVIDIA's static PTX compiler into a shared library, which the loader and
//! `ptxkit assemble` use.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::mapped::FileBytes;
use input::ShowName as _;
use ptxkit::cache::Digest;
use ptxkit::driver::nvptxcompiler::{self, NvPtxCompiler};
use tempfile::TempPath;
use terminal::failure::{Failure, MISMATCHES, VERIFIED};
use terminal::output::print;
use walkdir::WalkDir;

pub const AFTER_HELP: &str = "\
NVIDIA's licence applies to the library: build it on each machine, or in an image of your own.

Examples:
  pip install --target nvptx nvidia-nvptxcompiler && ptxkit nvptxcompiler build --from nvptx
  ptxkit nvptxcompiler build --from /usr/local/cuda

Exit status: 0 done, 1 there is no library (list), 2 an error.";

/// The name of the static library.
const ARCHIVE: &str = "libnvptxcompiler_static.a";

/// The digits of the static library's digest in the name of the shared one.
const DIGEST_DIGITS: usize = 16;

/// The start of the name of a library that is being linked.
const LINKING: &str = "linking-";

/// How deep below a folder the static library is searched.
const MAX_DEPTH: usize = 8;

/// What the library exports. All other symbols are its own.
const VERSION_SCRIPT: &str = "{ global: nvPTXCompiler*; local: *; };\n";

#[derive(Debug, clap::Subcommand)]
pub enum NvPtxCompilerCommand {
    /// Link the shared library from NVIDIA's static one, libnvptxcompiler_static.a
    Build(BuildArgs),
    /// List the libraries, the one in use first
    List,
    /// Delete all libraries
    Remove,
}

#[derive(Debug, clap::Args)]
pub struct BuildArgs {
    /// The static library, or a folder with it: a CUDA toolkit, or where pip has installed
    /// nvidia-nvptxcompiler [default: CUDA_HOME, CUDA_PATH or /usr/local/cuda]
    #[arg(long, value_name = "PATH")]
    from: Option<PathBuf>,
    /// The folder of the shared library [default: ptxkit/nvptxcompiler in the user's data folder]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub fn run(command: &NvPtxCompilerCommand) -> Result<u8, Failure> {
    match command {
        NvPtxCompilerCommand::Build(arguments) => build(arguments),
        NvPtxCompilerCommand::List => list(),
        NvPtxCompilerCommand::Remove => remove(),
    }
}

fn folder() -> Result<PathBuf, Failure> {
    nvptxcompiler::folder().ok_or_else(|| {
        Failure::new("there is no data folder: the user has no home").help("set XDG_DATA_HOME")
    })
}

fn build(arguments: &BuildArgs) -> Result<u8, Failure> {
    let archive = find(arguments.from.as_deref())?;
    let folder = match &arguments.output {
        Some(folder) => folder.clone(),
        None => folder()?,
    };
    create(&folder)?;
    let archive = std::path::absolute(&archive).map_err(|error| of_file(&archive, &error))?;
    let digest = digest(&archive)?;
    let linked = link(&archive, &folder)?;
    let version = version_of(&linked)?;
    let path = folder.join(nvptxcompiler::file_name(version, &digest));
    let bytes = fs::metadata(&linked).map_or(0, |metadata| metadata.len());
    share(&linked).map_err(|error| of_file(&linked, &error))?;
    linked
        .persist(&path)
        .map_err(|error| of_file(&path, &error.error))?;
    let (major, minor) = version;
    print(&format!(
        "{}: nvptxcompiler {major}.{minor}, {} MB\n",
        path.shown(),
        bytes / 1_000_000
    ));
    if arguments.output.is_some() {
        print("set PTXKIT_NVPTXCOMPILER to this file to use it\n");
    }
    Ok(VERIFIED)
}

/// Lets other users read the library.
fn share(file: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// The static library that a path names, or the one below a folder.
fn find(from: Option<&Path>) -> Result<PathBuf, Failure> {
    let help = "install it with `pip install --target nvptx nvidia-nvptxcompiler` and give --from nvptx, or \
         give --from a CUDA toolkit that has it";
    let Some(from) = from else {
        let variables = ["CUDA_HOME", "CUDA_PATH"].into_iter();
        let toolkits = variables.filter_map(std::env::var_os).map(PathBuf::from);
        let found = toolkits
            .chain([PathBuf::from("/usr/local/cuda")])
            .find_map(|folder| below(&folder));
        return found.ok_or_else(|| {
            Failure::new(format!("no CUDA toolkit of this machine has {ARCHIVE}")).help(help)
        });
    };
    let metadata = fs::metadata(from).map_err(|error| of_file(from, &error))?;
    if metadata.is_file() {
        return Ok(from.to_owned());
    }
    below(from)
        .ok_or_else(|| Failure::new(format!("{} does not have {ARCHIVE}", from.shown())).help(help))
}

fn below(folder: &Path) -> Option<PathBuf> {
    // A toolkit's `lib64` is a link.
    let files = WalkDir::new(folder)
        .max_depth(MAX_DEPTH)
        .follow_links(true)
        .sort_by_file_name();
    let mut files = files.into_iter().flatten();
    let found = files.find(|file| file.file_name() == ARCHIVE)?;
    Some(found.into_path())
}

/// Creates a folder that only this user can write to.
fn create(folder: &Path) -> Result<(), Failure> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
    builder
        .create(folder)
        .map_err(|error| of_file(folder, &error))
}

/// The start of the digest of a file.
fn digest(path: &Path) -> Result<String, Failure> {
    let bytes = FileBytes::open(path)?;
    if !bytes.starts_with(b"!<arch>\n") {
        return Err(
            Failure::new(format!("{} is not a static library", path.shown()))
                .help(format!("give {ARCHIVE} of a CUDA toolkit, or its folder")),
        );
    }
    let digest = format!("{:?}", Digest::of(&bytes));
    Ok(digest[..DIGEST_DIGITS].to_owned())
}

/// Links the shared library, to a temporary file in its folder.
fn link(archive: &Path, folder: &Path) -> Result<TempPath, Failure> {
    let linked = tempfile::Builder::new()
        .prefix(LINKING)
        .suffix(".so")
        .tempfile_in(folder)
        .map_err(|error| of_file(folder, &error))?
        .into_temp_path();
    let mut script =
        tempfile::NamedTempFile::new().map_err(|error| of_file(&std::env::temp_dir(), &error))?;
    script
        .write_all(VERSION_SCRIPT.as_bytes())
        .map_err(|error| of_file(script.path(), &error))?;
    let mut exports = OsString::from("--version-script=");
    exports.push(script.path());
    // A program may have another C++ library than the linker.
    let statically = ["-Wl,-Bstatic", "-lstdc++", "-Wl,-Bdynamic"];
    // `CC` may have arguments, as `ccache gcc` has.
    let named = std::env::var("CC").unwrap_or_default();
    let mut words = named.split_whitespace();
    let compiler = words.next().unwrap_or("cc");
    let words: Vec<&str> = words.collect();
    let run = |library: &[&str]| {
        Command::new(compiler)
            .args(&words)
            .arg("-shared")
            .arg("-o")
            .arg(&*linked)
            .arg("-Wl,--whole-archive")
            .arg(archive)
            .arg("-Wl,--no-whole-archive")
            .arg("-Xlinker")
            .arg(&exports)
            .args(["-Wl,-z,defs", "-Wl,--gc-sections", "-s"])
            .args(library)
            .args(["-lpthread", "-lm", "-ldl"])
            .stdin(Stdio::null())
            .output()
    };
    let failed = |error: std::io::Error| {
        Failure::new(format!("{compiler} cannot be run: {error}"))
            .help("install a C compiler, such as gcc, or name one with CC")
    };
    let mut output = run(&statically).map_err(failed)?;
    for library in [&["-lstdc++"][..], &[]] {
        if !output.status.success() {
            output = run(library).map_err(failed)?;
        }
    }
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr);
        let failure = Failure::new(format!(
            "{compiler} does not link {}, {}\n{}",
            archive.shown(),
            output.status,
            log.trim_end()
        ));
        return Err(if log.contains("undefined reference") {
            failure.help("install g++, which has the C++ library that it needs")
        } else {
            failure
        });
    }
    let is_written = fs::metadata(&linked).is_ok_and(|metadata| metadata.len() > 0);
    if is_written {
        Ok(linked)
    } else {
        Err(Failure::new(format!("{compiler} writes no library")).help("name a C compiler with CC"))
    }
}

/// The version of a library that was linked a moment ago.
#[allow(unsafe_code, reason = "the user names the static library")]
fn version_of(linked: &Path) -> Result<(u32, u32), Failure> {
    // SAFETY: it was linked from a static library that the user says is NVIDIA's.
    let library = unsafe { NvPtxCompiler::open_file(linked) };
    let library = library
        .map_err(|error| Failure::new(error).help(format!("give {ARCHIVE} of a CUDA toolkit")))?;
    Ok(library.version())
}

fn list() -> Result<u8, Failure> {
    let folder = folder()?;
    let all = nvptxcompiler::list(&folder);
    for path in &all {
        print(&format!("{}\n", path.shown()));
    }
    match NvPtxCompiler::open() {
        Ok(library) => {
            let newest = library.newest_ptx();
            let newest = newest.map_or(String::new(), |version| format!(", PTX up to {version}"));
            print(&format!(
                "in use: {}, {}{newest}\n",
                library.path().shown(),
                library.identity()
            ));
            Ok(VERIFIED)
        }
        Err(error) => {
            print(&format!("{error}\n"));
            Ok(MISMATCHES)
        }
    }
}

fn remove() -> Result<u8, Failure> {
    let folder = folder()?;
    let unfinished = WalkDir::new(&folder).max_depth(1).into_iter().flatten();
    let unfinished = unfinished.filter(|file| {
        let name = file.file_name().to_string_lossy();
        name.starts_with(LINKING) && name.ends_with(".so")
    });
    let unfinished = unfinished.map(walkdir::DirEntry::into_path);
    for path in nvptxcompiler::list(&folder).into_iter().chain(unfinished) {
        fs::remove_file(&path).map_err(|error| of_file(&path, &error))?;
        print(&format!("removed {}\n", path.shown()));
    }
    Ok(VERIFIED)
}

fn of_file(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.shown()))
}
