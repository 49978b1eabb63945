//! Who may put blobs into the store: ed25519 keys.
//!
//! A shared secret would not do: whoever can verify with it can forge.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ed25519_dalek::{Signature, Signer, VerifyingKey};
use input::ShowName as _;

const PREFIX: &str = "ed25519:";
/// The first word of a file with a private key.
const TITLE: &str = "ptxkit-signing-key";
/// Far more than such a file has.
const MAX_FILE: u64 = 4096;

/// A public key, as text `ed25519:` and 64 hexadecimal digits.
///
/// ```
/// use ptxkit_cache::remote::PublicKey;
///
/// let text = "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
/// assert_eq!(text.parse::<PublicKey>()?.to_string(), text);
/// # Ok::<(), ptxkit_cache::remote::NotAPublicKey>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

/// Text that is no public key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}…` is no public key: `ed25519:` and 64 hexadecimal digits, as `keygen` prints it")]
pub struct NotAPublicKey(String);

/// Whose blobs are loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those that one of these signed.
    Keys(Vec<PublicKey>),
    /// Anyone's who can write to the store (`none`): the network is trusted. Never for code
    /// of the CPU device, which runs in the process itself.
    Network,
}

/// A private key. `Debug` shows the public one.
#[derive(Clone)]
pub struct SigningKey(ed25519_dalek::SigningKey);

/// Why a file with a private key cannot be made or used.
#[allow(missing_docs, reason = "the messages say it all")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    #[error("{}: {source}", path.shown())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is no private key that `keygen` made", path.shown())]
    NotAKey { path: PathBuf },
    #[error("others can read {} (mode {mode:o}): chmod 600", path.shown())]
    Exposed { path: PathBuf, mode: u32 },
}

impl PublicKey {
    pub(super) fn from_bytes(bytes: &[u8; 32]) -> Option<PublicKey> {
        VerifyingKey::from_bytes(bytes).ok().map(PublicKey)
    }

    pub(super) fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// Whether this key's owner signed `message`.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        let signature = Signature::from_bytes(signature);
        self.0.verify_strict(message, &signature).is_ok()
    }
}

impl FromStr for PublicKey {
    type Err = NotAPublicKey;

    fn from_str(text: &str) -> Result<PublicKey, NotAPublicKey> {
        let bytes = text.strip_prefix(PREFIX).and_then(from_hex);
        let key = bytes.and_then(|bytes| PublicKey::from_bytes(&bytes));
        // Its start alone: it may be a private key that went to the wrong place.
        let shown = if text.starts_with(PREFIX) { 12 } else { 4 };
        key.ok_or_else(|| NotAPublicKey(text.chars().take(shown).collect()))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        write_hex(self.as_bytes(), f)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// As in `PTXKIT_REMOTE_TRUST`: `none`, or public keys with commas or blanks between.
impl FromStr for Trust {
    type Err = NotAPublicKey;

    fn from_str(text: &str) -> Result<Trust, NotAPublicKey> {
        if text.trim() == "none" {
            return Ok(Trust::Network);
        }
        let words = text.split(|c: char| c == ',' || c.is_whitespace());
        let keys: Result<Vec<_>, _> = words
            .filter(|word| !word.is_empty())
            .map(str::parse)
            .collect();
        Ok(Trust::Keys(keys?))
    }
}

impl SigningKey {
    /// Makes a new private key and writes it to `path`, which must not be there. Only this
    /// user can read the file.
    ///
    /// # Errors
    /// [`KeyFileError::File`]
    pub fn create(path: &Path) -> Result<SigningKey, KeyFileError> {
        let file_error = |source| KeyFileError::File {
            path: path.to_owned(),
            source,
        };
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| file_error(io::Error::other(error)))?;
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(file_error)?;
        let line = format!("{TITLE} {}\n", Hex(&secret));
        file.write_all(line.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(file_error)?;
        Ok(SigningKey(ed25519_dalek::SigningKey::from_bytes(&secret)))
    }

    /// Reads what [`create`](SigningKey::create) wrote. The file's group may read it, as in a
    /// mounted secret; others may not.
    ///
    /// # Errors
    /// [`KeyFileError`]
    pub fn read(path: &Path) -> Result<SigningKey, KeyFileError> {
        let file_error = |source| KeyFileError::File {
            path: path.to_owned(),
            source,
        };
        let file = fs::File::open(path).map_err(file_error)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let mode = file.metadata().map_err(file_error)?.mode() & 0o7777;
            if mode & 0o027 != 0 {
                let path = path.to_owned();
                return Err(KeyFileError::Exposed { path, mode });
            }
        }
        let mut text = String::new();
        file.take(MAX_FILE)
            .read_to_string(&mut text)
            .map_err(file_error)?;
        let secret = text
            .trim()
            .strip_prefix(TITLE)
            .and_then(|rest| from_hex(rest.trim_start()));
        match secret {
            Some(secret) => Ok(SigningKey(ed25519_dalek::SigningKey::from_bytes(&secret))),
            None => Err(KeyFileError::NotAKey {
                path: path.to_owned(),
            }),
        }
    }

    /// The key that [`Trust`] names.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    pub(super) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public())
    }
}

struct Hex<'a>(&'a [u8; 32]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(self.0, f)
    }
}

fn write_hex(bytes: &[u8; 32], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_made_is_read_and_signs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let made = SigningKey::create(&path).unwrap();
        let read = SigningKey::read(&path).unwrap();
        let public: PublicKey = made.public().to_string().parse().unwrap();
        let signature = read.sign(b"text");
        assert!(public.verifies(b"text", &signature));
        assert!(!public.verifies(b"texT", &signature));
        // What a key is worth must not be lost by a slip.
        assert!(matches!(
            SigningKey::create(&path),
            Err(KeyFileError::File { .. })
        ));
        let secret = fs::read_to_string(&path).unwrap();
        let digits = secret.trim().rsplit(' ').next().unwrap();
        assert!(!format!("{made:?}").contains(digits));
    }

    #[cfg(unix)]
    #[test]
    fn a_private_key_that_others_can_read_is_refused() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        SigningKey::create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        for (mode, is_used) in [(0o400, true), (0o440, true), (0o644, false), (0o620, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(SigningKey::read(&path).is_ok(), is_used, "{mode:o}");
        }
    }

    #[test]
    fn trust_is_a_list_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let keys = ["a", "b"].map(|name| {
            let made = SigningKey::create(&folder.path().join(name)).unwrap();
            made.public()
        });
        let text = format!("{},\n {} ", keys[0], keys[1]);
        assert_eq!(text.parse(), Ok(Trust::Keys(keys.to_vec())));
        assert_eq!("none".parse(), Ok(Trust::Network));
        let secret = fs::read_to_string(folder.path().join("a")).unwrap();
        for wrong in [
            "all",
            "ed25519:",
            "ed25519:zz",
            &text[..70],
            &secret,
            &secret[19..],
        ] {
            let error = wrong.parse::<Trust>().expect_err(wrong).to_string();
            assert!(!error.contains(&secret[19..25]), "{error}");
        }
    }
}
