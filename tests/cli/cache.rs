//! `ptxkit cache`, and many processes on one cache.

use super::*;

#[test]
fn stats_count_what_runs_put_and_clear_removes_it() {
    let cache = tempfile::tempdir().unwrap();
    let json = |args: &[&str]| -> serde_json::Value {
        let output = ptxkit(
            cache.path(),
            &[&["cache"], args, &["--format", "json"]].concat(),
        );
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!(json(&["stats"])["blobs"], 0);
    for name in ["vecadd.toml", "matmul.toml"] {
        ptxkit(cache.path(), &["run", &sample(name), "--device", &device()]);
    }
    let stats = json(&["stats"]);
    assert_eq!(stats["blobs"], 2);
    assert_eq!(stats["kernels"], 2);
    let folder = json(&["path"])["path"].as_str().unwrap().to_owned();
    assert!(Path::new(&folder).starts_with(cache.path()));
    assert_eq!(json(&["clear"])["blobs"], 2);
    assert_eq!(json(&["stats"])["blobs"], 0);
}

#[test]
fn processes_that_start_together_compile_once() {
    let cache = tempfile::tempdir().unwrap();
    let path = sample("vecadd.toml");
    let outputs: Vec<Output> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let device = device();
                    let args = ["run", &path, "--device", &device, "--format", "json"];
                    ptxkit(cache.path(), &args)
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let mut misses = 0;
    for output in outputs {
        let json: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", stderr(&output)));
        assert_eq!(json["verified"], true);
        misses += u32::from(json["cache"] == "miss");
    }
    assert_eq!(misses, 1);
}
