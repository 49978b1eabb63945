//! Work on several inputs at a time.

use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::inputs::Input;
use terminal::failure::Failure;

/// The outcome of each input, by so many threads; the default is the number of cores.
pub fn parallel<T: Default + Send + Sync>(
    threads: Option<NonZeroUsize>,
    inputs: &[Input],
    look: impl Fn(&Input) -> T + Sync,
) -> Result<Vec<T>, Failure> {
    // The system has to be asked how many cores there are.
    let cores = || std::thread::available_parallelism().ok();
    let threads = match inputs.len() {
        0 | 1 => 1,
        count => threads
            .or_else(cores)
            .map_or(1, NonZeroUsize::get)
            .min(count),
    };
    // Starting threads takes longer than checking one file.
    if threads <= 1 {
        return Ok(inputs.iter().map(look).collect());
    }
    let outcomes: Vec<_> = inputs.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let (Some(input), Some(outcome)) = (inputs.get(index), outcomes.get(index)) else {
                return;
            };
            outcome.get_or_init(|| look(input));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            std::thread::Builder::new().spawn_scoped(scope, work)?;
        }
        Ok(())
    })
    .map_err(|error: std::io::Error| Failure::new(error).help("give fewer threads with --jobs"))?;
    let outcomes = outcomes.into_iter().map(OnceLock::into_inner);
    Ok(outcomes.map(Option::unwrap_or_default).collect())
}
