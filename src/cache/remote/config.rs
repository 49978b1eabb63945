//! Which store is used and how: a URL, the environment, a file.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::address::{Address, StoreKind, is_plain_path};
use super::keys::{NotAPublicKey, Trust};
use super::secret::Secret;
use crate::cache::folder::{self, Owner};

/// A lookup takes no longer, whatever is asked for.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(2);
const LEAST_WAIT: Duration = Duration::from_millis(50);
/// Far more than such a file has.
const MAX_FILE: u64 = 1 << 16;

/// A store that machines share, and how it is used. `Debug` shows no password.
///
/// ```
/// # #[cfg(feature = "remote-redis")] {
/// use ptxkit::cache::remote::{RemoteConfig, Trust};
///
/// let config = RemoteConfig::parse("redis://:secret@cache:6379/0?namespace=team&ttl=30d")?;
/// assert_eq!(config.store(), "redis://cache:6379/0");
/// assert_eq!(config.namespace(), "team");
/// let config = config.with_trust(Trust::Network);
/// assert!(!format!("{config:?}").contains("secret"));
/// # }
/// # Ok::<(), ptxkit::cache::remote::RemoteConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteConfig {
    pub(super) address: Address,
    shown: String,
    namespace: String,
    ttl: Option<Duration>,
    largest: u64,
    least_wait: Duration,
    trust: Option<Trust>,
    signer: Option<PathBuf>,
}

/// Why a store cannot be used as it is asked for. No message has a password.
#[allow(missing_docs, reason = "the messages say it all")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteConfigError {
    #[error("it is no URL: {0}")]
    NotAUrl(String),
    #[error(
        "`{0}` is no kind of store: redis, rediss, memcached, s3, gcs, azblob, webdav, webdav+http and file are"
    )]
    UnknownStore(String),
    #[error("this program was built without the feature {0}")]
    NotBuilt(&'static str),
    #[error("the store has no option `{0}`")]
    UnknownOption(String),
    #[error("{what}: {why}")]
    BadValue { what: &'static str, why: String },
    #[error(transparent)]
    Trust(#[from] NotAPublicKey),
    #[error("{}: {why}", path.display())]
    File { path: PathBuf, why: String },
}

/// What the environment has to say.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cache) struct Variables<'a> {
    /// `PTXKIT_REMOTE`; may have a password.
    pub url: Option<&'a OsStr>,
    /// `PTXKIT_REMOTE_TRUST`
    pub trust: Option<&'a OsStr>,
    /// `PTXKIT_REMOTE_SIGN`
    pub sign: Option<&'a OsStr>,
    /// `REDISCLI_AUTH`, where redis-cli finds its password.
    pub redis_password: Option<&'a OsStr>,
}

/// `remote.toml`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    url: Option<String>,
    namespace: Option<String>,
    ttl: Option<String>,
    largest: Option<u64>,
    wait: Option<String>,
    trust: Option<TrustValue>,
    sign: Option<PathBuf>,
}

/// What the URL and the file can both have.
#[derive(Default)]
struct Options {
    namespace: Option<String>,
    ttl: Option<String>,
    wait: Option<String>,
    largest: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TrustValue {
    Text(String),
    List(Vec<String>),
}

impl RemoteConfig {
    /// Reads a URL such as `s3://bucket/prefix?region=eu-west-1&namespace=team`. The options
    /// of every store are `prefix`, `namespace`, `ttl` (`30d`), `wait` (`100ms`, the least
    /// time of a lookup) and `largest` (bytes of a blob).
    ///
    /// # Errors
    /// [`RemoteConfigError`]
    pub fn parse(url: &str) -> Result<RemoteConfig, RemoteConfigError> {
        RemoteConfig::new(url, Options::default())
    }

    /// The options in the URL win.
    fn new(url: &str, mut options: Options) -> Result<RemoteConfig, RemoteConfigError> {
        let address = Address::parse(url, |name, value| {
            match name {
                "namespace" => options.namespace = Some(value.to_owned()),
                "ttl" => options.ttl = Some(value.to_owned()),
                "wait" => options.wait = Some(value.to_owned()),
                "largest" => {
                    let largest = value.parse();
                    let why = "it is no number of bytes";
                    options.largest = Some(largest.map_err(|_| bad("largest", why))?);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let mut config = RemoteConfig {
            shown: address.to_string(),
            namespace: "default".to_owned(),
            ttl: None,
            largest: options.largest.unwrap_or(address.kind.largest()),
            least_wait: LEAST_WAIT,
            trust: None,
            signer: None,
            address,
        };
        if let Some(namespace) = options.namespace {
            config = config.with_namespace(&namespace)?;
        }
        if let Some(wait) = options.wait {
            config = config.with_wait(duration("wait", &wait)?);
        }
        match options.ttl {
            Some(ttl) => config.with_ttl(duration("ttl", &ttl)?),
            None => Ok(config),
        }
    }

    /// What the environment and the file at `path` ask for; the environment wins.
    /// `PTXKIT_REMOTE=none` is no store.
    pub(in crate::cache) fn read(
        variables: Variables<'_>,
        path: Option<&Path>,
    ) -> Result<Option<RemoteConfig>, RemoteConfigError> {
        if variables.url.is_some_and(|url| url == "none") {
            return Ok(None);
        }
        let file = path.map(File::read).transpose()?.flatten();
        let is_there = file.is_some();
        let file = file.unwrap_or_default();
        let url = match variables.url {
            Some(url) => {
                let url = url
                    .to_str()
                    .ok_or_else(|| bad("PTXKIT_REMOTE", "it is no text"))?;
                Some(url.to_owned())
            }
            None => file.url,
        };
        let Some(url) = url else {
            return match path.filter(|_| is_there) {
                Some(path) => Err(RemoteConfigError::File {
                    path: path.to_owned(),
                    why: "it has no `url`".to_owned(),
                }),
                None => Ok(None),
            };
        };
        let options = Options {
            namespace: file.namespace,
            ttl: file.ttl,
            wait: file.wait,
            largest: file.largest,
        };
        let mut config = RemoteConfig::new(&url, options)?;
        let trust = match variables.trust {
            Some(trust) => Some(trust.to_string_lossy().into_owned()),
            None => file.trust.map(|trust| match trust {
                TrustValue::Text(text) => text,
                TrustValue::List(keys) => keys.join(","),
            }),
        };
        config.trust = trust.map(|trust| trust.parse()).transpose()?;
        config.signer = variables.sign.map(PathBuf::from).or(file.sign);
        if let Some(password) = variables.redis_password
            && config.address.kind == StoreKind::Redis
        {
            let password = Secret::new(password.to_string_lossy());
            config.address.set_default("password", password);
        }
        Ok(Some(config))
    }

    /// The URL, without user, password and options.
    pub fn store(&self) -> &str {
        &self.shown
    }

    /// The part of the store that blobs lie in. It is signed: a blob of one namespace is not
    /// loaded in another.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// How long the store is asked to keep a blob after it was written.
    pub fn ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// The largest blob, in bytes, that is read or written.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// How long a lookup of small PTX may take. One of longer PTX may take a microsecond for
    /// each byte, and none more than two seconds.
    pub fn wait(&self) -> Duration {
        self.least_wait
    }

    /// Whose blobs are loaded; without it the store is not used.
    pub fn trust(&self) -> Option<&Trust> {
        self.trust.as_ref()
    }

    /// The file with the private key; without it nothing is written.
    pub fn signer(&self) -> Option<&Path> {
        self.signer.as_deref()
    }

    /// Sets the namespace: letters, digits and `.`, `_`, `-`.
    ///
    /// # Errors
    /// [`RemoteConfigError::BadValue`] for other text.
    pub fn with_namespace(mut self, namespace: &str) -> Result<RemoteConfig, RemoteConfigError> {
        let is_plain = is_plain_path(namespace) && !namespace.contains('/');
        if !is_plain || ["", "."].contains(&namespace) || namespace.len() > 64 {
            let why = "up to 64 letters, digits and . _ -";
            return Err(bad("namespace", why));
        }
        namespace.clone_into(&mut self.namespace);
        Ok(self)
    }

    /// Sets how long the store is asked to keep blobs.
    ///
    /// # Errors
    /// [`RemoteConfigError::BadValue`] for a store that is not told that by its clients, and
    /// for more than 30 days in memcached.
    pub fn with_ttl(mut self, ttl: Duration) -> Result<RemoteConfig, RemoteConfigError> {
        match self.address.kind.longest_ttl() {
            Some(longest) if (1..=longest).contains(&ttl.as_secs()) => {}
            Some(longest) => {
                let days = longest / (24 * 60 * 60);
                let why = format!("from a second to {days} days");
                return Err(RemoteConfigError::BadValue { what: "ttl", why });
            }
            None => {
                return Err(bad(
                    "ttl",
                    "set a rule for the lifetime in the store itself",
                ));
            }
        }
        let text = Secret::new(format!("{}s", ttl.as_secs()));
        self.address.set_default("default_ttl", text);
        self.ttl = Some(ttl);
        Ok(self)
    }

    /// Sets how long a lookup of small PTX may take, up to two seconds.
    pub fn with_wait(mut self, wait: Duration) -> RemoteConfig {
        self.least_wait = wait.min(LONGEST_WAIT);
        self
    }

    /// Sets whose blobs are loaded.
    pub fn with_trust(mut self, trust: Trust) -> RemoteConfig {
        self.trust = Some(trust);
        self
    }

    /// Sets the file with the private key.
    pub fn with_signer(mut self, path: impl Into<PathBuf>) -> RemoteConfig {
        self.signer = Some(path.into());
        self
    }
}

impl File {
    /// `None` where there is none. Whoever writes it decides what code is loaded, so it must
    /// be the user's or root's.
    fn read(path: &Path) -> Result<Option<File>, RemoteConfigError> {
        let file_error = |why: String| RemoteConfigError::File {
            path: path.to_owned(),
            why,
        };
        let text = match read_text(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|error| file_error(error.to_string()))?,
        };
        // The message alone: with its place it would show the line.
        let file = toml::from_str(&text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = text
                .get(..start)
                .map_or(1, |before| before.lines().count().max(1));
            file_error(format!("line {line}: {}", error.message()))
        });
        file.map(Some)
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    // Nearly always it is not there: one call tells.
    fs::symlink_metadata(path)?;
    // A link is followed: whose file it is, is asked of the file.
    let (file, _) = folder::open(&fs::canonicalize(path)?, Owner::UserOrRoot)?;
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text)?;
    Ok(text)
}

fn bad(what: &'static str, why: &'static str) -> RemoteConfigError {
    RemoteConfigError::BadValue {
        what,
        why: why.to_owned(),
    }
}

/// A time such as `100ms` or `30d`.
fn duration(what: &'static str, text: &str) -> Result<Duration, RemoteConfigError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let milliseconds: u64 = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        "d" => 24 * 60 * 60 * 1000,
        "w" => 7 * 24 * 60 * 60 * 1000,
        _ => 0,
    };
    let number: Option<u64> = text[..digits].parse().ok();
    let time = number.and_then(|number| number.checked_mul(milliseconds));
    match time {
        Some(time) if milliseconds > 0 => Ok(Duration::from_millis(time)),
        _ => Err(bad(what, "a number with ms, s, m, h, d or w")),
    }
}
