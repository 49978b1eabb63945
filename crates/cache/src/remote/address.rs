//! Which store, out of a URL.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use url::Url;

use super::config::RemoteConfigError;
use super::secret::Secret;

/// A kind of store, which a feature of this crate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreKind {
    Redis,
    Memcached,
    S3,
    Gcs,
    Azblob,
    Webdav,
    Fs,
}

/// A store, as its client takes it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub kind: StoreKind,
    /// The options of the client, by its names. Any may be a secret.
    options: BTreeMap<&'static str, Secret>,
    /// The URL without user, password and options.
    shown: String,
}

/// The options that a URL may have, by the client's names.
const S3: &[&str] = &[
    "region",
    "endpoint",
    "profile",
    "access_key_id",
    "secret_access_key",
    "session_token",
    "role_arn",
    "external_id",
    "enable_virtual_host_style",
    "disable_ec2_metadata",
    "skip_signature",
    "default_storage_class",
    "server_side_encryption",
];
const GCS: &[&str] = &[
    "endpoint",
    "credential_path",
    "service_account",
    "default_storage_class",
    "skip_signature",
    "disable_vm_metadata",
    "token",
];
const AZBLOB: &[&str] = &["endpoint", "account_name", "account_key", "sas_token"];
const WEBDAV: &[&str] = &["token"];
/// Those that no message shows.
const SECRETS: [&str; 9] = [
    "username",
    "password",
    "token",
    "access_key_id",
    "secret_access_key",
    "session_token",
    "external_id",
    "account_key",
    "sas_token",
];
/// The first part of keys where the URL has none: other programs may use the store.
const PREFIX: &str = "ptxkit";

impl StoreKind {
    /// The kind of a URL's scheme, and the scheme that its client takes.
    fn of_scheme(scheme: &str) -> Option<(StoreKind, &'static str)> {
        Some(match scheme {
            "redis" => (StoreKind::Redis, "redis"),
            "rediss" => (StoreKind::Redis, "rediss"),
            "memcached" => (StoreKind::Memcached, "tcp"),
            "s3" => (StoreKind::S3, ""),
            "gs" | "gcs" => (StoreKind::Gcs, ""),
            "azblob" => (StoreKind::Azblob, ""),
            "webdav" | "webdavs" => (StoreKind::Webdav, "https"),
            "webdav+http" => (StoreKind::Webdav, "http"),
            "file" => (StoreKind::Fs, ""),
            _ => return None,
        })
    }

    pub(super) fn feature(self) -> &'static str {
        match self {
            StoreKind::Redis => "remote-redis",
            StoreKind::Memcached => "remote-memcached",
            StoreKind::S3 => "remote-s3",
            StoreKind::Gcs => "remote-gcs",
            StoreKind::Azblob => "remote-azblob",
            StoreKind::Webdav => "remote-webdav",
            StoreKind::Fs => "remote-fs",
        }
    }

    fn is_built(self) -> bool {
        match self {
            StoreKind::Redis => cfg!(feature = "remote-redis"),
            StoreKind::Memcached => cfg!(feature = "remote-memcached"),
            StoreKind::S3 => cfg!(feature = "remote-s3"),
            StoreKind::Gcs => cfg!(feature = "remote-gcs"),
            StoreKind::Azblob => cfg!(feature = "remote-azblob"),
            StoreKind::Webdav => cfg!(feature = "remote-webdav"),
            StoreKind::Fs => cfg!(feature = "remote-fs"),
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            StoreKind::S3 => S3,
            StoreKind::Gcs => GCS,
            StoreKind::Azblob => AZBLOB,
            StoreKind::Webdav => WEBDAV,
            StoreKind::Redis | StoreKind::Memcached | StoreKind::Fs => &[],
        }
    }

    /// How long a lookup of small PTX may take.
    pub(super) fn least_wait(self) -> Duration {
        Duration::from_millis(match self {
            // Its client writes a request in two parts. A server delays its acknowledgement
            // of the first, and TCP the second until then: 40 ms.
            StoreKind::Memcached => 150,
            _ => 50,
        })
    }

    /// Bytes that a value may have where the store was not set up otherwise.
    pub(super) fn largest(self) -> u64 {
        match self {
            // An item of 1 MiB holds its key and a head too.
            StoreKind::Memcached => (1 << 20) - 1024,
            StoreKind::Redis => 512 << 20,
            _ => u64::MAX,
        }
    }

    /// The longest time that its client can have values kept for; `None` where the store
    /// removes what is old by a rule of its own.
    pub(super) fn longest_ttl(self) -> Option<u64> {
        const DAY: u64 = 24 * 60 * 60;
        match self {
            StoreKind::Redis => Some(100 * 365 * DAY),
            // It takes longer ones for a date.
            StoreKind::Memcached => Some(30 * DAY),
            _ => None,
        }
    }
}

impl Address {
    /// Reads a URL. `option` is given those in the query that are not the store's, and says
    /// whether it knows them.
    pub(super) fn parse(
        text: &str,
        mut option: impl FnMut(&str, &str) -> Result<bool, RemoteConfigError>,
    ) -> Result<Address, RemoteConfigError> {
        let url =
            Url::parse(text).map_err(|error| RemoteConfigError::NotAUrl(error.to_string()))?;
        let (kind, scheme) = StoreKind::of_scheme(url.scheme())
            .ok_or_else(|| RemoteConfigError::UnknownStore(url.scheme().to_owned()))?;
        if !kind.is_built() {
            return Err(RemoteConfigError::NotBuilt(kind.feature()));
        }
        let takes_user = matches!(
            kind,
            StoreKind::Redis | StoreKind::Memcached | StoreKind::Webdav
        );
        // The rest of a password with a `/`, `?` or `#`: what follows the host is shown. The options
        // of the other stores may have one.
        let query = url.query().filter(|_| takes_user);
        let behind_host = [Some(url.path()), query, url.fragment()];
        let mut behind_host = behind_host.into_iter().flatten();
        if kind != StoreKind::Fs && behind_host.any(|part| part.contains('@')) {
            let why = "write / ? # @ in the user and password as %2F %3F %23 %40";
            return Err(bad("the URL has a @ behind the host", why));
        }
        let mut options = BTreeMap::new();
        let mut set = |name: &'static str, value: String| {
            options.insert(name, Secret::new(value));
        };
        let mut prefix = String::new();
        for (name, value) in url.query_pairs() {
            let known = kind.options();
            if let Some(known) = known.iter().find(|known| **known == name) {
                set(known, value.into_owned());
            } else if name == "prefix" {
                prefix = value.into_owned();
            } else if !option(&name, &value)? {
                return Err(RemoteConfigError::UnknownOption(name.into_owned()));
            }
        }
        let host = url.host_str().unwrap_or_default();
        let mut path = decoded(url.path()).trim_matches('/').to_owned();
        match kind {
            StoreKind::Fs if host.is_empty() => path.insert(0, '/'),
            StoreKind::Fs => return Err(bad("the path", "write file:///path")),
            _ if host.is_empty() => return Err(bad("the host", "it is missing")),
            _ => {}
        }
        match kind {
            StoreKind::Redis => {
                set("endpoint", endpoint(&url, scheme, 6379));
                let (first, rest) = path.split_once('/').unwrap_or((&path, ""));
                if !first.is_empty() {
                    let why = "the path starts with the number of a database: redis://host/0";
                    let number: u32 = first.parse().map_err(|_| bad("the database", why))?;
                    set("db", number.to_string());
                }
                path = rest.to_owned();
            }
            StoreKind::Memcached => set("endpoint", endpoint(&url, scheme, 11211)),
            StoreKind::S3 | StoreKind::Gcs => set("bucket", host.to_owned()),
            StoreKind::Azblob => set("container", host.to_owned()),
            StoreKind::Webdav => {
                let port = if scheme == "http" { 80 } else { 443 };
                set("endpoint", endpoint(&url, scheme, port));
            }
            StoreKind::Fs => set("atomic_write_dir", format!("{path}/.partial")),
        }
        let (user, password) = (url.username(), url.password());
        if !takes_user && (!user.is_empty() || password.is_some()) {
            let why = "this store takes none in its URL";
            return Err(bad("the user", why));
        }
        if !user.is_empty() {
            set("username", decoded(user));
        }
        if let Some(password) = password {
            set("password", decoded(password));
        }
        if !is_plain_path(&prefix) {
            let why = "letters, digits and . _ - / alone";
            return Err(bad("prefix", why));
        }
        let root = match (path.as_str(), prefix.trim_matches('/')) {
            ("", "") => PREFIX.to_owned(),
            (path, "") => path.to_owned(),
            ("", prefix) => prefix.to_owned(),
            (path, prefix) => format!("{path}/{prefix}"),
        };
        set("root", root);
        if kind == StoreKind::Azblob
            && let Some(account) = options.get("account_name").map(Secret::reveal)
        {
            let endpoint = format!("https://{account}.blob.core.windows.net");
            options.entry("endpoint").or_insert(Secret::new(endpoint));
        }
        let port = url.port().map(|port| format!(":{port}"));
        let shown = format!(
            "{}://{host}{}{}",
            url.scheme(),
            port.unwrap_or_default(),
            url.path()
        );
        Ok(Address {
            kind,
            options,
            shown,
        })
    }

    /// Sets an option that the URL does not have.
    pub(super) fn set_default(&mut self, name: &'static str, value: Secret) {
        self.options.entry(name).or_insert(value);
    }

    /// For the client.
    pub(super) fn options(&self) -> impl Iterator<Item = (String, String)> {
        let options = self.options.iter();
        options.map(|(name, value)| ((*name).to_owned(), value.reveal().to_owned()))
    }

    /// `text` without what must not be shown: an error of the client may have anything.
    pub(super) fn redact(&self, text: &str) -> String {
        let mut text = text.replace(char::is_control, " ");
        for (name, secret) in &self.options {
            if SECRETS.contains(name) && !secret.reveal().is_empty() {
                text = text.replace(secret.reveal(), "***");
            }
        }
        // A signed URL has its signature in the query.
        let words = text.split(' ').map(|word| match word.split_once('?') {
            Some((start, _)) if word.contains("://") => start,
            _ => word,
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn endpoint(url: &Url, scheme: &str, port: u16) -> String {
    let host = url.host_str().unwrap_or_default();
    format!("{scheme}://{host}:{}", url.port().unwrap_or(port))
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Whether `text` may be part of a key in every store.
pub(super) fn is_plain_path(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    // A key of memcached has at most 250 bytes.
    text.len() <= 100 && text.bytes().all(is_plain) && text.split('/').all(|part| part != "..")
}

fn bad(what: &'static str, why: &'static str) -> RemoteConfigError {
    RemoteConfigError::BadValue {
        what,
        why: why.to_owned(),
    }
}
