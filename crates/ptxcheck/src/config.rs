//! `ptxcheck.toml`, and the settings of each file from it and the command line.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use input::ShowName as _;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::args::{self, CheckArgs};
use super::drawing;
use super::selection::{Lists, Prefix, Selection};
use ptx::ast::Version;
use ptx::diagnostic::MAX_DIAGNOSTICS;
use ptx::isa::target::Target;
use ptx::{CheckOptions, Level};
use terminal::failure::Failure;

/// The name of a configuration file.
pub const NAME: &str = "ptxcheck.toml";

/// The nearest file in a folder or above it. The search ends at the top of the
/// repository, so that the result does not depend on where a checkout lies. `.git`
/// is a file in worktrees and submodules.
fn above(folder: &Path) -> Option<PathBuf> {
    for folder in folder.ancestors() {
        let file = folder.join(NAME);
        if file.is_file() {
            return Some(file);
        }
        if folder.join(".git").exists() {
            return None;
        }
    }
    None
}

/// The options of the command line that select findings, by the same names.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct Config {
    select: Option<Vec<Prefix>>,
    extend_select: Vec<Prefix>,
    ignore: Vec<Prefix>,
    extend_ignore: Vec<Prefix>,
    deny: Vec<Prefix>,
    preview: bool,
    unsafe_fixes: bool,
    #[serde(deserialize_with = "target")]
    target: Option<Target>,
    #[serde(deserialize_with = "version")]
    ptx_version: Option<Version>,
    codegen: bool,
    max_warnings: Option<usize>,
    exclude: Vec<Pattern>,
    force_exclude: bool,
    per_file_ignores: HashMap<Pattern, Vec<Prefix>>,
}

fn target<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Target>, D::Error> {
    let text = String::deserialize(deserializer)?;
    args::target(&text).map(Some).map_err(D::Error::custom)
}

fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Version>, D::Error> {
    let text = String::deserialize(deserializer)?;
    args::version(&text).map(Some).map_err(D::Error::custom)
}

/// A glob; without a `/` it matches the name of a file or folder anywhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct Pattern(glob::Pattern);

impl TryFrom<String> for Pattern {
    type Error = glob::PatternError;

    fn try_from(text: String) -> Result<Pattern, glob::PatternError> {
        let text = text.strip_prefix("./").unwrap_or(&text);
        let text = text.strip_suffix('/').unwrap_or(text);
        let text = if text.contains('/') {
            text.to_owned()
        } else {
            format!("**/{text}")
        };
        glob::Pattern::new(&text).map(Pattern)
    }
}

impl Pattern {
    /// Whether it matches a file, or a folder above it.
    fn matches(&self, path: &Path) -> bool {
        // `*` does not match `/`, as in a shell.
        let options = glob::MatchOptions {
            require_literal_separator: true,
            ..glob::MatchOptions::new()
        };
        let mut above = path.ancestors();
        above.any(|path| self.0.matches_with(&path.to_string_lossy(), options))
    }
}

/// The settings of a file.
#[derive(Debug)]
pub struct Settings {
    pub selection: Selection,
    pub check: CheckOptions,
    pub max_warnings: Option<usize>,
    /// Errors, and findings of a rule, of one text beyond this number are counted and not
    /// listed.
    pub max_findings: usize,
    /// Fixes that may change what the code does are made too.
    pub unsafe_fixes: bool,
    /// The `ptxcheck.toml` that they are from.
    pub file: Option<PathBuf>,
    /// The folder that the patterns are relative to.
    folder: PathBuf,
    /// Files that are named are excluded too.
    pub force_exclude: bool,
    exclude: Vec<Pattern>,
    per_file_ignores: Vec<(Pattern, Vec<Prefix>)>,
}

impl Settings {
    fn new(
        config: &Config,
        file: Option<PathBuf>,
        folder: PathBuf,
        args: &CheckArgs,
    ) -> Result<Settings, Failure> {
        let configured = Lists {
            select: config.select.clone(),
            extend_select: config.extend_select.clone(),
            ignore: config.ignore.clone(),
            extend_ignore: config.extend_ignore.clone(),
            deny: config.deny.clone(),
            preview: config.preview,
        };
        let selection = Selection::new(&[&args.lists, &configured])
            .map_err(|error| Failure::new(error).help("--preview lets it run"))?;
        let level = if args.codegen || config.codegen {
            Level::Codegen
        } else {
            Level::Language
        };
        let given_patterns = args.exclude.iter().map(|text| {
            Pattern::try_from(text.clone())
                .map_err(|error| Failure::new(format!("--exclude {text}: {error}")))
        });
        let mut exclude = given_patterns.collect::<Result<Vec<_>, _>>()?;
        exclude.extend(config.exclude.iter().cloned());
        let mut per_file_ignores: Vec<_> = config.per_file_ignores.clone().into_iter().collect();
        per_file_ignores.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Settings {
            selection,
            check: CheckOptions {
                level,
                target: args.target.or(config.target),
                version: args.ptx_version.or(config.ptx_version),
            },
            max_warnings: args.max_warnings.or(config.max_warnings),
            max_findings: match args.max_findings {
                None => MAX_DIAGNOSTICS,
                Some(0) => usize::MAX,
                Some(most) => most,
            },
            unsafe_fixes: args.unsafe_fixes || config.unsafe_fixes,
            file,
            folder,
            force_exclude: args.force_exclude || config.force_exclude,
            exclude,
            per_file_ignores,
        })
    }

    /// Whether a file is excluded.
    pub fn excludes(&self, path: &Path) -> bool {
        let path = self.relative(path);
        self.exclude.iter().any(|pattern| pattern.matches(&path))
    }

    /// The codes that are disabled in this file.
    pub fn ignored_in(&self, path: &Path) -> Vec<&Prefix> {
        if self.per_file_ignores.is_empty() {
            return Vec::new();
        }
        let path = self.relative(path);
        let matching = self
            .per_file_ignores
            .iter()
            .filter(|(pattern, _)| pattern.matches(&path));
        matching.flat_map(|(_, codes)| codes).collect()
    }

    /// The patterns of `exclude`.
    pub fn excluded(&self) -> impl Iterator<Item = &str> {
        self.exclude.iter().map(|pattern| pattern.0.as_str())
    }

    /// The patterns of `per-file-ignores`, and the codes that each disables.
    pub fn per_file_ignores(&self) -> impl Iterator<Item = (&str, &[Prefix])> {
        let ignores = self.per_file_ignores.iter();
        ignores.map(|(pattern, codes)| (pattern.0.as_str(), codes.as_slice()))
    }

    fn relative(&self, path: &Path) -> PathBuf {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        whole
            .strip_prefix(&self.folder)
            .map_or(path.to_owned(), Path::to_owned)
    }
}

/// The settings of every folder, read once.
#[derive(Debug)]
pub struct Configs<'c> {
    args: &'c CheckArgs,
    /// By folder, and by configuration file.
    known: HashMap<PathBuf, Arc<Settings>>,
    /// The settings without a file, or with that of the command line.
    otherwise: Arc<Settings>,
}

impl<'c> Configs<'c> {
    /// # Errors
    /// The file of `--config` cannot be used.
    pub fn new(args: &'c CheckArgs) -> Result<Configs<'c>, Failure> {
        let otherwise = match &args.config {
            Some(path) => read(path, args)?,
            None => {
                let here = std::env::current_dir().unwrap_or_default();
                Settings::new(&Config::default(), None, here, args)?
            }
        };
        Ok(Configs {
            args,
            known: HashMap::new(),
            otherwise: Arc::new(otherwise),
        })
    }

    /// The settings without a file, or with that of the command line.
    pub fn otherwise(&self) -> Arc<Settings> {
        self.otherwise.clone()
    }

    /// The settings of the files in a folder.
    ///
    /// # Errors
    /// The nearest `ptxcheck.toml` cannot be used.
    pub fn of_folder(&mut self, folder: &Path) -> Result<Arc<Settings>, Failure> {
        if self.args.isolated || self.args.config.is_some() {
            return Ok(self.otherwise.clone());
        }
        if let Some(settings) = self.known.get(folder) {
            return Ok(settings.clone());
        }
        // The parent of `k.ptx` is the empty path.
        let named = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        let whole = std::path::absolute(named).unwrap_or_else(|_| folder.to_owned());
        let settings = match above(&whole) {
            // Folders below one file share its settings.
            Some(file) => match self.known.get(&file) {
                Some(settings) => settings.clone(),
                None => {
                    let settings = Arc::new(read(&file, self.args)?);
                    self.known.insert(file, settings.clone());
                    settings
                }
            },
            None => self.otherwise.clone(),
        };
        self.known.insert(folder.to_owned(), settings.clone());
        Ok(settings)
    }
}

fn read(path: &Path, args: &CheckArgs) -> Result<Settings, Failure> {
    let name = path.shown().to_string();
    let text = input::read_text(path, input::LARGEST_SETTINGS)
        .map_err(|error| Failure::new(format!("{name}: {error}")))?;
    let config: Config = toml::from_str(&text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        Failure::preformatted(drawing::of_config(&text, &name, span, error.message()))
    })?;
    let file = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = file.parent().map(Path::to_owned).unwrap_or_default();
    Settings::new(&config, Some(file), folder, args)
}
