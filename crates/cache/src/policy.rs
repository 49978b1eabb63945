//! What the environment and the program ask of the cache and of the JIT.
//!
//! The variables are those of the CUDA programming guide, "CUDA Environment
//! Variables", with its defaults. They are read in one place,
//! [`Environment::read`]; everything else takes the value.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use input::ShowName as _;
use tracing::warn;

use super::on_compile::OnCompile;
#[cfg(feature = "remote")]
use super::remote::{RemoteConfig, Variables};
use image::JitPolicy;

const DISABLE: &str = "CUDA_CACHE_DISABLE";
const PATH: &str = "CUDA_CACHE_PATH";
const MAXSIZE: &str = "CUDA_CACHE_MAXSIZE";
/// This crate's own: NVIDIA's cache has no read-only part.
const READONLY: &str = "PTXKIT_CACHE_READONLY";
/// This crate's own too: no other JIT compiles kernels apart.
const SLICED: &str = "PTXKIT_SLICED";
/// No other cache forbids compilations.
const ON_COMPILE: &str = "PTXKIT_ON_COMPILE";
/// Each pair: the name that wins, and the one that counts where it is unset.
const FORCE_JIT: [&str; 2] = ["CUDA_FORCE_PTX_JIT", "CUDA_FORCE_JIT"];
const DISABLE_JIT: [&str; 2] = ["CUDA_DISABLE_PTX_JIT", "CUDA_DISABLE_JIT"];
/// The store that machines share: its URL, whose blobs are loaded, and with which key blobs are
/// written.
const REMOTE: &str = "PTXKIT_REMOTE";
#[cfg(feature = "remote")]
const REMOTE_TRUST: &str = "PTXKIT_REMOTE_TRUST";
#[cfg(feature = "remote")]
const REMOTE_SIGN: &str = "PTXKIT_REMOTE_SIGN";
/// Where redis-cli finds the password.
#[cfg(feature = "remote")]
const REDIS_PASSWORD: &str = "REDISCLI_AUTH";
const VARIABLES: &[&str] = &[
    DISABLE,
    PATH,
    MAXSIZE,
    READONLY,
    SLICED,
    ON_COMPILE,
    FORCE_JIT[0],
    FORCE_JIT[1],
    DISABLE_JIT[0],
    DISABLE_JIT[1],
    REMOTE,
    #[cfg(feature = "remote")]
    REMOTE_TRUST,
    #[cfg(feature = "remote")]
    REMOTE_SIGN,
    #[cfg(feature = "remote")]
    REDIS_PASSWORD,
];

const MIB: u64 = 1 << 20;

/// The cache's size where nobody says otherwise, on desktops and servers.
pub const DEFAULT_MAX_SIZE: u64 = 1024 * MIB;
/// The same on embedded devices (Jetson).
pub const EMBEDDED_MAX_SIZE: u64 = 256 * MIB;
/// No larger size can be asked for.
pub const LARGEST_MAX_SIZE: u64 = 4096 * MIB;

/// No longer wait can be asked for. Moments further away need not exist.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The part of the process's environment that the cache and the JIT heed.
///
/// ```
/// use ptxkit_cache::{Environment, Policy};
///
/// let environment = Environment::of([("CUDA_CACHE_PATH", "/var/cache/gpu")]);
/// let policy = Policy::from_environment(&environment);
/// assert_eq!(policy.path().unwrap(), std::path::Path::new("/var/cache/gpu"));
/// ```
#[derive(Clone, Default)]
pub struct Environment {
    /// In the order of `VARIABLES`; empty ones count as unset.
    values: [Option<OsString>; VARIABLES.len()],
    default_folder: Option<PathBuf>,
    /// `remote.toml`
    #[cfg(feature = "remote")]
    remote_file: Option<PathBuf>,
}

/// Without the variables that may hold a password.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |name: &&str| !["PTXKIT_REMOTE", "REDISCLI_AUTH"].contains(name);
        let variables = VARIABLES.iter().zip(&self.values);
        let variables = variables.filter(|(name, value)| shown(name) && value.is_some());
        f.debug_struct("Environment")
            .field("variables", &variables.collect::<Vec<_>>())
            .field("default_folder", &self.default_folder)
            .finish_non_exhaustive()
    }
}

impl Environment {
    /// Reads the process's environment and the platform's folders.
    pub fn read() -> Environment {
        let mut environment = Environment {
            values: std::array::from_fn(|at| std::env::var_os(VARIABLES[at])),
            #[cfg(feature = "remote")]
            remote_file: dirs::config_dir().map(|path| path.join("ptxkit/remote.toml")),
            ..Environment::default()
        };
        if environment.get(PATH).is_none() {
            environment.default_folder = default_folder();
        }
        environment
    }

    /// An environment that holds these variables, and no default folder.
    pub fn of<V: Into<OsString>>(
        variables: impl IntoIterator<Item = (&'static str, V)>,
    ) -> Environment {
        let mut environment = Environment::default();
        for (name, value) in variables {
            if let Some(at) = VARIABLES.iter().position(|known| *known == name) {
                environment.values[at] = Some(value.into());
            }
        }
        environment
    }

    /// The value of a variable; an empty one counts as unset.
    fn get(&self, name: &str) -> Option<&OsStr> {
        let at = VARIABLES.iter().position(|known| *known == name)?;
        let value = self.values[at].as_deref()?;
        (!value.is_empty()).then_some(value)
    }

    /// A variable that is 0 or 1; anything else is warned of and unset.
    fn flag(&self, name: &str) -> Option<bool> {
        let value = self.get(name)?;
        match value.to_str().map(str::trim) {
            Some("0") => Some(false),
            Some("1") => Some(true),
            _ => {
                warn!(
                    "{name}={} is neither 0 nor 1: ignored",
                    Path::new(value).shown()
                );
                None
            }
        }
    }

    fn first_flag(&self, names: [&str; 2]) -> bool {
        names
            .into_iter()
            .find_map(|name| self.flag(name))
            .unwrap_or(false)
    }

    /// The word in a variable, or the default.
    fn word<T: std::str::FromStr<Err: fmt::Display> + Default>(&self, name: &str) -> T {
        let Some(value) = self.get(name) else {
            return T::default();
        };
        let words = value.to_string_lossy();
        words.trim().parse().unwrap_or_else(|error| {
            warn!("{name}: {error}: ignored");
            T::default()
        })
    }

    /// The store that machines share.
    #[cfg(feature = "remote")]
    fn remote(&self) -> Option<RemoteConfig> {
        let variables = Variables {
            url: self.get(REMOTE),
            trust: self.get(REMOTE_TRUST),
            sign: self.get(REMOTE_SIGN),
            redis_password: self.get(REDIS_PASSWORD),
        };
        RemoteConfig::read(variables, self.remote_file.as_deref()).unwrap_or_else(|error| {
            warn!("the remote cache is not used: {error}");
            None
        })
    }

    /// `None` where the platform's default holds.
    fn max_size(&self) -> Option<u64> {
        let value = self.get(MAXSIZE)?;
        match value.to_str().and_then(|text| text.trim().parse().ok()) {
            Some(size) if size > LARGEST_MAX_SIZE => {
                warn!("{MAXSIZE}={size} is over the maximum: {LARGEST_MAX_SIZE} bytes are used");
                Some(LARGEST_MAX_SIZE)
            }
            Some(size) => Some(size),
            None => {
                warn!(
                    "{MAXSIZE}={} is no number of bytes: {} bytes are used",
                    Path::new(value).shown(),
                    default_max_size()
                );
                None
            }
        }
    }
}

/// Whether a module whose kernels are asked for one by one is cut into slices, each
/// of which is compiled when its kernel is first used (`PTXKIT_SLICED`).
///
/// ```
/// use ptxkit_cache::{Environment, Policy, Slicing};
///
/// let policy = Policy::from_environment(&Environment::of([("PTXKIT_SLICED", "never")]));
/// assert_eq!(policy.slicing(), Slicing::Never);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Slicing {
    /// Where it saves time: modules of many kernels.
    #[default]
    Auto,
    /// Wherever the meaning stays.
    Always,
    /// Modules are compiled whole.
    Never,
}

impl Slicing {
    /// As in the environment and on command lines.
    pub const fn word(self) -> &'static str {
        match self {
            Slicing::Auto => "auto",
            Slicing::Always => "always",
            Slicing::Never => "never",
        }
    }
}

/// A word that is none of `auto`, `always` and `never`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotASlicing(String);

impl fmt::Display for NotASlicing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is none of auto, always and never", self.0)
    }
}

impl std::error::Error for NotASlicing {}

impl std::str::FromStr for Slicing {
    type Err = NotASlicing;

    fn from_str(text: &str) -> Result<Slicing, NotASlicing> {
        let all = [Slicing::Auto, Slicing::Always, Slicing::Never];
        let found = all.into_iter().find(|slicing| slicing.word() == text);
        found.ok_or_else(|| NotASlicing(text.to_owned()))
    }
}

/// The platform's: asked for when a blob is put, as a hit needs none.
fn default_max_size() -> u64 {
    static SIZE: OnceLock<u64> = OnceLock::new();
    *SIZE.get_or_init(|| max_size_beside(Path::new("/etc/nv_tegra_release")))
}

/// Only embedded devices have the file.
fn max_size_beside(release: &Path) -> u64 {
    if release.exists() {
        EMBEDDED_MAX_SIZE
    } else {
        DEFAULT_MAX_SIZE
    }
}

/// Where the guide puts the compute cache on this platform.
fn default_folder() -> Option<PathBuf> {
    if cfg!(any(windows, target_os = "macos")) {
        Some(dirs::config_dir()?.join("NVIDIA").join("ComputeCache"))
    } else {
        Some(dirs::home_dir()?.join(".nv").join("ComputeCache"))
    }
}

/// A relative path would lead elsewhere once the process changes its folder.
fn absolute(path: PathBuf) -> PathBuf {
    if path.is_absolute() {
        return path;
    }
    std::path::absolute(&path).unwrap_or(path)
}

/// How the cache behaves, and which images may be compiled.
///
/// ```
/// use ptxkit_cache::{Environment, Policy};
///
/// // What the user's environment says, but never more than 64 MiB.
/// let policy = Policy::from_environment(&Environment::read()).with_max_size(64 << 20);
/// assert_eq!(policy.max_size(), 64 << 20);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    enabled: bool,
    path: Option<PathBuf>,
    max_size: Option<u64>,
    read_only: Vec<PathBuf>,
    wait: Duration,
    jit: JitPolicy,
    slicing: Slicing,
    on_compile: OnCompile,
    #[cfg(feature = "remote")]
    remote: Option<RemoteConfig>,
}

impl Policy {
    /// What `environment` asks for. A value that makes no sense is warned of
    /// through `tracing`, and the default holds.
    pub fn from_environment(environment: &Environment) -> Policy {
        let policy = Policy {
            enabled: environment.flag(DISABLE) != Some(true),
            path: environment
                .get(PATH)
                .map(|path| absolute(path.into()))
                .or_else(|| environment.default_folder.clone()),
            max_size: environment.max_size(),
            read_only: environment
                .get(READONLY)
                .map(|paths| std::env::split_paths(paths).collect::<Vec<_>>())
                .unwrap_or_default()
                .into_iter()
                .filter(|path| !path.as_os_str().is_empty())
                .map(absolute)
                .collect(),
            wait: Duration::from_secs(60),
            jit: JitPolicy {
                force_ptx: environment.first_flag(FORCE_JIT),
                disable_ptx: environment.first_flag(DISABLE_JIT),
            },
            slicing: environment.word(SLICED),
            on_compile: environment.word(ON_COMPILE),
            #[cfg(feature = "remote")]
            remote: environment.remote(),
        };
        #[cfg(not(feature = "remote"))]
        if environment.get(REMOTE).is_some() {
            warn!("{REMOTE} is not used: this program was built without remote stores");
        }
        if policy.enabled && policy.path.is_none() {
            warn!("no home folder for the compute cache: set {PATH} to have one");
        }
        policy
    }

    /// A policy that caches nothing.
    pub fn disabled() -> Policy {
        Policy::from_environment(&Environment::of([(DISABLE, "1")]))
    }

    /// Whether blobs are read and written at all (`CUDA_CACHE_DISABLE`).
    pub fn enabled(&self) -> bool {
        self.enabled
    }

    /// The folder of `CUDA_CACHE_PATH`, or the platform's. The cache keeps to
    /// a folder of its own under it. A relative one is of the folder that the
    /// process was in when the policy was made.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Bytes that the blobs together may take (`CUDA_CACHE_MAXSIZE`).
    pub fn max_size(&self) -> u64 {
        self.max_size.unwrap_or_else(default_max_size)
    }

    /// Folders like that of [`path`](Policy::path) that are looked in after it,
    /// in this order, and never written to (`PTXKIT_CACHE_READONLY`, separated
    /// as in `PATH`). They may belong to root.
    pub fn read_only(&self) -> &[PathBuf] {
        &self.read_only
    }

    /// How long to wait for another thread or process that compiles the same
    /// key, before compiling alone: a minute unless said.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// `CUDA_FORCE_PTX_JIT` and `CUDA_DISABLE_PTX_JIT`.
    pub fn jit(&self) -> JitPolicy {
        self.jit
    }

    /// Whether modules are cut into slices (`PTXKIT_SLICED`).
    pub fn slicing(&self) -> Slicing {
        self.slicing
    }

    /// Whether PTX may be compiled while the program runs (`PTXKIT_ON_COMPILE`).
    pub fn on_compile(&self) -> OnCompile {
        self.on_compile
    }

    /// The store that machines share, behind the folders (`PTXKIT_REMOTE`, or the file
    /// `ptxkit/remote.toml` in the user's folder for settings).
    #[cfg(feature = "remote")]
    pub fn remote(&self) -> Option<&RemoteConfig> {
        self.remote.as_ref()
    }

    /// Sets whether blobs are read and written at all.
    pub fn with_enabled(mut self, enabled: bool) -> Policy {
        self.enabled = enabled;
        self
    }

    /// Sets the folder; see [`path`](Policy::path).
    pub fn with_path(mut self, path: impl Into<PathBuf>) -> Policy {
        self.path = Some(absolute(path.into()));
        self
    }

    /// Sets the limit in bytes, at most [`LARGEST_MAX_SIZE`].
    pub fn with_max_size(mut self, bytes: u64) -> Policy {
        self.max_size = Some(bytes.min(LARGEST_MAX_SIZE));
        self
    }

    /// Sets the folders that are only read; see [`read_only`](Policy::read_only).
    pub fn with_read_only<P: Into<PathBuf>>(
        mut self,
        paths: impl IntoIterator<Item = P>,
    ) -> Policy {
        let paths = paths.into_iter().map(Into::into);
        self.read_only = paths.map(absolute).collect();
        self
    }

    /// Sets the store that machines share.
    #[cfg(feature = "remote")]
    pub fn with_remote(mut self, remote: Option<RemoteConfig>) -> Policy {
        self.remote = remote;
        self
    }

    /// Sets how long to wait, at most a day.
    pub fn with_wait(mut self, wait: Duration) -> Policy {
        self.wait = wait.min(LONGEST_WAIT);
        self
    }

    /// Sets whether modules are cut into slices.
    pub fn with_slicing(mut self, slicing: Slicing) -> Policy {
        self.slicing = slicing;
        self
    }

    /// Sets whether PTX may be compiled while the program runs.
    pub fn with_on_compile(mut self, on_compile: OnCompile) -> Policy {
        self.on_compile = on_compile;
        self
    }

    /// Sets which images may be compiled.
    pub fn with_jit(mut self, jit: JitPolicy) -> Policy {
        self.jit = jit;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warnings::warnings_of;

    fn policy(variables: &[(&'static str, &'static str)]) -> Policy {
        Policy::from_environment(&Environment {
            default_folder: Some(PathBuf::from("/home/u/.nv/ComputeCache")),
            ..Environment::of(variables.iter().copied())
        })
    }

    #[test]
    fn defaults_are_those_of_the_guide() {
        let (policy, warnings) = warnings_of(|| policy(&[]));
        assert!(policy.enabled());
        assert_eq!(policy.path(), Some(Path::new("/home/u/.nv/ComputeCache")));
        assert_eq!(policy.max_size(), 1 << 30);
        assert_eq!(policy.jit(), JitPolicy::default());
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn a_relative_folder_is_of_the_folder_that_the_process_is_in() {
        let here = std::env::current_dir().unwrap();
        let read = policy(&[(PATH, "a/b"), (READONLY, "c")]);
        let set = policy(&[]).with_path("./a/b").with_read_only(["c"]);
        for policy in [read, set] {
            assert_eq!(policy.path(), Some(&*here.join("a/b")));
            assert_eq!(policy.read_only(), [here.join("c")]);
        }
    }

    #[test]
    fn an_embedded_device_has_a_smaller_cache() {
        let folder = tempfile::tempdir().unwrap();
        let release = folder.path().join("nv_tegra_release");
        assert_eq!(max_size_beside(&release), 1 << 30);
        std::fs::write(&release, "R36").unwrap();
        assert_eq!(max_size_beside(&release), 256 << 20);
    }

    #[test]
    fn every_variable_is_heeded() {
        let policy = policy(&[
            (DISABLE, "1"),
            (PATH, "/elsewhere"),
            (MAXSIZE, "200000"),
            ("CUDA_FORCE_PTX_JIT", "1"),
            ("CUDA_DISABLE_PTX_JIT", "1"),
            (SLICED, "always"),
            #[cfg(unix)]
            (READONLY, "/image::/site"),
        ]);
        #[cfg(unix)]
        assert_eq!(
            policy.read_only(),
            [Path::new("/image"), Path::new("/site")]
        );
        assert!(!policy.enabled());
        assert_eq!(policy.path(), Some(Path::new("/elsewhere")));
        assert_eq!(policy.max_size(), 200_000);
        assert!(policy.jit().force_ptx && policy.jit().disable_ptx);
        assert_eq!(policy.slicing(), Slicing::Always);
    }

    #[test]
    fn the_name_with_ptx_wins_over_the_one_without() {
        assert!(policy(&[("CUDA_FORCE_JIT", "1")]).jit().force_ptx);
        assert!(
            !policy(&[("CUDA_FORCE_JIT", "1"), ("CUDA_FORCE_PTX_JIT", "0")])
                .jit()
                .force_ptx
        );
    }

    #[test]
    fn nonsense_is_one_warning_and_the_default() {
        for (name, value) in [
            (DISABLE, "yes"),
            (MAXSIZE, "1GB"),
            (MAXSIZE, "-1"),
            (MAXSIZE, "99999999999999999999999"),
            ("CUDA_FORCE_PTX_JIT", "2"),
            (SLICED, "sometimes"),
        ] {
            let (found, warnings) = warnings_of(|| policy(&[(name, value)]));
            assert_eq!(found, policy(&[]), "{name}={value}");
            assert_eq!(warnings.len(), 1, "{name}={value}: {warnings:?}");
            assert!(warnings[0].contains(name) && warnings[0].contains(value));
        }
    }

    #[test]
    fn a_size_over_the_maximum_is_the_maximum() {
        let (policy, warnings) = warnings_of(|| policy(&[(MAXSIZE, "5000000000")]));
        assert_eq!(policy.max_size(), 4 << 30);
        assert_eq!(warnings.len(), 1);
    }

    #[test]
    fn empty_variables_count_as_unset() {
        let (found, warnings) = warnings_of(|| policy(&[(MAXSIZE, ""), (PATH, "")]));
        assert_eq!(found, policy(&[]));
        assert!(warnings.is_empty());
    }

    #[test]
    fn no_folder_at_all_is_warned_of() {
        let (policy, warnings) =
            warnings_of(|| Policy::from_environment(&Environment::of([(MAXSIZE, "1")])));
        assert_eq!(policy.path(), None);
        assert_eq!(warnings.len(), 1);
    }
}
