//! Modules of the corpus with one token changed.

use std::collections::HashSet;
use std::io;

use ptxkit_ptx::ast::{Item, Span};
use ptxkit_ptx::names::{Modifier, Opcode};

use crate::archive::{self, Entry, Verdict};
use crate::parallel::parallel;
use crate::random::Random;
use crate::toolkit::Toolkit;

/// Larger modules are cut down to single functions: ptxas reads all of a module
/// for each change of it.
const LARGEST: usize = 6_000;
/// So many modules are changed …
const SEEDS: usize = 160;
/// … each in so many ways.
const WAYS: usize = 45;

/// A change: these bytes, and what stands there instead.
struct Mutation {
    seed: usize,
    span: Span,
    replacement: String,
}

/// Writes the modules, and one line for each change: number of the module,
/// start, end, verdict, replacement (as a Rust string literal).
pub fn record(toolkit: &Toolkit) -> io::Result<()> {
    let corpus = archive::entries(&archive::read("corpus"));
    let seeds = seeds(toolkit, &corpus);
    let mut random = Random::new(4);
    let mutations: Vec<Mutation> = (0..seeds.len())
        .flat_map(|seed| mutations(seed, &seeds[seed].text, &mut random))
        .collect();
    println!("mutations: {} of {} modules", mutations.len(), seeds.len());
    let lines = parallel(&mutations, |mutation| {
        let Mutation {
            seed,
            span,
            replacement,
        } = mutation;
        let mut text = seeds[*seed].text.clone();
        text.replace_range(span.start as usize..span.end as usize, replacement);
        let verdict = toolkit.judge(text.as_bytes())?;
        Ok(format!(
            "{seed} {} {} {verdict} {replacement:?}\n",
            span.start, span.end
        ))
    });
    let lines: io::Result<String> = lines.into_iter().collect();
    archive::write("mutations", &lines?)?;
    archive::write("seeds", &archive::text_of(&seeds))
}

/// Small modules, and the functions of large ones, as different as can be.
fn seeds(toolkit: &Toolkit, corpus: &[Entry]) -> Vec<Entry> {
    let mut candidates: Vec<Entry> = Vec::new();
    let mut seen = HashSet::new();
    for entry in corpus {
        let cuts = if entry.text.len() <= LARGEST {
            vec![entry.text.clone()]
        } else {
            cuts(&entry.text)
        };
        for (number, text) in cuts.into_iter().enumerate() {
            // The same kernel for another target teaches little more.
            let body = text
                .split_once(".address_size")
                .map_or(0, |(head, _)| head.len());
            if text.len() <= LARGEST && text.len() > 400 && seen.insert(text[body..].to_owned()) {
                let name = format!("{}.{number}", entry.name);
                candidates.push(Entry {
                    name,
                    verdict: Verdict::Accepted,
                    text,
                });
            }
        }
    }
    let mut random = Random::new(3);
    while candidates.len() > SEEDS {
        let left_out = random.below(candidates.len());
        candidates.remove(left_out);
    }
    let verdicts = parallel(&candidates, |entry| toolkit.judge(entry.text.as_bytes()));
    let pairs = candidates.into_iter().zip(verdicts);
    pairs
        .filter(|(_, verdict)| matches!(verdict, Ok(Verdict::Accepted)))
        .map(|(entry, _)| entry)
        .collect()
}

/// A module cut down to each one of its functions that has a body, with all
/// that is declared outside of functions.
fn cuts(text: &str) -> Vec<String> {
    let reading = ptxkit_ptx::read(text);
    let bodies: Vec<Span> = reading
        .module
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Function(function) if function.body.is_some() => Some(function.span),
            _ => None,
        })
        .collect();
    let cut = |kept: usize| {
        let mut cut = String::new();
        let mut from = 0;
        for (number, span) in bodies.iter().enumerate() {
            if number != kept {
                cut += &text[from..span.start as usize];
                from = span.end as usize;
            }
        }
        cut + &text[from..]
    };
    (0..bodies.len()).map(cut).collect()
}

fn mutations(seed: usize, text: &str, random: &mut Random) -> Vec<Mutation> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    while found.len() < WAYS {
        let at = random.below(tokens.len() - 1);
        let (token, next) = (tokens[at], tokens[at + 1]);
        let written = |span: Span| &text[span.start as usize..span.end as usize];
        let word = written(token);
        let (span, replacement) = match random.below(7) {
            0 => (token, String::new()),
            1 => (token, format!("{word} {word}")),
            2 => {
                let both = Span {
                    start: token.start,
                    end: next.end,
                };
                let between = &text[token.end as usize..next.start as usize];
                (both, format!("{}{between}{word}", written(next)))
            }
            3 => (token, written(*random.choose(&tokens)).to_owned()),
            4 => (token, any_word(word, random)),
            5 if word.starts_with(|c: char| c.is_ascii_digit()) => {
                (token, any_number(word, random))
            }
            5 => continue,
            _ => {
                let mut shorter = word.to_owned();
                let characters: Vec<usize> = word.char_indices().map(|(at, _)| at).collect();
                shorter.remove(*random.choose(&characters));
                (token, shorter)
            }
        };
        if replacement != text[span.start as usize..span.end as usize] {
            found.push(Mutation {
                seed,
                span,
                replacement,
            });
        }
    }
    found
}

/// A word of the language of the same kind.
fn any_word(word: &str, random: &mut Random) -> String {
    match word.strip_prefix('.') {
        Some(_) => format!(".{}", random.choose(Modifier::ALL).text()),
        None => random.choose(Opcode::ALL).text().to_owned(),
    }
}

fn any_number(word: &str, random: &mut Random) -> String {
    let numbers = [
        "0",
        "1",
        "3",
        "16",
        "255",
        "256",
        "65536",
        "4294967296",
        "18446744073709551616",
        "1.5",
    ];
    match random.below(3) {
        0 => format!("{word}0"),
        1 => format!("-{word}"),
        _ => (*random.choose(&numbers)).to_owned(),
    }
}

/// Where the tokens of a text lie, comments left out. Words keep their dot or
/// percent sign, so that a change is one that a writer might make.
fn tokens(text: &str) -> Vec<Span> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let length = match bytes[at] {
            b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            b'/' if rest.starts_with("//") => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            b'"' => 2 + rest[1..].find('"').unwrap_or(rest.len() - 2),
            c if c.is_ascii_alphanumeric() || b"._%$".contains(&c) => {
                let word = |c: char| c.is_ascii_alphanumeric() || "_$:".contains(c);
                1 + rest[1..].find(|c| !word(c)).unwrap_or(rest.len() - 1)
            }
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
        tokens.push(Span {
            start: at as u32,
            end: (at + length) as u32,
        });
        at += length;
    }
    tokens
}
