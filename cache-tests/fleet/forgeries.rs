//! Blobs in the store that nobody who is trusted put there for this key.

use super::servers::{Store, name, stores};
use super::{Machine, Signer, place};
use crate::program::{key, load, warnings_of};

/// What a store holds for two keys: as it was written.
struct Stored {
    store: Store,
    url: String,
    names: [String; 2],
    values: [Vec<u8>; 2],
}

impl Stored {
    fn by(store: Store, signer: &Signer) -> Stored {
        let url = place(store, &store.address().unwrap());
        let writer = Machine::writer_as(&url, signer).cache();
        let (names, warnings) = warnings_of(|| {
            [1, 2].map(|n| {
                load(&writer, n, || {});
                assert!(writer.flush());
                name(&url, &key(n))
            })
        });
        let values = names.each_ref().map(|name| {
            let value = store.get(name);
            value.unwrap_or_else(|| panic!("{store:?} has no {name}: {warnings:?}"))
        });
        Stored {
            store,
            url,
            names,
            values,
        }
    }

    /// Loads the first key with `value` in the store: it is compiled, after one warning.
    fn is_refused(&self, what: &str, value: &[u8]) {
        self.store.set(&self.names[0], value);
        let store = self.store;
        let cache = Machine::reader(&self.url).cache();
        let (is_compiled, warnings) = warnings_of(|| load(&cache, 1, || {}));
        assert!(is_compiled, "{store:?}: {what}");
        assert_eq!(warnings.len(), 1, "{store:?}: {what}: {warnings:?}");
        assert!(!load(&cache, 1, || {}), "{store:?}: {what}");
        // The store answered: nothing keeps the other blob from being loaded.
        assert!(!load(&cache, 2, || {}), "{store:?}: {what}");
    }
}

#[test]
fn only_what_a_trusted_key_signed_for_this_key_is_loaded() {
    for store in stores() {
        let [trusted, other] = Signer::pair();
        let stored = Stored::by(store, trusted);
        let [good, another] = &stored.values;
        let forged = Stored::by(store, other).values[0].clone();
        let code = good.len() - SIGNATURE;
        // A signature of the same key's blob as it was before.
        let mut stale = good.clone();
        stale[code - 1] ^= 1;
        let signed_by_other = [&good[..code], &forged[forged.len() - SIGNATURE..]].concat();
        let claimed = {
            // The public key of who is trusted over the other's signature.
            let mut claimed = signed_by_other.clone();
            let end = claimed.len();
            claimed[end - 96..end - 64].copy_from_slice(&good[good.len() - 96..good.len() - 64]);
            claimed
        };
        let newer = {
            let mut newer = good.clone();
            newer[8] = newer[8].wrapping_add(1);
            newer
        };
        let of_newer_layout = {
            let mut newer = good.clone();
            newer[code + 8] += 1;
            newer
        };
        for (what, value) in [
            ("another key's blob", another.clone()),
            ("a blob that nobody trusted signed", forged),
            ("another's signature", signed_by_other),
            ("another's signature under a trusted name", claimed),
            ("a signature of what was there before", stale),
            ("no signature", good[..code].to_vec()),
            ("half of it", good[..good.len() / 2].to_vec()),
            ("nothing", Vec::new()),
            ("text", b"<html>404</html>".to_vec()),
            ("a newer schema", newer),
            ("a newer layout", of_newer_layout),
        ] {
            stored.is_refused(what, &value);
        }
        stored.store.set(&stored.names[0], good);
        assert!(!load(&Machine::reader(&stored.url).cache(), 1, || {}));
    }
}

#[test]
fn a_blob_of_another_namespace_is_not_loaded() {
    for store in stores() {
        let stored = Stored::by(store, &Signer::pair()[0]);
        let elsewhere = Stored::by(store, &Signer::pair()[0]);
        // The place is another, the namespace and the key are the same: it is loaded.
        stored.store.set(&stored.names[0], &elsewhere.values[0]);
        assert!(!load(&Machine::reader(&stored.url).cache(), 1, || {}));
        let url = format!("{}&namespace=other", stored.url);
        let other = Machine::writer(&url).cache();
        load(&other, 1, || {});
        drop(other);
        let value = store.get(&name(&url, &key(1))).unwrap();
        stored.is_refused("another namespace's", &value);
    }
}

#[test]
fn a_machine_without_a_key_writes_nothing_and_one_without_trust_reads_nothing() {
    for store in stores() {
        let url = place(store, &store.address().unwrap());
        let reader = Machine::reader(&url).cache();
        load(&reader, 1, || {});
        drop(reader);
        assert_eq!(store.get(&name(&url, &key(1))), None);
        drop({
            let writer = Machine::writer(&url).cache();
            load(&writer, 1, || {});
            writer
        });
        let mut alone = Machine::reader(&url);
        alone.variables.retain(|(name, _)| *name == "PTXKIT_REMOTE");
        let (is_compiled, warnings) = warnings_of(|| load(&alone.cache(), 1, || {}));
        assert!(is_compiled);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("PTXKIT_REMOTE_TRUST"), "{warnings:?}");
        alone.variables.push(("PTXKIT_REMOTE_TRUST", "none".into()));
        let (is_compiled, warnings) = warnings_of(|| load(&alone.cache(), 1, || {}));
        assert!(!is_compiled && warnings.len() <= 1, "{warnings:?}");
    }
}

/// Bytes behind the file of a blob.
const SIGNATURE: usize = 108;
