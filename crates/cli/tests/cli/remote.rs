//! `ptxkit cache remote`, with the servers that `scripts/remote-servers` starts.

use super::*;

#[cfg(not(feature = "remote"))]
#[test]
fn without_remote_stores_the_commands_say_how_to_get_them() {
    let cache = tempfile::tempdir().unwrap();
    let saxpy = sample("saxpy.ptx");
    for args in [
        &["cache", "remote", "status"][..],
        &["cache", "remote", "push"],
        &["cache", "remote", "pull"],
        &["cache", "remote", "keygen", "a.key"],
        &["cache", "list", "--remote"],
        &["cache", "warm", &saxpy, "--target", "cpu", "--push"],
    ] {
        let ran = ptxkit(cache.path(), args);
        assert_eq!(ran.status.code(), Some(2), "{args:?}");
        assert!(stderr(&ran).contains("--features remote"), "{args:?}");
    }
}

#[cfg(feature = "remote")]
mod built {
    use serde_json::Value;

    use super::*;
    use crate::documentation::console;

    /// Where a server listens; `None`, with a word about it, where none was started.
    fn server(variable: &str) -> Option<String> {
        let address = std::env::var(variable).ok();
        if address.is_none() {
            eprintln!("left out: no servers; scripts/remote-servers starts them");
        }
        address
    }

    fn s3(prefix: &str) -> Option<String> {
        let address = server("PTXKIT_TEST_S3")?;
        let place = format!("{prefix}-{}", std::process::id());
        Some(format!(
            "s3://ptxkit?region=us-east-1&endpoint=http://{address}&prefix={place}&wait=2s"
        ))
    }

    /// Machines that use one store, each with a folder of its own.
    struct Fleet {
        url: String,
        folder: tempfile::TempDir,
        trust: Option<String>,
    }

    impl Fleet {
        fn new(url: String) -> Fleet {
            let mut fleet = Fleet {
                url,
                folder: tempfile::tempdir().unwrap(),
                trust: None,
            };
            let key = fleet.key();
            let made = fleet.run("builder", &["cache", "remote", "keygen", &key]);
            assert!(made.status.success(), "{}", stderr(&made));
            fleet.trust = Some(stdout(&made).trim().to_owned());
            fleet
        }

        fn key(&self) -> String {
            self.folder.path().join("key").display().to_string()
        }

        /// The machine `builder` may write.
        fn run(&self, machine: &str, args: &[&str]) -> Output {
            let key = self.key();
            let mut variables = vec![("PTXKIT_REMOTE", Path::new(&self.url))];
            if let Some(trust) = &self.trust {
                variables.push(("PTXKIT_REMOTE_TRUST", Path::new(trust)));
            }
            if machine == "builder" {
                variables.push(("PTXKIT_REMOTE_SIGN", Path::new(&key)));
            }
            ptxkit_with(&self.folder.path().join(machine), &variables, args)
        }

        fn json(&self, machine: &str, args: &[&str]) -> (Option<i32>, Value) {
            let ran = self.run(machine, &[args, &["--format", "json"]].concat());
            let json = serde_json::from_slice(&ran.stdout);
            (
                ran.status.code(),
                json.unwrap_or_else(|_| panic!("{args:?}: {}", stderr(&ran))),
            )
        }
    }

    #[test]
    fn the_pages_print_what_is_shown() {
        let (Some(redis), Some(s3)) = (server("PTXKIT_TEST_REDIS"), server("PTXKIT_TEST_S3"))
        else {
            return;
        };
        // The longest wait: a busy machine is slow to connect.
        let bucket = format!("s3://ptxkit?region=us-east-1&endpoint=http://{s3}&wait=2s");
        let database = format!("redis://{redis}/0?wait=2s");
        let stands_for = [
            ("redis://cache.example:6379/0", database),
            ("cache.example:6379", redis),
            ("s3://my-kernels?region=eu-west-1", bucket),
            ("s3://my-kernels", "s3://ptxkit".to_owned()),
        ];
        let program = program();
        let count = console::compare_marked(Path::new(&program), "console,remote", &stands_for);
        assert!(count > 0);
    }

    #[test]
    fn what_is_pushed_is_listed_and_pulled() {
        let Some(url) = s3("push") else { return };
        let fleet = Fleet::new(url);
        let files = [sample("vecadd.ptx"), sample("saxpy.ptx")];
        let warm = ["cache", "warm", &files[0], &files[1], "--target", "cpu"];
        // Without the private key nothing is compiled in vain.
        let ran = fleet.run("other", &[&warm[..], &["--push"]].concat());
        assert_eq!(ran.status.code(), Some(2));
        assert!(
            stderr(&ran).contains("PTXKIT_REMOTE_SIGN"),
            "{}",
            stderr(&ran)
        );

        let (status, warmed) = fleet.json("builder", &[&warm[..], &["--push"]].concat());
        assert_eq!(status, Some(0));
        let keys: Vec<&str> = (0..2)
            .map(|n| warmed["warmed"][n]["key"].as_str().unwrap())
            .collect();
        let moved = |moved: &Value| (moved["blobs"].as_u64(), moved["skipped"].as_u64());
        assert_eq!(moved(&warmed["pushed"]), (Some(2), Some(0)));
        let (_, again) = fleet.json("builder", &["cache", "remote", "push"]);
        assert_eq!(moved(&again), (Some(0), Some(2)));
        let (_, replaced) = fleet.json("builder", &["cache", "remote", "push", "--replace"]);
        assert_eq!(moved(&replaced), (Some(2), Some(0)));

        let (_, list) = fleet.json("pod", &["cache", "list", "--remote"]);
        let mut listed: Vec<&str> = (0..2).map(|n| list[n]["key"].as_str().unwrap()).collect();
        listed.sort_unstable();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        assert_eq!(listed, sorted);
        assert_eq!(list[0]["here"], false);

        let (status, pulled) = fleet.json("pod", &["cache", "remote", "pull", &keys[0][..12]]);
        assert_eq!((status, moved(&pulled)), (Some(0), (Some(1), Some(0))));
        let (_, pulled) = fleet.json("pod", &["cache", "remote", "pull"]);
        assert_eq!(moved(&pulled), (Some(1), Some(1)));
        // Nothing is compiled there.
        let (_, warmed) = fleet.json("pod", &warm);
        assert_eq!(warmed[0]["result"], "hit");
        assert_eq!(warmed[1]["result"], "hit");
        let none = fleet.run("pod", &["cache", "remote", "pull", "00000000"]);
        assert_eq!(none.status.code(), Some(2));
        assert!(stderr(&none).contains("starts with 00000000"));
    }

    #[test]
    fn a_program_on_another_machine_compiles_nothing() {
        let Some(address) = server("PTXKIT_TEST_REDIS") else {
            return;
        };
        let place = format!("run-{}", std::process::id());
        let fleet = Fleet::new(format!("redis://{address}/0?wait=2s&prefix={place}"));
        let run = ["run", &sample("saxpy.toml"), "--device", "cpu"];
        for (machine, cache) in [("builder", "miss"), ("pod", "hit"), ("pod", "hit")] {
            let ran = fleet.run(machine, &run);
            assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
            let line = format!("cache    {cache} ");
            assert!(stdout(&ran).contains(&line), "{machine}: {}", stdout(&ran));
        }
    }

    #[test]
    fn a_store_that_does_not_answer_is_told() {
        let fleet = Fleet::new("memcached://127.0.0.1:1".to_owned());
        let (status, shown) = fleet.json("builder", &["cache", "remote", "status"]);
        assert_eq!(status, Some(1));
        assert_eq!(shown["store"], "memcached://127.0.0.1:1");
        assert!(shown["error"].is_string() && shown["answer_ms"].is_null());
        assert_eq!(shown["trust"][0].as_str(), fleet.trust.as_deref());
        assert_eq!(shown["signer"].as_str(), fleet.trust.as_deref());
        for args in [
            &["cache", "remote", "pull", &"0".repeat(64)][..],
            &["cache", "list", "--remote"],
        ] {
            let ran = fleet.run("builder", args);
            assert_eq!(ran.status.code(), Some(2), "{args:?}: {}", stdout(&ran));
        }
        // A key is never written over.
        let ran = fleet.run("builder", &["cache", "remote", "keygen", &fleet.key()]);
        assert_eq!(ran.status.code(), Some(2));
        assert!(stderr(&ran).contains("never replaced"), "{}", stderr(&ran));
        let cache = tempfile::tempdir().unwrap();
        let ran = ptxkit(cache.path(), &["cache", "remote", "status"]);
        assert_eq!(ran.status.code(), Some(2));
        assert!(stderr(&ran).contains("PTXKIT_REMOTE"), "{}", stderr(&ran));
    }
}
