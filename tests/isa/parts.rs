//! Parts of a test in processes of their own: after a fault a device takes no new contexts from a
//! process.

use std::process::Command;

/// Set in the process of a part: the name of the test, and the number of the part.
const PART: &str = "PTXKIT_TEST_PART";

/// The parts of one test.
pub struct Parts {
    test: &'static str,
    /// The part that this process is for.
    wanted: Option<usize>,
    next: usize,
}

impl Parts {
    /// The parts of the test of this full name.
    pub fn of(test: &'static str) -> Parts {
        let part = std::env::var(PART).ok();
        let number = part.as_deref().and_then(|part| part.strip_prefix(test));
        Parts {
            test,
            wanted: number.and_then(|number| number.trim().parse().ok()),
            next: 0,
        }
    }

    /// Runs the next part.
    #[track_caller]
    pub fn run(&mut self, part: impl FnOnce()) {
        let number = self.next;
        self.next += 1;
        match self.wanted {
            Some(wanted) if wanted == number => part(),
            Some(_) => {}
            None => {
                let output = Command::new(std::env::current_exe().expect("the test's program"))
                    .args([self.test, "--exact", "--nocapture", "--test-threads=1"])
                    .env(PART, format!("{} {number}", self.test))
                    .output()
                    .expect("the test's program runs");
                let [out, err] = [output.stdout, output.stderr]
                    .map(|text| String::from_utf8_lossy(&text).into_owned());
                let passed = output.status.success() && out.contains("1 passed");
                assert!(passed, "part {number}: {}\n{out}\n{err}", output.status);
            }
        }
    }
}
