//! Which store is used and how: a URL, the environment, a file.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use input::ShowName as _;
use serde::Deserialize;

use super::address::{Address, StoreKind, is_plain_path};
use super::keys::{NotAPublicKey, Trust};
use super::secret::Secret;
use crate::folder::{self, Owner};

/// A lookup takes no longer, whatever is asked for.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Far more than such a file has.
const MAX_FILE: u64 = 1 << 16;

/// A store that machines share, and how it is used. `Debug` shows no password.
///
/// ```
/// # #[cfg(feature = "remote-redis")] {
/// use ptxkit_cache::remote::{RemoteConfig, Trust};
///
/// let config = RemoteConfig::parse("redis://:secret@cache:6379/0?namespace=team&ttl=30d")?;
/// assert_eq!(config.store(), "redis://cache:6379/0");
/// assert_eq!(config.namespace(), "team");
/// // SAFETY: nobody else can write to this store.
/// let config = unsafe { config.with_trust(Trust::Network) };
/// assert!(!format!("{config:?}").contains("secret"));
/// # }
/// # Ok::<(), ptxkit_cache::remote::RemoteConfigError>(())
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
    #[error("{}: {why}", path.shown())]
    File { path: PathBuf, why: String },
}

/// What the environment has to say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Variables<'a> {
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
            least_wait: address.kind.least_wait(),
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
    pub(crate) fn read(
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
    ///
    /// # Safety
    /// Loads run the code of whoever is trusted: as for
    /// [`CompileLock::put`](crate::CompileLock::put), what their keys have signed must
    /// be what the compiler made; with [`Trust::Network`], whatever the store has.
    #[allow(unsafe_code, reason = "code in the cache is trusted")]
    pub unsafe fn with_trust(mut self, trust: Trust) -> RemoteConfig {
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

#[cfg(all(test, feature = "remote-redis", feature = "remote-fs"))]
mod tests {
    use super::*;

    fn read(
        url: Option<&str>,
        trust: Option<&str>,
        file: Option<&Path>,
    ) -> Result<Option<RemoteConfig>, RemoteConfigError> {
        let variables = Variables {
            url: url.map(OsStr::new),
            trust: trust.map(OsStr::new),
            ..Variables::default()
        };
        RemoteConfig::read(variables, file)
    }

    fn options(config: &RemoteConfig) -> Vec<(String, String)> {
        config.address.options().collect()
    }

    #[test]
    fn a_url_names_the_store_and_how_it_is_used() {
        let url = "rediss://user:p%40ss@cache:7000/3/a/b?prefix=c&namespace=team&ttl=2w&wait=300ms&largest=9";
        let config = RemoteConfig::parse(url).unwrap();
        let expected = [
            ("db", "3"),
            ("default_ttl", "1209600s"),
            ("endpoint", "rediss://cache:7000"),
            ("password", "p@ss"),
            ("root", "a/b/c"),
            ("username", "user"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(options(&config), expected);
        assert_eq!(config.store(), "rediss://cache:7000/3/a/b");
        assert_eq!(config.namespace(), "team");
        assert_eq!(config.wait(), Duration::from_millis(300));
        assert_eq!(config.largest(), 9);
        let plain = RemoteConfig::parse("redis://[::1]").unwrap();
        let expected = [("endpoint", "redis://[::1]:6379"), ("root", "ptxkit")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(options(&plain), expected);
        assert_eq!(plain.wait(), Duration::from_millis(50));
        assert_eq!(plain.namespace(), "default");
        let folder = RemoteConfig::parse("file:///srv/my%20cache?prefix=x").unwrap();
        assert_eq!(options(&folder)[1].1, "/srv/my cache/x");
    }

    #[test]
    fn nonsense_is_an_error_that_says_what_to_do() {
        for (url, said) in [
            ("cache:6379", "no kind of store"),
            ("redis", "no URL"),
            ("http://cache", "no kind of store"),
            ("redis:///0", "host"),
            ("redis://cache/team", "number of a database"),
            ("redis://cache?tll=3d", "no option `tll`"),
            ("redis://cache?ttl=3", "ms, s, m, h, d or w"),
            ("redis://cache?ttl=0s", "from a second"),
            ("redis://cache?largest=1k", "number of bytes"),
            ("redis://cache?namespace=a/b", "letters"),
            ("redis://cache?namespace=..", "letters"),
            ("redis://cache?prefix=../x", "letters"),
            ("file:///srv?ttl=1d", "in the store itself"),
            ("file://srv/x", "file:///"),
            ("file://user:hunter2@/srv", ""),
            ("redis://user:12/hunter2@cache", "%2F"),
            ("redis://user:12?hunter2@cache", "%3F"),
            ("redis://user:12#hunter2@cache", "%23"),
            ("redis://user:hunter2@cache/0/hunter2@x", "%40"),
            ("redis://:hunter2/x@cache", "no URL"),
            ("redis//:hunter2@cache", "no URL"),
            ("redis:/:hunter2@cache/0", ""),
            ("redis:hunter2@cache", ""),
            ("user:hunter2@cache:6379", "no kind of store"),
        ] {
            let error = RemoteConfig::parse(url).expect_err(url).to_string();
            assert!(error.contains(said), "{url}: {error}");
            assert!(!error.contains("hunter2"), "{url}: {error}");
        }
    }

    #[cfg(feature = "remote-memcached")]
    #[test]
    fn what_memcached_would_take_for_a_date_is_refused() {
        assert!(RemoteConfig::parse("memcached://cache?ttl=30d").is_ok());
        assert!(RemoteConfig::parse("memcached://cache?ttl=31d").is_err());
    }

    #[test]
    fn the_environment_wins_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("remote.toml");
        let key = "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        let text = format!(
            "url = 'redis://one/1'\nnamespace = 'team'\nwait = '1s'\ntrust = ['{key}']\nsign = '/k'\n"
        );
        fs::write(&path, text).unwrap();
        let path = Some(&*path);
        let file = read(None, None, path).unwrap().unwrap();
        assert_eq!((file.store(), file.namespace()), ("redis://one/1", "team"));
        assert_eq!(file.trust(), Some(&key.parse().unwrap()));
        assert_eq!(file.signer(), Some(Path::new("/k")));
        let both = read(Some("redis://two?namespace=mine"), Some("none"), path);
        let both = both.unwrap().unwrap();
        assert_eq!((both.store(), both.namespace()), ("redis://two", "mine"));
        assert_eq!(both.trust(), Some(&Trust::Network));
        assert_eq!(both.wait(), Duration::from_secs(1));
        assert_eq!(read(Some("none"), None, path), Ok(None));
        assert_eq!(read(None, Some("none"), None), Ok(None));
        let absent = folder.path().join("absent");
        assert_eq!(read(None, None, Some(&absent)), Ok(None));
    }

    #[test]
    fn a_password_is_shown_nowhere() {
        let url = "redis://user:hunter2@cache:6379/0";
        let config = RemoteConfig::parse(url).unwrap();
        let variables = Variables {
            url: Some(OsStr::new("redis://cache")),
            redis_password: Some(OsStr::new("hunter2")),
            ..Variables::default()
        };
        let of_environment = RemoteConfig::read(variables, None).unwrap().unwrap();
        for config in [config, of_environment] {
            let password = ("password".to_owned(), "hunter2".to_owned());
            assert!(options(&config).contains(&password));
            let shown = format!("{config:?} {} {:#?}", config.store(), config.address);
            assert!(!shown.contains("hunter2"), "{shown}");
            let said = "AUTH hunter2 failed at https://h/x?sig=hunter2,\nredis://u:hunter2@h";
            let redacted = config.address.redact(said);
            assert_eq!(redacted, "AUTH *** failed at https://h/x redis://u:***@h");
        }
    }

    #[test]
    fn a_file_with_mistakes_is_named_without_its_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("remote.toml");
        for text in [
            "url = 'redis://:hunter2@cache'\nnamespaces = 'a'\n",
            "namespace = 'a'\n",
            "\nurl = redis://:hunter2@cache\n",
            "\u{0}",
        ] {
            fs::write(&path, text).unwrap();
            let error = read(None, None, Some(&path)).unwrap_err().to_string();
            assert!(error.contains("remote.toml"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_write_is_not_read() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, "url = 'redis://cache'\n").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(read(None, None, Some(&link)).unwrap().is_some());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(read(None, None, Some(&link)).is_err());
    }
}
