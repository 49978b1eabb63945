//! What a page says of one text.

use std::collections::BTreeMap;

use serde::Serialize;

use super::findings::{Found, found};
use super::functions::{Function, functions};
use super::page::json;
use super::registers::{Kind, Kinds};
use crate::inputs::{Input, Text};
use crate::linter::{self, TextFindings};
use crate::origin::Origins;
use lint::ModuleContext;
use ptx::diagnostic::LineIndex;
use ptx::read;

/// The data of one text. Offsets count UTF-16 code units, as the script does.
#[derive(Serialize)]
struct Data<'t> {
    name: &'t str,
    version: Option<String>,
    target: Option<String>,
    source: &'t str,
    /// The files that it was compiled from.
    files: Vec<&'t str>,
    /// Each `.loc`: line of the PTX; file, line and column; the file and line that it was inlined
    /// into, where it was.
    locations: Vec<Vec<u32>>,
    functions: Vec<Function<'t>>,
    /// The kinds of their registers.
    kinds: Vec<Kind>,
    findings: Vec<Found<'t>>,
    /// The number of findings beyond `--max-findings`, by code.
    omitted: BTreeMap<String, usize>,
}

/// The data as JSON, and the findings in it.
pub fn data(text: &Text<'_>, input: &Input) -> (String, TextFindings) {
    let source: &str = &text.source;
    let mut findings = linter::lint(source, input.place.path(), &input.settings);
    if !text.whole {
        // A part of a binary cannot be changed.
        let all = findings.findings.iter_mut();
        all.for_each(|finding| finding.fix = None);
    }
    let reading = read(source);
    let module = &reading.module;
    let check = &input.settings.check;
    let context = ModuleContext::new(module, source, check.target, check.version);
    let places = Places::new(source);
    let origins = Origins::of_module(module, source);
    let (files, locations) = locations(&origins, &places);
    let target: Vec<&str> = module.target.iter().map(|name| name.text).collect();
    let mut kinds = Kinds::default();
    let functions = functions(&context, &places, &mut kinds, &text.name);
    let data = Data {
        name: &text.name,
        version: module.version.map(|(version, _)| version.to_string()),
        target: (!target.is_empty()).then(|| target.join(", ")),
        source,
        files,
        locations,
        functions,
        kinds: kinds.all,
        findings: findings
            .findings
            .iter()
            .map(|finding| found(finding, &places, &origins))
            .collect(),
        omitted: findings
            .omitted
            .iter()
            .map(|(code, _, count)| (code.to_string(), *count))
            .collect(),
    };
    (json(&data), findings)
}

/// The files, and the lines by the numbers of these.
fn locations<'o>(origins: &'o Origins, places: &Places<'_>) -> (Vec<&'o str>, Vec<Vec<u32>>) {
    let (mut files, mut locations) = (Vec::new(), Vec::new());
    let mut numbers = BTreeMap::new();
    let mut number = |file: &'o str| {
        *numbers.entry(file).or_insert_with(|| {
            files.push(file);
            files.len() as u32 - 1
        })
    };
    for (offset, line, call) in origins.lines() {
        let mut location = vec![
            places.line(offset),
            number(line.file),
            line.line,
            line.column,
        ];
        if let Some(call) = call {
            location.extend([number(call.file), call.line]);
        }
        locations.push(location);
    }
    (files, locations)
}

/// The distance in bytes between two entries of [`Places::units`].
const STEP: usize = 1024;

/// Places of a text: lines, and offsets in UTF-16 code units.
pub struct Places<'t> {
    pub lines: LineIndex<'t>,
    /// The code units before byte 0, [`STEP`], 2 × [`STEP`] …; empty where all is ASCII, and bytes
    /// are code units.
    units: Vec<u32>,
}

impl<'t> Places<'t> {
    pub fn new(source: &'t str) -> Places<'t> {
        let mut units = Vec::new();
        if !source.is_ascii() {
            units.push(0);
            for chunk in source.as_bytes().chunks(STEP) {
                units.push(units.last().copied().unwrap_or(0) + code_units(chunk));
            }
        }
        Places {
            lines: LineIndex::new(source),
            units,
        }
    }

    /// The line of a byte, from 1.
    pub fn line(&self, offset: u32) -> u32 {
        self.lines.locate(offset).line
    }

    /// The code units before a byte.
    pub fn offset(&self, byte: u32) -> u32 {
        let bytes = self.lines.source().as_bytes();
        let byte = (byte as usize).min(bytes.len());
        let step = byte / STEP;
        match self.units.get(step) {
            Some(before) => before + code_units(&bytes[step * STEP..byte]),
            None => byte as u32,
        }
    }
}

/// The UTF-16 code units of UTF-8, by the first byte of each character.
fn code_units(bytes: &[u8]) -> u32 {
    let units = bytes.iter().map(|byte| match byte {
        0x80..0xc0 => 0,
        0xf0.. => 2,
        _ => 1,
    });
    units.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_count_code_units() {
        let source = format!("é\u{1f600}{}∞x", "a".repeat(2 * STEP));
        let places = Places::new(&source);
        for (byte, character) in source.char_indices() {
            let before: usize = source[..byte].chars().map(char::len_utf16).sum();
            assert_eq!(places.offset(byte as u32), before as u32, "{character}");
        }
        let ascii = Places::new("a\nbc");
        assert_eq!((ascii.offset(3), ascii.line(3)), (3, 2));
        assert_eq!(ascii.offset(99), 4);
    }
}
