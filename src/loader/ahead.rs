//! Loading while the digest is computed.

use std::sync::{Mutex, PoisonError, TryLockError};
use std::thread::available_parallelism;

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Loaded, Loader};
use crate::cache::Digest;
use crate::jit::JitOptions;

/// From so many bytes on a digest takes longer than waking the thread for it.
const LARGE: usize = 128 << 10;
/// With fewer processors the two take turns, or the digest begins when the load
/// is over: measured with two, that costs a tenth more than it could save.
const PROCESSORS: usize = 4;

/// The thread that computes digests, once there is one. It waits for the next:
/// to start a thread takes as long as reading a blob of 300 KB.
#[derive(Debug)]
pub(super) struct Digesting {
    thread: Mutex<Thread>,
    /// So many must there be.
    processors: usize,
}

#[derive(Debug)]
enum Thread {
    /// Nobody has asked for it yet: to count the processors reads files.
    NotYet,
    /// There is no processor for it to run on, or it could not be started.
    Never,
    Waiting(ThreadPool),
}

impl Thread {
    fn start(processors: usize) -> Thread {
        let are_there = available_parallelism().is_ok_and(|there| there.get() >= processors);
        let one = ThreadPoolBuilder::new().num_threads(1);
        let started = || one.thread_name(|_| "ptxkit-digest".into()).build().ok();
        let thread = are_there.then(started).flatten();
        thread.map_or(Thread::Never, Thread::Waiting)
    }
}

impl Default for Digesting {
    fn default() -> Digesting {
        Digesting::with(PROCESSORS)
    }
}

impl Digesting {
    fn with(processors: usize) -> Digesting {
        Digesting {
            thread: Mutex::new(Thread::NotYet),
            processors,
        }
    }

    /// Starts the thread, which the first large text does otherwise.
    pub(super) fn start(&self) {
        self.with_thread(|_| ());
    }

    /// Gives `f` the thread, if it is to be had and nobody else has it.
    fn with_thread<T>(&self, f: impl FnOnce(&ThreadPool) -> T) -> Option<T> {
        let mut thread = match self.thread.try_lock() {
            Ok(thread) => thread,
            // Its digests are right or not there.
            Err(TryLockError::Poisoned(error)) => PoisonError::into_inner(error),
            Err(TryLockError::WouldBlock) => return None,
        };
        if let Thread::NotYet = *thread {
            *thread = Thread::start(self.processors);
        }
        match &*thread {
            Thread::Waiting(thread) => Some(f(thread)),
            _ => None,
        }
    }
}

impl Loader {
    /// The digest of `text`, as `digest` computes it, and the module, where that
    /// was compiled before and the digest could be guessed: it is loaded in the
    /// meantime. A wrong guess is unloaded, and put right for the next time.
    pub(super) fn digest_ahead(
        &self,
        text: &[u8],
        digest: impl Fn() -> Digest + Sync,
        options: &JitOptions,
    ) -> (Digest, Option<Loaded>) {
        let begin = |thread: &ThreadPool| {
            let mut computed = None;
            let (guess, loaded) = thread.in_place_scope(|scope| {
                scope.spawn(|_| computed = Some(digest()));
                let guess = self.cache().guess(text);
                let loaded = guess.and_then(|guess| self.known(guess.digest?, options));
                (guess, loaded)
            });
            (computed, guess, loaded)
        };
        let digesting = self.shared.digesting.as_ref();
        let large = digesting.filter(|_| text.len() >= LARGE);
        let Some((Some(computed), guess, loaded)) = large.and_then(|own| own.with_thread(begin))
        else {
            return (digest(), None);
        };
        match guess {
            Some(guess) if guess.digest != Some(computed) => {
                self.cache().correct(&guess, computed);
                (computed, None)
            }
            _ => (computed, loaded),
        }
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cache::{Cache, Policy};
    use crate::driver::{Context, Selection, select};
    use crate::loader::{CacheUse, Source};
    use ptx::Ptx;

    fn loader(folder: &std::path::Path) -> Loader {
        let policy = Policy::disabled().with_enabled(true).with_path(folder);
        let device = select(Selection::Cpu).unwrap().device;
        let mut loader = Loader::new(Context::primary(&device).unwrap(), Cache::new(policy));
        Arc::get_mut(&mut loader.shared).unwrap().digesting = Some(Digesting::with(1));
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
    fn while_another_thread_is_served_the_digest_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(load(folder.path(), "one").0, CacheUse::Miss);
        let (loader, ptx) = (loader(folder.path()), ptx("one"));
        let digesting = loader.shared.digesting.as_ref().unwrap();
        let other = digesting.thread.lock().unwrap();
        let loaded = loader.load(&Source::from(&ptx), &JitOptions::default());
        assert_eq!(loaded.unwrap().report.cache, CacheUse::Hit);
        assert!(matches!(*other, Thread::NotYet));
    }

    #[test]
    fn the_thread_is_started_once_large_texts_were_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let is_known = || loader(folder.path()).cache().has_guesses();
        assert!(!is_known());
        assert_eq!(load(folder.path(), "one").0, CacheUse::Miss);
        assert!(is_known());
        let digesting = Digesting::with(1);
        digesting.start();
        assert!(matches!(
            *digesting.thread.lock().unwrap(),
            Thread::Waiting(_)
        ));
        let place = |thread: &ThreadPool| thread as *const ThreadPool as usize;
        let first = digesting.with_thread(place);
        assert!(first.is_some());
        assert_eq!(digesting.with_thread(place), first);
    }

    #[test]
    fn with_too_few_processors_there_is_no_thread() {
        let digesting = Digesting::with(usize::MAX);
        digesting.start();
        assert!(digesting.with_thread(|_| ()).is_none());
        assert!(matches!(*digesting.thread.lock().unwrap(), Thread::Never));
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
