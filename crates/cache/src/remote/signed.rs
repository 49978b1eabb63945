//! What lies in the store under a key: the file of a blob, and a signature behind it.
//!
//! | bytes from the end | what |
//! |---|---|
//! | 108 to 100 | magic `PTXKSIGN` |
//! | 100 to 96 | version of this layout |
//! | 96 to 64 | public key of the signer |
//! | 64 to 0 | ed25519 signature |
//!
//! Signed are this format's name, the namespace, the key and the SHA-256 of the file: a blob
//! that is moved to another key, or to another namespace, is refused. The signature stands at
//! the end, so that the file need not be copied once it was read.

use sha2::{Digest, Sha256};

use super::keys::{PublicKey, SigningKey, Trust};
use crate::blob::{Blob, Damage};
use crate::key::Key;

const MAGIC: &[u8; 8] = b"PTXKSIGN";
const VERSION: u32 = 1;
/// Bytes behind the file.
pub(super) const TRAILER: usize = 108;
const DOMAIN: &[u8] = b"ptxkit blob in a remote store, version 1";

/// Why what lies under a key is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Rejected {
    #[error("it carries no signature")]
    NotSigned,
    #[error("its signature has version {0}, this program reads {VERSION}")]
    Version(u32),
    #[error("its signer is not trusted; PTXKIT_REMOTE_TRUST lists who is")]
    Signer,
    #[error("its signature does not match")]
    Signature,
    #[error("{0}")]
    Damaged(#[from] Damage),
}

/// The file of a blob with its signature, for the store.
pub(super) fn sign(blob: &Blob, namespace: &str, key: &Key, signer: &SigningKey) -> Vec<u8> {
    let file = blob.file();
    let mut bytes = Vec::with_capacity(file.len() + TRAILER);
    bytes.extend_from_slice(file);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(signer.public().as_bytes());
    bytes.extend_from_slice(&signer.sign(&message(file, namespace, key)));
    bytes
}

/// The blob of `key` out of what the store had, if `trust` allows it. All of it is checked.
pub(super) fn open(
    mut bytes: Vec<u8>,
    namespace: &str,
    key: &Key,
    trust: &Trust,
) -> Result<Blob, Rejected> {
    let length = bytes
        .len()
        .checked_sub(TRAILER)
        .ok_or(Rejected::NotSigned)?;
    let (file, trailer) = bytes.split_at(length);
    let mut parts = Parts(trailer);
    if &parts.take::<8>()? != MAGIC {
        return Err(Rejected::NotSigned);
    }
    let version = u32::from_le_bytes(parts.take()?);
    if version != VERSION {
        return Err(Rejected::Version(version));
    }
    let (signer, signature) = (parts.take::<32>()?, parts.take::<64>()?);
    if let Trust::Keys(trusted) = trust {
        let signer = trusted.iter().find(|trusted| *trusted.as_bytes() == signer);
        let signer: &PublicKey = signer.ok_or(Rejected::Signer)?;
        if !signer.verifies(&message(file, namespace, key), &signature) {
            return Err(Rejected::Signature);
        }
    }
    bytes.truncate(length);
    Ok(Blob::read(bytes, key, false)?)
}

fn message(file: &[u8], namespace: &str, key: &Key) -> Vec<u8> {
    let mut message = DOMAIN.to_vec();
    // With its length, so that no two divisions of the same bytes agree.
    message.extend_from_slice(&(namespace.len() as u64).to_le_bytes());
    message.extend_from_slice(namespace.as_bytes());
    message.extend_from_slice(key.as_bytes());
    message.extend_from_slice(&Sha256::digest(file));
    message
}

struct Parts<'a>(&'a [u8]);

impl Parts<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Rejected> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Rejected::NotSigned)?;
        self.0 = rest;
        Ok(*taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::Provenance;

    fn key(n: u8) -> Key {
        Key::from_bytes([n; 32])
    }

    fn signer(name: &str) -> SigningKey {
        let folder = tempfile::tempdir().unwrap();
        SigningKey::create(&folder.path().join(name)).unwrap()
    }

    fn blob() -> Blob {
        Blob::new(&key(1), &Provenance::default(), b"the code")
    }

    #[test]
    fn what_is_signed_is_read_by_whoever_trusts_the_signer() {
        let (mine, other) = (signer("a"), signer("b"));
        let bytes = sign(&blob(), "team", &key(1), &mine);
        let open = |namespace, n, trust: &Trust| open(bytes.clone(), namespace, &key(n), trust);
        let trust = Trust::Keys(vec![other.public(), mine.public()]);
        let read = open("team", 1, &trust).unwrap();
        assert_eq!(&*read, b"the code");
        assert_eq!(read.file(), blob().file());
        assert_eq!(open("Team", 1, &trust).unwrap_err(), Rejected::Signature);
        assert_eq!(open("team", 2, &trust).unwrap_err(), Rejected::Signature);
        let others = Trust::Keys(vec![other.public()]);
        assert_eq!(open("team", 1, &others).unwrap_err(), Rejected::Signer);
        let nobody = Trust::Keys(Vec::new());
        assert_eq!(open("team", 1, &nobody).unwrap_err(), Rejected::Signer);
        assert!(open("team", 1, &Trust::Network).is_ok());
        // The key in the blob itself is checked too.
        let moved = open("team", 2, &Trust::Network).unwrap_err();
        assert_eq!(moved, Rejected::Damaged(Damage::Key));
    }

    #[test]
    fn a_flipped_bit_is_found_wherever_it_lies() {
        let signer = signer("a");
        let trust = Trust::Keys(vec![signer.public()]);
        let good = sign(&blob(), "", &key(1), &signer);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            assert!(open(bad, "", &key(1), &trust).is_err(), "byte {at}");
        }
        for length in 0..good.len() {
            let cut = good[..length].to_vec();
            assert!(open(cut.clone(), "", &key(1), &trust).is_err(), "{length}");
            assert!(open(cut, "", &key(1), &Trust::Network).is_err(), "{length}");
        }
    }

    #[test]
    fn a_later_layout_is_named() {
        let signer = signer("a");
        let mut bytes = sign(&blob(), "", &key(1), &signer);
        let at = bytes.len() - 100;
        bytes[at] = 2;
        let trust = Trust::Network;
        let later = open(bytes.clone(), "", &key(1), &trust).unwrap_err();
        assert_eq!(later, Rejected::Version(2));
        // The same of a blob.
        bytes[at] = 1;
        bytes[8] = 99;
        let later = open(bytes, "", &key(1), &trust).unwrap_err();
        assert_eq!(later, Rejected::Damaged(Damage::Schema { found: 99 }));
    }
}
