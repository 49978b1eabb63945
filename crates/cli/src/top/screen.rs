//! The terminal: it shows what is read until a key or a signal ends it, and is left as it was
//! found.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, SystemTime};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use signal_hook::consts::SIGTERM;

use super::Source;
use super::history::History;
use super::reading::{Module, Reading, Sort};
use super::view::View;
use terminal::failure::Failure;

/// How long a key is waited for before readings are looked at.
const TICK: Duration = Duration::from_millis(100);

/// Gives the terminal back. After a panic `ratatui` has done so already, before the message.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// What is shown, and what it comes from.
struct Shown {
    source: String,
    interval: Duration,
    history: History,
    limit: Option<u64>,
    modules: Option<Vec<Module>>,
    sort: Sort,
    error: Option<String>,
    read: Instant,
}

/// Shows the source until a key or SIGTERM ends it.
///
/// # Errors
/// The terminal cannot be used.
pub fn run(
    mut source: Source,
    first: Reading,
    interval: Duration,
    sort: Sort,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("the terminal: {error}"));
    let mut shown = Shown {
        source: source.name().to_owned(),
        interval,
        history: History::default(),
        limit: None,
        modules: None,
        sort,
        error: None,
        read: Instant::now(),
    };
    shown.add(Ok(first), Instant::now());
    let terminated = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, Arc::clone(&terminated)).map_err(failed)?;
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let _restored = Restored;
    let (sender, readings) = mpsc::channel();
    // A slow source does not keep keys waiting. The thread ends with the process.
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(interval);
            let reading = source.read();
            if sender.send((reading, Instant::now())).is_err() {
                break;
            }
        }
    });
    follow(&mut terminal, &mut shown, &readings, &terminated).map_err(failed)
}

fn follow(
    terminal: &mut DefaultTerminal,
    shown: &mut Shown,
    readings: &Receiver<(Result<Reading, Failure>, Instant)>,
    terminated: &AtomicBool,
) -> std::io::Result<()> {
    while !terminated.load(Ordering::Relaxed) {
        terminal.draw(|frame| shown.view().draw(frame))?;
        if event::poll(TICK)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    return Ok(());
                }
                KeyCode::Char('s') => shown.set_sort(shown.sort.other()),
                _ => {}
            }
        }
        for (reading, at) in readings.try_iter() {
            shown.add(reading, at);
        }
    }
    Ok(())
}

impl Shown {
    fn add(&mut self, reading: Result<Reading, Failure>, at: Instant) {
        match reading {
            Ok(reading) => {
                let seconds = at.duration_since(self.read).as_secs_f64();
                self.history.add(&reading.values, seconds);
                self.read = at;
                self.limit = reading.limit;
                self.modules = reading.modules;
                self.error = None;
                self.set_sort(self.sort);
            }
            // What was read before stays: a service may be starting again.
            Err(failure) => self.error = failure.to_string().lines().next().map(str::to_owned),
        }
    }

    fn set_sort(&mut self, sort: Sort) {
        self.sort = sort;
        if let Some(modules) = &mut self.modules {
            sort.sort(modules);
        }
    }

    fn view(&self) -> View<'_> {
        View {
            source: &self.source,
            interval: self.interval,
            history: &self.history,
            limit: self.limit,
            modules: self.modules.as_deref(),
            sort: self.sort,
            error: self.error.as_deref(),
            now: SystemTime::now(),
        }
    }
}
