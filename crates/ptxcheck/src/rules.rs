//! `ptxcheck rules`: the list of all codes.

use serde::Serialize;

use super::explain;
use super::selection::{codes, rule};
use lint::Rule;
use terminal::failure::{Failure, VERIFIED};
use terminal::output::{Format, json_line, print};

/// The arguments of `ptxcheck rules`.
#[derive(Debug, clap::Args)]
pub struct RulesArgs {
    /// The output format
    #[arg(
        long,
        visible_alias = "format",
        value_name = "FORMAT",
        value_enum,
        default_value_t
    )]
    output_format: Format,
}

#[derive(Serialize)]
struct Row {
    code: String,
    name: String,
    /// Enabled by default.
    default: bool,
    /// Enabled only with `--preview`.
    preview: bool,
    summary: &'static str,
}

/// Prints a line for each code.
pub fn run(args: &RulesArgs) -> Result<u8, Failure> {
    let rows: Vec<Row> = codes()
        .map(|code| {
            let text = explain::of(code);
            let (name, default, summary) = (text.name, text.default, text.summary);
            Row {
                code: code.to_string(),
                name,
                default,
                preview: rule(code).is_some_and(Rule::is_preview),
                summary,
            }
        })
        .collect();
    print(&match args.output_format {
        Format::Json => json_line(&rows),
        Format::Text => {
            let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
            let line = |row: &Row| {
                let Row {
                    code,
                    name,
                    default,
                    preview,
                    summary,
                } = row;
                let on = match (preview, default) {
                    (true, _) => "new",
                    (false, true) => "on ",
                    (false, false) => "off",
                };
                format!("{code}  {on}  {name:<width$}  {summary}\n")
            };
            rows.iter().map(line).collect()
        }
    });
    Ok(VERIFIED)
}
