//! The tier behind the folders, on real servers beside the tests
//! (`scripts/remote-servers`) and behind a proxy that damages what they say.

mod faults;
mod forgeries;
mod machines;
mod outages;
mod proxy;
mod servers;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use ptxkit::cache::remote::SigningKey;
use ptxkit::cache::{Cache, Environment, Policy};

use crate::program::{load, log, start};
use servers::Store;

/// A key pair: the file of the private key, and the public key as text.
struct Signer {
    file: PathBuf,
    public: String,
}

impl Signer {
    /// Of these two, which tests share, machines trust the first alone.
    fn pair() -> &'static [Signer; 2] {
        static PAIR: OnceLock<(tempfile::TempDir, [Signer; 2])> = OnceLock::new();
        let (_, pair) = PAIR.get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let pair = ["trusted.key", "other.key"].map(|name| {
                let file = folder.path().join(name);
                let public = SigningKey::create(&file).unwrap().public().to_string();
                Signer { file, public }
            });
            (folder, pair)
        });
        pair
    }
}

/// One machine of a fleet: a folder of its own, and what it is told of the store.
struct Machine {
    folder: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Machine {
    /// A machine that reads what the first signer signed.
    fn reader(address: &str) -> Machine {
        Machine {
            folder: tempfile::tempdir().unwrap(),
            variables: vec![
                ("PTXKIT_REMOTE", address.to_owned()),
                ("PTXKIT_REMOTE_TRUST", Signer::pair()[0].public.clone()),
            ],
        }
    }

    /// One that writes too, signing as `signer`.
    fn writer_as(address: &str, signer: &Signer) -> Machine {
        let mut machine = Machine::reader(address);
        let file = signer.file.display().to_string();
        machine.variables.push(("PTXKIT_REMOTE_SIGN", file));
        machine
    }

    fn writer(address: &str) -> Machine {
        Machine::writer_as(address, &Signer::pair()[0])
    }

    /// The folder of `CUDA_CACHE_PATH`.
    fn path(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn cache(&self) -> Cache {
        let path = ("CUDA_CACHE_PATH", self.path().display().to_string());
        let variables = self.variables.iter().cloned().chain([path]);
        Cache::new(Policy::from_environment(&Environment::of(variables)))
    }

    /// A process that loads modules 0 to `keys`, from number `first` on, and logs what
    /// it compiles in the machine's folder.
    fn process(&self, keys: u64, first: u64) -> Command {
        let mut command = start("fleet", self.folder.path(), &[keys, first]);
        command
            .envs(self.variables.iter().cloned())
            .env("CUDA_CACHE_PATH", self.path())
            .env("XDG_CONFIG_HOME", self.folder.path());
        command
    }
}

/// What a process does that [`Machine::process`] started.
pub fn load_all(folder: &Path, keys: u64, first: u64) {
    let cache = Cache::from_environment();
    for step in 0..keys {
        let n = (first + step) % keys;
        load(&cache, n, || log(folder, n));
    }
    finish(cache);
}

/// Ends the use of a cache once the store has what it was given, and the folder what came: a
/// drop alone waits for half a second, which busy machines take longer than.
fn finish(cache: Cache) {
    (0..10).find(|_| cache.flush());
}

/// A place in `store` that no other test uses, reached at `host`. A lookup waits for as
/// long as one may: these tests run many processes on few cores.
fn place(store: Store, host: &str) -> String {
    let [url] = places(store, [host]);
    format!("{url}&wait=2s")
}

/// One such place, reached at several hosts.
fn places<const N: usize>(store: Store, hosts: [&str; N]) -> [String; N] {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let prefix = format!("{}-{count}", std::process::id());
    hosts.map(|host| store.url(host, &prefix))
}
