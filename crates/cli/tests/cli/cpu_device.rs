//! The CPU device under odd settings and small limits.

use super::*;

/// `ptxkit devices` with a variable of the environment.
fn devices(variable: &str, value: &str) -> Output {
    let cache = tempfile::tempdir().unwrap();
    let variables = [(variable, Path::new(value))];
    ptxkit_with(cache.path(), &variables, &["devices"])
}

#[test]
fn a_number_that_cannot_be_is_an_error_that_names_it() {
    for (variable, value, range) in [
        ("PTXKIT_CPU_THREADS", "abc", "1 to 1024"),
        ("PTXKIT_CPU_THREADS", "0", "1 to 1024"),
        ("PTXKIT_CPU_DEVICES", "9", "1 to 8"),
    ] {
        let output = devices(variable, value);
        assert_eq!(output.status.code(), Some(2), "{variable}={value}");
        let said = stderr(&output);
        assert!(said.contains(&format!("{variable}={value}")), "{said}");
        assert!(said.contains(range), "{said}");
    }
    let output = devices("PTXKIT_CPU_THREADS", "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn one_thread_is_one() {
    let text = stdout(&devices("PTXKIT_CPU_THREADS", "1"));
    assert!(text.contains(", 1 thread,"), "{text}");
    let text = stdout(&devices("PTXKIT_CPU_THREADS", "2"));
    assert!(text.contains(", 2 threads,"), "{text}");
}

/// As batch systems and shells set it.
#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_addresses_leaves_a_smaller_device() {
    let cache = tempfile::tempdir().unwrap();
    for kibibytes in [8_000_000, 2_000_000] {
        let output = Command::new("sh")
            .arg("-c")
            .arg(format!("ulimit -v {kibibytes} && exec \"$0\" \"$@\""))
            .arg(program())
            .args(["run", &sample("vecadd.toml"), "--device", "cpu"])
            .env("CUDA_CACHE_PATH", cache.path())
            .env("PTXKIT_CPU_THREADS", "2")
            .env_remove("PTXKIT_CPU_MEMORY")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
}
