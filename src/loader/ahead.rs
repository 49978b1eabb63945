//! Loading while the digest is computed.

use std::thread::{Builder, available_parallelism, scope};

use super::{Loaded, Loader};
use crate::cache::Digest;
use crate::jit::JitOptions;

/// From so many bytes on a digest takes longer than the thread for it.
const LARGE: usize = 128 << 10;
/// With fewer processors the two take turns, or the thread begins when the load
/// is over: measured with two, that costs a tenth more than it could save.
const PROCESSORS: usize = 4;

/// Whether a thread beside a load has a processor to run on.
pub(super) fn has_processors() -> bool {
    available_parallelism().is_ok_and(|processors| processors.get() >= PROCESSORS)
}

impl Loader {
    /// The digest of `text`, as `digest` computes it, and the module, where that
    /// was compiled before and the digest could be guessed: it is loaded in the
    /// meantime. A wrong guess is unloaded, and put right for the next time.
    pub(super) fn digest_ahead(
        &self,
        text: &str,
        digest: &(impl Fn() -> Digest + Sync),
        options: &JitOptions,
    ) -> (Digest, Option<Loaded>) {
        if text.len() < LARGE || !self.shared.digests_beside {
            return (digest(), None);
        }
        scope(|scope| {
            let thread = Builder::new().name("ptxkit-digest".into());
            let Ok(computed) = thread.spawn_scoped(scope, digest) else {
                return (digest(), None);
            };
            let guess = self.cache().guess(text.as_bytes());
            let loaded = guess.and_then(|guess| self.known(guess.digest?, options));
            let digest = computed.join().unwrap_or_else(|_| digest());
            match guess {
                Some(guess) if guess.digest != Some(digest) => {
                    self.cache().correct(&guess, digest);
                    (digest, None)
                }
                _ => (digest, loaded),
            }
        })
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cache::{Cache, Policy};
    use crate::driver::{Context, Selection, select};
    use crate::loader::{CacheUse, Source};
    use crate::ptx::Ptx;

    fn loader(folder: &std::path::Path) -> Loader {
        let policy = Policy::disabled().with_enabled(true).with_path(folder);
        let device = select(Selection::Cpu).unwrap().device;
        let mut loader = Loader::new(Context::primary(&device).unwrap(), Cache::new(policy));
        Arc::get_mut(&mut loader.shared).unwrap().digests_beside = true;
        loader
    }

    /// Large enough for a thread.
    fn ptx(name: &str) -> Ptx {
        let filler = "// nothing to see here\n".repeat(LARGE / 20);
        let text = format!(
            ".version 7.0\n.target sm_80\n.address_size 64\n{filler}.visible .entry {name}() {{ ret; }}\n"
        );
        Ptx::from_bytes(text, "large.ptx").unwrap()
    }

    /// Loads as a new process would.
    fn load(folder: &std::path::Path, name: &str) -> (CacheUse, u64) {
        let (loader, ptx) = (loader(folder), ptx(name));
        let loaded = loader.load(&Source::from(&ptx), &JitOptions::default());
        let loaded = loaded.unwrap();
        loaded.module.kernel(name).unwrap();
        loader.flush();
        (loaded.report.cache, loader.counters().cache.hits)
    }

    fn guessed(folder: &std::path::Path, name: &str) -> Option<Digest> {
        let ptx = ptx(name);
        loader(folder).cache().guess(ptx.text().as_bytes())?.digest
    }

    #[test]
    fn what_was_loaded_before_is_guessed() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(guessed(folder.path(), "one"), None);
        assert_eq!(load(folder.path(), "one"), (CacheUse::Miss, 0));
        assert_eq!(guessed(folder.path(), "one"), Some(ptx("one").digest()));
        assert_eq!(load(folder.path(), "one"), (CacheUse::Hit, 1));
        // Bytes of which nothing is known go the same way.
        let (loader, ptx) = (loader(folder.path()), ptx("one"));
        let bytes = Source::new("one.ptx", ptx.text().as_bytes());
        let loaded = loader.load(&bytes, &JitOptions::default()).unwrap();
        assert_eq!(loaded.report.cache, CacheUse::Hit);
        assert_eq!(loader.counters().cache.hits, 1);
        // The same module again, read anew.
        let again = loader.load(&Source::from(&ptx), &JitOptions::default());
        assert_eq!(again.unwrap().report.cache, CacheUse::Shared);
    }

    #[test]
    fn a_wrong_guess_loads_nothing_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for name in ["one", "two"] {
            assert_eq!(load(path, name).0, CacheUse::Miss);
        }
        let cache = loader(path).cache().clone();
        let guess = cache.guess(ptx("two").text().as_bytes()).unwrap();
        cache.correct(&guess, ptx("one").digest());
        assert_eq!(guessed(path, "two"), Some(ptx("one").digest()));
        // The blob of `one` is found first, then that of `two`.
        assert_eq!(load(path, "two"), (CacheUse::Hit, 2));
        assert_eq!(guessed(path, "two"), Some(ptx("two").digest()));
        assert_eq!(load(path, "two"), (CacheUse::Hit, 1));
        // Without the table nothing is missing but time.
        cache.clear().unwrap();
        assert_eq!(guessed(path, "two"), None);
        assert_eq!(load(path, "two").0, CacheUse::Miss);
    }
}
