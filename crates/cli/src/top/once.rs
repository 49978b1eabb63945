//! The numbers as a table, and as JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::metric::{Kind, SIZE};
use super::reading::{Module, Reading, Sort};
use crate::cache::table;
use crate::quantity::{show_age, show_size};
use terminal::output::{Lines, json_line};

/// The modules of the table; JSON has all.
const MAX_MODULES: usize = 20;

/// One reading of a source.
pub struct Once<'s> {
    source: &'s str,
    reading: Reading,
}

impl Once<'_> {
    pub fn new(source: &str, mut reading: Reading, sort: Sort) -> Once<'_> {
        reading.values.retain(|(metric, _)| !metric.since_start);
        if let Some(modules) = &mut reading.modules {
            sort.sort(modules);
        }
        Once { source, reading }
    }

    pub fn text(&self) -> String {
        let mut lines = Lines::default();
        lines.add("source", self.source);
        if self.reading.modules.as_ref().is_some_and(Vec::is_empty) {
            lines.add("modules", "none: nothing is cached there yet");
            return lines.0;
        }
        let width = self
            .reading
            .values
            .iter()
            .map(|(metric, _)| metric.name.len());
        let width = width.max().unwrap_or(0);
        let mut text = lines.0;
        for (metric, value) in &self.reading.values {
            let limit = self.reading.limit.filter(|_| *metric == SIZE);
            let limit = limit.map(|limit| format!(" of {}", show_size(limit)));
            text += &format!(
                "{:<width$}  {}{}\n",
                metric.name,
                metric.show(*value),
                limit.unwrap_or_default()
            );
        }
        let Some(modules) = &self.reading.modules else {
            return text;
        };
        let now = SystemTime::now();
        let mut rows =
            vec![["KEY", "HITS", "SIZE", "USED", "TARGET", "SOURCE", "KERNELS"].map(str::to_owned)];
        rows.extend(modules.iter().take(MAX_MODULES).map(|module| {
            [
                module.key.clone(),
                module.hits.to_string(),
                show_size(module.bytes),
                show_age(now.duration_since(module.used).unwrap_or_default()),
                module.target.clone(),
                module.source.clone(),
                module.kernels.clone(),
            ]
        }));
        text.push('\n');
        text += &table(&rows);
        if modules.len() > MAX_MODULES {
            text += &format!("and {} more\n", modules.len() - MAX_MODULES);
        }
        text
    }

    pub fn json(&self) -> String {
        let values: Map<String, Value> = self
            .reading
            .values
            .iter()
            .map(|(metric, value)| {
                let number = match metric.kind {
                    Kind::Seconds => json!(value),
                    // Counts up to 2^53 are exact.
                    _ => json!(*value as u64),
                };
                (metric.name.to_owned(), number)
            })
            .collect();
        let modules = self.reading.modules.as_ref();
        json_line(&json!({
            "source": self.source,
            "values": values,
            "limit": self.reading.limit,
            "modules": modules.map(|all| all.iter().map(module).collect::<Vec<_>>()),
        }))
    }
}

fn module(module: &Module) -> Value {
    let used = module.used.duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "key": module.key,
        "hits": module.hits,
        "bytes": module.bytes,
        "used": used.as_secs(),
        "target": module.target,
        "source": module.source,
        "kernels": module.kernels,
    })
}
