//! Child processes, one for each mode, since modes are variables of the environment.

use std::io::{BufReader, Write};
use std::process::{Child as Process, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::device::Device;
use crate::job::{Job, Outcome};
use crate::mode::Mode;

/// How long a job may take.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Runs the jobs of the standard input, as a child process; ends with the input, or after the
/// first error.
pub fn serve(mode: Mode) {
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    let mut device = Device::new(mode);
    while let Some(job) = Job::read(&mut input) {
        let outcome = match &mut device {
            Ok(device) => device.run(&job).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let failed = outcome.is_err();
        let outcome = match outcome {
            Ok(digest) => Outcome::Digest(digest),
            Err(error) => Outcome::Error(error.replace('\n', "; ")),
        };
        if writeln!(output, "{outcome}")
            .and_then(|()| output.flush())
            .is_err()
            || failed
        {
            return;
        }
    }
}

/// A child process that runs jobs in a mode. It is started again after a failure.
pub struct Child {
    mode: Mode,
    running: Option<Running>,
}

struct Running {
    process: Process,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Child {
    /// A child that starts with its first job.
    pub fn new(mode: Mode) -> Child {
        Child {
            mode,
            running: None,
        }
    }

    /// Its mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Hands it a job, whose outcome `wait` returns.
    pub fn start(&mut self, job: &Job) {
        let running = match self.running.take() {
            Some(running) => Ok(running),
            None => Running::start(self.mode),
        };
        if let Ok(mut running) = running {
            // A child that ended is noticed by `wait`.
            let _ = job.write(&mut running.input);
            self.running = Some(running);
        }
    }

    /// Waits for the outcome of the job.
    pub fn wait(&mut self) -> Outcome {
        let Some(running) = &mut self.running else {
            return Outcome::Crash("the process does not start".to_owned());
        };
        let outcome = match running.lines.recv_timeout(LIMIT) {
            Ok(line) => Outcome::parse(&line),
            Err(RecvTimeoutError::Timeout) => Outcome::Timeout,
            Err(RecvTimeoutError::Disconnected) => match running.process.wait() {
                Ok(status) => Outcome::Crash(status.to_string()),
                Err(error) => Outcome::Crash(error.to_string()),
            },
        };
        if !matches!(outcome, Outcome::Digest(_)) {
            self.running = None;
        }
        outcome
    }
}

impl Running {
    fn start(mode: Mode) -> std::io::Result<Running> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["--child", mode.name()])
            .env("CUDA_CACHE_DISABLE", "1")
            .env_remove("PTXKIT_CPU_LANES")
            .env_remove("PTXKIT_CPU_CHECK")
            .env_remove("PTXKIT_CHECK")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command.envs(mode.environment().iter().copied());
        let mut process = command.spawn()?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        let (sender, lines) = channel();
        thread::spawn(move || {
            use std::io::BufRead;
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Running {
            process,
            input,
            lines,
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill(); // it may have ended
        let _ = self.process.wait();
    }
}
