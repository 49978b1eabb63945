//! What the terminal shows.

use std::time::{Duration, SystemTime};

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};

use super::history::{History, Row};
use super::metric::SIZE;
use super::reading::{Module, Sort};
use crate::quantity::{show_age, show_size};
use terminal::output::Escaped;

/// Columns of a row before its history.
const NAME: u16 = 15;
const VALUE: u16 = 11;
const RATE: u16 = 13;
/// A history with fewer columns says nothing.
const MIN_HISTORY: u16 = 8;
/// Rows that the modules get at least, if there are any.
const MIN_MODULES: u16 = 4;

/// All that is shown.
pub struct View<'v> {
    pub source: &'v str,
    pub interval: Duration,
    pub history: &'v History,
    pub limit: Option<u64>,
    /// Sorted already; `None` of a source without modules.
    pub modules: Option<&'v [Module]>,
    pub sort: Sort,
    /// Why the last reading failed.
    pub error: Option<&'v str>,
    pub now: SystemTime,
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

impl View<'_> {
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let rows = self.history.rows.len() as u16;
        let modules = match self.modules {
            Some(_) => Constraint::Min(MIN_MODULES),
            None => Constraint::Fill(1),
        };
        let areas = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Max(rows),
            Constraint::Max(1),
            modules,
            Constraint::Length(1),
        ]);
        let [title, note, numbers, _, modules, keys] = areas.areas(frame.area());
        let name = Escaped::new(self.source).to_string();
        let title_line = Line::from(vec![Span::styled("ptxkit top  ", bold()), Span::raw(name)]);
        frame.render_widget(title_line, title);
        frame.render_widget(self.note(), note);
        for (row, y) in self.history.rows.iter().zip(numbers.y..numbers.bottom()) {
            self.draw_row(
                frame,
                row,
                Rect {
                    y,
                    height: 1,
                    ..numbers
                },
            );
        }
        if let Some(all) = self.modules {
            self.draw_modules(frame, all, modules);
        }
        let help = match self.modules {
            Some(_) => "q quit   s sort",
            None => "q quit",
        };
        frame.render_widget(Line::styled(help, dim()), keys);
    }

    /// The error of the last reading, or what the numbers say together.
    fn note(&self) -> Line<'_> {
        if let Some(error) = self.error {
            let text = Escaped::new(error).to_string();
            return Line::styled(text, Style::new().fg(Color::Red));
        }
        let every = format!("every {} s", self.interval.as_secs());
        let value = |name: &str| {
            let mut rows = self.history.rows.iter();
            rows.find(|row| row.metric.name == name)
                .map(|row| row.value)
        };
        let hits = match (value("hits"), value("misses")) {
            (Some(hits), Some(misses)) if hits + misses > 0.0 => {
                format!(", {:.1} % of lookups hit", 100.0 * hits / (hits + misses))
            }
            _ => String::new(),
        };
        let full = match (value(SIZE.name), self.limit) {
            (Some(size), Some(limit)) if limit > 0 => format!(
                ", {:.1} % of {} are used",
                100.0 * size / limit as f64,
                show_size(limit)
            ),
            _ => String::new(),
        };
        Line::styled(format!("{every}{hits}{full}"), dim())
    }

    fn draw_row(&self, frame: &mut Frame<'_>, row: &Row, area: Rect) {
        let rate = row.rate.map(|rate| row.metric.show_rate(rate));
        let text = Line::from(vec![
            Span::styled(
                format!("{:<width$}", row.metric.name, width = NAME as usize),
                bold(),
            ),
            Span::raw(format!(
                "{:>width$}",
                row.metric.show(row.value),
                width = VALUE as usize
            )),
            Span::raw(format!(
                "{:>width$}",
                rate.unwrap_or_default(),
                width = RATE as usize
            )),
        ]);
        let before = NAME + VALUE + RATE + 2;
        frame.render_widget(text, area);
        let width = area.width.saturating_sub(before);
        if width < MIN_HISTORY {
            return;
        }
        // Sparklines take whole numbers: rates may be less than one.
        let newest = row.samples.iter().rev().take(width.into());
        let data: Vec<u64> = newest
            .rev()
            .map(|sample| (sample * 1000.0) as u64)
            .collect();
        let history = Rect {
            x: area.x + before,
            width,
            ..area
        };
        frame.render_widget(Sparkline::default().data(&data).style(Color::Cyan), history);
    }

    fn draw_modules(&self, frame: &mut Frame<'_>, all: &[Module], area: Rect) {
        if all.is_empty() {
            frame.render_widget(Line::raw("nothing is cached there yet"), area);
            return;
        }
        let columns = columns(area.width, self.sort);
        let head = Line::styled(cells(&columns, Column::title), bold());
        let rows = all.iter().map(|module| {
            let style = if module.recent > 0 {
                bold()
            } else {
                Style::new()
            };
            let text = cells(&columns, |column| column.of(module, self.now));
            Line::styled(text, style)
        });
        let height = usize::from(area.height);
        let lines: Vec<Line<'_>> = std::iter::once(head).chain(rows).take(height).collect();
        frame.render_widget(Paragraph::new(lines), area);
    }
}

/// A column of the modules.
#[derive(Clone, Copy)]
enum Column {
    Key,
    Recent,
    Hits,
    Used,
    Size,
    Target,
    Kernels,
    Source,
}

/// Those that fit, the last of which takes what is left.
fn columns(width: u16, sort: Sort) -> Vec<Column> {
    let first = match sort {
        Sort::Hits => [Column::Recent, Column::Hits],
        Sort::New => [Column::Used, Column::Hits],
    };
    let second = match sort {
        Sort::Hits => Column::Used,
        Sort::New => Column::Recent,
    };
    match width {
        0..50 => [&first[..], &[Column::Kernels]].concat(),
        50..90 => [&first[..], &[second, Column::Size, Column::Kernels]].concat(),
        _ => {
            let more = [second, Column::Size, Column::Key, Column::Target];
            [&first[..], &more, &[Column::Kernels, Column::Source]].concat()
        }
    }
}

/// A line of cells of fixed widths.
fn cells(columns: &[Column], cell: impl Fn(Column) -> String) -> String {
    let mut line = String::new();
    for column in columns {
        let text = Escaped::new(cell(*column)).to_string();
        let width = column.width();
        line += &if column.is_number() {
            format!("{text:>width$}  ")
        } else {
            format!("{text:<width$}  ")
        };
    }
    line
}

impl Column {
    fn title(self) -> String {
        match self {
            Column::Key => "KEY",
            Column::Recent => "NOW",
            Column::Hits => "HITS",
            Column::Used => "USED",
            Column::Size => "SIZE",
            Column::Target => "TARGET",
            Column::Kernels => "KERNELS",
            Column::Source => "SOURCE",
        }
        .to_owned()
    }

    fn width(self) -> usize {
        match self {
            Column::Key | Column::Target => 12,
            Column::Recent => 5,
            Column::Hits | Column::Used => 7,
            Column::Size => 9,
            Column::Kernels => 24,
            Column::Source => 0,
        }
    }

    fn is_number(self) -> bool {
        matches!(
            self,
            Column::Recent | Column::Hits | Column::Used | Column::Size
        )
    }

    fn of(self, module: &Module, now: SystemTime) -> String {
        match self {
            Column::Key => module.key.clone(),
            Column::Recent if module.recent == 0 => String::new(),
            Column::Recent => format!("+{}", module.recent),
            Column::Hits => module.hits.to_string(),
            Column::Used => show_age(now.duration_since(module.used).unwrap_or_default()),
            Column::Size => show_size(module.bytes),
            Column::Target => module.target.clone(),
            Column::Kernels => module.kernels.clone(),
            Column::Source => module.source.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::metric::{BLOBS, HITS, METRICS, SIZE, STORED};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn history() -> History {
        let mut history = History::default();
        for (second, hits) in [0, 3, 4, 4, 10, 30, 31, 31, 33, 60].into_iter().enumerate() {
            let values = [
                (BLOBS, 2.0 + (second / 5) as f64),
                (SIZE, 41_984.0),
                (HITS, f64::from(hits)),
                (STORED, (second / 5) as f64),
            ];
            history.add(&values, 1.0);
        }
        history
    }

    fn modules() -> Vec<Module> {
        let module = |key: &str, recent, hits, seconds: u64, kernels: &str| Module {
            key: key.to_owned(),
            bytes: 4300 * hits,
            used: SystemTime::UNIX_EPOCH + Duration::from_secs(1000 - seconds),
            hits,
            recent,
            target: "sm_90a".to_owned(),
            source: "/srv/kernels/\u{1b}[2Jmodule.ptx".to_owned(),
            kernels: kernels.to_owned(),
        };
        vec![
            module(
                "d661ab1ef5c0",
                12,
                40,
                1,
                "attention_forward attention_backward and 3 more",
            ),
            module("8e4a12cd3552", 0, 20, 300, "vecadd"),
            module("0123456789ab", 0, 1, 900, "scan (hot)"),
        ]
    }

    fn drawn(width: u16, height: u16, change: impl FnOnce(&mut View<'_>)) -> String {
        let (history, modules) = (history(), modules());
        let mut view = View {
            source: "/var/cache/gpu/ptxkit-v1",
            interval: Duration::from_secs(2),
            history: &history,
            limit: Some(1 << 30),
            modules: Some(&modules),
            sort: Sort::Hits,
            error: None,
            now: SystemTime::UNIX_EPOCH + Duration::from_secs(1000),
        };
        change(&mut view);
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn wide_and_narrow_terminals() {
        insta::assert_snapshot!("wide", drawn(120, 12, |_| ()));
        insta::assert_snapshot!("narrow", drawn(44, 11, |_| ()));
        insta::assert_snapshot!("by_age", drawn(80, 12, |view| view.sort = Sort::New));
    }

    #[test]
    fn a_service() {
        let mut history = History::default();
        for second in 0..6 {
            let values: Vec<_> = METRICS
                .iter()
                .take(14)
                .enumerate()
                .map(|(at, metric)| (metric, (at * second * second) as f64))
                .collect();
            history.add(&values, 2.0);
        }
        let picture = drawn(72, 20, |view| {
            view.source = "http://localhost:9400/metrics";
            view.history = Box::leak(Box::new(history));
            (view.modules, view.limit) = (None, None);
        });
        insta::assert_snapshot!("service", picture);
    }

    #[test]
    fn an_error_and_an_empty_cache_are_said() {
        let picture = drawn(60, 10, |view| {
            view.error = Some("http://localhost:1: connection refused");
            view.modules = Some(&[]);
        });
        assert!(picture.contains("connection refused"), "{picture}");
        assert!(picture.contains("nothing is cached there yet"), "{picture}");
    }

    #[test]
    fn no_size_is_too_small() {
        for width in 1..50 {
            for height in 1..12 {
                drawn(width, height, |_| ());
            }
        }
    }
}
