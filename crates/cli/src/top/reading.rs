//! What a source says at one time.

use std::time::SystemTime;

use super::metric::Metric;

/// The numbers of a source at one time.
#[derive(Debug, Default)]
pub struct Reading {
    pub values: Vec<(&'static Metric, f64)>,
    /// What a folder holds.
    pub modules: Option<Vec<Module>>,
    /// The limit of the cache in bytes.
    pub limit: Option<u64>,
}

/// A blob of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The start of its key.
    pub key: String,
    pub bytes: u64,
    pub used: SystemTime,
    pub hits: u64,
    /// Hits since the last reading.
    pub recent: u64,
    pub target: String,
    pub source: String,
    pub kernels: String,
}

/// What is listed first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// Modules with the most hits: lately, then in all
    #[default]
    Hits,
    /// Modules that were used or stored last
    New,
}

impl Sort {
    #[cfg(feature = "top")]
    pub fn other(self) -> Sort {
        match self {
            Sort::Hits => Sort::New,
            Sort::New => Sort::Hits,
        }
    }

    pub fn sort(self, modules: &mut [Module]) {
        use std::cmp::Reverse;
        modules.sort_by(|a, b| match self {
            Sort::Hits => {
                let by = |one: &Module| Reverse((one.recent, one.hits, one.used));
                by(a).cmp(&by(b))
            }
            Sort::New => b.used.cmp(&a.used),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hit_now_comes_first() {
        let module = |key: &str, recent, hits, used| Module {
            key: key.to_owned(),
            bytes: 1,
            used: SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(used),
            hits,
            recent,
            target: String::new(),
            source: String::new(),
            kernels: String::new(),
        };
        let mut modules = [
            module("old", 0, 50, 1),
            module("hot", 2, 3, 2),
            module("new", 0, 0, 9),
        ];
        let order = |modules: &[Module]| {
            let keys = modules.iter().map(|one| one.key.clone());
            keys.collect::<Vec<_>>().join(" ")
        };
        Sort::Hits.sort(&mut modules);
        assert_eq!(order(&modules), "hot old new");
        Sort::New.sort(&mut modules);
        assert_eq!(order(&modules), "new hot old");
    }
}
